"""What is written down while one template is rendered: marks, problems, uses, words, citations."""

from __future__ import annotations

from dataclasses import dataclass, field

from derive.book.chapter import Chapter
from derive.book.figures import Figure
from derive.book.marks import Mark, checked, marked
from derive.book.problems import Problem
from derive.notation.errors import DeriveError, quoted
from derive.notation.printed import shown


@dataclass
class Ledger:
    """The notes of one rendering of `chapter` from the template at `path`."""

    chapter: Chapter
    path: str
    marks: list[Mark] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)
    used: set[tuple[str, str]] = field(default_factory=set)
    words: dict[str, str] = field(default_factory=dict)
    holding: dict[str, bool] = field(default_factory=dict)
    cited: dict[str, None] = field(default_factory=dict)

    def mark(self, kind: str, name: str, text: str, line: int, ending: str = "") -> str:
        """`text` with the mark of what printed it."""
        self.marks.append(Mark(kind, name, line, ending))
        return marked(len(self.marks) - 1, text)

    def use(self, kind: str, name: str) -> None:
        """Note that something declared is printed."""
        self.used.add((kind, name))

    def say(self, figure: Figure, words: str, line: int) -> str:
        """Check the author's words for a figure, note them, and give them back with their mark.

        Words that do not hold are a problem, and are printed all the same, so that one run finds
        all of them.
        """
        checked(words)
        self.use("figure", figure.name)
        self.words.setdefault(figure.name, words)
        if (noun := figure.clash(words)) and figure.quantity:
            counted = figure.quantity.unit.words() or "nothing, it is a pure number"
            raise DeriveError(f"{figure.name} counts {counted}; {quoted(words)} counts {noun}")
        true = figure.holds(words)
        self.holding[figure.name] = self.holding.get(figure.name, True) and true
        if not true:
            self.problems.append(self._broken(figure, words, line))
        return self.mark(figure.kind, figure.name, words, line)

    def _broken(self, figure: Figure, words: str, line: int) -> Problem:
        derived = figure.restated(words)
        if figure.kind == "require":
            why = f": {figure.because}" if figure.because else f", it is {derived}"
            text = f"{figure.name} does not hold{why}; the template says {quoted(words)}"
        else:
            value = "" if figure.quantity is None else shown(figure.quantity.value)
            rule = f" by rule {figure.check}" if figure.check else ""
            text = (
                f"{figure.name} is {value}, so {quoted(words)} does not hold{rule}; "
                f"it would be {quoted(derived)}"
            )
        return Problem(self.path, line, text, figure.name, words, derived)
