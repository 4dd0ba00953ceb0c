"""What a book rests on is changed, and what none of its words notices is named."""

from __future__ import annotations

import ast
import json
from pathlib import Path

import pytest

import derive
from derive.book.mutants import Mutant, mutants

PACKAGE = Path(derive.__file__).parent
FACTS = """
[sources.ours]
title = "Measured"
publisher = "us"
kind = "own"
dated = "2026"
read = 2026-01-01

[chips.ours]
title = "Ours"

[chips.ours.facts]
bf16 = { value = 1e15, unit = "FLOP/second", source = "ours", status = "measured", where = "a", basis = "dense per chip" }
fp8 = [
  { value = 2e15, unit = "FLOP/second", source = "ours", status = "measured", where = "a", basis = "dense per chip" },
]
memory = { value = 80e9, unit = "byte", source = "ours", status = "measured", where = "a", basis = "per chip" }
"""  # noqa: E501
FIGURES = """
chapter = Chapter("06", "A chapter", files="facts.toml")
chip = chapter.chip("ours")
chapter.claim("rate", chip["bf16"])
chapter.shown("faster", chip["fp8"])


def never(many):
    return 2 * many
"""
TEMPLATE = '<< claim("rate", "1.0e15 FLOP/s") >> << show("faster") >><< derived >>\n'
SURVIVOR = "chapters/06-mesh/facts.toml: ours.fp8 [ours]: 2e15 -> 2.2e+15"
SUMMED_UP = (
    "3 changes: 1 noticed (claim 1, given 0, require 0, condition 0, derivation 0, error 0), "
    "1 of facts that the book does not use, {} argued, {} left"
)


@pytest.fixture
def small(book):
    """A book of a chip whose first rate is claimed, whose second is shown alone, and whose memory
    it does not use; what is given changes these facts alone."""
    book.write(TEMPLATE, declared=FIGURES)
    (book.folder() / "facts.toml").write_text(FACTS)
    assert book.run()[0] == 0, book.run()
    return lambda *more: book.run("--mutate", "--only", "facts.toml", *more)


def test_what_is_shown_alone_survives(small, book):
    code, out, _ = small()
    line = 1 + FACTS.splitlines().index(next(x for x in FACTS.splitlines() if "2e15" in x))
    named = f"chapters/06-mesh/facts.toml:{line}  ours.fp8 [ours]: 2e15 -> 2.2e+15  (only shown)"
    assert (code, out.splitlines()) == (1, [named, SUMMED_UP.format(0, 1)])
    assert book.run("--check")[0] == 0, "what was changed is a copy"


def test_what_is_never_called_is_told_without_a_try(small, book):
    code, out, _ = book.run("--mutate", "--only", "2 * many", "--json")
    (row,) = json.loads(out)["survivors"]
    assert (code, row["name"].partition(": ")[2]) == (1, "never: 2 * many -> 3 * many")
    assert (row["run"], row["by"]) == (False, "")


def test_what_is_argued_may_survive(small, book):
    argued = book.root / "chapters" / "survivors.toml"
    argued.write_text(f'[[argued]]\nreason = "an aside"\nsurvivors = ["{SURVIVOR}"]\n')
    code, out, _ = small("--json")
    found = json.loads(out)
    (row,) = found["survivors"]
    assert (code, row["name"], row["reason"]) == (0, SURVIVOR, "an aside")
    assert found["noticed"]["claim"] == found["unused"] == 1
    argued.write_text('[[argued]]\nreason = "all of them"\nsurvivors = ["chapters"]\n')
    code, out, err = small()
    assert (code, out) == (2, "") and "survivors.toml: chapters: expected a place" in err


def test_a_book_that_is_not_up_to_date_is_refused(small, book):
    book.write(TEMPLATE.replace("1.0e15", "2.0e15"), declared=FIGURES)
    code, out, err = small()
    assert (code, out) == (2, "") and "06-mesh/chapter.md.j2" in err and "2.0e15" in err


# --- what is changed


def changes(name: str, where: str) -> list[Mutant]:
    """The changes of a file of derive's at a place."""
    return list(mutants(PACKAGE, [], f"derive/{name}: {where}: "))


def test_each_part_of_a_formula_is_changed_alone():
    made = [one.after for one in changes("cost/program.py", "sent_part")]
    assert {"(n + 1) / n", "(n - 1) * n", "n - 2"} <= {*made}
    made = [one.after for one in changes("cost/work.py", "passes")]
    assert {"2 - share", "both * (1 + share)", "both / (1 - share)"} <= {*made}


def test_each_default_is_another_choice():
    made = changes("cost/assumptions.py", "Assumptions")
    defaults = [one.after for one in made if one.kind == "default"]
    assert any("serial" in after for after in defaults)
    assert sum("frozenset(STEP)" in after for after in defaults) == 15 + 9
    for choice in ("zero-bubble", "'none'", "'full'", "'given'"):
        assert any(choice in after for after in defaults)


def test_every_change_is_one_that_can_be_read():
    for one in mutants(PACKAGE, [], "memory"):
        text = (PACKAGE.parent / one.file).read_text("utf-8")
        assert one.before != one.after and one.content != text
        assert text.count("\n") >= one.line > 0
        if one.file.endswith(".py"):
            ast.parse(one.content)
