"""Formulas as TeX and as text: exact forms, what GitHub rejects, and the way back."""

import random
import re
import time

import pytest
import sympy as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from derive.notation.errors import DeriveError
from derive.notation.read import expression
from derive.notation.symbols import (
    M_X,
    M_Y,
    B,
    C,
    D,
    F,
    N,
    T_comms,
    T_math,
    W,
    W_dcn,
    X,
    Y,
    alpha,
    e,
    fma,
    mesh_axis,
    vocabulary,
)
from derive.notation.tex import DENIED, block, checked, inline, tex, text

FORMS = [
    (sp.sqrt(2 * B * N / F), r"\sqrt{\frac{2 B N}{F}}", "sqrt(2*B*N/F)"),
    (alpha**2 / (F * M_X * M_Y), r"\frac{\alpha^{2}}{M_X M_Y F}", "alpha**2/(F*M_X*M_Y)"),
    (2 * M_Y * F * W / (e * C), r"\frac{2 M_Y F W}{C e}", "2*F*M_Y*W/(C*e)"),
    (sp.sqrt(B * M_X * N / (F * M_Y)), r"\sqrt{\frac{M_X B N}{M_Y F}}", "sqrt(B*N*M_X/(F*M_Y))"),
    (1 + F / alpha, r"\frac{F}{\alpha} + 1", "F/alpha + 1"),
    (T_comms - T_math, r"T_{\text{comms}} - T_{\text{math}}", "T_comms - T_math"),
    (
        sp.Max(4 * B * D / X, 4 * D * F / Y),
        r"\max\left(\frac{4 B D}{X}, \frac{4 D F}{Y}\right)",
        "max(4*B*D/X, 4*D*F/Y)",
    ),
    (sp.Min(B, D), r"\min\left(B, D\right)", "min(B, D)"),
    (sp.ceiling(B / X), r"\left\lceil{\frac{B}{X}}\right\rceil", "ceil(B/X)"),
    (sp.floor(B / X), r"\left\lfloor{\frac{B}{X}}\right\rfloor", "floor(B/X)"),
    (B * sp.log(X, 2), r"B \log_2\left(X\right)", "B*log2(X)"),
    (sp.log(X, 2) ** 2, r"\left(\log_2\left(X\right)\right)^{2}", "log2(X)**2"),
    (sp.log(X), r"\ln\left(X\right)", "log(X)"),
    (B ** sp.Rational(3, 2), r"B \sqrt{B}", "B*sqrt(B)"),
    (1 / sp.sqrt(F), r"\frac{1}{\sqrt{F}}", "1/sqrt(F)"),
    (2 * sp.sqrt(2) * sp.sqrt(B) / D, r"\frac{2 \sqrt{2 B}}{D}", "2*sqrt(2*B)/D"),
    (B * sp.sqrt(N / F) / D, r"\frac{B}{D} \sqrt{\frac{N}{F}}", "B*sqrt(N/F)/D"),
    (sp.sqrt(2) * B, r"\sqrt{2} B", "sqrt(2)*B"),
    (sp.sqrt(2) * B / 2, r"\frac{B}{\sqrt{2}}", "B/sqrt(2)"),
    (sp.sqrt(sp.Rational(2, 3) * B), r"\sqrt{\frac{2 B}{3}}", "sqrt(2*B/3)"),
    (sp.cbrt(B), "B^{1/3}", "B**(1/3)"),
    (15 * sp.cbrt(2) * B, r"15 \cdot 2^{1/3} B", "15*2**(1/3)*B"),
    (-B / 3, r"- \frac{B}{3}", "-B/3"),
    ((B - D) / (2 * N), r"\frac{B - D}{2 N}", "(B - D)/(2*N)"),
    (N / (2 * sp.Pow(B + D, 1)), r"\frac{N}{2 B + 2 D}", "N/(2*B + 2*D)"),
    (N / 2 / (B + D), r"\frac{N}{2 \left(B + D\right)}", "N/2/(B + D)"),
    (N * (B + D), r"N \left(B + D\right)", "N*(B + D)"),
    ((B + D) ** 2, r"\left(B + D\right)^{2}", "(B + D)**2"),
    (2550 * B, r"2{,}550 B", "2550*B"),
    (B / W_dcn, r"\frac{B}{W_{\text{dcn}}}", "B/W_dcn"),
    (fma * B, r"B \phi", "B*fma"),
    (sp.Integer(0), "0", "0"),
    (sp.Rational(-1, 2), r"- \frac{1}{2}", "-1/2"),
]


@pytest.mark.parametrize(("expr", "in_tex", "in_text"), FORMS, ids=[f[2] for f in FORMS])
def test_exact_forms(expr: sp.Expr, in_tex: str, in_text: str) -> None:
    assert tex(expr) == in_tex
    assert text(expr) == in_text
    assert expression(text(expr)) == expr


@pytest.mark.parametrize(
    ("relation", "in_tex", "in_text"),
    [
        (sp.Ge(B / X, alpha), r"\frac{B}{X} \geq \alpha", "B/X >= alpha"),
        (sp.Le(Y, 2 * F), r"Y \leq 2 F", "Y <= 2*F"),
        (sp.Gt(B, X), "B > X", "B > X"),
        (sp.Lt(B, X), "B < X", "B < X"),
        (sp.Eq(alpha, C / W), r"\alpha = \frac{C}{W}", "alpha = C/W"),
        (sp.Ne(B, X), r"B \neq X", "B != X"),
    ],
)
def test_relations(relation: sp.Basic, in_tex: str, in_text: str) -> None:
    assert tex(relation) == in_tex
    assert text(relation) == in_text


symbols = st.sampled_from([known.symbol for known in vocabulary().values()])
# Every fraction from -20 to 20 with a denominator up to 12.
every = sorted({sp.Rational(p, q) for q in range(1, 13) for p in range(-20 * q, 20 * q + 1)})
rationals = st.sampled_from(every)
positive = st.sampled_from([rational for rational in every if rational > 0])
powers = st.sampled_from([sp.Rational(p, q) for p in (-3, -2, -1, 1, 2, 3) for q in (1, 2, 3)])
monomials = st.builds(
    lambda c, r, factors: c * sp.sqrt(r) * sp.Mul(*[s**p for s, p in factors]),
    rationals,
    positive,
    st.lists(st.tuples(symbols, powers), max_size=5),
)
expressions = st.recursive(
    monomials,
    lambda inner: st.one_of(
        st.builds(lambda a, b: a + b, inner, inner),
        st.builds(lambda a, b: a - b, inner, inner),
        st.builds(lambda a, b: a * b, inner, inner),
        st.builds(lambda a, b: a / b if b != 0 else a, inner, inner),
        st.builds(lambda a: a**2, inner),
        st.builds(sp.ceiling, inner),
        st.builds(sp.floor, inner),
    ),
    max_leaves=4,
)


def value(expr: sp.Expr, seed: int) -> sp.Expr:
    rng = random.Random(seed)
    ordered = sorted(expr.free_symbols, key=str)
    return expr.xreplace({s: sp.Rational(rng.randint(1, 99), rng.randint(1, 99)) for s in ordered})


@given(monomials)
def test_monomials_read_back_the_same(expr: sp.Expr) -> None:
    assert expression(text(expr)) == expr


@settings(deadline=None)
@given(expressions)
def test_expressions_read_back_equal(expr: sp.Expr) -> None:
    shown = text(expr)
    if len(shown) > 500:
        return
    try:
        back = expression(shown)
    except DeriveError as error:
        assert re.search("bits|beyond|exponent", str(error))  # too large to be typed again
        return
    assert back.free_symbols == expr.free_symbols
    if back != expr:
        difference = value(back, 1) - value(expr, 1)
        assert abs(sp.N(difference, 30)) < 10**-20 * (1 + abs(sp.N(value(expr, 1), 30)))


@settings(deadline=None)
@given(expressions)
def test_tex_has_nothing_that_github_rejects(expr: sp.Expr) -> None:
    try:
        shown = tex(expr)
    except DeriveError as error:
        assert "limit is 1000" in str(error)
        return
    for macro in DENIED:
        assert not re.search(rf"\\{macro}(?![A-Za-z])", shown)
    assert "begin{" not in shown
    assert "\\\\" not in shown
    assert inline(shown) == f"$`{shown}`$"
    # Each symbol is there, and each number reads with its thousands apart.
    for s in expr.free_symbols:
        assert vocabulary()[s.name].tex in shown
    assert not re.search(r"[0-9]{4}", shown)
    assert not re.search(r"[0-9] [0-9]", shown)


@given(monomials)
def test_a_monomial_is_one_fraction_and_one_radical(expr: sp.Expr) -> None:
    shown = tex(expr)
    assert shown.count(r"\frac") <= 2
    assert shown.count(r"\sqrt") <= 1


def test_only_positive_symbols_share_a_radical() -> None:
    x, y = sp.symbols("x y")
    assert text(sp.sqrt(x) * sp.sqrt(y)) == "sqrt(x)*sqrt(y)"
    assert tex(sp.sqrt(x) * sp.sqrt(y)) == r"\sqrt{x} \sqrt{y}"


def test_symbols_follow_the_vocabulary_within_a_product() -> None:
    later, earlier = mesh_axis("zz_axis"), mesh_axis("my_axis")  # of a user: last, by name
    assert text(later * earlier * B) == "B*my_axis*zz_axis"
    every = [known.symbol for known in vocabulary().values()]
    shuffled = random.Random(5).sample(every, len(every))
    assert text(sp.Mul(*shuffled)) == "*".join(s.name for s in every)


@pytest.mark.parametrize(
    "expr",
    [
        B * sp.Float("0.5"),
        sp.Piecewise((B, B > 2), (D, True)),
        sp.asinh(B),
        sp.sign(sp.Symbol("x")),
        sp.Add(*[sp.Symbol(f"x_{i}") for i in range(300)]),
    ],
)
def test_tex_refuses_what_cannot_be_shown(expr: sp.Expr) -> None:
    with pytest.raises(DeriveError):
        tex(expr)


def test_delimiters() -> None:
    assert inline(r"\frac{B}{X}") == r"$`\frac{B}{X}`$"
    assert block("a = b") == "```math\na = b\n```"


@pytest.mark.parametrize(
    "source",
    [
        r"\operatorname{sign}(x)", r"\newcommand{\a}{b}", r"\mbox{x}", r"a \tag{1}", r"\label{a}",
        r"\ref{a}", r"\def\a{b}", "x" * 1001, "a`b", "$a$", "|a|", "{a", "a}", "",
    ],
)  # fmt: skip
def test_rejected_tex(source: str) -> None:
    for wrap in (inline, block):
        with pytest.raises(DeriveError):
            wrap(source)


@pytest.mark.parametrize(
    "source", [r"\left. a", r"\leftarrow", r"\reflectbox a", r"\{ a \}", r"\tagged"]
)
def test_a_macro_is_its_whole_name(source: str) -> None:
    assert checked(source) == source


def test_lines() -> None:
    assert block("a\nb") == "```math\na\nb\n```"
    with pytest.raises(DeriveError):
        inline("a\nb")
    with pytest.raises(DeriveError):
        block("a\n\nb")


def test_every_tex_of_the_vocabulary_passes() -> None:
    mesh_axis("my_axis")  # one that a user named
    for known in vocabulary().values():
        assert inline(tex(known.symbol)) == f"$`{known.tex}`$"


def test_a_formula_takes_milliseconds() -> None:
    start = time.perf_counter()
    for expr, *_ in FORMS:
        tex(expr)
        text(expr)
    assert (time.perf_counter() - start) / len(FORMS) < 0.05
