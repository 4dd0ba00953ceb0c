"""The vocabulary: one meaning a letter, and names that can do no harm."""

import keyword

import pytest
import sympy as sp

from derive.notation import symbols
from derive.notation.errors import DeriveError, UnknownName
from derive.notation.units import one


def test_a_symbol_is_sympys_own_and_positive_and_nothing_more() -> None:
    for name, known in symbols.vocabulary().items():
        assert known.symbol == sp.Symbol(name, positive=True)
        assert symbols.find(name) is known.symbol
        assert symbols.meaning(known.symbol) is known


def test_names_are_safe_identifiers_and_glosses_are_there() -> None:
    for name, known in symbols.vocabulary().items():
        assert name.isidentifier()
        assert name.isascii()
        assert not keyword.iskeyword(name)
        assert known.gloss.strip()
        assert known.role in {
            "dimension", "mesh", "network", "hardware", "model", "constant", "time", "axis",
        }  # fmt: skip


def test_no_two_symbols_print_alike() -> None:
    printed = [known.tex for known in symbols.vocabulary().values()]
    assert len(set(printed)) == len(printed)
    glosses = [known.gloss for known in symbols.vocabulary().values()]
    assert len(set(glosses)) == len(glosses)


def test_every_module_level_symbol_is_declared_under_its_name() -> None:
    found = {name: s for name, s in vars(symbols).items() if isinstance(s, sp.Symbol)}
    assert len(found) > 30
    assert all(symbols.find(name) == s for name, s in found.items())


@pytest.mark.parametrize("name", ["B", "alpha"])
def test_a_name_is_declared_once(name: str) -> None:
    with pytest.raises(DeriveError, match=f"{name} is declared already"):
        symbols.symbol(name, one, "again", role="model")


@pytest.mark.parametrize("name", ["", "2x", "a b", "os.system", "__import__('os')", "α", "a-b"])
def test_hostile_or_odd_names_are_refused(name: str) -> None:
    before = dict(symbols.vocabulary())
    with pytest.raises(DeriveError, match="identifier"):
        symbols.symbol(name, one, "a gloss", role="model")
    assert symbols.vocabulary() == before


def test_a_gloss_is_needed() -> None:
    with pytest.raises(DeriveError, match="needs a gloss"):
        symbols.symbol("unheard_of", one, "  ", role="model")
    with pytest.raises(UnknownName):
        symbols.find("unheard_of")


def test_an_unknown_name_offers_the_nearest() -> None:
    with pytest.raises(UnknownName, match="did you mean alpha"):
        symbols.find("alhpa")
    with pytest.raises(UnknownName) as caught:
        symbols.find("a" * 100_000)
    assert len(str(caught.value)) < 300


def test_a_symbol_with_other_assumptions_is_another() -> None:
    with pytest.raises(UnknownName):
        symbols.meaning(sp.Symbol("B"))


def test_rank_is_the_order_of_declaration() -> None:
    own = symbols.vocabulary().values()
    declared = [known.symbol for known in own if known.role != "axis"]  # of any earlier test
    stranger = sp.Symbol("A_stranger")
    assert sorted([stranger, *reversed(declared)], key=symbols.rank) == [*declared, stranger]


def test_the_vocabulary_handed_out_is_a_copy() -> None:
    dict(symbols.vocabulary()).clear()
    taken = symbols.vocabulary()
    taken.clear()  # type: ignore[attr-defined]
    assert symbols.vocabulary()


@pytest.mark.parametrize("name", ["lambda", "class", "None"])
def test_keywords_are_no_symbols(name: str) -> None:
    with pytest.raises(DeriveError, match="must be a Python identifier"):
        symbols.symbol(name, one, "a keyword", role="model")
