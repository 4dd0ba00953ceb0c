"""The vocabulary: each symbol of the book, made once, with its unit, gloss and TeX.

A symbol is SymPy's own `Symbol`, positive and nothing more, so that one typed in a REPL is the same
symbol. What it means lives in a side table. One letter has one meaning here; where the literature's
letters clash (N for heads and chips, V for vocabulary and bytes, B for batch and bytes), the clash
is resolved once, below, and the book's notation table is printed from this page.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import sympy as sp

from derive.notation import units
from derive.notation.errors import DeriveError, UnknownName, quoted, unknown
from derive.notation.units import Unit, axis, byte, chip, flop, one, second, token, way


@dataclass(frozen=True)
class Meaning:
    """What a symbol stands for: its unit with labels, a gloss, TeX, and what kind of thing it is.

    `role` is one of: dimension (of a tensor), mesh (a mesh axis and its degree), network (torus
    axes given to a mesh axis), hardware, model, constant (an assumption with a default), time.
    """

    symbol: sp.Symbol
    unit: Unit
    gloss: str
    tex: str
    role: str


_vocabulary: dict[str, Meaning] = {}


def symbol(name: str, unit: Unit, gloss: str, *, tex: str | None = None, role: str) -> sp.Symbol:
    """Declare a symbol of the vocabulary and return it: `Symbol(name, positive=True)`.

    Raises DeriveError where the name is taken or is no Python identifier (hostile symbol names
    execute code in lambdify), or where the gloss is missing.
    """
    if not name.isidentifier() or not name.isascii():
        raise DeriveError(f"a symbol's name must be a Python identifier, found {quoted(name)}")
    if name in _vocabulary:
        raise DeriveError(f"symbol {name} is declared already: {_vocabulary[name].gloss}")
    if not gloss.strip():
        raise DeriveError(f"symbol {name} needs a gloss")
    made = sp.Symbol(name, positive=True)
    _vocabulary[name] = Meaning(made, unit, gloss, tex or name, role)
    return made


def meaning(of: sp.Symbol) -> Meaning:
    """The meaning of a symbol of the vocabulary; raises UnknownName for any other symbol."""
    known = _vocabulary.get(of.name)
    if known is None:
        raise unknown("symbol", of.name, _vocabulary)
    if known.symbol != of:
        raise UnknownName(
            f"this {of.name} is not the vocabulary's, which is positive: use derive's {of.name} "
            f"or Symbol({of.name!r}, positive=True)"
        )
    return known


def find(name: str) -> sp.Symbol:
    """The symbol called `name`; raises UnknownName, offering the nearest names."""
    if name not in _vocabulary:
        raise unknown("symbol", name, _vocabulary)
    return _vocabulary[name].symbol


def vocabulary() -> Mapping[str, Meaning]:
    """Every declared symbol by name, in the order of declaration (the order of the book)."""
    return dict(_vocabulary)


def rank(of: sp.Symbol) -> tuple[int, str]:
    """Where a symbol stands in the order of declaration; undeclared symbols come last, by name."""
    order = list(_vocabulary)
    return (order.index(of.name) if of.name in _vocabulary else len(order), of.name)


def unit_of_symbol(of: sp.Symbol) -> Unit:
    """The unit of a symbol, labels included; raises UnknownName for an undeclared one."""
    return meaning(of).unit


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
t_hop = symbol("t_hop", second, "latency of one hop", tex=r"t_{\text{hop}}", role="hardware")
M_hbm = symbol("M_hbm", byte, "memory of a chip", tex=r"M_{\text{hbm}}", role="hardware")

# --- the model and the run
L = symbol("L", units.layer, "layers", role="model")
V = symbol("V", one, "vocabulary size", role="model")
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
