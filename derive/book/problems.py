"""What is wrong with a chapter: one line each, with the file and the line to look at."""

from __future__ import annotations

from dataclasses import dataclass

from derive.notation.errors import DeriveError


@dataclass(frozen=True)
class Problem:
    """A mistake at `path`:`line` (0: the file as a whole).

    A claim or requirement that no longer holds names its `figure`, and what was `printed` and
    `derived`: under `--check` that is drift, and an error when building.
    """

    path: str
    line: int
    text: str
    figure: str = ""
    printed: str = ""
    derived: str = ""

    @property
    def is_drift(self) -> bool:
        return bool(self.figure)

    def __str__(self) -> str:
        place = f"{self.path}:{self.line}" if self.line else self.path
        return f"{place}: {self.text}"

    def drift(self) -> str:
        """The line of the drift report."""
        return drift_line(self.path, self.line, self.figure, self.printed, self.derived)


def drift_line(path: str, line: int, name: str, printed: str, derived: str) -> str:
    """One line of the drift report: place, figure, what is printed and what is derived."""
    return f"{path}:{line}  {name}  printed {printed}  derived {derived}"


class BookError(DeriveError):
    """What stops a chapter, or the whole build: its problems, one a line."""

    def __init__(self, *problems: Problem) -> None:
        super().__init__("\n".join(map(str, problems)))
        self.problems = problems
