"""Which of several readings a profile takes: each way to say so, alone and against the others."""

from itertools import combinations, permutations

import pytest
import sympy as sp

from derive.facts.fact import CHIP_FACTS, Fact, Profile, Reading, choose
from derive.notation.errors import FactError, UnknownName

KEYS = ("A", "B#a", "B#b", "C")


def fact(*keys: str, owner: str = "mine") -> Fact:
    """A fact with a reading under each key, in that order."""
    readings = []
    for key in keys:
        source, _, part = key.partition("#")
        value = sp.Integer(1 + KEYS.index(key))
        readings.append(Reading(value, "", source, "", "published", part=part))
    return Fact(CHIP_FACTS["bf16"], owner, tuple(readings))


def taken(keys, picks=(), order=(), prefer=()) -> str:
    return choose(fact(*keys), Profile("p", tuple(order), tuple(picks)), tuple(prefer)).key


@pytest.mark.parametrize("keys", list(permutations(KEYS)))
def test_a_pick_wins_then_the_order_then_what_the_chip_prefers(keys) -> None:
    for pick, first, second in permutations(KEYS, 3):
        picks = [("mine.bf16", pick)]
        assert taken(keys, picks, [first], [second]) == pick
        assert taken(keys, (), [first], [second]) == first
        assert taken(keys, (), [], [second]) == second
        assert taken(keys, (), [first, second]) == first
        assert taken(keys, (), [], [first, second]) == first
        # What names another fact or chip, or no reading of this one, says nothing.
        for other in ("mine.fp8", "other.bf16", "bf16"):
            assert taken(keys, [(other, pick)], [first], [second]) == first
        assert taken(keys, (), ["B", "D", first], [second]) == first
        assert taken(keys, (), ["B", "D"], [second]) == second
    with pytest.raises(FactError, match="expected one reading, found " + ", ".join(keys)):
        taken(keys)


@pytest.mark.parametrize("key", KEYS)
def test_the_only_reading_needs_no_choice_and_a_pick_of_another_is_refused(key) -> None:
    assert taken([key]) == key
    for other in set(KEYS) - {key}:
        assert taken([key], (), [other], [other]) == key
        with pytest.raises(UnknownName, match="unknown reading of bf16 of mine"):
            taken([key], [("mine.bf16", other)])


def test_several_readings_of_one_source_are_told_apart_by_their_part() -> None:
    for count in (2, 3, 4):
        for keys in combinations(KEYS, count):
            one = fact(*keys)
            assert [one.reading(key).value for key in keys] == [1 + KEYS.index(k) for k in keys]
            with pytest.raises(UnknownName):
                one.reading("B")
