"""Blocks of a chapter: conditions, derivations, overrides, errata, sources, the notation table."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from derive import facts
from derive.book.figures import Figure
from derive.book.marks import plain
from derive.book.tables import aligned
from derive.notation import tex
from derive.notation.errors import DeriveError, quoted
from derive.notation.printed import shown
from derive.notation.symbols import vocabulary
from derive.solve.derivation import Step, tried

_MATH = re.compile(r"\$`([^`]*)`\$|^```math\n(.*?)\n```", re.MULTILINE | re.DOTALL)
_TOKEN_END = r"(?![A-Za-z_])"


# --- formulas and derivations


@dataclass(frozen=True)
class Formula:
    """A formula under a name; a condition has a number, "6.2", and may have a label; `statement` is
    what z3 decides of it, and `decided` says so, both empty of a definition."""

    name: str
    latex: str
    number: str = ""
    label: str = ""
    statement: str = ""
    decided: str = ""

    @property
    def file(self) -> str:
        """The file of the statement, beside the chapter."""
        return f"{self.name}.smt2"

    @property
    def place(self) -> int:
        """Which condition of its chapter it is, from 1."""
        return int(self.number.rpartition(".")[2])

    @property
    def anchor(self) -> str:
        return f"condition-{self.number.replace('.', '-')}"


def condition(formula: Formula) -> tuple[str, str]:
    """A condition: anchor, formula and number, and the label that goes before its reading."""
    number = f"**({formula.number})**"
    above = f'<a id="{formula.anchor}"></a>\n\n{tex.block(formula.latex)}\n\n{number}'
    return above, f" *{formula.label}.*" if formula.label else ""


def steps_of(steps: Sequence[Step]) -> tuple[Step, ...]:
    """The steps as a tuple; raises DeriveError where there are none, or one is something else."""
    listed = tuple(steps)
    if not listed:
        raise DeriveError("a derivation without steps")
    for step in listed:
        if not isinstance(step, Step):
            raise DeriveError(f"expected a step with words and latex, found {quoted(step)}")
    return listed


def derivation(name: str, steps: Sequence[Step]) -> str:
    """The steps, numbered, each with its words and its formula at the left margin.

    Each is proved again; raises ProofError naming the derivation and the step.
    """
    lines = []
    for number, step in enumerate(steps, 1):
        try:
            tried(step)
        except DeriveError as error:
            raise type(error)(f"{name}, step {number}: {error}") from None
        lines.append(f"**{number}.** {step.words.strip()}\n\n{tex.block(step.latex)}")
    return "\n\n".join(lines)


# --- closing blocks


@dataclass(frozen=True)
class Erratum:
    """What a document prints in place of a figure, where, and why it is wrong."""

    figure: str
    printed: str
    reason: str
    place: str


def anchor(key: str) -> str:
    """The anchor of a source: "p-llama3"."""
    return re.sub(r"[^a-z0-9]+", "-", key.lower())


def overrides(profile: str, chips: Iterable[facts.Chip], cited: dict[str, None]) -> str:
    """A table of the readings used in place of those of the profile; notes what it cites."""
    rows = []
    for chip in chips:
        for change in chip.overrides:
            pair = (change.after, change.before)
            readings = [_reading(chip, change.key, reading, cited) for reading in pair]
            row = [chip.title, change.key.replace("_", " "), *readings]
            if row not in rows:
                rows.append(row)
    if not rows:
        return f"This chapter reads its facts under the profile `{profile}` throughout."
    head = f"Facts are read under the profile `{profile}`, except:\n\n"
    return head + aligned(["Chip", "Fact", "Used here", "Profile's reading"], rows, "llll")


def _reading(
    chip: facts.Chip, key: str, reading: facts.Reading | None, cited: dict[str, None]
) -> str:
    if reading is None:
        return "none"
    if isinstance(reading.value, tuple):
        value = "x".join(map(str, reading.value))
    else:
        value = shown(reading.value, chip.fact(key).key.unit)
    if not reading.source:
        return f"{value} ({reading.status})"
    cited.setdefault(reading.source)
    return f"{value} [[{reading.source}](#{anchor(reading.source)})]"


def errata(
    listed: Iterable[Erratum], figures: Mapping[str, Figure], words: Mapping[str, str]
) -> str:
    """A table of what documents print, what is derived, and why they differ; `words` are those in
    which the chapter prints a figure."""
    rows = []
    for erratum in listed:
        figure = figures[erratum.figure]
        right = figure.text()[0] if figure.kind == "shown" else words.get(erratum.figure, "")
        if not right and figure.quantity is not None:
            right = figure.quantity.printed()
        rows.append([erratum.place, erratum.printed, right, erratum.reason])
    if not rows:
        return "None are known."
    return aligned(["Place", "Printed", "Derived", "Why"], rows, "llll")


def sources(cited: Collection[str], catalogue: facts.Catalogue) -> str:
    """A list of the sources of those keys, in the order of the catalogue."""
    lines = []
    for source in facts.sources(catalogue):
        if source.key in cited:
            title = f"[{source.title}]({source.address})" if source.address else source.title
            start = f'- <a id="{anchor(source.key)}"></a>**{source.key}**'
            lines.append(f"{start}: {title}, {source.issue}.")
    return "\n".join(lines) if lines else "Nothing is cited."


def notation(raw: str) -> str:
    """A table of the symbols in the formulas of a rendering, in the order of the vocabulary."""
    remaining = " ".join(inline or block for inline, block in _MATH.findall(plain(raw)))
    known = list(vocabulary().values())
    seen = set()
    # Longest first, so that W is not found inside W_{dcn}; each find is taken out.
    for entry in sorted(known, key=lambda entry: -len(entry.tex)):
        lead = "" if entry.tex.startswith("\\") else r"(?<![A-Za-z\\_])"
        pattern = lead + re.escape(entry.tex) + _TOKEN_END
        if len(entry.tex) == 1:
            remaining = re.sub(r"\\(?:text|mathrm)\{[^{}]*\}", " ", remaining)
        if entry.tex in remaining and re.search(pattern, remaining):
            seen.add(entry.symbol.name)
            remaining = re.sub(pattern, " ", remaining)
    printed = [entry for entry in known if entry.symbol.name in seen]
    rows = [[tex.inline(one.tex), one.gloss, one.unit.words()] for one in printed]
    if not rows:
        return "The chapter has no formulas."
    return aligned(["Symbol", "Meaning", "Unit"], rows, "lll")
