"""Bounds on what is asked, in closed form and in numbers, whatever they follow from."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from fractions import Fraction
from math import inf, nan, prod
from typing import TYPE_CHECKING, Any, Self, TypeAlias, overload

import sympy as sp

from derive.cost.assumptions import Assumptions
from derive.cost.load import CAPACITY, Requirement
from derive.notation import symbols as v
from derive.notation import tex
from derive.notation.errors import DeriveError, guarded, written
from derive.notation.printed import shown
from derive.notation.quantity import Quantity
from derive.solve.links import deciding, suited
from derive.solve.question import Question, Subject
from derive.solve.values import Filled, Giver, filled, typed_values, value_of, values_for

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from derive.solve.sweep import Sweep

Number: TypeAlias = Quantity | str | float | Fraction | Decimal | sp.Expr

SWEEP = 10**4  # points


@dataclass(frozen=True)
class Bound:
    """One bound on the question: `>=` or `<=` an expression (`=` of an optimum), and the passes and
    links that set it (X, Y, S, node, hbm; "memory" where it is capacity)."""

    direction: str
    expr: sp.Expr
    passes: tuple[str, ...] = ()
    where: tuple[str, ...] = ()

    def relation(self, asked: sp.Expr) -> sp.Rel:
        """The bound as a SymPy relation with the question on the left."""
        kinds = {">=": sp.Ge, "<=": sp.Le, "=": sp.Eq}
        return kinds[self.direction](asked, self.expr, evaluate=False)


@guarded
@dataclass(frozen=True, repr=False)
class Bounded:
    """What is asked, what must hold, and the bounds in closed form, all of which hold then, as does
    each relation of `provided`."""

    question: Question
    bounds: tuple[Bound, ...]
    requirement: Requirement
    subject: Subject
    provided: tuple[sp.Rel, ...] = field(default=(), kw_only=True)

    @property
    def symbol(self) -> sp.Symbol:
        """What is asked for; of a ratio the symbol above the line."""
        return self.question.main

    @property
    def assumptions(self) -> Assumptions:
        return self.requirement.assumptions

    @overload
    def on(self, *givers: Giver, **values: Number) -> Answer: ...
    @overload
    def on(self, *givers: Giver, **values: object) -> Any: ...
    def on(self, *givers: Giver, **values: object) -> Any:
        """The number: with a chip, a model, and values by symbol name. Where some of those are
        NumPy arrays of one shape, the numbers at each point in the unit of the question, as float64
        in an array of that shape, a `Sweep` with a frame and a plot: where any value will do 0 of a
        lower bound and inf of an upper one, nan where none will.

        It runs over what the chip has, unless the assumption `network` says another. M_X, M_Y and
        M_Z are taken as 1 where no value is given, and shown as assumed; what a step's model
        defines follows. Values that play no part are noted. Raises DeriveError naming the symbols
        without a value, and for values that none can be (as `values_for` does), UnitError for
        sequences given as tokens.
        """
        every = values.items()
        kinds = (list, tuple, range)
        several = {k: x for k, x in every if getattr(x, "shape", isinstance(x, kinds))}
        if not several:
            return self._on(givers, values)
        return _swept(self, lambda point: self._on(givers, {**values, **point}), several)

    def _on(self, givers: tuple[Giver, ...], values: Mapping[str, object]) -> Answer:
        raise NotImplementedError

    def suited(self, *givers: Giver, **values: object) -> Self:
        """The same on the network that the chip has; raises as `on` does for what was given."""
        under = suited(self.subject, self.question, self.assumptions, givers, values)
        return self if under == self.assumptions else self.under(under)

    def missing(self, *givers: Giver, **values: object) -> tuple[sp.Symbol, ...]:
        """The symbols that a number needs besides; raises as `on` does for what was given."""
        return self.suited(*givers, **values).filled(givers, values).missing

    def under(self, assumptions: Assumptions) -> Self:
        """The same under other assumptions."""
        raise NotImplementedError

    def filled(self, givers: Iterable[Giver], values: Mapping[str, object]) -> Filled:
        """The values that were given, with what the closed form needs besides."""
        # Of a ratio the symbol above the line is not known, but nothing hangs on it.
        asked = self.symbol if self.requirement.definitions else None
        exprs = (*(bound.expr for bound in self.bounds), *(r.lhs for r in self.provided))
        needed = {s for expr in exprs for s in expr.free_symbols}
        known = values_for(self.requirement, givers, values)
        return filled(needed, self.requirement, asked, known)

    def idle(self, full: Filled, names: Iterable[str], before: Assumptions) -> tuple[str, ...]:
        """A note for each name that plays no part; `before` it was suited, what was assumed."""
        return full.idle(names, deciding(self.subject, self.question, before, self.assumptions))

    @property
    def closed_form(self) -> sp.Expr:
        """The bound where there is one; raises DeriveError where there are more."""
        if len(self.bounds) != 1:
            raise DeriveError(f"{self} has {len(self.bounds)} bounds; ask for .bounds")
        return self.bounds[0].expr

    @property
    def relations(self) -> tuple[sp.Rel, ...]:
        """Each bound as a SymPy relation."""
        return tuple(bound.relation(self.question.expr) for bound in self.bounds)

    @property
    def described(self) -> dict[str, str]:
        """The assumptions by name."""
        return dict(self.requirement.described)

    @property
    def latex(self) -> str:
        return r" \quad\text{and}\quad ".join(tex.tex(r) for r in self.relations)

    def __str__(self) -> str:
        return " and ".join(tex.text(r) for r in self.relations)

    def __repr__(self) -> str:
        return str(self)

    def _repr_latex_(self) -> str:
        return f"$\\displaystyle {self.latex}$"

    def _repr_markdown_(self) -> str:
        symbols = {s for r in (*self.relations, *self.provided) for s in r.free_symbols}
        return folded(self._repr_latex_(), symbols, assumption_lines(self.described))


def _swept(
    asked: Bounded, answer: Callable[[dict[str, object]], Answer], arrays: Mapping[str, Any]
) -> Sweep:
    """The numbers of the answers at each point of arrays, of one shape and each with a part."""
    import numpy as np

    from derive.solve.sweep import Sweep, Swept

    for name, array in arrays.items():
        if not isinstance(array, np.ndarray):
            told = f"expected a number or a NumPy array, such as {name}=np.array([...])"
            raise DeriveError(f"{name}: {told}, found {written(array)}")
    typed_values(dict.fromkeys(arrays, 1))  # the names, where there are no points
    shape, *others = dict.fromkeys(array.shape for array in arrays.values())
    if others:
        told = " and ".join(f"{name} of {array.shape}" for name, array in arrays.items())
        raise DeriveError(f"expected arrays of one shape, found {told}")
    if prod(shape) > SWEEP:
        told = f"expected at most {SWEEP:,} points, found {prod(shape):,}"
        raise DeriveError(f"{' and '.join(arrays)}: {told}")
    places = np.ndindex(shape)
    answers = [answer({name: x[place] for name, x in arrays.items()}) for place in places]
    for idle in Filled({}, (), frozenset()).idle(arrays):
        if answers and all(idle in at.notes for at in answers):
            raise DeriveError(f"{idle}; leave it out")
    numbers = np.array([_point(at) for at in answers], dtype=float).reshape(shape)
    bounded = [at.rests_on for at in answers if at.sides]
    lines = bounded or [assumption_lines(asked.described)]
    rests_on = tuple(line for line in lines[0] if all(line in other for other in lines))
    along = {v.find(name): _plain(v.find(name), array) for name, array in arrays.items()}
    under = answers[0].assumptions if answers else asked.assumptions
    name = asked.requirement.name
    return Sweep(numbers, Swept(name, str(asked), asked.question, along, under, rests_on))


def _plain(symbol: sp.Symbol, array: NDArray[Any]) -> NDArray[Any]:
    """An array of a symbol's values as numbers in its unit."""
    import numpy as np

    if array.dtype.kind in "iuf":
        return array.copy()
    each = [float(value_of(symbol, x).value) for x in array.ravel()]
    return np.array(each, dtype=float).reshape(array.shape)


def _point(answer: Answer) -> float:
    """The number of an answer in a sweep."""
    ways = {bound.direction for bound in answer.sides or getattr(answer.threshold, "bounds", ())}
    if len(ways) > 1:
        told = "is bounded on both sides, and a sweep has one number at a point"
        raise DeriveError(f"{answer.asked} {told}; ask at each point for .low and .high")
    lower, able = ways == {">="}, all(holds(relation, x) for relation, x in answer.provided)
    number = float(answer) if answer.sides else 0.0 if lower else inf
    return max(number, 0.0) if able and (lower or number > 0) else nan


@dataclass(frozen=True)
class Side:
    """One bound with its number, and the passes and links that set it."""

    quantity: Quantity
    passes: tuple[str, ...] = ()
    where: tuple[str, ...] = ()

    @property
    def direction(self) -> str:
        """`>=` or `<=`, and `=` of an optimum."""
        return self.quantity.bound or "="

    @property
    def text(self) -> str:
        """The number, rounded to its own side."""
        return self.quantity.printed()


@dataclass(frozen=True, repr=False)
class Answer:
    """The numbers of what is asked. `sides` are its bounds, none where the values leave no bound;
    `provided` are relations that must hold for the answer to, each with the number on its left.
    `notes` say what a reader has to know, `described` what it rests on by name. `threshold` is what
    the numbers are of: a threshold or an optimum on the network that the chip has, None of an
    answer by bisection.
    """

    asked: sp.Expr
    sides: tuple[Side, ...]
    assumptions: Assumptions
    described: dict[str, str]
    provided: tuple[tuple[sp.Rel, Quantity], ...] = ()
    notes: tuple[str, ...] = ()
    threshold: Bounded | None = None

    @property
    def binding(self) -> Side:
        """The strictest bound; raises DeriveError where bounds face both ways, or there is none."""
        facing = list(strictest(self.sides).values())
        if len(facing) > 1:
            raise DeriveError(f"{self.asked} is bounded on both sides; ask for .low and .high")
        if not facing:
            raise DeriveError(f"{self.asked}: {'; '.join(self.notes) or 'there is no bound'}")
        return facing[0]

    @property
    def quantity(self) -> Quantity:
        """The strictest bound as a quantity with its tree."""
        return self.binding.quantity

    @property
    def value(self) -> sp.Expr:
        """The exact number of the strictest bound."""
        return self.quantity.value

    @property
    def low(self) -> Quantity:
        """The largest lower bound."""
        return self._facing(">=")

    @property
    def high(self) -> Quantity:
        """The smallest upper bound."""
        return self._facing("<=")

    def _facing(self, direction: str) -> Quantity:
        facing = strictest(self.sides)
        if direction not in facing:
            raise DeriveError(f"{self.asked} has no bound {direction}")
        return facing[direction].quantity

    def __float__(self) -> float:
        return float(self.value)

    @property
    def lines(self) -> list[str]:
        """The numbers with their formulas, and what they are provided on."""
        lines = []
        for side in self.sides:
            of_passes = side.passes and CAPACITY not in side.where and side.direction != "="
            by = f"  ({' and '.join(side.passes)} pass)" if of_passes else ""
            formula = side.quantity.formula
            lines.append(f"{tex.text(self.asked)} {side.direction} {side.text} = {formula}{by}")
        for relation, quantity in self.provided:
            held = "holds" if holds(relation, quantity) else "does NOT hold"
            # Close to 1 with the digits that tell on which side of it a share is.
            digits = 12 if abs(quantity.value - 1) < sp.Rational(1, 200) else 3
            share = shown(quantity.value, digits=digits)
            lines.append(f"  provided {tex.text(relation)}, which {held}: {share}")
        return lines

    @property
    def rests_on(self) -> list[str]:
        """Notes, inputs with their sources, and assumptions, a line each."""
        inputs = [pair for side in self.sides for pair in side.quantity.inputs]
        if self.of_step:
            middle = [*tree_lines(inputs), *(f"  {note}" for note in self.notes)]
        else:
            middle = [*(f"  note: {note}" for note in self.notes), *input_lines(inputs)]
        return [*middle, *assumption_lines(self.described)]

    def __str__(self) -> str:
        return "\n".join([*self.lines, *self.rests_on])

    def __format__(self, spec: str) -> str:
        return format(self.quantity, spec) if spec else str(self)

    @property
    def of_step(self) -> bool:
        """Whether the numbers follow from the definitions of a training step."""
        return self.threshold is not None and bool(self.threshold.requirement.definitions)

    __repr__ = __str__

    def _repr_latex_(self) -> str | None:
        if not self.sides:
            return None
        parts = []
        for side in self.sides:
            value = side.quantity.printed_tex()
            if side.direction == "=" and self.threshold is not None:
                parts.append(f"{self.threshold.latex} = {value}")
            else:
                sign = r"\ge" if side.direction == ">=" else r"\le"
                parts.append(rf"{tex.tex(self.asked)} {sign} {value}")
        return "$\\displaystyle " + r" \quad\text{and}\quad ".join(parts) + "$"

    def _repr_markdown_(self) -> str:
        pairs = (pair for side in self.sides for pair in side.quantity.inputs)
        symbols = {v.find(name) for name, _ in pairs} | self.asked.free_symbols
        shown = self._repr_latex_() or "; ".join(self.notes)
        return folded(shown, symbols, [*self.lines, *self.rests_on])


def folded(shown: str, symbols: Iterable[sp.Symbol], lines: Sequence[str]) -> str:
    """Markdown for a notebook: what is shown, and folded under it what it rests on: a legend of
    symbols, and lines of text."""
    ordered = sorted(symbols, key=v.rank)
    legend = [f"- ${tex.tex(s)}$ is `{s.name}`: {v.meaning(s).gloss}" for s in ordered]
    head = [shown, "", "<details><summary>What it rests on</summary>", ""]
    return "\n".join([*head, *legend, "", "```text", *lines, "```", "", "</details>"])


def assumption_lines(described: Mapping[str, str]) -> list[str]:
    """A heading and the assumptions, each by its name."""
    return ["  assumptions:", *(f"    {name}: {text}" for name, text in described.items())]


def holds(relation: sp.Rel, quantity: Quantity) -> bool:
    """Whether a relation whose left side has that number holds."""
    value = quantity.value
    strict = isinstance(relation, sp.StrictLessThan)
    return bool(value.is_finite and (value < 1 if strict else value <= 1))


def strictest(sides: Sequence[Side]) -> dict[str, Side]:
    """Of the bounds of each direction, the one that the others follow from."""
    facing = {way: [s for s in sides if s.direction == way] for way in (">=", "<=", "=")}
    return {
        way: (max if way == ">=" else min)(those, key=lambda side: side.quantity.value)
        for way, those in facing.items()
        if those
    }


def input_lines(inputs: Iterable[tuple[str, Quantity]]) -> list[str]:
    """One line per input, each once, with what it belongs to and where it is from."""
    lines = []
    for name, given in dict.fromkeys(inputs):
        line = f"  {name} = {given.printed()}"
        line += f" = {given.formula}" if given.formula else ""
        parts = [f"{n} = {q.printed()} {_origin(q)}".rstrip() for n, q in given.inputs]
        line += f" with {', '.join(parts)}" if parts else f" {_origin(given)}"
        lines.append(line.rstrip())
    return lines


def _origin(quantity: Quantity) -> str:
    """Where a leaf comes from: chip or model, basis, source and status, in brackets."""
    basis = quantity.basis.split(":")[0].split(";")[0]
    source = f"[{quantity.source}]" if quantity.source else ""
    return f"({', '.join(filter(None, (quantity.owner, basis, source, quantity.status)))})"


def tree_lines(inputs: Iterable[tuple[str, Quantity]], depth: int = 1) -> list[str]:
    """The inputs, each before its own, indented by how deep they stand."""
    lines = []
    for name, given in inputs:
        origin = given.formula or ", ".join(filter(None, (given.owner, given.source, given.status)))
        lines.append(f"{'  ' * depth}{name} = {given.printed()} ({origin})")
        if given.formula and given.inputs and not given.owner:  # facts have trees of their own
            lines += tree_lines(given.inputs, depth + 1)
    return lines
