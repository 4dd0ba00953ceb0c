"""Models: the parameter count against one written out by hand, and the bindings."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from derive import facts
from derive.facts.owners import Model
from derive.notation.errors import FactError, UnknownName
from derive.notation.quantity import check_label
from derive.notation.symbols import D, F, G, H, K, L, P, V
from derive.notation.units import parameter

COUNTS = [
    ("llama-3-8b", 8_030_261_248, 525_336_576),
    ("llama-3-70b", 70_553_706_496, 1_050_673_152),
    ("llama-3-405b", 405_853_388_800, 2_101_346_304),
]


@pytest.mark.parametrize(("name", "total", "embedding"), COUNTS)
def test_exact_parameter_counts(name, total, embedding):
    model = facts.model(name)
    parts = {part: quantity.value for part, quantity in model.parts}
    assert model.parameters.value == total == sum(parts.values())
    assert parts["embedding"] == parts["head"] == embedding
    assert model.parameters.unit == parameter


def by_hand(m):
    """Every weight of the model, tensor by tensor."""
    tensors = [(m.vocab, m.hidden)]
    for _ in range(m.layers):
        tensors += [
            (m.hidden, m.heads * m.head_dim),
            (m.hidden, m.kv_heads * m.head_dim),
            (m.hidden, m.kv_heads * m.head_dim),
            (m.heads * m.head_dim, m.hidden),
            (m.hidden, m.ffn),
            (m.ffn, m.hidden),
        ]
        tensors += [(m.hidden, m.ffn)] * m.gated + [(1, m.hidden)] * m.norms_per_layer
    tensors += [(1, m.hidden)] * m.final_norm
    tensors += [] if m.tied_embeddings else [(m.hidden, m.vocab)]
    return sum(rows * columns for rows, columns in tensors)


few = st.integers(1, 9)


@given(few, few, few, few, few, few, few, st.integers(1, 4), st.tuples(*[st.booleans()] * 3))
def test_the_formula_counts_every_tensor(layers, d, kv, groups, h, f, v, norms, flags):
    gated, tied, final = flags
    model = Model(
        "m", "M", (), layers, d, kv * groups, kv, h, f, v, norms, gated, tied, final,
        "S", "table", "published",
    )  # fmt: skip
    assert model.parameters.value == by_hand(model)


@pytest.mark.parametrize("name", facts.models())
def test_bindings(name):
    model = facts.model(name)
    bound = model.bindings()
    assert list(bound) == [D, F, K, G, H, L, V, P]
    for symbol, value in bound.items():
        check_label(symbol, value)
        assert value.name == symbol.name
    assert bound[K].value * bound[G].value == model.heads
    assert bound[K].value * bound[G].value * bound[H].value == model.hidden


@pytest.mark.parametrize("name", facts.models())
def test_the_count_can_be_traced_to_a_source(name):
    leaves = list(facts.model(name).parameters.leaves())
    assert {leaf.name for leaf in leaves} == {"D", "F", "K", "H", "L", "V", "heads"}
    for leaf in leaves:
        assert facts.source(leaf.source).key == leaf.source
        assert leaf.status == "published" and leaf.owner == name


@pytest.mark.parametrize("name", facts.models())
def test_the_published_name_rounds_the_count(name):
    model = facts.model(name)
    for reading in model.fact("published_parameters").readings:
        assert abs(reading.value / model.parameters.value - 1) < 0.01


@pytest.mark.parametrize(
    ("alias", "name"),
    [
        ("llama3-8b", "llama-3-8b"),
        ("llama3-70b", "llama-3-70b"),
        ("llama-3.1-405b", "llama-3-405b"),
        ("llama3.1-405b", "llama-3-405b"),
    ],
)
def test_aliases(alias, name):
    assert facts.model(alias) == facts.model(name)


def test_unknown_names():
    with pytest.raises(UnknownName, match=r"did you mean .*llama-3-70b"):
        facts.model("lama-3-70b")
    with pytest.raises(UnknownName, match="context"):
        facts.model("llama-3-70b").fact("contexts")
    bare = Model("m", "M", (), *[1] * 8, True, True, True, "S", "table", "published")
    with pytest.raises(FactError, match="m has no facts"):
        bare.fact("context")


@pytest.mark.parametrize("name", ["llama-3-8b", "llama-3-70b"])
def test_any_value_of_a_model_is_had_by_a_name_or_a_symbol(name):
    model = facts.model(name)
    for symbol, quantity in model.bindings().items():
        assert model[symbol] == model[symbol.name] == quantity
    for key, fact in model.counts.items():
        assert model[key] == fact.quantity(*fact.readings)
    with pytest.raises(
        UnknownName, match=r"unknown value of llama-3-.* 'layer'; did you mean layers"
    ):
        model["layer"]
    with pytest.raises(FactError, match=r"published_parameters of .* has several readings"):
        model["published_parameters"]
    with pytest.raises(AttributeError, match="a model has no attribute D; ask model"):
        model.D  # noqa: B018
