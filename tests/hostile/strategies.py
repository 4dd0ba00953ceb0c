"""Texts that are almost right: the words of each entrance, mixed with what nobody should type."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import strategies as st

CODE = '__import__("os").system("touch pwned")'
JUNK = [
    CODE, "().__class__.__mro__", "{0.__class__}", "%s%n", "\x1b[31m", "\x1b]0;x\x07", "\x9b2J",
    "\x7f", "\0", "\r", "\n", "\t", "\u2028", "\u202e", "\ufeff", "\ud800", "\udcff", "\ue000",
    "٣", "²", "½", "Ⅷ", "𝟛", "−", "×", "·", "⁻³", "\u00a0", "é", "х", "∞", "nan", "inf", "1e999",
    "9" * 120, "-1", "0", "1e-39", "'", '"', "\\", "`", "$", "#", ";", "()", "[]", "{}", "=", "==",
    ":", ",", ",,", ".", "..", "/", "//", "**", "^", "_", "__", "--", "A" * 700, "lambda", "None",
    "True", "😀",
]  # fmt: skip
NUMBERS = [
    "0", "1", "2", "3", "8", "10", "16", "64", "100", "1,024", "8,1,6", "1,23", "4_096", "0.5",
    ".5", "5.", "1.8e11", "1e3", "2e-3", "1e400", "1e40", "9e39", "1/3", "0/1", "00012", "4M",
    "2 × 10^{3}", "3 × 10⁴", "1e+2", "+7", "-7", "−7", "1e1000000000", "0x10", "1j", "50%",
]  # fmt: skip


def words(known: Sequence[str], most: int, joints: Sequence[str] = ("",)) -> st.SearchStrategy[str]:
    """Some of the known words, now and then junk, with something between them."""
    some = st.one_of(
        st.sampled_from(known),
        st.sampled_from(known),
        st.sampled_from(known),
        st.sampled_from(JUNK),
        st.sampled_from(NUMBERS),
        st.text(max_size=6),
    )
    pieces = st.lists(st.tuples(some, st.sampled_from(joints)), max_size=most)
    return pieces.map(lambda pairs: "".join(word + joint for word, joint in pairs))


def damaged(whole: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    """A text with a piece cut out, doubled many times, or replaced by junk."""

    def hurt(text: str, at: float, length: int, kind: int, junk: str) -> str:
        start = int(at * len(text))
        piece = text[start : start + length]
        put = {0: text[start : start + length], 1: "", 2: piece * 50, 3: junk, 4: junk + piece}[
            kind
        ]
        return text[:start] + put + text[start + length :]

    return st.builds(
        hurt, whole, st.floats(0, 1), st.integers(0, 8), st.integers(0, 4), st.sampled_from(JUNK)
    )


UNITS = [
    " GB/s", "GB", " GiB", " TFLOP/s", " tokens", " token", " sequences", "%", " percent", " byte",
    "K", "k", "M", "Ki", "B", " B", "T", " µs", " s", " per second", " FLOP/byte", " byte^2",
    " byte^9", " chips", " ways", " Gbit/s", "/s", " per", "*", " parameters",
]  # fmt: skip
numbers = st.one_of(
    st.sampled_from(NUMBERS),
    words([*"0123456789", ",", ".", "e", "E", "+", "-", "000", "_", " "], 12),
    st.from_regex(
        r"[+\-−]?[0-9]{0,4}(,[0-9]{1,4}){0,3}(\.[0-9]{0,4})?([eE][+\-−]?[0-9]{1,3})?",
        fullmatch=True,
    ),
)
values = st.one_of(
    st.builds("{}{}".format, numbers, st.sampled_from(UNITS)),
    st.builds("{}{}{}".format, numbers, st.sampled_from(UNITS), st.sampled_from([*UNITS, *JUNK])),
    words([*NUMBERS, *UNITS], 4),
)
SYMBOLS = [
    "B", "X", "Y", "D", "F", "N", "T", "W", "C", "P", "alpha", "M_X", "eta", "M_hbm", "tp", "cp",
    "dp", "pp", "b_seq", "e", "s_P", "mu", "u", "L", "K", "H", "V", "S", "A_kept", "virtual",
]  # fmt: skip
names = st.one_of(st.sampled_from(SYMBOLS), words(SYMBOLS, 2))
assignments = st.one_of(
    st.builds("{}={}".format, names, values), words([*SYMBOLS, "=", *NUMBERS, *UNITS], 5)
)

_atoms = st.one_of(
    st.sampled_from(["X", "B", "Y", "alpha", "2", "3", "0.5", "1/7", "9" * 20, "0", "M_X"]),
    st.sampled_from(["X", "X", "B"]),
    numbers,
)


def _grown(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.one_of(
        st.builds("({}){}({})".format, inner, st.sampled_from(["+", "-", "*", "/", "-"]), inner),
        st.builds(
            "({}){}{}".format,
            inner,
            st.sampled_from(["**", "^"]),
            st.sampled_from(
                [
                    "2",
                    "3",
                    "5",
                    "10",
                    "50",
                    "99",
                    "101",
                    "-1",
                    "-3",
                    "0.5",
                    "(1/3)",
                    "(5/12)",
                    "0",
                    "X",
                ]
            ),
        ),
        st.builds(
            "{}({})".format,
            st.sampled_from(["sqrt", "log2", "log", "ceil", "floor", "min", "exp", "-", "+"]),
            inner,
        ),
        st.builds("{}({},{})".format, st.sampled_from(["max", "min", "Max", "sqrt"]), inner, inner),
    )


formulas = st.one_of(
    st.recursive(_atoms, _grown, max_leaves=12),
    words([*SYMBOLS[:12], *"+-*/^(),", "**", "sqrt(", "max(", "log(", ")"], 15),
    damaged(st.recursive(_atoms, _grown, max_leaves=8)),
)
ratios = st.one_of(
    st.sampled_from(
        [
            "T_comms",
            "T_math/T_comms",
            "T_X",
            "T_X/T_Y",
            "B/X",
            "B/N",
            "Y",
            "X",
            "N",
            "F",
            "alpha",
            "T_r",
        ]
    ),
    formulas,
)

DIMS = [
    "B",
    "D",
    "F",
    "T",
    "K",
    "H",
    "E",
    "J",
    "V",
    "U",
    "B_X",
    "D_X",
    "F_Y",
    "B_XY",
    "T_cp",
    "K_tp+cp",
]
TENSORS = ["In", "W_in", "W_out", "Out", "W", "Tmp", "Q", "Key"]
_tensor = st.builds(
    lambda name, dims: f"{name}[{', '.join(dims)}]",
    st.sampled_from(TENSORS), st.lists(st.sampled_from(DIMS), min_size=1, max_size=4),
)  # fmt: skip
BLOCKS = [
    "In[B_X, D] . W_in[D_X, F] . W_out[F, D_X] -> Out[B_X, D]",
    "In[B, D] . W_gate[D, F] * W_in[D, F] . W_out[F, D] -> Out[B, D]",
    "X[B, D] . W_gate[D, F] -> Gate[B, F]; X . W_in[D, F] -> Up[B, F]\n"
    "silu(Gate) * Up -> Hid; Hid . W_out[F, D] -> Out[B, D]",
    "Ids[T, V] @ W[V, D] -> Out[T, D]",
    "In[B, D] => Rows[E, J, D]",
    "Q[K, T, H] . Key[K, U, H] -> S[K, T, U] (causal)\nsoftmax(S) -> P (fused)",
    "mlp", "layer", "attention", "experts", "head", "embedding", "fsdp", "tensor_parallel", "hsdp",
]  # fmt: skip
shardings = st.one_of(
    damaged(st.sampled_from(BLOCKS)),
    damaged(damaged(st.sampled_from(BLOCKS[:6]))),
    st.lists(_tensor, min_size=2, max_size=4).map(lambda ts: " . ".join(ts[:-1]) + " -> " + ts[-1]),
    words([*TENSORS, *DIMS, "[", "]", ",", ".", "->", "=>", "*", "@", "+", "(", ")", "causal",
           "softmax", ";", "\n", "B, D", "[B, D]", "_X"], 16, ("", " ")),
)  # fmt: skip
_laid_out = st.lists(
    st.sampled_from(["", "", "_X", "_Y", "_XY", "_tp+cp", "_a+b+c"]), min_size=3, max_size=3
)
_whole = st.tuples(_laid_out, _laid_out).map(
    lambda two: " -> ".join("T[B{}, D{}, F{}]".format(*axes) for axes in two)
)
reshards = st.one_of(_whole, _whole, damaged(_whole), shardings)
layouts = st.one_of(
    st.sampled_from(["B:X D:X", "F:Y D:Y", "T:cp U:cp(ring) K:tp F:tp", "B:dp D:dp(weights)"]),
    words([*"BDFTKU", ":", "X", "Y", "tp", "cp", "dp", "(", ")", "weights", "optimizer", "ring",
           ",", " ", "B:X", "D:dp(W_in)", " D:X"], 14),
    words(["B:X", "D:X", "F:Y", "D:Y", "K:tp", "T:cp", "D:dp(weights)", "B:dp"], 6, (" ", ",", "")),
)  # fmt: skip
sizes = st.one_of(
    st.lists(st.builds("{}={}".format, st.sampled_from(
        ["tp", "cp", "ep", "dp", "pp", "etp", "edp", "dp_shard", "dp_replicate", "tp\x1b[1m", "x"]
    ), st.one_of(st.sampled_from(["1", "2", "3", "4", "8", "64", "1024", "1048576"]), numbers)),
        max_size=6).map(",".join),
    words(["tp=2", "cp=2", "dp=4", "pp=2", "ep=2", "etp=1", ",", "=", " ", "tp", "16"], 8),
)  # fmt: skip
orders = st.one_of(
    st.sampled_from(["megatron", "torchtitan", "llama3", "tp,cp,dp,pp", "tp-dp"]),
    words(["tp", "cp", "dp", "pp", "ep", ",", "-", "megatron"], 8),
)
