"""Formulas of derived readings: their grammar against Python's, and what a file is told."""

import ast
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from derive import facts
from derive.facts.derived import FactName, FormulaFault, Postfix, formula
from derive.notation.errors import FactError

HEAD = """\
[sources.Lab]
title = "Measurements of our own"
publisher = "the laboratory"
kind = "own"
dated = "2026-01"
read = 2026-01-31

[sources.Shop]
title = "A shop"
publisher = "the shop"
kind = "secondary"
dated = "undated"
read = 2026-01-31

"""
BASES = {
    "bf16": ("FLOP/second", "dense peak per chip"),
    "fp8": ("FLOP/second", "dense peak per chip"),
    "ici_axis": ("byte/second", "bidirectional per axis"),
    "ici_link": ("byte/second", "one-way per link"),
    "ici_chip": ("byte/second", "bidirectional per chip"),
    "memory": ("byte", "per chip"),
    "torus_axes": ("axis", "per chip"),
    "pod_shape": ("chip", "per pod"),
}


def table(chip, key, value, formula=None, source="Lab", part=""):
    """One reading, derived where it has a formula."""
    unit, basis = BASES[key]
    end = 'status = "published"' if formula is None else f"status = 'derived'\nformula = {formula}"
    part = f'part = "{part}"\n' if part else ""
    return (
        f'[[chips.{chip}.facts.{key}]]\nvalue = {value}\nunit = "{unit}"\nbasis = "{basis}"\n'
        f'source = "{source}"\nwhere = "sheet"\n{part}{end}\n'
    )


def chip(*rows, name="mine"):
    return f'[chips.{name}]\ntitle = "Mine"\n{PREFER}' + "".join(table(name, *row) for row in rows)


PREFER = 'prefer = ["Lab", "Lab#a", "Shop"]\n'
AXIS = ("ici_axis", "2e11")


@pytest.fixture
def load(tmp_path):
    def made(*texts):
        path = tmp_path / "my.toml"
        path.write_text(HEAD + "\n".join(texts))
        return facts.load_file(path)

    return made


HOSTILE = [
    ("__import__('os').system('true')", "expected numbers, facts, + - * / and parentheses"),
    ("__import__(os)", "expected + - * / or the end, found '('"),
    ("ici_axis.__class__", "found '.__class__'"),
    ("mine.__class__", "expected a fact of mine"),
    ("(ici_axis).real", "found '.real'"),
    ("a.b.c_d.e", "found '.e'"),
    ("9**9**9**9", "expected a number or a fact, found '*'"),
    ("9^9", "found '^9'"),
    ("[1][0]", "found '[1][0]'"),
    ("lambda: 1", "found ': 1'"),
    ("1e999", "found '1e999'"),
    ("1_000", "found '1_000'"),
    ("1.", "found"),
    ("-1", "expected a number or a fact, found '-'"),
    ("1 2", "expected + - * / or the end, found '2'"),
    ("2 * ", "expected a number or a fact, found the end"),
    ("(2", "expected ')', found the end"),
    ("2)", "expected + - * / or the end, found ')'"),
    ("(" * 17 + "1" + ")" * 17, "at most 16 parentheses inside each other"),
    ("(" * 199, "at most 16 parentheses"),
    ("1" + "+1" * 100, "expected at most 200 characters, found 201"),
    ("9" * 31, "found"),
    ("٣ * ici_axis", "found"),
    ("1/(2-2)", "expected the value 1000000000000000, found a division by zero"),
]
WRONG = [
    ("2*bf16", "expected facts other than its own, found 'bf16'"),
    ("2 * mine.bf16", "expected facts other than its own, found 'mine.bf16'"),
    ("3*ici_axis", "expected a formula in FLOP/second, found one in byte/second"),
    ("5e3 / ici_axis", "expected a formula in FLOP/second, found one in second/byte"),
    ("fp8 + ici_axis", "expected terms of one unit around +, found FLOP/second and byte/second"),
    ("fp8 - torus_axes", "expected terms of one unit around -, found FLOP/second and 1"),
    ("torus_axes", "expected a formula in FLOP/second, found one in 1"),
    ("fp8", "expected the value 1000000000000000, found 2000000000000000"),
    ("fp8 / 3", "found 2000000000000000/3"),
    ("9e20 * 9e20", "found about 8.1e+41"),
    ("2 * fp9", "expected a fact of mine, such as fp8"),
    ("2 * fp4", "'fp4', of which it has no reading"),
    ("2 * tpu-v5.bf16", "a chip or model (such as tpu-v5p or tpu-v5e"),
    ("2 * tpu-v5p.bf17", "expected a fact of tpu-v5p, such as bf16"),
    (
        "2 * tpu-v5p.pod_shape",
        "expected facts that are numbers, found 'tpu-v5p.pod_shape', a shape",
    ),
]


@pytest.mark.parametrize(("text", "said"), HOSTILE + WRONG)
def test_a_formula_that_does_not_hold(load, text, said):
    with pytest.raises(FactError) as caught:
        load(chip(("bf16", "1e15", f'"{text}"'), ("fp8", "2e15"), AXIS, ("torus_axes", 3)))
    message = str(caught.value)
    assert "my.toml: [chips.mine.facts.bf16] formula " in message
    assert said in message
    assert repr(text)[:40] in message
    assert "expected" in message and "found" in message
    assert len(message) < 600 and "\n" not in message


@pytest.mark.parametrize(
    "text",
    [
        "fp8 / 2",
        "fp8-1e15",
        "2e15 - 1e15",
        "1.0e15 * 1",
        "5e14 * (torus_axes - 1)",
        "torus_axes * 1E15 / 3",
        "fp8 * ici_axis / (ici_axis + ici_axis)",
        "fp8 / 4 + mine.fp8 / 4",
        "tpu-v5p.bf16 / tpu-v5p.bf16 * fp8 / 2",
        " ( 1e15 ) ",
    ],
)
def test_a_formula_that_holds(load, text):
    row = ("bf16", "1e15", f'"{text}"')
    load(chip(row, ("fp8", "2e15"), AXIS, ("torus_axes", 3)))


def test_the_place_of_one_of_several_readings(load):
    rows = [("bf16", "1e15"), ("bf16", "1e15", '"2 * 5e13"', "Shop")]
    with pytest.raises(FactError, match=r"\[chips.mine.facts.bf16\[2\]\] formula '2 \* 5e13'"):
        load(chip(*rows))


def test_the_readings_of_the_same_source_come_first(load):
    axis, other = ("ici_axis", "2e11"), ("ici_axis", "3e11", None, "Shop")
    load(chip(axis, other, ("ici_link", "1e11", '"ici_axis / 2"')))
    with pytest.raises(FactError, match="expected the value 150000000000, found 100000000000"):
        load(chip(axis, other, ("ici_link", "1.5e11", '"ici_axis / 2"')))
    # Where the source has none, any will do; of one with parts, any part.
    load(chip(other, ("ici_link", "1.5e11", '"ici_axis / 2"')))
    part = ("ici_axis", "4e11", None, "Lab", "a")
    for value in ("1e11", "2e11"):
        load(chip(axis, part, ("ici_link", value, '"ici_axis / 2"')))
    # One name is one reading: 4e11 - 2e11 is no difference of a fact with itself.
    with pytest.raises(FactError, match="expected the value 200000000000, found 0"):
        load(chip(axis, part, ("ici_link", "2e11", '"ici_axis - ici_axis"')))


def test_a_reading_may_rest_on_a_derived_one_and_on_one_below_it(load):
    first = chip(("ici_link", "1e11", '"ici_axis / 2"'), ("ici_axis", "2e11", '"ici_chip / 3"'))
    load(first + table("mine", "ici_chip", "6e11", '"yours.ici_chip"'), chip(
        ("ici_chip", "6e11"), name="yours"
    ))  # fmt: skip


def test_a_circle_is_refused(load):
    link, axis = ("ici_link", "1e11", '"ici_axis / 2"'), ("ici_axis", "2e11", '"2 * ici_link"')
    with pytest.raises(FactError) as caught:
        load(chip(link, axis))
    said = "expected a value that does not rest on itself, found mine.ici_"
    assert said in str(caught.value) and "[chips.mine.facts.ici_" in str(caught.value)
    # No circle where one of them is published, by the formula's own source or by any.
    published = ("ici_axis", "2e11", None, "Shop")
    load(chip(("ici_link", "1e11", '"ici_axis / 2"', "Shop"), axis, published))
    theirs = ("ici_axis", "2e11", '"2 * ici_link"', "Shop")
    load(chip(link, theirs, ("ici_axis", "2e11", None, "SB5")))


def test_a_circle_through_many_chips(load):
    """As many as fit: looked for without recursion."""
    many = 900
    chips = [
        chip(("memory", "1e9", f'"c{(i + 1) % many}.memory"'), name=f"c{i}") for i in range(many)
    ]
    with pytest.raises(FactError, match=r"found c0.memory from c1.memory .* and so on"):
        load(*chips)
    load(*chips[:-1], chip(("memory", "1e9"), name=f"c{many - 1}"))


def test_too_many_combinations_are_refused(load):
    """Ten readings of either fact are a hundred, and are tried to the last; eleven are refused."""

    def many(count):
        rows = [
            (key, f"{i}e9", None, "Lab", f"p{i}")
            for key in ("fp8", "ici_axis")
            for i in range(1, count + 1)
        ]
        value = f"{count + Fraction(count, 2)}e9".replace("33/2", "16.5")
        text = chip(("bf16", value, '"fp8 + fp8 / ici_axis * ici_axis / 2"'), *rows)
        return text.replace(PREFER.strip(), "prefer = ['Lab#p1', 'Lab']")

    load(many(10))
    with pytest.raises(FactError, match="at most 100 combinations of the named readings"):
        load(many(11))


def test_a_shape_is_not_derived(load):
    with pytest.raises(FactError, match="a shape follows from no formula"):
        load(chip(("pod_shape", "[4, 4]", '"4 * 4"')))


MODEL = """\
[models.m]
title = "M"
shape = { layers = 2, hidden = 8, heads = 4, kv_heads = 2, head_dim = 3, ffn = 16, vocab = 10, \
norms_per_layer = 2, gated = false, tied_embeddings = true, final_norm = false, \
source = "Lab", where = "sheet", status = "assumed" }
[models.m.facts.context]
value = %s
unit = "token"
basis = "longest"
source = "Shop"
where = "sheet"
status = "derived"
formula = "%s"
"""


def test_a_model_may_name_its_shape(load):
    load(MODEL % ("128", "layers * hidden * 8"))
    load(MODEL % ("16384", "2 * llama-3-8b.context"))
    for text, said in (
        ("layers * hiden", "expected a fact of m, such as hidden"),
        ("layers * hidden", "expected the value 128, found 16"),
        ("2 * context", "facts other than its own"),
    ):
        with pytest.raises(FactError, match=said) as caught:
            load(MODEL % ("128", text))
        assert "[models.m.facts.context] formula" in str(caught.value)


trees = st.recursive(
    st.sampled_from(["a", "b_2", "c.d", "7", "2.5", "3e2", "10"]),
    lambda inner: st.one_of(
        st.tuples(inner, st.sampled_from("+-*/"), inner).map(" ".join), inner.map("({})".format)
    ),
    max_leaves=12,
)
GIVEN = {"a": Fraction(3), "b_2": Fraction(2, 7), "c.d": Fraction(5)}


def by_python(node):
    if isinstance(node, ast.Constant):
        return Fraction(str(node.value))
    if isinstance(node, ast.BinOp):
        left, right = by_python(node.left), by_python(node.right)
        return {
            ast.Add: left.__add__, ast.Sub: left.__sub__,
            ast.Mult: left.__mul__, ast.Div: left.__truediv__,
        }[type(node.op)](right)  # fmt: skip
    return GIVEN[ast.unparse(node)]


@given(trees)
def test_a_formula_means_what_it_means_in_python(text):
    try:
        expected = by_python(ast.parse(text, mode="eval").body)
    except ZeroDivisionError:
        expected = None
    read = formula(text)
    assert read.value({name: GIVEN[str(name)] for name in read.names}) == expected


@given(st.text(alphabet="ab1.e_-+*/() ٣\"'[", max_size=30))
def test_any_text_is_read_or_told(text):
    try:
        assert isinstance(formula(text), Postfix)
    except FormulaFault as fault:
        assert fault.expected and fault.instead


def test_names():
    assert formula("a-b * tpu-v5p.c_d").steps == (
        FactName("", "a"), FactName("", "b"), FactName("tpu-v5p", "c_d"), "*", "-",
    )  # fmt: skip
