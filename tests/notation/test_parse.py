"""Typed text: what is read, what is refused, and that nothing is run or hangs."""

import time
from fractions import Fraction

import pytest
import sympy as sp
from hypothesis import example, given
from hypothesis import strategies as st

from derive.notation.errors import DeriveError, UnitError, UnknownName
from derive.notation.read import FUNCTIONS, assignment, expression, quantity, ratio
from derive.notation.symbols import M_X, M_Y, B, C, D, F, N, P, W, X, Y, alpha, meaning, u
from derive.notation.units import Unit, byte, chip, flop, one, parameter, second, sequence, token

Q = Fraction


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("7", sp.Integer(7)),
        ("1.8e11", sp.Integer(180_000_000_000)),
        ("0.1", sp.Rational(1, 10)),
        ("2.", sp.Integer(2)),
        (".5", sp.Rational(1, 2)),
        ("1/3", sp.Rational(1, 3)),
        ("B", B),
        ("B/X", B / X),
        ("B / N * D", B * D / N),
        ("B/N/D", B / (N * D)),
        ("-B**2", -(B**2)),
        ("(-B)**2", B**2),
        ("2**-1", sp.Rational(1, 2)),
        ("2**3**2", sp.Integer(512)),
        ("2^3^2", sp.Integer(512)),
        ("B-D-F", B - D - F),
        ("B-(D-F)", B - D + F),
        ("--B", B),
        ("2*-B", -2 * B),
        ("+B", B),
        ("alpha**2/(F*M_X*M_Y)", alpha**2 / (F * M_X * M_Y)),
        ("sqrt(2*B*N/F)", sp.sqrt(2 * B * N / F)),
        ("B**(1/2)", sp.sqrt(B)),
        ("log2(8)", sp.Integer(3)),
        ("log2(X)", sp.log(X) / sp.log(2)),
        ("max(B, D)", sp.Max(B, D)),
        ("Min(B, D, 3)", sp.Min(B, D, 3)),
        ("ceil(7/2) + floor(7/2)", sp.Integer(7)),
        ("ceiling(B/X)", sp.ceiling(B / X)),
        ("2×B − 1·D", 2 * B - D),
    ],
)
def test_expressions(text: str, expected: sp.Expr) -> None:
    assert expression(text) == expected
    assert not expression(text).atoms(sp.Float)


HOSTILE = [
    "__import__('os').system('x')", "B.__class__", "lambda: 0", "B.__class__.__mro__[1]",
    "eval('1')", "open('/etc/passwd')", "exec(B)", "[B for B in X]", "{B}", "B if B else D", "B; D",
    "print(B)", "B\nimport os", "'B'", '"B"', "B[0]", "f(B)", "Symbol(B)", "B := 2", "@B",
    "B\x00", "Ｂ", "B٣",
]  # fmt: skip
ABSURD = [
    "9**9**9**9", "9**9**9", "1e999999", "1e100", "a" * 100_000, "(" * 200 + "B" + ")" * 200,
    "(" * 400, "-" * 499, "9^" * 200 + "9", "((9**99)**99)**99", "(B**99)**99", "B**1000",
    "B**(1/13)", "sqrt(" * 28 + "B" + ")" * 28, "*".join(["9**99"] * 80), "1e99*" * 90 + "1",
    "9" * 400, "0." + "1" * 300, f"max({'B,' * 100}B)", "(B+D)**0.12345678901234567",
    "(1e99+B)**100",
]  # fmt: skip
MALFORMED = [
    "", "   ", "B+", "*B", "B B", "2B", "()", "(B", "B)", "B D", "max()", "max(B,)", "sqrt(B,D)",
    "sqrt", "B,D", "B=3", "B>=D", "1.2.3", "1e", "2**X", "B**alpha", "B//D", "B%D", "1,000",
]  # fmt: skip
NOT_REAL = [
    "1/0", "0**-1", "0**0", "B/(D-D)", "1/(sqrt(2)*sqrt(3)-sqrt(6))", "sqrt(-2)", "log2(0)",
    "log2(-1)", "(-8)**(1/3)", "sqrt(-B)", "1/log2(1)", "1/(sqrt(3+2*sqrt(2))-1-sqrt(2))",
]  # fmt: skip
UNDECLARED = ["Q", "I", "pi", "oo", "nan", "zoo", "Sx", "sin(B)", "Beta", "e1"]


@pytest.mark.parametrize("text", HOSTILE + ABSURD + MALFORMED + NOT_REAL + UNDECLARED, ids=ascii)
def test_the_rest_is_refused_at_once_in_one_short_line(text: str) -> None:
    start = time.perf_counter()
    with pytest.raises(DeriveError) as caught:
        expression(text)
    assert time.perf_counter() - start < 1
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 300


@pytest.mark.parametrize("text", HOSTILE + ABSURD, ids=ascii)
def test_hostile_and_absurd_values_are_refused_too(text: str) -> None:
    for read, typed in ((quantity, text), (assignment, f"W={text}"), (assignment, f"{text}=3")):
        with pytest.raises(DeriveError) as caught:
            read(typed)
        assert "\n" not in str(caught.value)
        assert len(str(caught.value)) < 300


@pytest.mark.parametrize("text", ["-" * 400 + "B", "B" + "+B" * 249, "*".join(["B"] * 90)])
def test_long_but_honest_text_is_read(text: str) -> None:
    value = {B: sp.Integer(2)}
    plain = text.replace("B", "2").replace("--", "")
    assert expression(text).xreplace(value) == eval(plain)


def test_unknown_names_offer_the_nearest() -> None:
    with pytest.raises(UnknownName, match="did you mean alpha"):
        expression("alhpa*B")
    with pytest.raises(UnknownName, match="unknown function 'sqr'; did you mean sqrt"):
        expression("sqr(B)")


def test_each_function_computes_what_it_says() -> None:
    given_two = {"min": 2, "max": 3, "Min": 2, "Max": 3}
    given_one = {"sqrt": 4, "log2": 4, "ceil": 16, "ceiling": 16, "floor": 16}
    for name in FUNCTIONS:
        if name in given_two:
            assert expression(f"{name}(3, 2)") == given_two[name]
        elif name != "log":
            assert expression(f"{name}(16)") == given_one[name]
    assert expression("log(B)") == sp.log(B)


@pytest.mark.parametrize(
    ("text", "expected"), [("B/X", B / X), ("B/N", B / N), ("Y", Y), ("B*D/(X*Y)", B * D / (X * Y)),
                           ("sqrt(B)/N", sp.sqrt(B) / N)],
)  # fmt: skip
def test_ratios(text: str, expected: sp.Expr) -> None:
    assert ratio(text) == expected


@pytest.mark.parametrize("text", ["2*B", "B+X", "1", "B/B", "max(B,X)", "B/X+1", "B/2", "-B"])
def test_what_is_no_ratio_is_refused(text: str) -> None:
    with pytest.raises(DeriveError, match="ratio of symbols"):
        ratio(text)


@pytest.mark.parametrize(
    ("text", "value", "unit"),
    [
        ("28672", 28672, one),
        ("4194304", 2**22, one),
        ("4,194,304", 2**22, one),
        ("180 GB/s", 180 * 10**9, byte / second),
        ("180GB/s", 180 * 10**9, byte / second),
        ("180 GB per second", 180 * 10**9, byte / second),
        ("459 TFLOP/s", 459 * 10**12, flop / second),
        ("459 TFLOPs/s", 459 * 10**12, flop / second),
        ("96 GiB", 96 * 2**30, byte),
        ("96GiB", 96 * 2**30, byte),
        ("1024 sequences", 1024, sequence),
        ("1 sequence", 1, sequence),
        ("40%", Q(2, 5), one),
        ("4Mi tokens", 2**22, token),
        ("4 M tokens", 4 * 10**6, token),
        ("15T tokens", 15 * 10**12, token),
        ("1.5e9 byte/s", 15 * 10**8, byte / second),
        ("96 B/s", 96, byte / second),
        ("96B/s", 96, byte / second),
        ("70.6B parameters", 706 * 10**8, parameter),
        ("44 ms", Q(44, 1000), second),
        ("3 µs", Q(3, 10**6), second),
        ("2550 FLOP/byte", 2550, flop / byte),
        ("2550 FLOP per byte", 2550, flop / byte),
        ("113 tokens per chip", 113, token / chip),
        ("3 byte^2", 3, byte**2),
        ("5 FLOP/kB", Q(5, 1000), flop / byte),
        ("5 FLOP/byte/ms", 5000, flop / byte / second),
        ("5 1/s", 5, one / second),
        ("1e39", 10**39, one),
        ("1e-39", Q(1, 10**39), one),
    ],
)
def test_quantities(text: str, value: Fraction, unit: Unit) -> None:
    got = quantity(text)
    assert Fraction(int(got.value.p), int(got.value.q)) == value
    assert got.unit == unit


@pytest.mark.parametrize(
    ("text", "value", "unit"),
    [("2550", 2550, flop / byte), ("1.8e11", 180 * 10**9, byte / second), ("4M", 4 * 10**6, token)],
)
def test_a_bare_number_is_in_the_base_unit(text: str, value: int, unit: Unit) -> None:
    got = quantity(text, unit)
    assert (got.value, got.unit) == (value, unit)


@pytest.mark.parametrize(
    ("text", "expected", "message"),
    [
        ("180 GB", byte / second, "expected byte/second, found byte"),
        ("1024 sequences", token, "expected token, found sequence.*multiply by the sequence"),
        ("40%", token, "expected token, found a percentage"),
        ("4 chips", token, "expected token, found chip"),
        ("0", one, "expected a positive number"),
        ("0.0 GB", byte, "expected a positive number"),
        ("-3", one, "expected a positive number"),
        ("−3 GB", byte, "expected a positive number"),
        ("nan", one, "expected a positive number"),
        ("inf", one, "expected a positive number"),
        ("infinity", one, "expected a positive number"),
        ("1e40", one, "between 1e-40 and 1e40"),
        ("1e-40", one, "between 1e-40 and 1e40"),
        ("1e39 GB", byte, "between 1e-40 and 1e40"),
        ("1e999999", one, "exponent"),
        ("5 furlongs", one, "unknown unit 'furlongs'"),
        ("5 tokne", token, "did you mean token"),
        ("10 Gb/s", byte / second, "in bits: divide by 8"),
        ("10 Gbit/s", byte / second, "in bits: divide by 8"),
        ("459 TFLOPS", flop / second, "TFLOP/s for a rate"),
        ("8K", token, "write k for 1000, Ki for 1024"),
        ("96B", byte, "bytes or billions"),
        ("9B", None, "bytes or billions"),
        ("2**22", one, "expected a number and a unit"),
        ("1_000", one, "expected a number and a unit"),
        ("1,23", one, "expected a number and a unit"),
        ("1.2.3", one, "expected a number and a unit"),
        ("", one, "expected a positive number"),
        ("GB", byte, "expected a positive number"),
        ("3 byte^0.5", byte, "expected a whole power"),
        ("3 GB" + "x" * 10_000, byte, "the limit is 200"),
    ],
)
def test_refused_quantities(text: str, expected: Unit | None, message: str) -> None:
    with pytest.raises(DeriveError, match=message) as caught:
        quantity(text, expected, "W")
    assert "\n" not in str(caught.value)
    assert str(caught.value).startswith("W (ICI bandwidth")


@pytest.mark.parametrize(
    ("text", "symbol", "value", "unit"),
    [
        ("W=180 GB/s", W, 180 * 10**9, byte / second),
        (" W = 180 GB/s ", W, 180 * 10**9, byte / second),
        ("B=4Mi", B, 2**22, token),
        ("B=4194304 tokens", B, 2**22, token),
        ("u=40%", u, Q(2, 5), one),
        ("P=70.6B", P, 706 * 10**8, parameter),
        ("C=459 TFLOP/s", C, 459 * 10**12, flop / second),
        ("D=8192", D, 8192, one),
        ("alpha=2550 FLOP/byte", alpha, 2550, flop / byte),
    ],
)
def test_assignments(text: str, symbol: sp.Symbol, value: Fraction, unit: Unit) -> None:
    found, got = assignment(text)
    assert found == symbol
    assert Fraction(int(got.value.p), int(got.value.q)) == value
    assert (got.unit, got.name, got.status) == (unit, symbol.name, "given")


def test_refused_assignments() -> None:
    with pytest.raises(DeriveError, match="NAME=VALUE"):
        assignment("W")
    with pytest.raises(UnknownName, match="unknown symbol"):
        assignment("__import__('os')=3")
    with pytest.raises(UnknownName, match="did you mean alpha"):
        assignment("alhpa=3")
    with pytest.raises(UnitError, match=r"W \(ICI bandwidth.*expected byte/second, found byte"):
        assignment("W=180 GB")
    with pytest.raises(UnitError, match=r"B \(global batch.*expected token, found sequence"):
        assignment("B=1024 sequences")


@given(st.text(max_size=60))
def test_any_text_gives_an_answer_or_one_line(text: str) -> None:
    for read in (expression, ratio, quantity, assignment):
        try:
            read(text)
        except DeriveError as error:
            assert "\n" not in str(error)


@example("eta*B - sqrt(max(A, X))")
@given(st.text(alphabet="BDFX0123456789.eE+-*/^(), sqrtmaxlog2", max_size=40))
def test_any_text_of_the_right_letters_gives_an_answer_or_one_line(text: str) -> None:
    """The letters spell e, E, eta and more: what comes out is declared, and was written."""
    try:
        typed = expression(text)
    except DeriveError as error:
        assert "\n" not in str(error)
    else:
        assert not typed.atoms(sp.Float)
        assert all(meaning(s).symbol == s and s.name in text for s in typed.free_symbols)


@given(st.integers(-50, 50), st.integers(-50, 50), st.integers(1, 50), st.integers(0, 4))
def test_precedence_is_pythons(a: int, b: int, c: int, d: int) -> None:
    x, y, z = Fraction(a), Fraction(b), Fraction(c)
    shapes = ["{x}+{y}*{z}**{d}", "({x}-{y})/{z}-{y}", "{x}-{y}-{z}*-{d}", "-{z}**{d}/{z}*{x}"]
    for shape in shapes:
        typed = shape.format(x=f"({a})", y=f"({b})", z=c, d=d)
        python = shape.format(x="x", y="y", z="z", d=d)
        meant = eval(python, {"x": x, "y": y, "z": z})
        assert expression(typed) == sp.Rational(meant.numerator, meant.denominator)


def test_a_bare_share_is_a_value() -> None:
    """Half a torus axis is what a group without wraparound has."""
    assert quantity("1/2", one).value == sp.Rational(1, 2)
    for text in ("1/0", "0/3", "1/2/3", "1/2 GB"):
        with pytest.raises(DeriveError):
            quantity(text, one)


def at_the_end(inside: str, beyond: str, message: str) -> None:
    """The one is read; the other, the least that is more, is refused."""
    assert expression(inside) is not None
    with pytest.raises(DeriveError, match=message):
        expression(beyond)


@pytest.mark.parametrize("sign", ["", "-"])
def test_each_limit_of_an_expression_is_the_last_that_is_read(sign: str) -> None:
    at_the_end(f"{sign}B".ljust(500), f"{sign}B".ljust(501), "501 characters, the limit is 500")
    deep = [f"{'(' * depth}{sign}B{')' * depth}" for depth in (29, 30)]  # the whole is a level
    at_the_end(*deep, "nested deeper than 30")
    at_the_end(f"B**({sign}100)", f"B**({sign}101)", "up to 100")
    at_the_end(f"B**({sign}1/12)", f"B**({sign}1/13)", "a root up to 12")
    at_the_end(f"2**({sign}99)*2**({sign}99)", f"{sign}{'*'.join(['2**100'] * 11)}", "1000 bits")
    twelve, thirteen = (", ".join(f"{k}*B" for k in range(count)) for count in (12, 13))
    at_the_end(f"{sign}max({twelve})", f"{sign}max({thirteen})", "more than 12 things compared")
    two = [f"{sign}max(B, C, D, F, N, P) + min({some})" for some in ("B, C, D, F, N, P", twelve)]
    at_the_end(*two, "more than 12 things compared")


def test_a_number_of_a_thousand_bits_is_read_and_one_more_is_not() -> None:
    """Those of both sides of a fraction are counted, and a whole number is over one."""
    most = "*".join(["2**90"] * 11)  # 990 zeros after a one
    for bits in (998, 999, 1000):
        text = f"{most}*{2 ** (bits - 991)}"
        for whole in (text, f"B*1/({text})", f"1/({text})"):
            if bits < 1000:
                value = expression(whole)
                assert value.subs(B, 1) in (2 ** (bits - 1), sp.Rational(1, 2 ** (bits - 1)))
            else:
                with pytest.raises(DeriveError, match="more than 1000 bits"):
                    expression(whole)


def test_the_largest_number_of_a_sum_is_what_counts() -> None:
    half = f"{'*'.join(['2**90'] * 11)}*{2**7}"  # of 998 bits, and over one
    assert expression(f"B/3 + {half} + {half}") is not None
    with pytest.raises(DeriveError, match="more than 1000 bits"):
        expression(f"B/3 + {half} + {half} + {half} + {half}")


def test_the_longest_value_is_read() -> None:
    assert quantity("4 tokens".ljust(200), token).value == 4
    with pytest.raises(DeriveError, match="a value of 201 characters, the limit is 200"):
        quantity("4 tokens".ljust(201), token)
