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
from functools import lru_cache, partial
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


def symbol(name: str, unit: Unit, gloss: str, tex: str | None = None, *, role: str) -> sp.Symbol:
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


def known(name: str) -> Meaning | None:
    """What the symbol called `name` means; None where there is none."""
    return _vocabulary.get(name)


def meaning(letter: sp.Symbol) -> Meaning:
    """The meaning of a symbol of the vocabulary; raises UnknownName for any other symbol."""
    name = letter.name
    known = _vocabulary.get(name)
    if known is None:
        raise unknown("symbol", name, _book())
    if known.symbol != letter:
        ways = f"use derive's {name} or Symbol({name!r}, positive=True)"
        raise UnknownName(f"this {name} is not the vocabulary's, which is positive: {ways}")
    return known


def find(name: str) -> sp.Symbol:
    """The symbol called `name`; raises UnknownName, offering the nearest names."""
    if name not in _vocabulary:
        raise unknown("symbol", name, _book())
    return _vocabulary[name].symbol


def mesh_axis(name: str) -> sp.Symbol:
    """The degree of the mesh axis called `name`: a symbol of the vocabulary, declared where the
    axis is a user's own.

    Raises DeriveError for a name that is no identifier, or that stands for something else.
    """
    if name not in _vocabulary:
        shown = name.replace("_", "-")  # a backslash before it Markdown would eat between dollars
        gloss = f"degree of the mesh axis {name}"
        return symbol(name, way, gloss, rf"\text{{{shown}}}", role="axis")
    known = _vocabulary[name]
    if known.role not in ("mesh", "axis"):
        told = f"{name} is the {known.gloss}; give the axis another name"
        raise DeriveError(f"mesh axis {name}: {told}")
    return known.symbol


def is_degree(letter: sp.Symbol) -> bool:
    """Whether a symbol is a number of devices of a mesh, which is at least 1."""
    entry = _vocabulary.get(letter.name)
    return entry is not None and entry.role in ("mesh", "axis")


def _book() -> list[str]:
    """The names of the book's symbols: what a message offers does not hang on a user's own axes."""
    return [name for name, entry in _vocabulary.items() if entry.role != "axis"]


def vocabulary() -> Mapping[str, Meaning]:
    """Every declared symbol by name, in the order of `rank`."""
    return dict(sorted(_vocabulary.items(), key=lambda known: rank(known[1].symbol)))


def rank(letter: sp.Symbol) -> tuple[int, str]:
    """Where a symbol stands in the order of declaration; a user's own mesh axes and undeclared
    symbols come last, by name."""
    known = _vocabulary.get(letter.name)
    if known is None or known.role == "axis":
        return (sys.maxsize, letter.name)
    return (known.place, letter.name)


@lru_cache(maxsize=4096)
def symbols_of(expr: sp.Expr) -> tuple[sp.Symbol, ...]:
    """The symbols of an expression in the order of declaration."""
    return tuple(sorted(expr.free_symbols, key=rank))


def unit_of_symbol(letter: sp.Symbol) -> Unit:
    """The unit of a symbol, labels included; raises UnknownName for an undeclared one."""
    return meaning(letter).unit


_dimension = partial(symbol, role="dimension")
_mesh = partial(symbol, role="mesh")
_network = partial(symbol, role="network")
_hardware = partial(symbol, role="hardware")
_model = partial(symbol, role="model")
_constant = partial(symbol, role="constant")
_time = partial(symbol, role="time")

# --- the dimensions of tensors
B = _dimension("B", token, "global batch, in tokens")
D = _dimension("D", one, "model width")
F = _dimension("F", one, "feed-forward width")
E = _dimension("E", units.label("expert"), "experts")
T = _dimension("T", token, "sequence length, in tokens")
U = _dimension("U", token, "length of the keys and values, in tokens")
K = _dimension("K", units.label("head"), "key and value heads")
G = _dimension("G", one, "query heads per key and value head")
H = _dimension("H", one, "width of one head")
J = _dimension("J", token, "tokens that an expert takes")

# --- the mesh
N = _mesh("N", chip, "chips of a slice")
X = _mesh("X", way, "degree of data parallelism or FSDP")
Y = _mesh("Y", way, "degree of tensor parallelism")
Z = _mesh("Z", way, "degree of a third mesh axis, such as pipeline stages")
S = _mesh("S", units.slice_, "slices (pods) joined by the data-centre network")
M_X = _network("M_X", axis, "torus axes given to X")
M_Y = _network("M_Y", axis, "torus axes given to Y")
M_Z = _network("M_Z", axis, "torus axes given to Z")

# --- hardware
alpha = _hardware("alpha", flop / byte, "ICI intensity C/W", r"\alpha")
C = _hardware("C", flop / second, "peak FLOP rate of a chip at the chosen precision")
W = _hardware("W", byte / second, "ICI bandwidth of one torus axis, bidirectional")
W_dcn = _hardware(
    "W_dcn", byte / second, "data-centre network bandwidth of a chip, one-way", r"W_{\text{dcn}}"
)
W_hbm = _hardware("W_hbm", byte / second, "memory bandwidth of a chip", r"W_{\text{hbm}}")
M_axes = _hardware("M_axes", axis, "torus axes of a chip", r"M_{\text{axes}}")
M_hbm = _hardware("M_hbm", byte, "memory of a chip", r"M_{\text{hbm}}")
N_pod = _hardware("N_pod", chip, "chips of a pod", r"N_{\text{pod}}")
n_host = _hardware("n_host", chip, "chips of a host", r"n_{\text{host}}")

# --- the model and the run
L = _model("L", units.layer, "layers")
V = _dimension("V", one, "vocabulary size")
P = _model("P", units.parameter, "parameters")
R = _model("R", token, "tokens of the training run")
A = _model("A", one, "activations of width D saved per layer")
u = _model("u", one, "model FLOPs utilisation (MFU)")
P_A = _model("P_A", units.parameter, "parameters of the attention of all layers")
P_F = _model("P_F", units.parameter, "parameters of the feed-forward matrices of all layers")
P_V = _model("P_V", units.parameter, "parameters of embedding and head")
M_A = _model("M_A", byte, "activations saved by a chip for the backward pass")
M_KV = _model("M_KV", byte, "keys and values of b_seq sequences of T tokens", r"M_{\text{KV}}")
f_R = _model("f_R", flop, "FLOP of the training run")

# --- constants that are assumptions, with the defaults in `cost.assumptions`
fma = _constant("fma", flop, "FLOP of one multiply-add", r"\phi")
e = _constant("e", byte, "bytes per element of weights and activations")
e_g = _constant("e_g", byte, "bytes per element of weight gradients", "e_g")
s_P = _constant("s_P", byte, "bytes of state per parameter: weights and optimizer", "s_P")

# --- times, named in derivations
T_math = _time("T_math", second, "computation time", r"T_{\text{math}}")
T_comms = _time("T_comms", second, "communication time", r"T_{\text{comms}}")
T_X = _time("T_X", second, "communication time on axis X", "T_X")
T_Y = _time("T_Y", second, "communication time on axis Y", "T_Y")
T_Z = _time("T_Z", second, "communication time on axis Z", "T_Z")
T_S = _time("T_S", second, "communication time between slices", "T_S")
T_hbm = _time("T_hbm", second, "time to read from memory", r"T_{\text{hbm}}")
T_R = _time("T_R", second, "time of the training run")

# --- one training step over a mesh of tensor, context, pipeline and data parallelism
tp = _mesh("tp", way, "degree of tensor parallelism of a plan", "t")
cp = _mesh("cp", way, "degree of context parallelism of a plan", "c")
pp = _mesh("pp", way, "pipeline stages of a plan", "p")
dp = _mesh("dp", way, "degree of data parallelism of a plan", "d")
B_seq = _dimension("B_seq", units.sequence, "global batch, in sequences", r"B_{\text{seq}}")
b_seq = _dimension("b_seq", units.sequence, "micro-batch, in sequences", "b")
n_node = _hardware("n_node", chip, "chips of a node", r"n_{\text{node}}")
W_node = _hardware(
    "W_node",
    byte / second,
    "bandwidth of a chip into the switches of its node, one-way",
    r"W_{\text{node}}",
)
eta = _constant("eta", one, "share of the peak that a large matmul reaches", r"\eta")
mu = _constant("mu", one, "share of the memory that a plan may fill", r"\mu")
A_kept = _constant(
    "A_kept", byte, "bytes saved by a layer per token and unit of model width", r"A_{\text{kept}}"
)
e_32 = _constant("e_32", byte, "bytes per fp32 element", "e_{32}")
x_pp = _constant("x_pp", one, "share of the stage hops not hidden", r"x_p")
x_dp = _constant("x_dp", one, "share of the gradient traffic not hidden", r"x_d")
T_min = _constant("T_min", token, "least tokens of a context-parallel rank", r"T_{\min}")
n_V = _model("n_V", one, "matrices of vocabulary size: embedding and head", "n_V")
n_F = _model("n_F", one, "feed-forward matrices of a layer", "n_F")

# --- what a step is made of, per chip
T_r = _model("T_r", token, "tokens of a sequence on one chip", "s")
n_mb = _model("n_mb", units.micro_batch, "micro-batches of a pipeline in a step", "m")
L_p = _model("L_p", units.layer, "layers of a stage", "L_p")
L_r = _model("L_r", units.layer, "layers of a stage that are recomputed", "r")
n_fly = _model("n_fly", units.micro_batch, "micro-batches in flight on the first stage", "q")
psi = _model("psi", units.parameter, "parameters on a chip", r"\psi")
W_tp = _hardware("W_tp", byte / second, "one-way bandwidth of a tensor group", "W_t")
W_cp = _hardware("W_cp", byte / second, "one-way bandwidth of a context group", "W_c")
W_pp = _hardware("W_pp", byte / second, "one-way bandwidth between neighbouring stages", "W_p")
W_dp = _hardware("W_dp", byte / second, "one-way bandwidth of a data group", "W_d")
f_A = _model("f_A", flop, "FLOP of the attention of a layer per token, both passes", "f_A")
f_L = _model("f_L", flop, "FLOP of a layer per token, both passes", "f_L")
f_V = _model("f_V", flop, "FLOP of the head per token, both passes", "f_V")
t_1 = _time("t_1", second / flop, "time of a micro-batch on a chip per FLOP and token", "t_1")
a_1 = _model("a_1", byte, "bytes that a layer saves for a micro-batch", "a_1")
a_0 = _model("a_0", byte, "bytes that a recomputed layer saves for a micro-batch", "a_0")
t_slow = _time(
    "t_slow", second, "computation of a micro-batch on the slowest stage", r"t_{\text{slow}}"
)
t_avg = _time(
    "t_avg", second, "computation of a micro-batch on an average stage", r"t_{\text{avg}}"
)
t_redo = _time("t_redo", second, "recomputation of a micro-batch", r"t_{\text{redo}}")
t_ring = _time("t_ring", second, "ring of a micro-batch on a stage", r"t_{\text{ring}}")
t_attn = _time(
    "t_attn",
    second,
    "attention of a micro-batch on a stage, under which the ring hides",
    r"t_{\text{attn}}",
)
t_tp = _time("t_tp", second, "tensor communication of a micro-batch", "t_t")
t_cp = _time("t_cp", second, "ring of a micro-batch that is not hidden", "t_c")
t_pp = _time("t_pp", second, "stage hops of a micro-batch not hidden", "t_p")
t_mb = _time("t_mb", second, "time of a micro-batch on the slowest stage", r"t_{\text{mb}}")
M_states = _model(
    "M_states", byte, "weights, gradients and optimizer states of a chip", r"M_{\text{states}}"
)
M_logits = _model("M_logits", byte, "logits and their gradient", r"M_{\text{logits}}")
t_scatter = _time("t_scatter", second, "reduce-scatter of the gradients", r"t_{\text{rs}}")
t_gather = _time("t_gather", second, "all-gather of the parameters", r"t_{\text{ag}}")
n_near = _model("n_near", way, "chips of a data group in one node", r"n_{\text{near}}")
epsilon = _constant("epsilon", one, "tolerated share", r"\varepsilon")
ep = _mesh("ep", way, "degree of expert parallelism of a plan", r"e_p")
virtual = _mesh("virtual", way, "virtual pipeline stages of a rank in a plan", r"v_p")

# --- a step as jobs run it: how states and stages are spread, and what its parts really take
zero = _mesh("zero", one, "ZeRO stage: what the data group splits", "z")
replicas = _mesh("replicas", way, "groups of a data group that each hold the whole states", "d_r")
L_f = _model("L_f", units.layer, "layers of the first stage", "L_f")
L_l = _model("L_l", units.layer, "layers of the last stage", "L_l")
L_i = _model("L_i", units.layer, "most layers of a stage before the last, as given", "L_i")
L_g = _model("L_g", units.layer, "layers of a stage that are run again as given", "L_g")
s_0 = _constant("s_0", one, "elements by which a product's result is larger than it is", "s_0")
eta_A = _constant("eta_A", one, "share of the peak that attention reaches", r"\eta_A")
eta_hbm = _constant("eta_hbm", one, "share of the memory bandwidth reached", r"\eta_{\text{hbm}}")
eta_node = _constant("eta_node", one, "share of a node's bandwidth reached", r"\eta_{\text{node}}")
eta_dcn = _constant(
    "eta_dcn", one, "share of the network's bandwidth reached", r"\eta_{\text{dcn}}"
)
x_tp = _constant("x_tp", one, "share of the tensor communication that is not hidden", "x_t")
x_win = _constant(
    "x_win", one, "share of a window that hides traffic of the data group", r"x_{\text{win}}"
)
x_hid = _constant("x_hid", one, "share of hidden traffic by which it slows the computation", "x_h")
x_el = _constant(
    "x_el", one, "passes over memory for each of the element-wise work", r"x_{\text{el}}"
)
s_opt = _constant("s_opt", byte, "bytes that the optimizer reads and writes a parameter", "s_o")
s_V = _constant("s_V", byte, "bytes that the loss reads and writes of a logit", "s_V")
e_k = _constant("e_k", byte, "bytes of a gradient as it is kept, copies too", "e_k")
s_L = _constant("s_L", byte, "bytes held of a logit: itself, its softmax and its gradient", "s_L")
C_A = _hardware("C_A", flop / second, "peak FLOP rate of a chip in 16 bits, of attention", "C_A")
t_hop = _time("t_hop", second, "time of a hop between chips beside its bytes", r"t_{\text{hop}}")
t_fix = _time("t_fix", second, "time of a step beside its work", r"t_{\text{fix}}")
t_f = _time("t_f", second, "forward pass of a layer for a micro-batch", "t_f")
t_b = _time("t_b", second, "backward pass of a layer for a micro-batch", "t_b")
t_w = _time("t_w", second, "weights' gradients of a layer for a micro-batch", "t_w")
t_A = _time("t_A", second, "attention of a layer forward, for a micro-batch", "t_A")
t_dA = _time("t_dA", second, "attention of a layer backward, for a micro-batch", "t_{dA}")
t_V = _time("t_V", second, "both passes of the head for a micro-batch", "t_V")
t_over = _time("t_over", second, "last stage beyond the fullest, a micro-batch", r"t_{\text{over}}")
t_wg = _time(
    "t_wg", second, "weights' and gradients' traffic of a micro-batch not hidden", r"t_{\text{wg}}"
)
x_w = _model("x_w", one, "share of the weights on a chip", "x_w")
x_g = _model("x_g", one, "share of the gradients on a chip", "x_g")
x_o = _model("x_o", one, "share of the optimizer state on a chip", "x_o")
q_2 = _model("q_2", units.micro_batch, "micro-batches in flight on the second stage", "q_2")
q_l = _model("q_l", units.micro_batch, "micro-batches in flight on the last stage", "q_l")
psi_f = _model("psi_f", units.parameter, "parameters on a chip of the first stage", r"\psi_f")
psi_m = _model("psi_m", units.parameter, "parameters on a chip of a middle stage", r"\psi_m")
psi_l = _model("psi_l", units.parameter, "parameters on a chip of the last stage", r"\psi_l")

# --- the schedule of a pipeline
i_p = _model("i_p", one, "number of a pipeline stage, the first one being 0", "i")
t_F = _time("t_F", second, "forward pass of a micro-batch on an inner stage", "t_F")
t_B = _time("t_B", second, "backward pass of a micro-batch on an inner stage, for inputs", "t_B")
t_W = _time("t_W", second, "backward pass of a micro-batch on an inner stage, for weights", "t_W")
t_z = _time("t_z", second, "both passes of a micro-batch on the last piece of a pipeline", "t_z")
t_Wz = _time("t_Wz", second, "the part of t_z in the backward pass for weights", r"t_{W,z}")
zeta = _model("zeta", one, "share of an inner piece that the first one lacks", r"\zeta")

# --- experts of a model
n_k = _model("n_k", units.label("expert"), "experts that a token goes to", "n_k")
n_S = _dimension("n_S", units.label("expert"), "shared experts, which every token goes to", "n_S")
F_E = _dimension("F_E", one, "feed-forward width of an expert", "F_E")
L_E = _model("L_E", units.layer, "layers with experts", "L_E")
P_act = _model("P_act", units.parameter, "parameters that take part in a token", r"P_{\text{act}}")

# --- attention through a latent (MLA)
r_q = _dimension("r_q", one, "width of the latent of the queries", "r_q")
r_kv = _dimension("r_kv", one, "width of the latent of keys and values", r"r_{\text{kv}}")
H_N = _dimension("H_N", one, "width of a head of queries and keys without position", "H_N")
H_R = _dimension("H_R", one, "width of a head of queries and keys with rotary position", "H_R")
H_V = _dimension("H_V", one, "width of a head of values", "H_V")

# --- experts over devices
etp = _mesh("etp", way, "degree of tensor parallelism of an expert", r"e_t")
edp = _mesh("edp", way, "degree of data parallelism of an expert", r"e_d")
x_cap = _constant("x_cap", one, "rows of an expert over an even share", r"x_c")
n_hit = _model("n_hit", one, "nodes that a token goes to", r"n_h")
W_ep = _hardware("W_ep", byte / second, "one-way bandwidth of a group of experts", r"W_{e}")
p_L = _model("p_L", units.parameter, "parameters of a layer on a chip, on the mean", "p_L")
rho_E = _model(
    "rho_E", one, "share of a layer's parameters on a chip that are of experts", r"\rho_E"
)
n_deep = _model("n_deep", way, "chips of a data group of experts in one node", r"n_{\text{deep}}")
n_wide = _model("n_wide", way, "chips of a group of experts in one node", r"n_{\text{wide}}")
t_ep = _time("t_ep", second, "rows to experts and back, a micro-batch", r"t_{\text{ep}}")
x_ep = _constant("x_ep", one, "share of the rows' way to experts that is not hidden", "x_e")
n_M = _constant("n_M", one, "copies of a token's row that leave for other nodes", "n_M")
M_f = _model("M_f", byte, "bytes of a chip of the first stage beside activations", "M_f")
M_m = _model("M_m", byte, "bytes of a chip of a middle stage beside activations", "M_m")
M_l = _model("M_l", byte, "bytes of a chip of the last stage beside activations", "M_l")
