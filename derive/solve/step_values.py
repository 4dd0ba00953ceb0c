"""What a chip, a model and the assumptions say of the symbols of the step model."""

from __future__ import annotations

from collections.abc import Mapping

import sympy as sp

from derive.cost.step_assumptions import StepAssumptions
from derive.facts import Chip, Model
from derive.notation import symbols as v
from derive.notation.errors import DeriveError
from derive.notation.quantity import Quantity, glossed, number

SOURCE_OF_NOTEBOOK = "NB"
WHOLE = (v.D, v.F, v.H, v.K, v.G, v.L, v.V, v.n_node, v.n_V, v.n_F, v.T_min)
SHARES = (v.eta, v.mu, v.x_pp, v.x_dp)
# What a caller may set beside the degrees: not what the options state, nor what follows.
SETTABLE = (*WHOLE, *SHARES, v.P, v.C, v.M_hbm, v.W_node, v.W_dcn, v.A_kept, v.e, v.e_g, v.e_32)


def facts_of(
    model: Model | None, chip: Chip | None, assumptions: StepAssumptions
) -> dict[sp.Symbol, Quantity]:
    """What the step model needs of a chip and a model, and the constants of the assumptions."""
    found: dict[sp.Symbol, Quantity] = {}
    if chip is not None:
        found |= {s: q for s, q in chip.bindings().items() if s in SETTABLE}
        if "exact_parameters" not in assumptions:
            found |= _rounded_chip(chip)
    if model is not None:
        found |= {s: q for s, q in model.bindings().items() if s in SETTABLE}
        if "exact_parameters" not in assumptions:
            found |= _rounded_parameters(model)
        tables = 1 if model.tied_embeddings else 2
        found[v.n_V] = number(tables, name="n_V", owner=model.name)
        found[v.n_F] = number(model.feed_forward_matrices, name="n_F", owner=model.name)
    for symbol, value in assumptions.constants.items():
        unit = v.unit_of_symbol(symbol)
        found[symbol] = number(value, unit, symbol.name, status="assumed")
    return found


def check_values(values: Mapping[sp.Symbol, Quantity]) -> None:
    """Raise DeriveError for a count that is no whole number and a share that is above 1."""
    for symbol, quantity in values.items():
        value, called = quantity.value, glossed((symbol,))
        if symbol in WHOLE and not value.is_Integer:
            raise DeriveError(f"{called}: expected a whole number, found {value}")
        if symbol in SHARES and not 0 < value <= 1:
            raise DeriveError(f"{called}: expected at most 1, found {value}")


def _rounded_chip(chip: Chip) -> dict[sp.Symbol, Quantity]:
    """The readings of the notebook, which its assumptions fix whatever the chip's profile, unless
    the caller has overridden the fact by name."""
    overridden = {change.key for change in chip.overrides}
    return {
        fact.key.symbol: fact.quantity(reading)
        for fact in chip.facts
        for reading in fact.readings
        if reading.source == SOURCE_OF_NOTEBOOK
        and fact.key.symbol in SETTABLE
        and fact.key.name not in overridden
        and (not fact.key.precision or fact.key.name == "bf16")
    }


def _rounded_parameters(model: Model) -> dict[sp.Symbol, Quantity]:
    """The notebook's own count of parameters, where it has one."""
    for fact in model.facts:
        if fact.key.name == "published_parameters":
            for reading in fact.readings:
                if reading.source == SOURCE_OF_NOTEBOOK:
                    return {v.P: fact.quantity(reading).named("P")}
    return {}
