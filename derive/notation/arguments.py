"""Arguments that a function does not take, told in one line: each in terms of its annotation."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from functools import wraps
from inspect import Parameter, signature, unwrap
from itertools import cycle
from numbers import Integral
from types import FunctionType, NoneType, SimpleNamespace, UnionType
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

from derive.notation.errors import TOO_LARGE, DeriveError, too_large, written

Guarded = TypeVar("Guarded", bound=Callable[..., object])
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
    declared = signature(function)
    try:
        arguments = declared.bind(*given, **named).arguments
    except TypeError:  # too many or too few, of which Python's own line tells
        return None
    for name, value in arguments.items():
        hint, kind = _hint(function, name), declared.parameters[name].kind
        each = [(name, value)]
        if kind is Parameter.VAR_POSITIONAL:
            each = [(name, one) for one in value]
        elif kind is Parameter.VAR_KEYWORD:
            each = list(value.items())
        for called, one in each:
            if unlike := _unlike(one, hint):
                return DeriveError(f"{called}: {unlike}")
    return None


def _hint(function: Callable[..., object], name: str) -> Any:
    """The annotation of a parameter; Any where it is for type checkers alone."""
    one = SimpleNamespace(__annotations__={name: function.__annotations__.get(name, Any)})
    try:
        return get_type_hints(one, unwrap(function).__globals__)[name]
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
