"""Random legal shardings and meshes for Hypothesis, from the shapes that layers come in."""

from __future__ import annotations

from math import prod

from derive.cost.sharding import AXES, Sharding, gated, sharding
from hypothesis import strategies as st

# Each layer: the input, then for each product its weight and its result, as names and dimensions.
LAYERS: dict[str, tuple[str, list[tuple[str, str]]]] = {
    "single": ("In B D", [("W D F", "Out B F")]),
    "two": ("In B D", [("W_in D F", "Tmp B F"), ("W_out F D", "Out B D")]),
    "experts": ("In E B D", [("W_in E D F", "Tmp E B F"), ("W_out E F D", "Out E B D")]),
    "heads": ("In B D", [("W_q D K H", "Q B K H"), ("W_o K H D", "Out B D")]),
    "grouped": ("Q K B H", [("W_k K H U", "S K B U"), ("W_v K U H", "Out K B H")]),
    "three": ("In B D", [("W_a D F", "Ta B F"), ("W_b F H", "Tb B H"), ("W_c H D", "Out B D")]),
    "turned": ("In B D", [("W_in D F", "Tmp F B"), ("W_out D F", "Out D B")]),
}


@st.composite
def tensors(draw: st.DrawFn, words: str) -> str:
    """A tensor with each axis on one of its dimensions or on none, in any order."""
    name, *dims = words.split()
    split = dict.fromkeys(dims, "")
    for axis in draw(st.permutations(AXES)):
        dim = draw(st.sampled_from([None, *dims]))
        if dim is not None:
            split[dim] += axis
    return f"{name}[{', '.join(f'{d}_{a}' if a else d for d, a in split.items())}]"


@st.composite
def shardings(draw: st.DrawFn) -> Sharding:
    """A legal sharding: hidden tensors declared or not, gated or not."""
    operand, products = LAYERS[draw(st.sampled_from(sorted(LAYERS)))]
    text = draw(tensors(operand))
    for number, (weight, result) in enumerate(products, 1):
        text += f" . {draw(tensors(weight))}"
        # A hidden tensor left out has the dimensions in the order in which they come.
        inferable = number < len(products) and result.split()[1] == operand.split()[1]
        if not (inferable and draw(st.booleans())):
            text += f" -> {draw(tensors(result))}"
    made = sharding(text)
    return gated(made) if len(products) > 1 and draw(st.booleans()) else made


@st.composite
def meshes(draw: st.DrawFn, most: int = 24) -> dict[str, int]:
    """One to four devices along each axis, at most `most` in all."""
    sizes: dict[str, int] = {}
    for axis in AXES:
        room = most // prod(sizes.values())
        sizes[axis] = draw(st.integers(1, max(1, min(4, room))))
    return sizes
