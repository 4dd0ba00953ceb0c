"""The step model as it is shown: every term once, with an expression that reads back."""

from __future__ import annotations

import re

import pytest

from derive.cost.assumptions import step_assumptions
from derive.cost.step import step_model
from derive.notation.read import expression


@pytest.mark.parametrize("name", ["notebook", "corrected"])
def test_every_term_is_shown_and_reads_back(name: str) -> None:
    of = step_model(name)
    terms = [
        *of.definitions,
        *of.parts,
        *(one for kinds in of.memory.values() for one in kinds),
        of.model_flops,
    ]
    lines = [line for line in repr(of).splitlines() if line.startswith("  ")]
    assert len(lines) == len(terms)
    for line, term in zip(lines, terms, strict=True):
        found = re.fullmatch(r"  (\w+) = (.*?)  \((.*)\)", line)
        assert found and found[1] == term.name and term.gloss in found[3]
        assert f"[{term.source}]" in found[3] and all(x in found[3] for x in term.rests_on)
        if term.name != "L_r":  # nested deeper than what people type
            assert (expression(found[2]) - term.expr).expand() == 0
    assert repr(of).splitlines()[0].endswith(name)


def test_assumptions_show_as_they_are_typed() -> None:
    for text in ("notebook", "default", "notebook+logits", "default-zigzag"):
        assert repr(step_assumptions(text)) == text
