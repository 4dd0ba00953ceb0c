"""The page for authors: a template, filled with the docstrings, signatures and tables of the code
and with two chapters that are rendered, one that builds and one that does not."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import jinja2

import derive
from derive.book import claims, files, report
from derive.book.build import Checked, Result, render_all
from derive.book.cards import MeshDrawing
from derive.book.chapter import Chapter
from derive.book.folders import SCRIPT, TEMPLATE, Folder, Shelf, called, has_script
from derive.book.plots import Bars, Plot
from derive.book.problems import Problem, diff
from derive.book.prose import DERIVED, FUNCTIONS
from derive.book.scaffold import FILES, FIRST, GUIDE
from derive.book.tables import cell, math
from derive.book.template import AS_TEXT
from derive.commands import about
from derive.cost.assumptions import CHOICES, DEFAULT
from derive.cost.limits import LIMITS
from derive.cost.strategies import STRATEGIES
from derive.facts import Chip, Model, shipped
from derive.facts.fact import CHIP_FACTS, MODEL_COUNTS
from derive.notation import printed, units
from derive.notation.symbols import vocabulary
from derive.solve.answer import Bounded

PAGE = "WRITING.md"
REFUSED = "02"
RULES = tuple(one for name in derive.book.__all__ if callable(one := getattr(printed, name, None)))
NUMBERS = (
    "threshold", "optimum", "feasible", "steps", "number", "evaluated", "evaluate",
    "power_of_two_below", "nearest_power_of_two", "multiple_below",
)  # fmt: skip


class Entry(NamedTuple):
    """How something is called, and what it is for."""

    call: str
    told: str


def page(place: Path) -> str:
    """The page for the book whose chapters are in the folder `place`."""
    return _page(f"python {SCRIPT}" if has_script(place) else "derive build")


@lru_cache(maxsize=1)
def _page(build: str) -> str:
    shelf = Shelf(GUIDE)
    first, refused = render_all(shelf, [FIRST.name[:2], REFUSED], holes=True).values()
    assert isinstance(first, Result) and isinstance(refused, Result) and not first.problems
    catalogue = shipped()
    environment = jinja2.Environment(
        trim_blocks=True, lstrip_blocks=True, undefined=jinja2.StrictUndefined,
        keep_trailing_newline=True,
    )  # fmt: skip
    template = environment.from_string((GUIDE / f"{PAGE}.j2").read_text("utf-8"))
    return template.render(
        build=build,
        files={file: (FIRST / file).read_text("utf-8") for file in FILES},
        rendered=first.rendered.text.partition("\n\n")[2],
        why=report.why(shelf, f"{FIRST.name[:2]}.least")
            .replace(f"to be printed at {called(GUIDE)}/", "printed at chapters/")
            .replace(f"{called(GUIDE)}/", "chapters/"),
        refused=list(_refused(refused)),
        functions=[_entry(one, 1) for one in FUNCTIONS],
        derived=DERIVED,
        as_text=re.sub(r"<<(?: '<<' >>)?|<% \w+ %>", r"`\g<0>`", AS_TEXT),
        chapter=_entry(Chapter),
        methods=[_entry(one, 1) for name, one in vars(Chapter).items()
                 if inspect.isfunction(one) and name[0] != "_"],
        parts=[_entry(one) for one in (cell, math, Plot, Bars, MeshDrawing)],
        rules=[_entry(one) for one in RULES],
        numbers=[
            *(_entry(getattr(derive, name)) for name in NUMBERS[:1]),
            _entry(Bounded.on, 1)._replace(call="threshold(...).on(*givers, **values)"),
            *(_entry(getattr(derive, name)) for name in NUMBERS[1:]),
            *(_entry(one, 1)._replace(call=f"{kind}[key]")
              for kind, one in (("chip", Chip.quantity), ("model", Model.quantity))),
            _entry(Chip.bindings, 1)._replace(call="chip.bindings(precision='bf16')"),
        ],
        claims=(claims.__doc__ or "").partition("\n\n")[2].strip(),
        facts={"chip": CHIP_FACTS, "model": MODEL_COUNTS},
        owners={"Chips": catalogue.chips, "Models": catalogue.models},
        subjects={"Strategies": {name: one.title for name, one in STRATEGIES.items()},
                  "Limits of a training step": {name: one.gloss for name, one in LIMITS.items()}},
        symbols={name: one.gloss for name, one in vocabulary().items() if one.role != "axis"},
        units={"bases": units.BASES, "labels": units.LABELS,
               "names": [name for name, one in vars(units).items() if isinstance(one, units.Unit)]},
        typed=_told(units.typed_unit),
        names=re.sub(r".*(?=`names`)|`files`.*", "", _told(Chapter)).strip(),
        assumptions={name: [repr(getattr(DEFAULT, name)), *(repr(way) for way in ways
                            if way != getattr(DEFAULT, name))] for name, ways in CHOICES.items()},
        sources={key: source.title for key, source in catalogue.sources.items()},
    )  # fmt: skip


def _refused(result: Result) -> Iterator[Entry]:
    """What a template says that is refused, with the message."""
    lines = (result.folder.path / TEMPLATE).read_text("utf-8").splitlines()
    for problem in result.problems:
        typed = lines[problem.line - 1] if problem.path.endswith(".j2") else "(nothing)"
        yield Entry(typed, problem.text)


def _entry(one: Callable[..., Any], first: int = 0) -> Entry:
    return Entry(about.called(one, first), _told(one))


def _told(one: Callable[..., Any]) -> str:
    """A docstring on one line, without what is raised: messages say it when they come."""
    parts = re.split(r"\n\s*\n", inspect.getdoc(one) or "")
    kept = (re.sub(r"\s*\b(?:Each )?[Rr]aises\b.*", "", part, flags=re.DOTALL) for part in parts)
    return " ".join(" ".join(kept).split()).rstrip(";")


def written(place: Path) -> tuple[Path, ...]:
    """The page, if it is there and was another: it is written anew. Raises OSError."""
    path = place / PAGE
    return files.write({path: page(place).encode()}) if path.is_file() else ()


def checked(place: Path) -> Iterator[Checked]:
    """The page against what is written of it, where it is there. Raises OSError."""
    path, shown = place / PAGE, f"{called(place)}/{PAGE}"
    if not path.is_file():
        return
    old, new = path.read_bytes(), page(place)
    differs = Problem(shown, 0, "has other text than a build writes")
    drifts = (differs,) if old != new.encode() else ()
    yield Checked(Folder(path, shown), (), drifts, diff(old.decode(errors="replace"), new, shown))
