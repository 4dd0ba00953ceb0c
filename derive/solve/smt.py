"""A closed form as a claim over all positive reals: SMT-LIB 2 text, and what z3 says of that text.

That bounds are right is two questions: can loads that hold break a bound, and can bounds that hold
leave a load above one? Each asks for such values, so that `unsat` proves that there are none. Roots
and the like are unknowns with the relations that they satisfy, and fractions are multiplied out, so
that only polynomials are left. No name is a user's: mesh axes of their own are axis_1 and so on.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from itertools import product

import sympy as sp

from derive import facts
from derive.notation import symbols as v
from derive.notation import tex
from derive.notation.errors import NotClosedForm, ProofError
from derive.solve.proof import ALPHA, BestSplit, Check, Claims, Separation
from derive.solve.question import Question, at_value

Put = Mapping[sp.Symbol, sp.Expr]

EFFORT = 10_000_000  # of z3 for a question, in its own units: it gives up alike on every machine
UNSAT, SAT = "unsat", "sat"
LOGIC = "(set-logic QF_NRA)"  # polynomials over the reals
NEXT = "(reset)\n\n"
SIGNS: Mapping[type[sp.Rel], str] = {sp.Le: "<=", sp.Ge: ">=", sp.Lt: "<", sp.Gt: ">", sp.Eq: "="}
KINDS = {sp.Pow: "root", sp.Max: "max", sp.Min: "min", sp.floor: "floor"}


def statement(check: Check, claims: Claims) -> str:
    """The claims as SMT-LIB 2 text: questions, divided by resets.

    An exponent such as 1/M_X has its questions for each whole M_X that a chip has. Raises
    NotClosedForm for what is not claimed of all values, or is no root or quotient of polynomials.
    """
    if isinstance(check, Separation):
        return NEXT.join(_of_bounds(check, claims))
    if isinstance(check, BestSplit):
        return NEXT.join(_of_split(check, claims))
    raise NotClosedForm(f"{tex.text(claims[0])} is not claimed of all values")


def _of_bounds(check: Separation, claims: Claims) -> Iterator[str]:
    own = _own_axes(check)
    check, claims = _renamed(check, own), _put(claims, own)
    asked, name = check.asked, tex.text(check.asked.expr)
    value = sp.Symbol(name if asked.expr.is_Symbol else f"|{name}|", positive=True)
    totals = at_value(check.loads, asked, check.given, value)
    loads = [_relation(sp.Le, total, 1) for total in totals]
    bounds = [_relation(claim.func, value, claim.rhs) for claim in claims]
    splits = [{s.symbol: s.at.xreplace({asked.main: value / asked.rest})} for s in check.splits]
    told = " and ".join(map(tex.text, claims))
    told += f", provided {' and '.join(map(tex.text, check.provided))}" if check.provided else ""
    known = room = _put(check.known, dict(check.given))
    if any(isinstance(relation, sp.StrictLessThan) for relation in check.provided):
        # Room for what a group sends is not needed where it is a group of one.
        room = tuple(_relation(sp.Gt, *r.args) if isinstance(r, sp.Ge) else r for r in known)
    for case, given in _cases([*loads, *check.provided, *bounds]):
        head = f"; {check.claim}\n; if and only if {told}{given and ', with '}{given}.\n"
        holding, claimed = _put(loads, case), _put([*check.provided, *bounds], case)
        ask = "; Are there values at which no load is above 1, and that does not hold?"
        yield _question(head + ask, room, holding, [claimed])
        into = [{s: x.xreplace(case) for s, x in split.items()} for split in splits or [{}]]
        above = [_put(loads, {**case, **split}) for split in into]
        there = " at the best split" if splits else ""
        ask = f"; Are there values at which that holds, and a load is above 1{there}?"
        yield _question(head + ask, known, claimed, above)


def _of_split(check: BestSplit, claims: Claims) -> Iterator[str]:
    (claim,) = claims
    what = "sum" if check.summed else "larger"
    loads = (sp.Add(*check.loads),) if check.summed else check.loads
    at = {check.free: claim.rhs.xreplace(dict(ALPHA))}
    head = f"; The {what} of the loads is least at {tex.text(claim)}.\n"
    ask = f"; Is there another {check.free} at which all are less than one of them there?"
    for load in loads:
        less = [_relation(sp.Lt, each, load.xreplace(at)) for each in loads]
        yield _question(head + ask, (), less, [])


def _own_axes(check: Separation) -> Put:
    """Instead of mesh axes of a user's own."""
    symbols = {s for load in check.loads for s in load.total.free_symbols} | check.asked.symbols
    own = sorted((s for s in symbols if v.meaning(s).role == "axis"), key=v.rank)
    return {s: sp.Symbol(f"axis_{k}", positive=True) for k, s in enumerate(own, 1)}


def _renamed(check: Separation, names: Put) -> Separation:
    asked = check.asked
    return replace(
        check,
        loads=tuple(load.put(names) for load in check.loads),
        asked=Question(*(x.xreplace(names) for x in (asked.expr, asked.main, asked.rest))),
        given=tuple((s.xreplace(names), x.xreplace(names)) for s, x in check.given),
        splits=tuple(
            replace(s, symbol=s.symbol.xreplace(names), at=s.at.xreplace(names))
            for s in check.splits
        ),
        provided=_put(check.provided, names),
        known=_put(check.known, names),
    )


def _relation(kind: type[sp.Rel], left: sp.Expr, right: sp.Expr | int) -> sp.Rel:
    return kind(left, right, evaluate=False)


def _put(relations: Iterable[sp.Rel], put: Put) -> Claims:
    return tuple(_relation(r.func, *(side.xreplace(put) for side in r.args)) for r in relations)


def _cases(relations: Sequence[sp.Rel]) -> Iterator[tuple[Put, str]]:
    """What is put for symbols, and in words: C/W for alpha where both are there, and for those in
    exponents each whole number of torus axes that a chip has."""
    symbols = {s for relation in relations for s in relation.free_symbols}
    powers = {power for relation in relations for power in relation.atoms(sp.Pow)}
    above = sorted({s for power in powers for s in power.exp.free_symbols}, key=v.rank)
    known = (facts.chip(name) for name in facts.chips()) if above else ()
    most = max((int(c["torus_axes"].value) for c in known if c.has("torus_axes")), default=0)
    alpha = ALPHA if {v.alpha, v.C, v.W} <= symbols else {}
    for values in product(range(1, most + 1), repeat=len(above)):
        whole = dict(zip(above, map(sp.Integer, values), strict=True))
        yield {**alpha, **whole}, " and ".join(f"{s} = {n}" for s, n in whole.items())


def _question(
    words: str, known: Iterable[sp.Rel], held: Iterable[sp.Rel], denied: Iterable[Iterable[sp.Rel]]
) -> str:
    """Are there values at which all of `held` hold, and of each of `denied` not all do? What is
    `known` of a symbol is asserted where it plays a part."""
    script = _Script()
    asserted = [script.relation(relation) for relation in held]
    for each in denied:
        every = [*dict.fromkeys(script.relation(relation) for relation in each)]
        asserted.append(_s("not", every[0] if len(every) == 1 else _s("and", *every)))
    apply = [r for r in known if r.free_symbols <= script.named]
    told = [script.relation(r) for r in apply]
    words += f"\n; It is known that {' and '.join(map(tex.text, apply))}." if apply else ""
    lines = [words, LOGIC]
    for symbol in script.symbols:
        positive = f" (assert (> {symbol.name} 0))" if symbol.is_positive else ""
        lines.append(f"(declare-const {symbol.name} Real){positive}")
    lines += [f"(assert {one})" for one in (*told, *script.defined, *asserted)]
    return "\n".join([*lines, "(check-sat)", ""])


def _s(head: str, *parts: str) -> str:
    return f"({head} {' '.join(parts)})"


class _Script:
    """The unknowns of a question, and what defines those that stand for roots and the like."""

    def __init__(self) -> None:
        self.named: set[sp.Symbol] = set()
        self.parts: dict[sp.Expr, sp.Symbol] = {}
        self.defined: list[str] = []

    @property
    def symbols(self) -> list[sp.Symbol]:
        parts = self.parts.values()
        return [*sorted(self.named - {*parts}, key=v.rank), *parts]

    def relation(self, relation: sp.Rel) -> str:
        """A relation of polynomials: both sides multiplied by what is below their lines, twice
        where that can be negative: a bound that is not positive, or is none, says nothing."""
        (a, b), (c, d) = (self._quotient(side) for side in relation.args)
        sign = SIGNS[relation.func]
        if b.is_nonnegative and d.is_positive:
            by, over = sp.fraction(b / d)
            said = _s(sign, self._term(a * over), self._term(c * by))
            # What is divided by zero is at most nothing.
            return said if b.is_positive else _s("and", _s(">", self._term(b), "0"), said)
        if b != 1 or sign not in ("<=", ">="):
            raise NotClosedForm(f"{tex.text(b)} or {tex.text(d)} can be negative")
        said = _s(sign, self._term(a * d**2), self._term(c * d))
        return said if sign == ">=" else _s("or", _s("<=", self._term(c * d), "0"), said)

    def _quotient(self, expr: sp.Expr) -> tuple[sp.Expr, sp.Expr]:
        plain = self._plain(expr)
        above, below = sp.fraction(sp.together(plain) if plain.has(sp.Add) else plain)
        return above, below

    def _plain(self, expr: sp.Expr) -> sp.Expr:
        """The expression with unknowns for roots, for the largest or least of several, and for
        what is rounded down."""
        if not expr.args:
            return expr
        args = [self._plain(part) for part in expr.args]
        if isinstance(expr, sp.Pow):
            if not isinstance(expr.exp, sp.Rational):
                raise NotClosedForm(f"{tex.text(expr)} is no root")
            if expr.exp.is_Integer:
                return args[0] ** expr.exp
            return self._unknown(args[0] ** sp.Rational(1, expr.exp.q)) ** expr.exp.p
        if isinstance(expr, (sp.Max, sp.Min)):  # SymPy would look long for one that is the largest
            return self._unknown(expr.func(*args, evaluate=False))
        return self._unknown(expr.func(*args))

    def _unknown(self, expr: sp.Expr) -> sp.Expr:
        """The unknown for a root or the like; what is none after all as it is."""
        if expr in self.parts or type(expr) not in KINDS:
            return self.parts.get(expr, expr)
        sign = {"positive": True} if expr.is_positive else {"real": True}
        x = sp.Symbol(f"{KINDS[type(expr)]}_{len(self.parts) + 1}", **sign)
        self.parts[expr] = x
        if isinstance(expr, sp.Pow):
            power = self._said((sp.Eq, x**expr.exp.q, expr.base))
            if not x.is_positive:  # what is negative has no root, and nothing is known of it
                real, *positive = self._said((sp.Ge, expr.base, 0), (sp.Ge, x, 0))
                power = [_s("=>", real, _s("and", *positive, *power))]
            self.defined += power
        elif isinstance(expr, sp.floor):  # that it is whole is not needed
            (exact,) = expr.args
            self.defined += self._said((sp.Ge, x, 0), (sp.Le, x, exact), (sp.Gt, x + 1, exact))
        else:
            beyond = sp.Ge if isinstance(expr, sp.Max) else sp.Le
            self.defined += self._said(*((beyond, x, one) for one in expr.args))
            self.defined.append(_s("or", *self._said(*((sp.Eq, x, one) for one in expr.args))))
        return x

    def _said(self, *each: tuple[type[sp.Rel], sp.Expr, sp.Expr | int]) -> list[str]:
        return [self.relation(_relation(*one)) for one in each]

    def _term(self, expr: sp.Expr) -> str:
        if isinstance(expr, sp.Symbol):
            self.named.add(expr)
            return str(expr.name)
        if isinstance(expr, sp.Rational):
            size = str(abs(expr.p)) if expr.is_Integer else _s("/", str(abs(expr.p)), str(expr.q))
            return _s("-", size) if expr < 0 else size
        if isinstance(expr, sp.Pow) and expr.exp.is_Integer and expr.exp > 0:
            return _s("*", *[self._term(expr.base)] * int(expr.exp))
        if not isinstance(expr, (sp.Add, sp.Mul)):
            raise NotClosedForm(f"{tex.text(expr)} is no polynomial")
        return _s("+" if expr.is_Add else "*", *map(self._term, expr.args))


# --- what z3 says


def decided(check: Check, claims: Claims, where: str) -> str:
    """`of_all` where z3 decides the claims; empty where it is not installed, or cannot. Raises
    ProofError, beginning with `where`, where it finds values that contradict them."""
    try:
        text = statement(check, claims)
        answers = verdicts(text)
    except (ImportError, NotClosedForm):
        return ""
    if SAT in answers:
        raise ProofError(f"{where}: does not hold: {counterexample(text)}")
    return of_all(claims) if {*answers} == {UNSAT} else ""


def of_all(claims: Claims) -> str:
    """All positive values, and what a statement of the claims puts in for exponents."""
    cases = [given for _, given in _cases(claims) if given]
    return "for all positive values" + (f" with {', '.join(cases)}" if cases else "")


@lru_cache(maxsize=256)
def verdicts(text: str) -> tuple[str, ...]:
    """What z3 says to each question of a statement: unsat, sat or unknown. Raises ImportError where
    it is not installed."""
    import z3

    effort = f"(set-option :rlimit {EFFORT})\n"
    script = effort + text.replace(NEXT, NEXT + effort)
    context = z3.Context()  # held while it is used, and fresh: what is declared stays in one
    return tuple(z3.Z3_eval_smtlib2_string(context.ref(), script).split())


def counterexample(text: str) -> str:
    """Values that z3 finds for a question of a statement to which it says sat."""
    import z3

    for question in text.split(NEXT):
        solver = z3.Solver(ctx=z3.Context())
        solver.from_string(question)
        if str(solver.check()) == SAT:
            model = solver.model()
            return ", ".join(sorted(f"{x.name()} = {model[x]}" for x in model))
    return "none"
