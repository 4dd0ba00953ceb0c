"""Errors for the person who typed: what was named, what was expected, what was found; and functions
that tell so of an argument that is not what its annotation says."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping
from decimal import Decimal
from difflib import get_close_matches
from functools import wraps
from itertools import cycle
from numbers import Integral, Rational
from types import FunctionType, NoneType, SimpleNamespace, UnionType
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints
from unicodedata import category

Guarded = TypeVar("Guarded", bound=Callable[..., object])
Item = TypeVar("Item")
LARGEST_BITS = 10_000  # Python refuses to print whole numbers of many thousand digits
_ADDRESS = re.compile(r" at 0x[0-9a-f]+(?=>)")  # another in each process
TOO_LARGE = f"a number of more than {LARGEST_BITS:,} bits"


def plain(text: str) -> str:
    """`text` with what a terminal acts on, but for line ends and tabs, written as an escape."""
    if text.isprintable():
        return text
    return "".join(
        c if c.isprintable() or c in "\n\t" or category(c) == "Zs" else repr(c)[1:-1] for c in text
    )


class DeriveError(Exception):
    """A mistake in the input, told in one message; the command line prints it and exits 2."""

    def __str__(self) -> str:
        return plain(super().__str__())


class UnknownName(DeriveError):
    """A name that is not in the vocabulary, the catalogue or the list of choices."""


class UnitError(DeriveError):
    """A unit or a label that does not match what was expected."""


class ShardingError(DeriveError):
    """A sharding that is malformed, contradictory or illegal."""


class FactError(DeriveError):
    """A facts file with a missing or misspelt key, a wrong unit or a number without a source."""


class NotClosedForm(DeriveError):
    """No readable closed form exists, and not every other symbol has a value."""


class ProofError(DeriveError):
    """A step of a derivation, or an author's preferred form, that does not hold."""


def nearest(name: object, names: Iterable[str], *, count: int = 3) -> list[str]:
    """The names closest to `name`, best first, compared without regard to case."""
    by_lower: dict[str, str] = {}
    for candidate in names:
        by_lower.setdefault(candidate.lower(), candidate)
    close = get_close_matches(str(name).lower()[:100], list(by_lower), n=count, cutoff=0.5)
    return [by_lower[match] for match in close]


def unknown(kind: str, name: object, names: Iterable[str]) -> UnknownName:
    """An `UnknownName` that offers the nearest names, or all of them where there are few."""
    known = sorted(set(names))
    listed = ", ".join(known) or "none"
    other = f"known: {listed}" if len(listed) <= 300 else f"{len(known)} are known, none like it"
    return UnknownName(f"unknown {kind} {quoted(name)}; {meant(name, known, other)}")


def lookup(kind: str, name: str, known: Mapping[str, Item]) -> Item:
    """What is known by that name; raises UnknownName as `unknown` words it."""
    if name not in known:
        raise unknown(kind, name, known)
    return known[name]


def meant(name: object, names: Iterable[str], otherwise: str = "") -> str:
    """The nearest names as a message offers them; `otherwise` where none is near."""
    close = nearest(name, names)
    return f"did you mean {' or '.join(close)}?" if close else otherwise


def quoted(text: object, limit: int = 60) -> str:
    """`text` in quotes on one line, cut to `limit` characters so that a message stays readable."""
    try:
        shown = repr(TOO_LARGE if too_large(text) else _ADDRESS.sub("", str(text)))
    except ValueError:  # such a number is within
        shown = repr(TOO_LARGE)
    return shown if len(shown) <= limit else f"{shown[: limit - 4]}...{shown[0]}"


def written(value: object, limit: int = 60) -> str:
    """A value as Python writes it, on one line, cut to `limit` characters."""
    try:
        shown = TOO_LARGE if too_large(value) else " ".join(_ADDRESS.sub("", repr(value)).split())
    except ValueError:  # such a number is within
        return TOO_LARGE
    return shown if len(shown) <= limit else f"{shown[: limit - 3]}..."


def too_large(value: object, bits: int = LARGEST_BITS) -> bool:
    """Whether a number of Python, NumPy or SymPy has more than so many bits above or below its
    line, told from its exponent where it has one: to write it out may take minutes."""
    if isinstance(value, Rational):
        parts = (int(value.numerator), int(value.denominator))
        return max(part.bit_length() for part in parts) > bits
    if isinstance(value, Decimal):
        return abs(value.adjusted()) > bits // 4
    _, _, exponent, length = getattr(value, "_mpf_", (0, 0, 0, 0))  # of SymPy's Float
    return bool(max(-exponent, exponent + length) > bits)


# --- of arguments

# How what is asked for is called, and made, by the name of its class.
WAYS: Mapping[str, str] = {
    "str": "text", "int": "a whole number", "bool": "True or False", "Mapping": "a dict",
    "Iterable": "a list", "Sequence": "a list", "Collection": "a list", "tuple": "a list",
    "Quantity": "a quantity, such as number(2)", "Expr": "an expression such as alpha*X",
    "Symbol": "a symbol such as X, not in quotes", "Rational": "an exact number of SymPy",
    "Strategy": "a strategy such as fsdp", "Limit": "a limit such as context_ring",
    **{x.title(): f"a {x}, as {x}(...) makes" for x in ("chip", "model", "block", "task")},
}  # fmt: skip


def guarded(thing: Guarded) -> Guarded:
    """A function, or a class with its methods, that has a DeriveError in place of what Python
    raises where an argument is not what its annotation says. Arguments are looked at only then."""
    if isinstance(thing, type):
        for name, method in list(vars(thing).items()):
            if isinstance(method, FunctionType) and (name[0] != "_" or name == "__init__"):
                setattr(thing, name, guarded(method))
        return thing
    function: Any = thing

    @wraps(function)
    def called(*given: Any, **named: Any) -> Any:
        try:
            return function(*given, **named)
        except (DeriveError, MemoryError):
            raise
        except Exception as error:
            if (refusal := _refusal(function, given, named)) is None:
                raise
            raise refusal from error

    return called  # type: ignore[return-value]


def whole_number(name: str, value: object, least: int = 1, most: int | None = None) -> int:
    """`value` as a whole number from `least`, up to `most` where it is given; raises DeriveError,
    naming it, for anything else."""
    if isinstance(value, Integral) and not isinstance(value, bool):
        exact = int(value)
        if least <= exact and (most is None or exact <= most):
            return exact
    told = f"from {least}" if most is None else f"from {least} to {most:,}"
    raise DeriveError(f"{name}: expected a whole number {told}, found {written(value)}")


def _refusal(
    function: Callable[..., object], given: tuple[Any, ...], named: Mapping[str, Any]
) -> DeriveError | None:
    from inspect import Parameter, signature, unwrap  # slow, and of use to what is wrong alone

    declared, known = signature(function), unwrap(function).__globals__
    try:
        arguments = declared.bind(*given, **named).arguments
    except TypeError:  # too many or too few, of which Python's own line tells
        return None
    told = function.__annotations__
    for name, value in ((name, value) for name, value in arguments.items() if name in told):
        hint = _resolved(told[name], known)
        kind = declared.parameters[name].kind
        each = [(name, value)]
        if kind is Parameter.VAR_POSITIONAL:
            each = [(name, one) for one in value]
        elif kind is Parameter.VAR_KEYWORD:
            each = list(value.items())
        for called, one in each:
            if unlike := _unlike(one, hint):
                return DeriveError(f"{called}: {unlike}")
    return None


def _resolved(annotation: object, known: dict[str, Any]) -> Any:
    """The type that an annotation names; Any where it is for type checkers alone."""
    try:
        return get_type_hints(SimpleNamespace(__annotations__={"": annotation}), known)[""]
    except NameError:
        return Any


def _unlike(value: object, hint: Any) -> str:
    """What was expected and found, where a value or a part of it is not what a hint says."""
    kind, inner = get_origin(hint) or hint, get_args(hint)
    unlike = f"expected {_called(hint)}, found {written(value)}"
    if too_large(value):
        return f"expected a shorter number, found {TOO_LARGE}"
    if kind in (Union, UnionType):
        each = [(get_origin(one), _unlike(value, one)) for one in inner]
        # Where the whole fits one of them, what does not is a part of it.
        within = (x for whole, x in each if isinstance(whole, type) and isinstance(value, whole))
        return "" if any(not told for _, told in each) else next(within, unlike)
    if kind is Any or not isinstance(kind, type) or getattr(kind, "_is_protocol", False):
        return ""
    if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
        return unlike
    several = kind is tuple and inner[-1:] not in ((), (Ellipsis,))
    if several and isinstance(value, tuple) and len(value) != len(inner):
        return f"expected {len(inner)} in a list, found {written(value)}"
    parts: Iterable[tuple[object, Any]] = ()
    if isinstance(value, Mapping) and inner:
        parts = (pair for item in value.items() for pair in zip(item, inner, strict=True))
    elif isinstance(value, Collection) and not isinstance(value, str) and inner:
        try:
            each_of = [*value]
        except TypeError:  # an array without dimensions has the methods of a list alone
            return unlike
        hints = cycle(inner[:1]) if kind is not tuple or inner[-1] is Ellipsis else inner
        parts = zip(each_of, hints, strict=False)
    return next(filter(None, (_unlike(part, one) for part, one in parts)), "")


def _called(hint: Any) -> str:
    kind = get_origin(hint) or hint
    if kind in (Union, UnionType):
        return " or ".join(_called(one) for one in get_args(hint) if one is not NoneType)
    name = getattr(kind, "__name__", str(kind))
    return WAYS.get(name, f"a {name}")
