"""The vocabulary: each symbol of the book, made once, with its unit, gloss and TeX.

A symbol is SymPy's own `Symbol`, positive and nothing more, so that one typed in a REPL is the same
symbol. What it means lives in a side table. One letter has one meaning here; where the literature's
letters clash (N for heads and chips, V for vocabulary and bytes, B for batch and bytes), the clash
is resolved once, below, and the book's notation table is printed from this page.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from keyword import iskeyword

import sympy as sp

from derive.notation import units
from derive.notation.errors import DeriveError, UnknownName, quoted, unknown
from derive.notation.units import Unit, axis, byte, chip, flop, one, second, token, way


@dataclass(frozen=True, repr=False)
class Meaning:
    """What a symbol stands for: its unit with labels, a gloss, TeX, and what kind of thing it is.

    `role` is one of: dimension (of a tensor), mesh (a mesh axis and its degree), axis (a mesh axis
    that a user named), network (torus axes given to a mesh axis), hardware, model, constant (an
    assumption with a default), time. `place` is that in the order of declaration.
    """

    symbol: sp.Symbol
    unit: Unit
    gloss: str
    tex: str
    role: str
    place: int

    def __repr__(self) -> str:
        unit = f" [{self.unit}]" if self.unit != one else ""
        return f"{self.symbol.name}: {self.gloss}{unit}"


_vocabulary: dict[str, Meaning] = {}


def symbol(name: str, unit: Unit, gloss: str, *, tex: str | None = None, role: str) -> sp.Symbol:
    """Declare a symbol of the vocabulary and return it: `Symbol(name, positive=True)`.

    Raises DeriveError where the name is taken or is no Python identifier (hostile symbol names
    execute code in lambdify), or where the gloss is missing.
    """
    if not name.isidentifier() or not name.isascii() or iskeyword(name):
        raise DeriveError(f"a symbol's name must be a Python identifier, found {quoted(name)}")
    if name in _vocabulary:
        raise DeriveError(f"symbol {name} is declared already: {_vocabulary[name].gloss}")
    if not gloss.strip():
        raise DeriveError(f"symbol {name} needs a gloss")
    declared = sp.Symbol(name, positive=True)
    _vocabulary[name] = Meaning(declared, unit, gloss, tex or name, role, len(_vocabulary))
    return declared


def meaning(letter: sp.Symbol) -> Meaning:
    """The meaning of a symbol of the vocabulary; raises UnknownName for any other symbol."""
    name = letter.name
    known = _vocabulary.get(name)
    if known is None:
        raise unknown("symbol", name, _vocabulary)
    if known.symbol != letter:
        raise UnknownName(
            f"this {name} is not the vocabulary's, which is positive: use derive's {name} "
            f"or Symbol({name!r}, positive=True)"
        )
    return known


def find(name: str) -> sp.Symbol:
    """The symbol called `name`; raises UnknownName, offering the nearest names."""
    if name not in _vocabulary:
        raise unknown("symbol", name, _vocabulary)
    return _vocabulary[name].symbol


def mesh_axis(name: str) -> sp.Symbol:
    """The degree of the mesh axis called `name`: a symbol of the vocabulary, declared where the
    axis is a user's own.

    Raises DeriveError for a name that is no identifier, or that stands for something else.
    """
    if name not in _vocabulary:
        return symbol(name, way, f"degree of the mesh axis {name}", role="axis")
    known = _vocabulary[name]
    if known.role not in ("mesh", "axis"):
        raise DeriveError(f"mesh axis {name}: {name} is the {known.gloss}; give the axis another name")
    return known.symbol


def vocabulary() -> Mapping[str, Meaning]:
    """Every declared symbol by name, in the order of declaration (the order of the book)."""
    return dict(_vocabulary)


def rank(letter: sp.Symbol) -> tuple[int, str]:
    """Where a symbol stands in the order of declaration; a user's own mesh axes and undeclared
    symbols come last, by name."""
    known = _vocabulary.get(letter.name)
    if known is None or known.role == "axis":
        return (sys.maxsize, letter.name)
    return (known.place, letter.name)


def unit_of_symbol(letter: sp.Symbol) -> Unit:
    """The unit of a symbol, labels included; raises UnknownName for an undeclared one."""
    return meaning(letter).unit


# --- the dimensions of tensors
B = symbol("B", token, "global batch, in tokens", role="dimension")
D = symbol("D", one, "model width", role="dimension")
F = symbol("F", one, "feed-forward width", role="dimension")
E = symbol("E", units.label("expert"), "experts", role="dimension")
T = symbol("T", token, "sequence length, in tokens", role="dimension")
U = symbol("U", token, "length of the keys and values, in tokens", role="dimension")
K = symbol("K", units.label("head"), "key and value heads", role="dimension")
G = symbol("G", one, "query heads per key and value head", role="dimension")
H = symbol("H", one, "width of one head", role="dimension")
J = symbol("J", token, "tokens that an expert takes", role="dimension")

# --- the mesh
N = symbol("N", chip, "chips of a slice", role="mesh")
X = symbol("X", way, "degree of data parallelism or FSDP", role="mesh")
Y = symbol("Y", way, "degree of tensor parallelism", role="mesh")
Z = symbol("Z", way, "degree of a third mesh axis, such as pipeline stages", role="mesh")
S = symbol("S", units.slice_, "slices (pods) joined by the data-centre network", role="mesh")
M_X = symbol("M_X", axis, "torus axes given to X", role="network")
M_Y = symbol("M_Y", axis, "torus axes given to Y", role="network")
M_Z = symbol("M_Z", axis, "torus axes given to Z", role="network")

# --- hardware
alpha = symbol("alpha", flop / byte, "ICI intensity C/W", tex=r"\alpha", role="hardware")
C = symbol("C", flop / second, "peak FLOP rate of a chip at the chosen precision", role="hardware")
W = symbol("W", byte / second, "ICI bandwidth of one torus axis, bidirectional", role="hardware")
W_dcn = symbol(
    "W_dcn",
    byte / second,
    "data-centre network bandwidth of a chip, one-way",
    tex=r"W_{\text{dcn}}",
    role="hardware",
)
W_hbm = symbol(
    "W_hbm",
    byte / second,
    "memory bandwidth of a chip",
    tex=r"W_{\text{hbm}}",
    role="hardware",
)
M_axes = symbol("M_axes", axis, "torus axes of a chip", tex=r"M_{\text{axes}}", role="hardware")
t_hop = symbol("t_hop", second, "latency of one hop", tex=r"t_{\text{hop}}", role="hardware")
M_hbm = symbol("M_hbm", byte, "memory of a chip", tex=r"M_{\text{hbm}}", role="hardware")

# --- the model and the run
L = symbol("L", units.layer, "layers", role="model")
V = symbol("V", one, "vocabulary size", role="dimension")
P = symbol("P", units.parameter, "parameters", role="model")
R = symbol("R", token, "tokens of the training run", role="model")
A = symbol("A", one, "activations of width D saved per layer", role="model")
u = symbol("u", one, "model FLOPs utilisation (MFU)", role="model")

# --- constants that are assumptions, with the defaults in `cost.assumptions`
fma = symbol("fma", flop, "FLOP of one multiply-add", tex=r"\phi", role="constant")
e = symbol("e", byte, "bytes per element of weights and activations", role="constant")
e_g = symbol("e_g", byte, "bytes per element of weight gradients", tex="e_g", role="constant")
s_P = symbol(
    "s_P", byte, "bytes of state per parameter: weights and optimizer", tex="s_P", role="constant"
)

# --- times, named in derivations
T_math = symbol("T_math", second, "computation time", tex=r"T_{\text{math}}", role="time")
T_comms = symbol("T_comms", second, "communication time", tex=r"T_{\text{comms}}", role="time")
T_X = symbol("T_X", second, "communication time on axis X", tex="T_X", role="time")
T_Y = symbol("T_Y", second, "communication time on axis Y", tex="T_Y", role="time")
T_Z = symbol("T_Z", second, "communication time on axis Z", tex="T_Z", role="time")
T_S = symbol("T_S", second, "communication time between slices", tex="T_S", role="time")
T_hbm = symbol("T_hbm", second, "time to read from memory", tex=r"T_{\text{hbm}}", role="time")

# --- one training step over a mesh of tensor, context, pipeline and data parallelism
tp = symbol("tp", way, "degree of tensor parallelism of a plan", tex="t", role="mesh")
cp = symbol("cp", way, "degree of context parallelism of a plan", tex="c", role="mesh")
pp = symbol("pp", way, "pipeline stages of a plan", tex="p", role="mesh")
dp = symbol("dp", way, "degree of data parallelism of a plan", tex="d", role="mesh")
B_seq = symbol(
    "B_seq", units.sequence, "global batch, in sequences", tex=r"B_{\text{seq}}", role="dimension"
)
b_seq = symbol("b_seq", units.sequence, "micro-batch, in sequences", tex="b", role="dimension")
n_node = symbol("n_node", chip, "chips of a node", tex=r"n_{\text{node}}", role="hardware")
W_node = symbol(
    "W_node",
    byte / second,
    "bandwidth of a chip into the switches of its node, one-way",
    tex=r"W_{\text{node}}",
    role="hardware",
)
eta = symbol(
    "eta", one, "share of the peak that a large matmul reaches", tex=r"\eta", role="constant"
)
mu = symbol("mu", one, "share of the memory that a plan may fill", tex=r"\mu", role="constant")
A_kept = symbol(
    "A_kept",
    byte,
    "bytes saved by a layer per token and unit of model width",
    tex=r"A_{\text{kept}}",
    role="constant",
)
e_32 = symbol("e_32", byte, "bytes per fp32 element", tex="e_{32}", role="constant")
x_pp = symbol("x_pp", one, "share of the stage hops not hidden", tex=r"x_p", role="constant")
x_dp = symbol("x_dp", one, "share of the gradient traffic not hidden", tex=r"x_d", role="constant")
T_min = symbol(
    "T_min", token, "least tokens of a context-parallel rank", tex=r"T_{\min}", role="constant"
)
n_V = symbol("n_V", one, "matrices of vocabulary size: embedding and head", tex="n_V", role="model")
n_F = symbol("n_F", one, "feed-forward matrices of a layer", tex="n_F", role="model")

# --- what a step is made of, per chip
T_r = symbol("T_r", token, "tokens of a sequence on one chip", tex="s", role="model")
n_mb = symbol(
    "n_mb", units.micro_batch, "micro-batches of a pipeline in a step", tex="m", role="model"
)
L_p = symbol("L_p", units.layer, "layers of a stage", tex="L_p", role="model")
L_r = symbol("L_r", units.layer, "layers of a stage that are recomputed", tex="r", role="model")
n_fly = symbol(
    "n_fly", units.micro_batch, "micro-batches in flight on the first stage", tex="q", role="model"
)
psi = symbol("psi", units.parameter, "parameters on a chip", tex=r"\psi", role="model")
W_tp = symbol(
    "W_tp", byte / second, "one-way bandwidth of a tensor group", tex="W_t", role="hardware"
)
W_cp = symbol(
    "W_cp", byte / second, "one-way bandwidth of a context group", tex="W_c", role="hardware"
)
W_pp = symbol(
    "W_pp",
    byte / second,
    "one-way bandwidth between neighbouring stages",
    tex="W_p",
    role="hardware",
)
W_dp = symbol(
    "W_dp", byte / second, "one-way bandwidth of a data group", tex="W_d", role="hardware"
)
f_A = symbol(
    "f_A", flop, "FLOP of the attention of a layer per token, both passes", tex="f_A", role="model"
)
f_L = symbol("f_L", flop, "FLOP of a layer per token, both passes", tex="f_L", role="model")
f_V = symbol("f_V", flop, "FLOP of the head per token, both passes", tex="f_V", role="model")
t_1 = symbol(
    "t_1",
    second / flop,
    "time of a micro-batch on a chip per FLOP and token",
    tex="t_1",
    role="time",
)
a_1 = symbol("a_1", byte, "bytes that a layer saves for a micro-batch", tex="a_1", role="model")
a_0 = symbol(
    "a_0", byte, "bytes that a recomputed layer saves for a micro-batch", tex="a_0", role="model"
)
t_slow = symbol(
    "t_slow",
    second,
    "computation of a micro-batch on the slowest stage",
    tex=r"t_{\text{slow}}",
    role="time",
)
t_avg = symbol(
    "t_avg",
    second,
    "computation of a micro-batch on an average stage",
    tex=r"t_{\text{avg}}",
    role="time",
)
t_redo = symbol(
    "t_redo", second, "recomputation of a micro-batch", tex=r"t_{\text{redo}}", role="time"
)
t_ring = symbol(
    "t_ring", second, "ring of a micro-batch on a stage", tex=r"t_{\text{ring}}", role="time"
)
t_attn = symbol(
    "t_attn",
    second,
    "attention of a micro-batch on a stage, under which the ring hides",
    tex=r"t_{\text{attn}}",
    role="time",
)
t_tp = symbol("t_tp", second, "tensor communication of a micro-batch", tex="t_t", role="time")
t_cp = symbol("t_cp", second, "ring of a micro-batch that is not hidden", tex="t_c", role="time")
t_pp = symbol("t_pp", second, "stage hops of a micro-batch not hidden", tex="t_p", role="time")
t_mb = symbol(
    "t_mb",
    second,
    "time of a micro-batch on the slowest stage",
    tex=r"t_{\text{mb}}",
    role="time",
)
M_states = symbol(
    "M_states",
    byte,
    "weights, gradients and optimizer states of a chip",
    tex=r"M_{\text{states}}",
    role="model",
)
M_logits = symbol(
    "M_logits", byte, "logits and their gradient", tex=r"M_{\text{logits}}", role="model"
)
t_scatter = symbol(
    "t_scatter", second, "reduce-scatter of the gradients", tex=r"t_{\text{rs}}", role="time"
)
t_gather = symbol(
    "t_gather", second, "all-gather of the parameters", tex=r"t_{\text{ag}}", role="time"
)
n_near = symbol(
    "n_near", way, "chips of a data group in one node", tex=r"n_{\text{near}}", role="model"
)
epsilon = symbol("epsilon", one, "tolerated share", tex=r"\varepsilon", role="constant")
ep = symbol("ep", way, "degree of expert parallelism of a plan", tex=r"e_p", role="mesh")
virtual = symbol(
    "virtual", way, "virtual pipeline stages of a rank in a plan", tex=r"v_p", role="mesh"
)
