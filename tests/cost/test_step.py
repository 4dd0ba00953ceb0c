"""The step model as expressions: units, names, exactness, and that its pieces add up."""

from __future__ import annotations

from itertools import combinations

import pytest
import sympy as sp

from derive.cost.assumptions import CORRECTED, DEFAULT, NOTEBOOK, STEP, TERMS, Assumptions
from derive.cost.step import StepModel, step_model
from derive.cost.terms import Term
from derive.notation import symbols as v
from derive.notation.errors import UnitError, UnknownName
from derive.notation.tex import tex, text
from derive.notation.units import byte, second, unit_of

SETS = [
    NOTEBOOK,
    CORRECTED,
    DEFAULT,
    *(Assumptions(corrections=frozenset({name})) for name in STEP),
    *(Assumptions(corrections=CORRECTED.corrections | {name}) for name in TERMS),
    *(Assumptions(corrections=DEFAULT.corrections - {name}) for name in STEP),
]


def held(model: StepModel) -> list[Term]:
    """What the stages hold, one after the other."""
    return [term for kinds in model.memory.values() for term in kinds]


IDS = [a.name for a in SETS]


@pytest.mark.parametrize("assumptions", SETS, ids=IDS)
def test_every_term_has_its_unit_source_and_gloss(assumptions):
    model = step_model(assumptions)
    for term in (*model.definitions, *model.parts, *held(model), model.model_flops):
        assert unit_of(term.expr, v.unit_of_symbol) == term.unit.dimension
        assert term.gloss and term.source in ("NB", "derived")
        assert bool(term.rests_on) == (term.source == "derived")
        assert set(term.rests_on) <= assumptions.corrections
    assert {term.unit for term in model.parts} == {second}
    assert {term.unit for term in held(model)} == {byte}


@pytest.mark.parametrize("assumptions", SETS, ids=IDS)
def test_expressions_are_exact_and_their_symbols_declared_and_positive(assumptions):
    model = step_model(assumptions)
    known: set[sp.Symbol] = set()
    defined = {v.find(term.name) for term in model.definitions}
    for term in (*model.definitions, *model.parts, *held(model), model.model_flops):
        assert not term.expr.atoms(sp.Float)
        for symbol in term.expr.free_symbols:
            assert v.find(symbol.name) is symbol and symbol.is_positive
            assert symbol not in defined or symbol in known, f"{term.name} uses {symbol} too early"
        if term in model.definitions:
            known.add(v.find(term.name))
        if not assumptions.corrections & TERMS.keys():  # those of all terms are of any length
            assert tex(term.expr)
        assert text(term.expr)


def test_the_parts_have_the_names_that_json_promises():
    for assumptions in SETS:
        names = [term.name for term in step_model(assumptions).parts]
        more = {"optimizer": "optimizer_step", "overhead": "fixed_times"}
        every = ["compute", "recompute", "imbalance", "tp", "cp", "pp", "bubble", "dp"]
        assert names == [*every, *(part for part, term in more.items() if term in assumptions)]
        held = {name: {term.name for term in terms} for name, terms in
                step_model(assumptions).memory.items()}  # fmt: skip
        kinds = {"weights", "gradients", "optimizer", "activations"}
        kinds |= {"working_set"} & assumptions.corrections
        kinds |= {"gathered"} if "sharded_states" in assumptions else set()
        uneven, logits = "uneven_stages" in assumptions, "logits" in assumptions
        stages = ["first", "second", "last"] if uneven else ["first", "last"][: 1 + logits]
        assert [*held] == stages
        assert all(held[name] == kinds for name in stages if name != "last")
        assert held.get("last", kinds) == kinds | ({"logits"} if logits else set())


def test_the_notebook_s_imbalance_is_the_head_beyond_its_even_share():
    model = step_model(NOTEBOOK)
    imbalance = model.expanded(model.term("imbalance").expr)
    head = v.n_mb * v.f_V * v.t_1 * (1 - 1 / v.pp)
    assert sp.simplify(imbalance - model.expanded(head)) == 0


def test_the_step_is_micro_batches_bubble_and_gradients():
    model = step_model(NOTEBOOK)
    gradients = (v.t_scatter + v.t_gather) * v.x_dp
    whole = (v.n_mb + v.pp - 1) * v.t_mb + gradients
    pieces = {v.t_mb: model.term("t_mb").expr}
    assert sp.expand(model.seconds.xreplace(pieces) - whole.xreplace(pieces)) == 0


def test_expanded_leaves_only_what_is_given():
    model = step_model(NOTEBOOK)
    left = {symbol.name for symbol in model.expanded(model.utilisation).free_symbols}
    assert left == {
        "tp", "cp", "pp", "dp", "b_seq", "B_seq", "T", "D", "K", "H", "L", "V", "P", "C", "M_hbm",
        "W_node", "W_dcn", "n_node", "n_V", "fma", "e", "e_g", "e_32", "eta", "mu", "A_kept",
        "x_pp", "x_dp",
    }  # fmt: skip


def test_every_correction_changes_a_term_or_a_rule():
    plain = step_model(NOTEBOOK)
    rules = {"gradient_bytes", "zigzag", "any_chunk", "wide_grid"}
    for name in STEP:
        model = step_model(Assumptions(corrections=frozenset({name})))
        same = [t.expr for t in (*model.definitions, *model.parts, *held(model))] == [
            t.expr for t in (*plain.definitions, *plain.parts, *held(plain))
        ]
        assert same == (name in rules), name


def test_corrections_combine():
    for one, other in combinations(STEP, 2):
        assert step_model(Assumptions(corrections=frozenset({one, other}))).parts


def test_a_term_with_a_wrong_unit_is_refused():
    with pytest.raises(UnitError, match="step model, wrong: expected second, found byte"):
        Term("wrong", v.M_states, second, "a size taken for a time")
    with pytest.raises(UnitError, match="unlike terms"):
        Term("sum", v.t_mb + v.M_states, second, "a size added to a time")


def test_terms_are_found_by_name():
    model = step_model(NOTEBOOK)
    assert isinstance(model.term("bubble"), Term)
    assert model.term("t_ring").expr.has(v.W_cp)
    with pytest.raises(UnknownName, match="did you mean bubble"):
        model.term("buble")
