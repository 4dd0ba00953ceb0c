"""The tree of a quantity down to its readings, and the sources that those cite."""

from __future__ import annotations

from collections.abc import Iterable

from derive.facts import Catalogue, sources
from derive.notation.quantity import Quantity

_BRANCH, _LAST, _PIPE, _GAP = "├─ ", "└─ ", "│  ", "   "


def tree(quantity: Quantity) -> list[str]:
    """The lines of a quantity and, drawn below it, of its inputs; each sub-tree once."""
    return _lines(quantity, set(), "")


def cited(
    quantities: Iterable[Quantity], keys: Iterable[str] = (), catalogue: Catalogue | None = None
) -> list[str]:
    """A line for each source that some quantities, or some keys, cite, in the order of the files of
    the catalogue, by default the shipped one."""
    wanted = {*keys, *(node.source for quantity in quantities for node in quantity.nodes())}
    return [str(source) for source in sources(catalogue) if source.key in wanted]


def _lines(node: Quantity, seen: set[int], name: str) -> list[str]:
    name = name or node.name or "value"
    formula = f" = {node.formula}" if node.formula else ""
    head = f"{name}{formula} = {node.printed()}"
    place = f"[{node.source}] {node.where}".rstrip() if node.source else node.where
    origin = ", ".join(part for part in (node.owner, node.basis, place, node.status) if part)
    head += f"  ({origin})" if origin else ""
    if node.inputs and id(node) in seen:
        return [f"{head}, as above"]
    seen.add(id(node))
    lines = [head]
    for index, (child, given) in enumerate(node.inputs):
        last = index == len(node.inputs) - 1
        first, *rest = _lines(given, seen, child)
        lines.append((_LAST if last else _BRANCH) + first)
        lines += [(_GAP if last else _PIPE) + line for line in rest]
    return lines
