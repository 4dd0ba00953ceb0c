"""What PyTorch's autograd saves of a transformer layer, tensor by tensor, written to autograd.json.

    python tests/outside/record_autograd.py SHAPES.json

`SHAPES.json` has the shapes of models under `models`. Layers are run on fake tensors, which have
shapes and no memory, so that a CPU build of torch does. A tensor is known by its storage: a view
saves nothing more. Left out are parameters, the tables of rotary embeddings and the mask.
Attention, norms and gates are written here as common code has them; what they save is torch's
word, but for the gate in one kernel, of which torch has none.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from itertools import product
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.autograd.graph import saved_tensors_hooks
from torch.utils.checkpoint import checkpoint

MODELS = (
    "llama2-7b", "llama2-13b", "llama2-70b", "llama3-8b", "llama3-70b", "llama3.1-405b",
    "mistral-7b", "qwen2.5-7b", "qwen2.5-72b", "qwen3-32b", "gemma3-12b-text", "gpt3-175b",
)  # fmt: skip
KEPT = (
    "hidden", "heads", "kv_heads", "head_dim", "ffn", "gated", "qk_norm", "qkv_bias",
    "norms_per_layer",
)  # fmt: skip
TOKENS = 4096
HALF = torch.bfloat16


def fused_norm(x: Tensor, shape: list[int], gain: Tensor, eps: float) -> tuple[Tensor, Tensor]:
    """A kernel of the RMS norm: its result, and of each row the reciprocal of the root in fp32.

    A CPU build has none and runs the norm as parts. Where there is one, torch takes the derivative
    that it has for it, and what that saves is what is to be seen.
    """
    return torch.empty_like(x), x.new_empty((*x.shape[: -len(shape)], 1), dtype=torch.float32)


class Gate(torch.autograd.Function):
    """A gate and its activation in one kernel, as Megatron-LM's SwiGLU: it saves what goes in."""

    @staticmethod
    def forward(ctx: Any, gate: Tensor, up: Tensor, act: Callable[[Tensor], Tensor]) -> Tensor:
        ctx.save_for_backward(gate, up)
        return act(gate) * up

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> None:
        raise NotImplementedError  # nothing is run backward here


class Recorder:
    """Storages that were saved, in order, each with the name that the layer gives it or with the
    line of the layer that saved it."""

    def __init__(self) -> None:
        # Tensors are held, since a storage that is given up may be made again for another.
        self.left_out: dict[int, Tensor] = {}
        self.names: dict[int, tuple[str, Tensor]] = {}
        self.saved: dict[int, tuple[str, Tensor]] = {}
        self.line = ""

    def name(self, tensor: Tensor, name: str) -> Tensor:
        """Call the storage of a tensor by a name; that of a view is the same."""
        self.names[storage(tensor)] = (name, tensor)
        return tensor

    def leave_out(self, *tensors: Tensor) -> None:
        self.left_out |= {storage(tensor): tensor for tensor in tensors}

    def pack(self, tensor: Tensor) -> Tensor:
        place = storage(tensor)
        if place not in self.left_out:
            self.saved.setdefault(place, (self.line, tensor))
        return tensor

    def rows(self) -> Iterator[str]:
        """Each tensor: its name, or ~ and the line that saved it, its shape, type and bytes."""
        for place, (line, saved) in self.saved.items():
            name, tensor = self.names.get(place, (f"~{line}", saved))
            kind = str(tensor.dtype).removeprefix("torch.")
            size = tensor.untyped_storage().nbytes()
            yield f"{name}: {'x'.join(map(str, tensor.shape))} {kind} {size}"


def storage(tensor: Tensor) -> int:
    return tensor.untyped_storage()._cdata


class Layer:
    """One layer on fake tensors. `modes` are attention, core, norm and glu."""

    def __init__(self, shape: dict[str, Any], modes: dict[str, str], seen: Recorder) -> None:
        self.shape, self.modes, self.seen = shape, modes, seen
        self.bias = shape["qkv_bias"]
        self.act = F.silu if shape["gated"] and shape["norms_per_layer"] == 2 else F.gelu

    def weight(self, *shape: int) -> Tensor:
        made = torch.empty(*shape, dtype=HALF, requires_grad=True)
        self.seen.leave_out(made)
        return made

    def linear(self, x: Tensor, outputs: int, *, bias: bool = False) -> Tensor:
        weight = self.weight(outputs, x.shape[-1])
        return F.linear(x, weight, self.weight(outputs) if bias else None)

    def norm(self, x: Tensor, name: str) -> Tensor:
        self.seen.line = name
        gain = self.weight(x.shape[-1])
        if self.modes["norm"] == "layer_norm":
            made = F.layer_norm(x, x.shape[-1:], gain, self.weight(x.shape[-1]))
        else:
            made = F.rms_norm(x, x.shape[-1:], gain, 1e-5)
        return self.seen.name(made, name)

    def rotated(self, x: Tensor, name: str) -> Tensor:
        """A rotary embedding [b, T, ..., H]; its tables are left out."""
        self.seen.line = name
        ones = (1,) * (x.dim() - 3)
        cos, sin = (torch.empty(1, x.shape[1], *ones, x.shape[-1], dtype=HALF) for _ in range(2))
        self.seen.leave_out(cos, sin)
        half = x.shape[-1] // 2
        turned = torch.cat((-x[..., half:], x[..., :half]), -1)
        return self.seen.name(x * cos + turned * sin, name)

    def core(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """softmax(Q K) V of q [b, T, K, G, H] and k, v [b, T, K, H], as [b, T, K, G, H]."""
        seen, (_, t, heads, group, width) = self.seen, q.shape
        seen.line = "Share"
        if self.modes["attention"] == "fused":
            flash = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu
            ready = (q.flatten(2, 3).transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2))
            o, lse = flash(*ready, 0.0, True)
            seen.name(lse.unflatten(1, (heads, group)), "log-sum-exp of Share")
            return o.transpose(1, 2).unflatten(2, (heads, group))
        mask = torch.empty(t, t, dtype=HALF)
        seen.leave_out(mask)
        # As batched products, so that the keys are not repeated for the queries of a group.
        queries = seen.name(q.permute(0, 2, 3, 1, 4).contiguous(), "Q").flatten(2, 3)
        keys = seen.name(k.permute(0, 2, 3, 1).contiguous(), "AllKey")
        values = seen.name(v.transpose(1, 2).contiguous(), "AllVal")
        scores = (queries @ keys).unflatten(2, (group, t)) * width**-0.5 + mask
        share = seen.name(torch.softmax(scores, -1), "Share")
        o = (share.flatten(2, 3) @ values).unflatten(2, (group, t))
        return o.permute(0, 3, 1, 2, 4)

    def attention(self, x: Tensor) -> Tensor:
        seen, shape = self.seen, self.shape
        heads, width = shape["kv_heads"], shape["head_dim"]
        group = shape["heads"] // heads
        seen.line = "Query"
        q = self.linear(x, heads * group * width, bias=self.bias)
        q = seen.name(q.unflatten(2, (heads, group, width)), "Query")
        k = self.linear(x, heads * width, bias=self.bias).unflatten(2, (heads, width))
        k = seen.name(k, "Key")
        v = self.linear(x, heads * width, bias=self.bias).unflatten(2, (heads, width))
        v = seen.name(v, "AllVal")
        if shape["qk_norm"]:
            q, k = self.norm(q, "QueryN"), self.norm(k, "KeyN")
        if shape["gated"]:
            q, k = self.rotated(q, "Q"), self.rotated(k, "AllKey")
        else:  # learned positions, added before the first layer
            q, k = seen.name(q, "Q"), seen.name(k, "AllKey")
        if self.modes.get("keys") == "repeated":
            k, v = (
                seen.name(one.repeat_interleave(group, 2), name)
                for one, name in ((k, "AllKey"), (v, "AllVal"))
            )
            q = seen.name(q.flatten(2, 3).unsqueeze(3), "Q")
        if self.modes["core"] == "recomputed":
            o = checkpoint(self.core, q, k, v, use_reentrant=False, preserve_rng_state=False)
        else:
            o = self.core(q, k, v)
        o = o.contiguous()
        seen.name(o, "Heads")
        seen.line = "Att"
        return self.linear(o.flatten(2), shape["hidden"], bias=self.bias and not shape["gated"])

    def feed_forward(self, x: Tensor) -> Tensor:
        seen, shape, bias = self.seen, self.shape, self.bias and not self.shape["gated"]
        seen.line = "Up"
        if not shape["gated"]:
            up = seen.name(self.linear(x, shape["ffn"], bias=bias), "Up")
            hid = self.act(up)
        else:
            gate = seen.name(self.linear(x, shape["ffn"]), "Gate")
            up = seen.name(self.linear(x, shape["ffn"]), "Up")
            seen.line = "Hid"
            if self.modes["glu"] == "fused":
                hid = Gate.apply(gate, up, self.act)
            else:
                hid = seen.name(self.act(gate), f"{self.act.__name__}(Gate)") * up
        hid = seen.name(hid, "Hid")
        seen.line = "Ffn"
        return self.linear(hid, shape["hidden"], bias=bias)

    def run(self, x: Tensor) -> Tensor:
        seen, post = self.seen, self.shape["norms_per_layer"] == 4
        attention = seen.name(self.attention(self.norm(x, "X")), "Att")
        if post:
            attention = self.norm(attention, "AttN")
        seen.line = "Mid"
        mid = seen.name(x + attention, "Mid")
        feed_forward = seen.name(self.feed_forward(self.norm(mid, "Y")), "Ffn")
        if post:
            feed_forward = self.norm(feed_forward, "FfnN")
        return mid + feed_forward


def recorded(shape: dict[str, Any], modes: dict[str, str], recompute: str) -> str:
    """What a layer saves: each tensor with its shape, its type and its bytes."""
    seen = Recorder()
    layer = Layer(shape, modes, seen)
    # Fake tensors of a CPU have the statistics of a layer norm in bf16, which no kernel does.
    fake = torch.device("meta") if modes["norm"] == "layer_norm" else FakeTensorMode()
    with torch.library._scoped_library("aten", "IMPL") as library, fake:
        if modes["norm"] == "fused":
            library.impl("_fused_rms_norm", fused_norm, "CPU")
        x = torch.empty(1, TOKENS, shape["hidden"], dtype=HALF, requires_grad=True)
        seen.name(x, "In")
        with saved_tensors_hooks(seen.pack, lambda tensor: tensor):
            if recompute == "layer":
                checkpoint(layer.run, x, use_reentrant=False, preserve_rng_state=False)
            else:
                layer.run(x)
    return "; ".join(seen.rows())


def ways(shape: dict[str, Any]) -> Iterator[dict[str, str]]:
    """Every mode of a model: with a layer norm or without a gate there is one of these. Last, keys
    and values that are repeated for the queries of a group, as much code has them."""
    norms = ("fused", "unfused") if shape["gated"] else ("layer_norm",)
    gates = ("fused", "unfused") if shape["gated"] else ("fused",)
    kernels, cores = ("fused", "unfused"), ("kept", "recomputed")
    for kernel, core, norm, glu in product(kernels, cores, norms, gates):
        yield {"attention": kernel, "core": core, "norm": norm, "glu": glu}
    if shape["heads"] > shape["kv_heads"] and not shape["qk_norm"]:
        for way in ("fused", "unfused"):
            yield {"attention": way, "core": "kept", "norm": way, "glu": way, "keys": "repeated"}


def main(shapes: str) -> None:
    models = json.loads(Path(shapes).read_text())["models"]
    record: dict[str, Any] = {
        "torch": torch.__version__, "python": sys.version.split()[0], "tokens": TOKENS,
        "rows": "of one sequence: name, shape, type, bytes", "models": {},
    }  # fmt: skip
    for name in MODELS:
        shape = {key: models[name][key] for key in KEPT}
        modes = {}
        for way in ways(shape):
            modes[" ".join(f"{k}={x}" for k, x in way.items())] = recorded(shape, way, "none")
        modes["layer=recomputed"] = recorded(shape, way, "layer")
        record["models"][name] = {"shape": shape, "modes": modes}
    text = json.dumps(record, indent=1)
    (Path(__file__).parent / "autograd.json").write_text(text + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
