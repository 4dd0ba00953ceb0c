"""From a real-valued degree or size to one that exists: powers of two, and whole multiples."""

from __future__ import annotations

import sympy as sp

from derive.notation.errors import DeriveError
from derive.notation.quantity import Quantity


def power_of_two_below(size: Quantity) -> Quantity:
    """The largest power of two that is not above a quantity; raises DeriveError below 1."""
    return _named(size, sp.Integer(2) ** _exponent(size), "largest power of two not above n")


def nearest_power_of_two(size: Quantity) -> Quantity:
    """The power of two that is nearest by ratio; of two equally near ones the larger."""
    low = _exponent(size)
    # By ratio, the middle between 2**k and 2**(k+1) is sqrt(2) * 2**k.
    up = bool(size.value**2 >= sp.Integer(2) ** (2 * low + 1))
    return _named(size, sp.Integer(2) ** (low + up), "power of two nearest n by ratio")


def multiple_below(size: Quantity, step: int = 1) -> Quantity:
    """The largest whole multiple of `step` that is not above a quantity."""
    value = step * sp.floor(size.value / step)
    formula = "n rounded down" if step == 1 else f"largest multiple of {step} not above n"
    return _named(size, value, formula)


def dividing_below(bound: Quantity, whole: int, step: int = 1) -> Quantity:
    """The largest multiple of `step` that is not above a quantity and by which, a `step` at a time,
    `whole` divides: the chips of replicas, for a batch of `whole` sequences. Raises DeriveError
    where there is none."""
    most = int(sp.floor(bound.value / step))
    replicas = [n for n in sp.divisors(whole) if n <= most]
    if not replicas:
        raise DeriveError(f"nothing of {step} and more divides {whole} and is at most {bound}")
    formula = f"largest multiple of {step} not above n, by which {whole} divides"
    return _named(bound, sp.Integer(step * replicas[-1]), formula)


def _exponent(size: Quantity) -> int:
    if not size.value >= 1:
        raise DeriveError(f"no power of two is at most {size}")
    return int(sp.floor(size.value)).bit_length() - 1


def _named(size: Quantity, value: sp.Expr, formula: str) -> Quantity:
    return Quantity(value, size.unit, size.name, formula=formula, inputs=(("n", size),))
