"""Blocks of a chapter: conditions, derivations, overrides, errata, sources, the notation table."""

from __future__ import annotations

import re

from derive import facts
from derive.book.formulas import Condition, Derivation
from derive.book.ledger import Ledger
from derive.book.marks import plain
from derive.book.tables import aligned
from derive.facts.readings import Reading
from derive.facts.tree import told
from derive.notation import tex
from derive.notation.symbols import vocabulary

LATE = "\ue004"
_MATH = re.compile(r"\$`([^`]*)`\$|^```math\n(.*?)\n```", re.MULTILINE | re.DOTALL)
_TOKEN_END = r"(?![A-Za-z_])"


def condition(of: Condition, reading: str, ledger: Ledger, line: int) -> str:
    """A condition: anchor, formula, number and the one-sentence reading, which is prose."""
    above = f'<a id="{of.anchor}"></a>\n\n{tex.block(of.latex)}\n\n**({of.number})**'
    label = f" *{of.label}.*" if of.label else ""
    return ledger.mark("condition", of.name, above, line) + f"{label} {reading.strip()}"


def derivation(of: Derivation) -> str:
    """The steps, numbered, each with its words and its formula at the left margin."""
    return "\n\n".join(
        f"**{number}.** {step.words.strip()}\n\n{tex.block(step.latex)}"
        for number, step in enumerate(of.steps, 1)
    )


def anchor(key: str) -> str:
    """The anchor of a source: "p-llama3"."""
    return re.sub(r"[^a-z0-9]+", "-", key.lower())


def late(name: str) -> str:
    """What stands for a block that depends on the whole chapter until `completed`."""
    return f"{LATE}{name}{LATE}"


def completed(raw: str, ledger: Ledger) -> str:
    """The rendering with its late blocks; sources come last, since others may cite."""
    for name, made in (("errata", errata), ("notation", notation), ("sources", sources)):
        if late(name) in raw:
            raw = raw.replace(late(name), made(ledger, raw))
    return raw


def overrides(ledger: Ledger) -> str:
    """A table of the readings used in place of those of the chapter's profile."""
    chapter = ledger.chapter
    rows = []
    for chip in chapter.chips:
        for change in chip.overrides:
            before = _reading(chip, change.key, change.before, ledger)
            after = _reading(chip, change.key, change.after, ledger)
            row = [chip.title, change.key.replace("_", " "), after, before]
            if row not in rows:
                rows.append(row)
    if not rows:
        return f"This chapter reads its facts under the profile `{chapter.profile}` throughout."
    head = f"Facts are read under the profile `{chapter.profile}`, except:\n\n"
    return head + aligned(["Chip", "Fact", "Used here", "Profile's reading"], rows, "llll")


def _reading(chip: facts.Chip, key: str, reading: Reading | None, ledger: Ledger) -> str:
    if reading is None:
        return "none"
    if isinstance(reading.value, tuple):
        value = "x".join(map(str, reading.value))
    else:
        value = told(chip.fact(key).quantity(reading))
    if not reading.source:
        return f"{value} ({reading.status})"
    ledger.cited.setdefault(reading.source)
    return f"{value} [[{reading.source}](#{anchor(reading.source)})]"


def errata(ledger: Ledger, raw: str) -> str:
    """A table of what documents print, what is derived, and why they differ."""
    chapter = ledger.chapter
    if not chapter.errata:
        return "None are known."
    rows = []
    for found in chapter.errata:
        figure = chapter.figures[found.figure]
        if figure.kind == "shown":
            right = figure.text()[0]
        else:
            right = ledger.words.get(found.figure, "")
            right = right or (told(figure.quantity) if figure.quantity is not None else "")
        rows.append([found.place, found.printed, right, found.reason])
    return aligned(["Place", "Printed", "Derived", "Why"], rows, "llll")


def sources(ledger: Ledger, raw: str) -> str:
    """A list of what is cited, in the order of the catalogue."""
    wanted = dict(ledger.cited)
    for figure in ledger.chapter.figures.values():
        wanted |= dict.fromkeys(figure.cite)
    lines = []
    for source in facts.sources():
        if source.key in wanted:
            title = f"[{source.title}]({source.address})" if source.address else source.title
            dated = "" if source.dated == "undated" else f", {source.dated}"
            lines.append(
                f'- <a id="{anchor(source.key)}"></a>**{source.key}**: '
                f"{title}, {source.publisher}{dated}."
            )
    return "\n".join(lines) if lines else "Nothing is cited."


def notation(ledger: Ledger, raw: str) -> str:
    """A table of the symbols in the chapter's formulas, in the order of the vocabulary."""
    text = plain(raw)
    formulas = " ".join(inline or block for inline, block in _MATH.findall(text))
    rows = []
    remaining = formulas
    known = list(vocabulary().values())
    seen = set()
    # Longest first, so that W is not found inside W_{dcn}; each find is taken out.
    for entry in sorted(known, key=lambda entry: -len(entry.tex)):
        lead = "" if entry.tex.startswith("\\") else r"(?<![A-Za-z\\_])"
        pattern = re.compile(lead + re.escape(entry.tex) + _TOKEN_END)
        if len(entry.tex) == 1:
            remaining = re.sub(r"\\(?:text|mathrm)\{[^{}]*\}", " ", remaining)
        if pattern.search(remaining):
            seen.add(entry.symbol.name)
            remaining = pattern.sub(" ", remaining)
    for entry in known:
        if entry.symbol.name in seen:
            rows.append([tex.inline(entry.tex), entry.gloss, entry.unit.words()])
    if not rows:
        return "The chapter has no formulas."
    return aligned(["Symbol", "Meaning", "Unit"], rows, "lll")
