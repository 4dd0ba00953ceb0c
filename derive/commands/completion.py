"""What may come next at the prompt, where the line tells more than Python's names: a name of the
catalogue or a choice in quotes, and what a call takes by name."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from inspect import Parameter, signature
from itertools import count, takewhile
from typing import Any

from derive.cost.assumptions import CHOICES
from derive.facts import Chip, Model, shipped
from derive.notation.symbols import vocabulary
from derive.solve.answer import Bounded

_QUOTED = re.compile(r"""(\w+)\s*[(=]\s*(["'])([^"'()]*)$""")
_STRING = re.compile(r"""(["'])(?:(?!\1).)*\1""")
_CALLED = re.compile(r"(\.?)(\w+)$")


def matches(
    line: str, text: str, names: Mapping[str, Any], python: Callable[[str, int], str | None]
) -> list[str]:
    """What `text`, the word at the end of a line, can become, `python` being the completer of
    Python's names: in the quotes of chip(, model( or an assumption one of theirs; where an argument
    begins, what the call takes by name as well."""
    if (quoted := _QUOTED.search(line)) is not None:
        name, quote, typed = quoted.groups()
        done = len(typed) - len(text)  # of a name with a hyphen: what is completed stands after it
        close = quote if done else ""  # else readline itself closes the word
        return [f"{way[done:]}{close}" for way in _ways(name) if way.startswith(typed)]
    own = [f"{name}=" for name in _taken(line[: len(line) - len(text)], names)]
    own = [name for name in own if name.startswith(text)]
    if own and not text:  # which Python completes to a tab
        return own
    plain = takewhile(bool, (python(text, place) or "" for place in count()))
    if {"'", '"'}.intersection(_STRING.sub("", line)):  # in other quotes: chip(...)["alpha"]
        return [name for name in plain if name in vocabulary()]
    return [*own, *(name for name in plain if f"{name.rstrip('(')}=" not in own)]


def _ways(name: str) -> Iterable[str]:
    """What stands in quotes after a name."""
    known = shipped()
    owners: Mapping[str, Mapping[str, Chip | Model]] = {"chip": known.chips, "model": known.models}
    if name in owners:
        return [spelt for one in owners[name].values() for spelt in (one.name, *one.aliases)]
    ways = known.profiles if name == "profile" else CHOICES.get(name, ())
    return [way for way in ways if isinstance(way, str)]


def _taken(line: str, names: Mapping[str, Any]) -> list[str]:
    """What the call that is open at the end of a line takes by name and is not given yet; nothing
    where no argument begins there."""
    line, depth = _STRING.sub("''", line).rstrip(), 0
    for place in reversed(range(len(line))):
        depth += (line[place] in ")]}") - (line[place] in "([{")
        if depth < 0:
            break
    called = _CALLED.search(line[:place]) if depth < 0 else None
    if called is None or line[-1] not in "(,":
        return []
    function = getattr(Bounded, called[2], None) if called[1] else names.get(called[2])
    try:
        declared = signature(function).parameters.values()  # type: ignore[arg-type]
    except (TypeError, ValueError):  # no function, or one of C
        return []
    symbols = [name for name, known in vocabulary().items() if known.role != "time"]
    several = {"changes": [*CHOICES], "values": symbols, "named": [*CHOICES, *symbols]}
    taken = [one.name for one in declared if one.kind is Parameter.KEYWORD_ONLY]
    for one in declared:
        taken += several.get(one.name, []) if one.kind is Parameter.VAR_KEYWORD else []
    given = re.findall(r"(\w+)\s*=", line[place:])
    return [name for name in dict.fromkeys(taken) if name not in given]
