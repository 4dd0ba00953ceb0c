"""Units as people type them: "GB/s", "tokens per chip", "FLOP/byte", "sequences"."""

from __future__ import annotations

import re
from fractions import Fraction

from derive.notation.errors import UnitError, nearest, quoted
from derive.notation.typed_number import PREFIXES, SMALL
from derive.notation.units import BASES, LABELS, Unit, byte, flop, label, one, plural, second

_NAMES: dict[str, Unit] = {
    "FLOP": flop, "FLOPs": flop, "byte": byte, "bytes": byte, "B": byte,
    "second": second, "seconds": second, "s": second,
}  # fmt: skip
_NAMES |= {form: label(name) for name in LABELS for form in (name, plural(name))}
_BITS = re.compile(r"[kMGTPE]?i?(?:b|bps|bits?|bit/s)")
_PER_SECOND = re.compile(r"([kMGTPE]?)(?:FLOPS|flops)")
# What each prefix may stand before: nobody means a kilo-token by "ktoken", but "k tokens" is read.
_LARGE = ("B", "byte", "bytes", "FLOP", "FLOPs")


def unit(text: str) -> tuple[Fraction, Unit]:
    """The unit in `text` and how many of it the prefixes make: (10**9, byte/second) for "GB/s".

    Factors are joined by a space or `*`, divided by `/` or "per", raised by `^`. An empty text is
    the pure number. Raises UnitError for an unknown unit, offering the nearest.
    """
    if len(text) > 100:
        raise UnitError(f"a unit of more than 100 characters: {quoted(text)}")
    if text.strip() in ("", "1"):
        return Fraction(1), one
    scale, found = Fraction(1), one
    for index, part in enumerate(re.split(r" *(?:/|\bper\b) *", text.strip())):
        if index == 0 and part in ("", "1"):
            continue
        for word in re.split(r"[ *·]+", part):
            factor, factor_unit = _factor(word, text)
            scale = scale / factor if index else scale * factor
            found = found / factor_unit if index else found * factor_unit
    return scale, found


def _factor(word: str, text: str) -> tuple[Fraction, Unit]:
    name, _, raised = word.partition("^")
    power = Fraction(int(raised)) if re.fullmatch(r"-?[1-9]", raised) else Fraction(1)
    if raised and power == 1 and raised != "1":
        raise UnitError(
            f"expected a whole power in the unit {quoted(text)}, found {quoted(raised)}"
        )
    scale, base = _prefixed(name, text)
    return Fraction(scale ** int(power)), base**power


def _prefixed(name: str, text: str) -> tuple[Fraction, Unit]:
    if name in _NAMES:
        return Fraction(1), _NAMES[name]
    for prefix, scale in PREFIXES.items():
        if name.startswith(prefix) and name[len(prefix) :] in _LARGE:
            return scale, _NAMES[name[len(prefix) :]]
    small = SMALL | {"u": SMALL["µ"]}
    if len(name) == 2 and name[1] == "s" and name[0] in small:
        return small[name[0]], second
    if _BITS.fullmatch(name):
        raise UnitError(f"{quoted(text)} is in bits: divide by 8 and write B, kB, GB, ...")
    if found := _PER_SECOND.fullmatch(name):
        raise UnitError(
            f"write {found[1]}FLOP for a count or {found[1]}FLOP/s for a rate: {quoted(text)}"
        )
    close = nearest(name, _NAMES)
    hint = f"did you mean {' or '.join(close)}?" if close else f"known: {', '.join(BASES + LABELS)}"
    raise UnitError(f"unknown unit {quoted(name)} in {quoted(text)}; {hint}")
