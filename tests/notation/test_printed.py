"""Numbers as printed: rounding against an independent definition, prefixes in both directions."""

import re
from fractions import Fraction

import pytest
import sympy as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from derive.book.claims import holds
from derive.book.literals import literal
from derive.notation import printed as p
from derive.notation.digits import BINARY, PREFIXES, SI, fraction, magnitude, multiple
from derive.notation.errors import DeriveError, UnitError
from derive.notation.printed import Rounding, printed, printed_tex
from derive.notation.units import byte, chip, day, flop, label, one, parameter, second, token

Q = Fraction
RULES = [
    p.integer(), p.significant(1), p.significant(3), p.significant(12), p.decimals(0),
    p.decimals(4), p.si(1), p.si(3), p.binary(2), p.binary(6), p.percent(), p.percent(2),
    p.scientific(1), p.scientific(4), p.significant(4, trim=True), p.si(4, trim=True),
]  # fmt: skip
values = st.one_of(
    st.builds(Fraction, st.integers(), st.integers(1, 10**6)),
    st.integers(-(10**20), 10**20).map(Fraction),
    st.builds(lambda n, k: Fraction(2 * n + 1, 2) * Fraction(10) ** k,  # halves at any place
              st.integers(-2000, 2000), st.integers(-12, 20)),
)  # fmt: skip


@pytest.mark.parametrize(
    ("value", "rule", "text"),
    [
        (2550, p.integer(), "2,550"),
        (Q(5, 2), p.integer(), "3"),
        (Q(-5, 2), p.integer(), "−3"),
        (Q(1, 2), p.integer(), "1"),
        (Q("0.4999999999999999999999"), p.integer(), "0"),
        (Q("-0.4"), p.integer(), "0"),
        (0, p.integer(), "0"),
        (10**30, p.integer(), "1" + ",000" * 10),
        (Q("2.675"), p.decimals(2), "2.68"),
        (Q("-2.675"), p.decimals(2), "−2.68"),
        (Q("-0.001"), p.decimals(2), "0.00"),
        (Q("0.005"), p.decimals(2), "0.01"),
        (Q("1234567.891"), p.decimals(1), "1,234,567.9"),
        (Q("13.693"), p.significant(3), "13.7"),
        (Q("9.996"), p.significant(3), "10.0"),
        (Q("99.96"), p.significant(3), "100"),
        (Q("1249.5"), p.significant(4), "1,250"),
        (12345, p.significant(2), "12,000"),
        (Q("0.00044"), p.significant(2), "0.00044"),
        (Q(63 * 10**23), p.significant(2), "6.3×10²⁴"),
        (Q(1, 10**9), p.significant(2), "1.0×10⁻⁹"),
        (Q(-1, 10**9), p.significant(1), "−1×10⁻⁹"),
        (Q(999999) * 10**9, p.significant(3), "1.00×10¹⁵"),
        (2550, p.significant(3), "2,550"),
        (2550, p.scientific(3), "2.55×10³"),
        (Q("0.0999"), p.scientific(2), "1.0×10⁻¹"),
        (0, p.significant(3), "0"),
        (0, p.scientific(3), "0"),
        (0, p.si(3), "0"),
        (Q("0.4"), p.percent(), "40%"),
        (Q("0.125"), p.percent(), "13%"),
        (Q("-0.125"), p.percent(1), "−12.5%"),
        (Q("0.4"), p.percent(1, trim=True), "40%"),
        (12, p.percent(), "1,200%"),
        (Q(8, 3), p.exact(), "8/3"),
        (Q(-8, 3), p.exact(), "−8/3"),
        (Q(5, 2), p.exact(), "2.5"),
        (2048, p.exact(), "2,048"),
        (Q("0.1"), p.exact(), "0.1"),
        (sp.sqrt(2), p.significant(5), "1.4142"),
        (-sp.sqrt(2), p.decimals(3), "−1.414"),
        (sp.sqrt(2) * 10**20, p.integer(), "141,421,356,237,309,504,880"),
        (Q("4.0"), p.significant(3, trim=True), "4"),
        (100, p.significant(3, trim=True), "100"),
    ],
)
def test_table(value: object, rule: Rounding, text: str) -> None:
    assert printed(value, rule) == text  # type: ignore[arg-type]


# One row for each wrong number that users of other tools have reported.
@pytest.mark.parametrize(
    ("value", "rule", "tex"),
    [
        (-3, p.integer(), "-3"),  # the minus sign lost
        (Q("-0.00012"), p.scientific(2), r"-1.2 \times 10^{-4}"),  # a sign of the exponent lost
        (Q("3.14"), p.decimals(2), "3.14"),  # the decimal point lost inside math
        (Q("1234.5"), p.decimals(1), "1{,}234.5"),  # a space after the comma
        (Q("0.4"), p.percent(), r"40\%"),  # % begins a comment
        (Q(8, 3), p.exact(), r"\frac{8}{3}"),
        (Q(4 * 10**6), p.si(1), r"4\text{M}"),
    ],
)
def test_table_in_tex(value: Fraction, rule: Rounding, tex: str) -> None:
    assert printed_tex(value, rule) == tex


@pytest.mark.parametrize(
    ("value", "rule", "unit", "text"),
    [
        (459 * 10**12, p.si(3), flop / second, "459~TFLOP/s"),
        (180 * 10**9, p.si(3), byte / second, "180~GB/s"),
        (96 * 2**30, p.binary(2), byte, "96~GiB"),
        (96 * 10**9, p.si(2), byte, "96~GB"),
        (2550, p.integer(), flop / byte, "2,550~FLOP per byte"),
        (113, p.integer(), token / chip, "113~tokens per chip"),
        (1, p.integer(), token / chip, "1~token per chip"),
        (Q("1.0"), p.decimals(1), token, "1.0~tokens"),
        (-1, p.integer(), token, "−1~token"),
        (1000, p.si(1), token, "1k~tokens"),
        (4 * 10**6, p.si(1), token, "4M~tokens"),
        (2**22, p.binary(1), token, "4Mi~tokens"),
        (Q(44), p.integer(), day, "44~days"),
        (2, p.integer(), label("axis"), "2~axes"),
        (Q("0.0013"), p.si(2), second, "1.3~ms"),
        (Q("0.0000013"), p.si(2), second, "1.3~µs"),
        (Q("0.0009996"), p.si(3), second, "1.00~ms"),
        (Q("0.44"), p.si(2), byte, "0.44~B"),
        (Q(13 * 10**8), p.si(2), byte / token, "1.3~GB per token"),
        (5, p.integer(), one, "5"),
    ],
)
def test_units_stand_after_a_space_that_does_not_break(
    value: object, rule: Rounding, unit: object, text: str
) -> None:
    assert printed(value, rule, unit) == text.replace("~", "\u00a0")  # type: ignore[arg-type]


@pytest.mark.parametrize("prefix", SI)
def test_si_prefixes_both_ways(prefix: str) -> None:
    scale = 1000 ** ("kMGTPE".index(prefix) + 1)
    assert PREFIXES[prefix] == scale
    for count in (1, 7, 999):
        assert printed(count * scale, p.si(3, trim=True)) == f"{count}{prefix}"
        assert literal(f"{count}{prefix}").value == count * scale
        assert literal(f"{count} {prefix}B").value == count * scale
        assert printed(count * scale, p.si(3, trim=True), byte) == f"{count}\u00a0{prefix}B"
    assert printed(Q("0.9995") * scale, p.si(3)) == f"1.00{prefix}"
    below = printed(Q("0.9994") * scale, p.si(3))
    assert below.startswith("999")
    assert not below.endswith(prefix)
    after = {"k": "M", "M": "G", "G": "T", "T": "P", "P": "E"}
    carried = printed(Q("999.95") * scale, p.si(3))
    assert carried == (f"1.00{after[prefix]}" if prefix in after else "1,000E")


@pytest.mark.parametrize("prefix", BINARY)
def test_binary_prefixes_both_ways(prefix: str) -> None:
    scale = 2 ** (10 * ("KMGTPE".index(prefix[0]) + 1))
    assert PREFIXES[prefix] == scale
    for count in (1, 7, 1023):
        assert printed(count * scale, p.binary(1)) == f"{count:,}{prefix}"
        assert literal(f"{count}{prefix}").value == count * scale
        assert literal(f"{count} {prefix}B").value == count * scale
    after = dict(zip(list(BINARY), list(BINARY)[1:], strict=False))
    carried = printed(Q("1023.996") * scale, p.binary(3))
    assert carried == (f"1.00{after[prefix]}" if prefix in after else "1,024Ei")
    assert printed(Q("1023.4") * scale, p.binary(3)) == f"1,023{prefix}"


def test_prefix_tables_are_whole() -> None:
    assert list(SI) == list("kMGTPE")
    assert list(BINARY) == [f"{letter}i" for letter in "KMGTPE"]
    assert printed(Q("999.95"), p.si(3)) == "1.00k"
    assert printed(Q("999.95"), p.si(4)) == "1.000k"
    assert printed(Q("999.94"), p.si(4)) == "999.9"


def test_zeros_stay_unless_they_are_trimmed() -> None:
    for make in (p.significant, p.decimals, p.si, p.binary, p.percent):
        value = Q(3, 100) if make is p.percent else Q(3)
        kept, trimmed = printed(value, make(2)), printed(value, make(2, trim=True))
        assert kept.rstrip("%") in ("3.0", "3.00") and trimmed.rstrip("%") == "3"


@pytest.mark.parametrize("digits", range(2, 5))
def test_a_count_that_rounds_up_to_a_power_of_ten_keeps_its_digits(digits: int) -> None:
    """9.996 Ki at three digits is 10.0 Ki, and not 10.00; 999.96 is 1,000 whole."""
    for power in range(1, 4):
        near = Q(10) ** power * (1 - Q(1, 10 ** (digits + 2)))
        shown = printed(near * 1024, p.binary(digits))
        assert (
            shown
            == f"{10**power:,}"
            + "." * (digits > power + 1)
            + "0" * max(0, digits - power - 1)
            + "Ki"
        )


def distance_rule(value: Fraction, step: Fraction) -> int:
    """Half away from zero, said another way: nearest of the neighbours, the larger on a tie."""
    low = abs(value) // step
    near = min((low + 1, low), key=lambda n: abs(abs(value) - n * step))
    return int(near if value >= 0 else -near)


@given(values, st.builds(Fraction, st.integers(1, 10**6), st.integers(1, 10**6)))
def test_rounding_is_half_away_from_zero(value: Fraction, step: Fraction) -> None:
    assert multiple(value, step) == distance_rule(value, step)
    assert multiple(-value, step) == -multiple(value, step)


@given(values.filter(bool))
def test_magnitude(value: Fraction) -> None:
    assert 1 <= abs(value) / Q(10) ** magnitude(value) < 10


@settings(max_examples=200)
@given(values)
def test_what_is_printed_reads_back_and_holds(value: Fraction) -> None:
    for rule in RULES:
        text = printed(value, rule)
        written = literal(text)
        assert abs(written.value - value) <= written.widest / 2, rule
        assert holds("round", text, value), rule
        assert not re.search(r"[0-9]e[+-]?[0-9]", text)
        assert "-" not in text
        assert printed(-value, rule).lstrip("−") == text.lstrip("−")


@given(values.filter(bool), st.integers(1, 12))
def test_significant_digits_bound_the_relative_error(value: Fraction, digits: int) -> None:
    read = literal(printed(value, p.significant(digits))).value
    assert abs(read - value) <= abs(value) * Q(1, 2) * Q(10) ** (1 - digits)


@given(values)
def test_tex_and_text_show_the_same_digits(value: Fraction) -> None:
    for rule in RULES:
        text, tex = printed(value, rule), printed_tex(value, rule)
        raised = str.maketrans("⁻⁰¹²³⁴⁵⁶⁷⁸⁹−", "-0123456789-")
        bare = re.sub(r"\\text|\\times|[{}^\\ ]", "", tex)
        assert bare == text.translate(raised).replace("×", "")


def test_a_rational_in_disguise_is_rounded_as_itself() -> None:
    half = (sp.sqrt(3 + 2 * sp.sqrt(2)) - sp.sqrt(2)) / 2
    assert not half.is_Rational
    assert fraction(half) == Q(1, 2)
    assert printed(half, p.integer()) == "1"
    assert printed(-half, p.integer()) == "−1"
    assert fraction(half * sp.Rational(2, 3)) == Q(1, 3)


@pytest.mark.parametrize("power", [-300, -99, 0, 60, 99, 300])
def test_what_cancels_is_nothing_and_what_is_small_is_not(power: int) -> None:
    """At any scale: what is left of it is noise, which no size tells from a small number."""
    scale = sp.Integer(10) ** power
    root = sp.sqrt(3 + 2 * sp.sqrt(2))  # 1 + sqrt(2) in disguise
    assert fraction((root - sp.sqrt(2) - 1) * scale) == 0
    assert printed((root - sp.sqrt(2) - 1) * scale, p.significant(3)) == "0"
    rest = fraction(sp.sqrt(2) * scale) / Q(10) ** power
    assert abs(rest**2 - 2) < Q(1, 10**50)


@pytest.mark.parametrize("digits", [1, 3, 12])
def test_powers_of_ten_begin_below_1e_minus_5_and_at_1e15(digits: int) -> None:
    """Of the rounded value, on both sides of either end."""
    rule = p.significant(digits)
    last = Q(1, 10 ** (digits - 1))
    for end, inside, beyond in ((-5, 1, 1 - last / 10), (15, 1 - last / 10, 1)):
        near, far = printed(inside * Q(10) ** end, rule), printed(beyond * Q(10) ** end, rule)
        assert "×10" not in near and "×10" in far
        for text, value in ((near, inside), (far, beyond)):
            assert literal(text).value == value * Q(10) ** end
    up = (1 - last / 100) * Q(10) ** 15  # rounds to the end itself
    assert printed(up, rule) == printed(Q(10) ** 15, rule)
    assert printed((1 - last / 100) * Q(1, 10**5), rule) == printed(Q(1, 10**5), rule)


@given(st.integers(2, 10**6))
def test_square_roots_round_as_integers_say(n: int) -> None:
    root = fraction(sp.sqrt(n))
    count = multiple(root, Q(1, 10**30))
    # count is nearest to sqrt(n)*10^30 exactly where (2c-1)^2 <= 4n*10^60 <= (2c+1)^2
    assert (2 * count - 1) ** 2 <= 4 * n * 10**60 <= (2 * count + 1) ** 2


@pytest.mark.parametrize(
    "value",
    [0.5, sp.Float("0.5"), sp.Symbol("B", positive=True), sp.I, sp.oo, sp.nan, sp.zoo, True, "3"],
)
def test_what_is_not_exact_and_real_is_refused(value: object) -> None:
    with pytest.raises(DeriveError, match="expected"):
        printed(value, p.integer())  # type: ignore[arg-type]


def test_rules_refuse_what_they_cannot_write() -> None:
    with pytest.raises(DeriveError, match="exact"):
        printed(sp.sqrt(2), p.exact())
    with pytest.raises(UnitError, match="percent"):
        printed(Q(1, 2), p.percent(), token)
    for make in (p.significant, p.si, p.binary, p.scientific):
        with pytest.raises(DeriveError, match="digits"):
            make(0)
    with pytest.raises(DeriveError):
        p.decimals(-1)


def test_parameters_are_counted_in_billions() -> None:
    assert p.printed(70_553_706_496, p.si(3), parameter) == "70.6B\u00a0parameters"
    assert p.printed(671 * 10**9, p.si(3), token) == "671G\u00a0tokens"
    assert p.printed(15 * 10**12, p.si(2), parameter) == "15T\u00a0parameters"
