"""The terms of the training step are proved equal to what is read off the program of a whole layer,
and a wrong coefficient is noticed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
import sympy as sp
from comparison import Counter, compare, sizes_for
from simulator import Mesh

from derive.cost import links, memory, stage, step, timing, traffic, work
from derive.cost.block import FunctionLine, ProductLine
from derive.cost.layout import rules_of, spread
from derive.cost.passes import Program, program
from derive.cost.program import Move, PassCost
from derive.cost.step import StepModel, step_model
from derive.cost.terms import Term
from derive.cost.transformer import EMBEDDING, HEAD, LAYER
from derive.facts.catalogue import model, models
from derive.notation import symbols as v

GATED, PLAIN = LAYER[3], LAYER[2]
BLOCKS = {2: PLAIN, 3: GATED}


def run(name: int | str) -> Program:
    """The program of a block under the layout of a plan, apart from `stage`."""
    read = {**BLOCKS, "embedding": EMBEDDING, "head": HEAD}[name]
    rules = [rule for rule in rules_of(stage.LAYOUT) if rule.dim in read.dims]
    return program(spread(read, rules), keep="none")


def of_chip(expr: sp.Expr) -> sp.Expr:
    """In the symbols of a plan: b sequences of a replica, T tokens of the whole sequence."""
    return expr.xreplace({v.b_seq: v.b_seq * v.dp})


def of_model(model: StepModel, name: str, matrices: int) -> sp.Expr:
    """A definition of the step model with nothing but what is given."""
    expr = model.expanded(model.expanded(v.find(name)))
    return expr.xreplace({v.n_F: sp.Integer(matrices)})


def same(one: sp.Expr, other: sp.Expr) -> None:
    """Equal for all values of the symbols."""
    assert sp.cancel(sp.together(one - other)) == 0, f"{one} is not {other}"


# One link for each group, so that its bytes over a bandwidth are the time.
MODEL = step_model("corrected-two_level")


def moved(moves: tuple[Move, ...], axes: tuple[str, ...], critical: bool) -> sp.Expr:
    return sp.Add(*(m.sent_bytes for m in moves if m.axes == axes and m.critical == critical))


# --- each term: read off the program on the left, in the step model on the right


def flops_of_a_chip() -> None:
    for matrices in BLOCKS:
        whole = run(matrices)
        both = of_chip(whole.forward.flops + whole.backward.flops)
        work = of_model(MODEL, "f_L", matrices) * of_model(MODEL, "t_1", matrices)
        same(both, work * v.C * v.eta)


def scores(cost: PassCost) -> sp.Expr:
    """FLOP of a pass on the scores of a chip and on their product with the values."""
    flops = sp.Add(
        *(
            op.flops
            for op in cost.program
            if hasattr(op, "pairs") and any(pair.share == sp.Rational(1, 2) for pair in op.pairs)
        )
    )
    return of_chip(flops.xreplace({v.U: v.T}))


def flops_of_attention() -> None:
    whole = run(3)
    work = of_model(MODEL, "f_A", 3) * of_model(MODEL, "t_1", 3) * v.C * v.eta
    same(scores(whole.forward) + scores(whole.backward), work)


def attention_that_hides_the_ring() -> None:
    """That of all layers of a stage, both passes, and the forward one of layers run again."""
    whole = run(3)
    forward, backward = scores(whole.forward), scores(whole.backward)
    want = (v.L / v.pp * (forward + backward) + v.L_r * forward) / (v.C * v.eta)
    same(term_of(MODEL, "t_attn", v.L_r), want)


def flops_of_the_head() -> None:
    whole = run("head")
    both = of_chip(whole.forward.flops + whole.backward.flops)
    same(both, of_model(MODEL, "f_V", 3) * of_model(MODEL, "t_1", 3) * v.C * v.eta)


def redone_work() -> None:
    """A layer that is run again costs its forward pass."""
    for matrices in BLOCKS:
        again = of_chip(run(matrices).forward.flops) * v.L_r / (v.C * v.eta)
        term = term_of(MODEL, "t_redo", v.L_r, matrices)
        same(again, term)


def term_of(model: StepModel, name: str, kept: sp.Symbol, matrices: int = 3) -> sp.Expr:
    """A definition with all but one of the intermediate symbols replaced."""
    expr = model.term(name).expr
    for term in reversed(model.definitions):
        if term.name != kept.name:
            expr = expr.xreplace({v.find(term.name): term.expr})
    return expr.xreplace({v.n_F: sp.Integer(matrices), v.T_r: v.T / v.cp, v.L_p: v.L / v.pp})


def rest(expr: sp.Expr, **numbers: sp.Expr) -> sp.Expr:
    return expr.xreplace({v.find(name): number for name, number in numbers.items()})


def bytes_of_the_tensor_group() -> None:
    for matrices in BLOCKS:
        whole = run(matrices)
        forward, backward = (
            of_chip(moved(cost.moves, ("tp",), True)) for cost in (whole.forward, whole.backward)
        )
        want = (v.L / v.pp * (forward + backward) + v.L_r * forward) / v.W_tp
        same(rest(named(MODEL, "t_tp"), T_r=v.T / v.cp, L_p=v.L / v.pp), want)


def named(model: StepModel, name: str) -> sp.Expr:
    """The definition called `name`, also where a part is called so."""
    (term,) = (term for term in model.definitions if term.name == name)
    return term.expr


def bytes_of_the_ring() -> None:
    """With heads to split over the tensor group, as the program has them."""
    for matrices in BLOCKS:
        whole = run(matrices)
        forward, backward = (
            of_chip(moved(cost.moves, ("cp",), False)) for cost in (whole.forward, whole.backward)
        )
        want = (v.L / v.pp * (forward + backward) + v.L_r * forward) / v.W_cp
        ring = rest(named(MODEL, "t_ring"), T_r=v.T / v.cp, L_p=v.L / v.pp)
        same(ring.replace(sp.Max, lambda *args: v.K / v.tp), want)


def bytes_of_what_is_saved() -> None:
    for matrices in BLOCKS:
        saved = sp.Add(*(one.bytes for one in run(matrices).saved))
        term = rest(named(MODEL, "a_1"), T_r=v.T / v.cp, n_F=sp.Integer(matrices))
        same(of_chip(saved), term)


def bytes_of_a_layer_s_input() -> None:
    (saved,) = (one for one in run(3).saved if one.name == "In")
    same(of_chip(saved.bytes), rest(named(MODEL, "a_0"), T_r=v.T / v.cp))


def gradients_and_updates() -> None:
    """What the data group moves, for each parameter of a chip."""
    for matrices in (*BLOCKS, "embedding", "head"):
        whole = run(matrices)
        held = sp.Add(*(size for _, size in whole.parameters))
        for cost, name in ((whole.backward, "t_scatter"), (whole.update, "t_gather")):
            bytes_ = moved(cost.moves, ("dp", "cp"), False)
            want = v.psi * bytes_ / held / v.W_dp
            same(named(MODEL, name), want)


def states_of_a_chip() -> None:
    """Weights and gradients of a chip's parameters, and its share of the optimizer's copies."""
    whole = run(3)
    shares = set()
    for name in whole.block.parameters:
        state, own = whole.block.state_of(name), whole.block[name]
        shares.add(sp.Mul(*(v.mesh_axis(axis) for axis in {*state.axes} - {*own.axes})))
    (share,) = shares
    same(named(MODEL, "M_states"), (v.e + v.e_g + 3 * v.e_32 / share) * v.psi)


def parameters_of_a_chip() -> None:
    """The fullest stage's: layers and the tables, each split over the tensor group alone."""
    for matrices in BLOCKS:
        layers, tables, heads = (
            sp.Add(*(size for _, size in run(name).parameters))
            for name in (matrices, "embedding", "head")
        )
        total = v.L * layers * v.tp + (tables + heads) * v.tp
        for stages, both in ((1, heads), (4, 0)):  # both tables on one stage
            psi = rest(named(MODEL, "psi"), n_V=sp.Integer(2), P=total, pp=sp.Integer(stages))
            same(psi, v.L * layers / stages + tables + both)


def hops_of_a_stage() -> None:
    """The output of a layer forward and its gradient backward, beyond a first stage."""
    out = of_chip(v.e * v.b_seq * v.T * v.D / (v.dp * v.cp * v.tp))
    hop = rest(named(MODEL, "t_pp"), T_r=v.T / v.cp)
    same(hop.replace(sp.floor, lambda _: sp.S.Zero), 2 * out * v.x_pp / v.W_pp)


TERMS = (
    flops_of_a_chip, flops_of_attention, flops_of_the_head, redone_work,
    attention_that_hides_the_ring,
    bytes_of_the_tensor_group, bytes_of_the_ring, bytes_of_what_is_saved,
    bytes_of_a_layer_s_input, gradients_and_updates, states_of_a_chip, parameters_of_a_chip,
    hops_of_a_stage,
)  # fmt: skip


@pytest.mark.parametrize("term", TERMS, ids=lambda term: term.__name__)
def test_the_term_is_what_the_program_of_a_layer_has(term: Callable[[], None]) -> None:
    term()


def test_the_closed_forms_by_hand() -> None:
    """What the notebook types, as the programs give it: 8 DTbe (t-1)/(ct) of the tensor group, and
    6 HKTbe (c-1)/(ct) of the ring, of which 2 forward."""
    whole = run(3)
    both = (*whole.forward.moves, *whole.backward.moves)
    tokens = v.T * v.b_seq * v.e / (v.cp * v.tp)
    same(of_chip(moved(both, ("tp",), True)), 8 * v.D * tokens * (v.tp - 1))
    ring = v.H * v.K * tokens * (v.cp - 1)
    same(of_chip(moved(whole.forward.moves, ("cp",), False)), 2 * ring)
    same(of_chip(moved(both, ("cp",), False)), 6 * ring)
    same(of_model(MODEL, "f_A", 3), 6 * v.G * v.H * v.K * v.T * v.fma / 2)
    same(of_model(MODEL, "f_V", 3), 3 * v.D * v.V * v.fma)
    q, kv, ffn = v.K * v.G * v.H, v.K * v.H, 3 * v.F
    saved = v.e * (4 * v.D + 2 * q + 2 * kv + ffn) + v.e_32 * (v.K * v.G + 2)
    same(
        of_chip(sp.Add(*(one.bytes for one in whole.saved))), v.T * v.b_seq * saved / (v.cp * v.tp)
    )


@pytest.mark.parametrize("fabric", ["switch", "torus"])
def test_large_n_is_the_limit_of_the_exact_form(fabric: str) -> None:
    """Each share (n-1)/n tends to 1, in every term of a group, however the term is spelt."""
    exact, large = (
        step_model("corrected-two_level", exact=x, fabric=fabric) for x in (True, False)
    )
    for name, degree in (("t_tp", v.tp), ("t_scatter", v.cp), ("t_gather", v.dp)):
        one, other = named(exact, name), named(large, name)
        assert sp.limit(sp.cancel(one / other), degree, sp.oo) == 1
        assert one != other


@pytest.mark.parametrize("name", ["llama-3-8b", "llama-3-70b"])
def test_parameters_are_those_of_the_facts(name: str) -> None:
    """Part by part, norms apart, which the layers leave out."""
    facts = model(name).part_formulas
    layers = facts["attention"] + facts["feed_forward"]
    for matrices in BLOCKS:
        want = rest(layers, n_F=sp.Integer(matrices))
        same(v.L * stage.parameters(BLOCKS[matrices]), want)
    same(v.L * stage.by_matrices(stage.parameters), layers)
    same(stage.parameters(EMBEDDING), facts["embedding"])
    same(stage.parameters(HEAD), rest(facts["head"], n_V=sp.Integer(2)))


@pytest.mark.parametrize(
    "mesh", [{"dp": 2, "cp": 2, "tp": 2}, {"dp": 1, "cp": 3, "tp": 2}, {"dp": 3, "cp": 2, "tp": 1}],
    ids=str,
)  # fmt: skip
@pytest.mark.parametrize("matrices", BLOCKS)
def test_the_terms_are_what_simulated_devices_count(matrices: int, mesh: dict[str, int]) -> None:
    """`compare` holds each move and tensor to what devices send and keep; here their sums to the
    numbers of the step model."""
    whole = compare(run(matrices).block, mesh, "none")
    sizes = sizes_for(whole, Mesh(mesh))
    count = Counter(whole, Mesh(mesh), sizes)
    count.numbers[v.b_seq] = sp.Integer(sizes["b_seq"] // mesh["dp"])  # a replica's
    given = count.numbers | {v.C: sp.Integer(7), v.eta: sp.Rational(3, 5), v.T_r: v.T / v.cp}

    def number(expr: sp.Expr) -> sp.Expr:
        value = expr.xreplace({v.n_F: sp.Integer(matrices)}).xreplace(given).xreplace(given)
        return sp.nsimplify(value)

    replicas = count.numbers | {v.b_seq: sp.Integer(sizes["b_seq"])}
    work = number(of_model(MODEL, "f_L", matrices) * of_model(MODEL, "t_1", matrices) * v.C * v.eta)
    assert work == (whole.forward.flops + whole.backward.flops).xreplace(replicas)
    saved = sp.Add(*(one.bytes for one in whole.saved)).xreplace(replicas)
    assert number(named(MODEL, "a_1")) == saved


@pytest.mark.parametrize("matrices", BLOCKS)
def test_what_comes_in_is_carried_to_what_goes_out(matrices: int) -> None:
    """Attention and feed-forward each add to the stream, and see it normed, as it was before."""
    made = {line.result: line for line in BLOCKS[matrices].lines}
    at, seen = "Out", []
    while at in made:
        line = made[at]
        assert isinstance(line, FunctionLine) and line.function == "+"
        at, branch = line.operands
        assert isinstance(made[branch], ProductLine)
        seen.append(at)
    assert at == "In"
    norms = [line for line in made.values() if isinstance(line, FunctionLine)]
    assert [line.operands[0] for line in norms if line.function == "norm"] == seen[::-1]


# --- the tests can fail

Patch = Callable[[pytest.MonkeyPatch], None]


def scaled(module: object, name: str, factor: sp.Expr) -> Patch:
    """What a function of `stage` returns, times a factor."""

    def patch(monkey: pytest.MonkeyPatch) -> None:
        before = getattr(module, name)
        monkey.setattr(module, name, lambda *args: before(*args) * factor)

    patch.__name__ = f"{name} times {factor}"
    return patch


def without_one(name: str) -> Patch:
    """One move less."""

    def patch(monkey: pytest.MonkeyPatch) -> None:
        before = getattr(stage, name)
        monkey.setattr(stage, name, lambda *args: before(*args)[1:])

    patch.__name__ = f"{name} without one"
    return patch


def heavier(monkey: pytest.MonkeyPatch) -> None:
    """Each move of a gradient twice."""
    before = stage.gradient_moves
    monkey.setattr(
        stage,
        "gradient_moves",
        lambda cost: tuple(replace(m, array_bytes=2 * m.array_bytes) for m in before(cost)),
    )


def copies(monkey: pytest.MonkeyPatch) -> None:
    monkey.setattr(memory, "ADAM_FP32_COPIES", 2)


def fewer_tables(monkey: pytest.MonkeyPatch) -> None:
    monkey.setattr(stage, "TABLE", stage.TABLE / 2)


def heads_not_split(monkey: pytest.MonkeyPatch) -> None:
    monkey.setattr(timing, "_heads", lambda ring, assumptions: ring * v.tp)


def recomputation_without_its_moves(monkey: pytest.MonkeyPatch) -> None:
    before = stage.group_moves
    monkey.setattr(
        stage, "group_moves", lambda passes, axis: before(passes, axis) if len(passes) > 1 else ()
    )


def whole_sequence_of_a_rank(monkey: pytest.MonkeyPatch) -> None:
    monkey.setattr(stage, "_PER_RANK", {v.T: v.T_r})


def all_replicas_on_a_chip(monkey: pytest.MonkeyPatch) -> None:
    monkey.setattr(stage, "_PER_REPLICA", {})


def of_two_matrices(monkey: pytest.MonkeyPatch) -> None:
    monkey.setattr(stage, "by_matrices", lambda read: sp.expand(read(LAYER[2])))


HALF = sp.Rational(1, 2)
SLIPS: tuple[tuple[Patch, tuple[Callable[[], None], ...]], ...] = (
    (scaled(stage, "matrix_flops", HALF), (flops_of_a_chip,)),
    (scaled(stage, "attention_flops", sp.Integer(2)), (flops_of_attention,)),
    (scaled(stage, "head_flops", sp.Rational(2, 3)), (flops_of_the_head,)),
    (scaled(stage, "forward_share", sp.Integer(2)), (redone_work, attention_that_hides_the_ring)),
    (scaled(stage, "saved_bytes", sp.Rational(33, 34)), (bytes_of_what_is_saved,)),
    (scaled(stage, "input_bytes", sp.Integer(2)), (bytes_of_a_layer_s_input,)),
    (scaled(stage, "state_share", v.cp), (states_of_a_chip,)),
    (scaled(stage, "on_chip", sp.Integer(2)), (bytes_of_the_tensor_group, bytes_of_the_ring)),
    (without_one("group_moves"), (bytes_of_the_tensor_group,)),
    (without_one("ring_moves"), (bytes_of_the_ring,)),
    (heavier, (gradients_and_updates,)),
    (without_one("hops"), (hops_of_a_stage,)),
    (copies, (states_of_a_chip,)),
    (fewer_tables, (parameters_of_a_chip,)),
    (heads_not_split, (bytes_of_the_ring,)),
    (recomputation_without_its_moves, (bytes_of_the_tensor_group,)),
    (whole_sequence_of_a_rank, (bytes_of_the_tensor_group, bytes_of_the_ring)),
    (all_replicas_on_a_chip, (bytes_of_the_tensor_group, bytes_of_the_ring)),
    (of_two_matrices, (bytes_of_what_is_saved, flops_of_a_chip)),
)


@pytest.mark.parametrize(("slip", "terms"), SLIPS, ids=[slip.__name__ for slip, _ in SLIPS])
def test_a_changed_coefficient_is_noticed(
    slip: Patch, terms: tuple[Callable[[], None], ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    slip(monkeypatch)
    forget()
    anew = step._model.__wrapped__(MODEL.assumptions, True, "switch")
    monkeypatch.setitem(globals(), "MODEL", anew)
    for term in terms:
        with pytest.raises(AssertionError):
            term()


def test_a_parameter_whose_gradient_is_not_moved_is_noticed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    without_one("gradient_moves")(monkeypatch)
    forget()
    with pytest.raises(ValueError, match="longer"):
        step._model.__wrapped__(MODEL.assumptions, True, "switch")


def forget() -> None:
    """Work out anew what is remembered between calls."""
    for module in (stage, links, traffic, work, timing):
        for value in vars(module).values():
            getattr(value, "cache_clear", lambda: None)()


@pytest.fixture(autouse=True)
def fresh() -> object:
    """No slip is remembered."""
    yield
    forget()


def test_every_term_has_a_slip_that_it_notices() -> None:
    assert {term for _, terms in SLIPS for term in terms} == {*TERMS}
    assert all(isinstance(term, Term) for term in MODEL.definitions)


@pytest.mark.parametrize("name", [n for n in models() if not model(n).beyond_dense])
def test_what_a_run_and_its_model_take_is_counted_from_the_shapes(name: str) -> None:
    """The parts that the catalogue counts; keys and values of every token; six FLOP a parameter."""
    one, terms = model(name), stage.run_terms()
    parts, shape = one.part_formulas, one.bindings()
    numbers = {symbol: shape[symbol].value for symbol in (v.D, v.F, v.L, v.V, v.K, v.H, v.G, v.P)}
    numbers |= {v.n_F: one.feed_forward_matrices, v.n_V: one.tables}
    tables = parts["embedding"] + parts["head"]
    for symbol, part in (
        (v.P_A, parts["attention"]),
        (v.P_F, parts["feed_forward"]),
        (v.P_V, tables),
    ):
        assert terms[symbol].xreplace(numbers) == part.xreplace(numbers)
    given = {v.b_seq: 3, v.T: 512, v.e: 2, v.R: 10**9, v.fma: 2, v.N: 7, v.C: 10**6, v.u: 1}
    numbers |= {symbol: sp.Integer(value) for symbol, value in given.items()}
    cached = 2 * 2 * 3 * 512 * one.layers * one.kv_heads * one.head_dim
    assert terms[v.M_KV].xreplace(numbers) == cached
    flops = 6 * 10**9 * one.parameters.value
    assert terms[v.f_R].xreplace(numbers) == flops
    assert terms[v.T_R].xreplace(numbers) == flops / (7 * 10**6)
