"""What is put to each partitioner: shardings, the blocks of the book, and the sizes of both."""

from __future__ import annotations

from collections.abc import Mapping

Sizes = Mapping[str, int]

MESH: Sizes = {"X": 2, "Y": 4, "Z": 2}

# With many rows the results outweigh the weights, with few rows the weights do: a partitioner that
# looks at sizes may choose differently.
_DIMS = {"D": 256, "F": 1024, "K": 16, "H": 64, "U": 128, "E": 16}
SIZES: Mapping[str, Sizes] = {"many rows": {"B": 2048, **_DIMS}, "few rows": {"B": 64, **_DIMS}}

SHARDINGS: Mapping[str, str] = {
    "data parallel": "In[B_X, D] . W_in[D, F] . W_out[F, D] -> Out[B_X, D]",
    "FSDP": "In[B_X, D] . W_in[D_X, F] . W_out[F, D_X] -> Out[B_X, D]",
    "tensor": "In[B, D_Y] . W_in[D, F_Y] . W_out[F_Y, D] -> Out[B, D_Y]",
    "FSDP and tensor": "In[B_X, D_Y] . W_in[D_X, F_Y] . W_out[F_Y, D_X] -> Out[B_X, D_Y]",
    "column, then row": "In[B, D] . W_in[D, F_Y] . W_out[F_Y, D] -> Out[B, D]",
    "sequence": "In[B_Y, D] . W_in[D, F_Y] -> Tmp[B, F_Y] . W_out[F_Y, D] -> Out[B_Y, D]",
    "data and sequence": "In[B_XY, D] . W_in[D, F_Y] -> Tmp[B_X, F_Y] . W_out[F_Y, D] -> "
    "Out[B_XY, D]",
    "FSDP and sequence": "In[B_XY, D] . W_in[D_X, F_Y] -> Tmp[B_X, F_Y] . W_out[F_Y, D_X] -> "
    "Out[B_XY, D]",
    "HSDP": "In[B_XZ, D] . W_in[D_X, F] . W_out[F, D_X] -> Out[B_XZ, D]",
    "FSDP over two axes": "In[B_XZ, D] . W_in[D_XZ, F] . W_out[F, D_XZ] -> Out[B_XZ, D]",
    "HSDP and tensor": "In[B_XZ, D_Y] . W_in[D_X, F_Y] . W_out[F_Y, D_X] -> Out[B_XZ, D_Y]",
    "FSDP, gated": "In[B_X, D] . W_gate[D_X, F] * W_in[D_X, F] -> Tmp[B_X, F] . W_out[F, D_X] -> "
    "Out[B_X, D]",
    "column, then row, gated": "In[B_X, D] . W_gate[D, F_Y] * W_in[D, F_Y] -> Tmp[B_X, F_Y] . "
    "W_out[F_Y, D] -> Out[B_X, D]",
    "row, then column": "In[B, D_Y] . W_in[D_Y, F] -> Tmp[B, F] . W_out[F, D_Y] -> Out[B, D_Y]",
    "weights split twice": "In[B, D_X] . W_in[D_X, F_Y] -> Tmp[B, F_Y] . W_out[F_Y, D_X] -> "
    "Out[B, D_X]",
    "summed, left split": "In[B, D_Y] . W_in[D, F] -> Out[B, F]",
    "summed, right split": "In[B, D] . W_in[D_Y, F] -> Out[B, F]",
    "both kept, rows win": "In[B_X, D] . W_in[D, F_X] -> Out[B_X, F]",
    "both kept, columns win": "In[B_X, D] . W_in[D, F_X] -> Out[B, F_X]",
    "result turned": "In[B_X, D] . W_in[D, F] -> Out[B, F_X]",
    "heads": "In[B, D] . W_q[D, K_Y, H] -> Q[B, K_Y, H] . W_o[K_Y, H, D] -> Out[B, D]",
    "heads, FSDP": "In[B_X, D] . W_q[D_X, K_Y, H] -> Q[B_X, K_Y, H] . W_o[K_Y, H, D_X] -> "
    "Out[B_X, D]",
    "experts, local": "In[E_X, B, D] . W_in[E_X, D, F] -> Tmp[E_X, B, F] . W_out[E_X, F, D] -> "
    "Out[E_X, B, D]",
    "experts": "In[E, B_X, D] . W_in[E_X, D, F] -> Tmp[E_X, B, F] . W_out[E_X, F, D] -> "
    "Out[E, B_X, D]",
    "experts and tensor": "In[E, B_X, D] . W_in[E_X, D, F_Y] -> Tmp[E_X, B, F_Y] . "
    "W_out[E_X, F_Y, D] -> Out[E, B_X, D]",
    "axes change places": "In[B_X, D_Y] . W_in[D_Y, F_X] -> Out[B_Y, F_X]",
    "order of axes": "In[B_XZ, D] . W_in[D, F] -> Out[B_ZX, F]",
    "scores": "Q[K_Y, B_X, H] . W_k[K_Y, H, U] -> S[K_Y, B_X, U] . W_v[K_Y, U, H] -> "
    "Out[K_Y, B_X, H]",
}
"""The numbers of devices along the axes and the lengths of the dimensions are those above."""

# A block of the book, the line of layout that spreads it, its mesh and its sizes.
_LAYER = {"b_seq": 4, "T": 512, "U": 512, "D": 256, "K": 8, "G": 2, "H": 32, "F": 1024}
_SPREAD = "b_seq:dp T:cp U:cp K:tp F:tp T:tp D:dp(optimizer) D:cp(optimizer)"
BLOCKS: Mapping[str, tuple[str, str, Sizes, Sizes]] = {
    "mlp, data parallel": ("mlp", "B:X", MESH, SIZES["many rows"]),
    "mlp, FSDP": ("mlp", "B:X D:X", MESH, SIZES["many rows"]),
    "mlp, tensor": ("mlp", "F:Y D:Y", MESH, SIZES["many rows"]),
    "mlp, FSDP and tensor": ("mlp", "B:X F:Y D:Y D:X", MESH, SIZES["many rows"]),
    "gated mlp, FSDP and tensor": ("gated mlp", "B:X F:Y D:Y D:X", MESH, SIZES["many rows"]),
    "attention, tensor": ("attention", "b_seq:dp K:tp T:tp", {"dp": 2, "tp": 4}, _LAYER),
    "attention, keys gathered": ("attention", "T:cp U:cp", {"cp": 4}, _LAYER),
    "attention, by heads": (
        "attention",
        "K:X(Q,AllKey,AllVal,Score,Share,O) T:X",
        {"X": 4},
        _LAYER,
    ),
    "plain layer, tensor": ("plain_layer", "b_seq:dp K:tp F:tp T:tp", {"dp": 2, "tp": 4}, _LAYER),
    "layer, tensor": ("layer", "b_seq:dp K:tp F:tp T:tp", {"dp": 2, "tp": 4}, _LAYER),
    "layer, as planned": ("layer", _SPREAD, {"dp": 2, "cp": 2, "tp": 4}, _LAYER),
    "experts": (
        "experts",
        "E:X B:X",
        {"X": 4},
        {"B": 2048, "E": 16, "J": 128, "D": 256, "F_E": 512},
    ),
}
