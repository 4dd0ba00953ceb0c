"""derive: thresholds, proofs and numbers of distributed training, from one declaration each.

`from derive import *` gives the symbols, the strategies, the limits of a training step (such as
`context_ring`), the questions (`threshold`, `optimum`, `feasible`, `steps`, `layer`, `evaluate`),
plans (`task`, `search`, `mesh`, `step_model`) and the catalogue (`chip`, `model`), whose values are
`chip("tpu-v5p")["alpha"]`. A unit is given as text: `number(96, "GB")`. Names are loaded on first
use: `import derive` alone imports nothing else.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from derive.cost.assumptions import Assumptions as Assumptions
    from derive.cost.assumptions import assume as assume
    from derive.cost.assumptions import step_assumptions as step_assumptions
    from derive.cost.block import gated as gated
    from derive.cost.layout import spread as spread
    from derive.cost.limits import *  # noqa: F403
    from derive.cost.network import seconds as seconds
    from derive.cost.passes import program as program
    from derive.cost.reader import block as block
    from derive.cost.stage import run_seconds as run_seconds
    from derive.cost.stage import saved_activations as saved_activations
    from derive.cost.stage import training_flops as training_flops
    from derive.cost.step import step_model as step_model
    from derive.cost.strategies import *  # noqa: F403
    from derive.cost.transformer import *  # noqa: F403
    from derive.facts import *  # noqa: F403
    from derive.notation.errors import DeriveError as DeriveError
    from derive.notation.quantity import Quantity as Quantity
    from derive.notation.quantity import evaluated as evaluated
    from derive.notation.quantity import number as number
    from derive.notation.symbols import *  # noqa: F403
    from derive.notation.symbols import find as find
    from derive.notation.symbols import meaning as meaning
    from derive.plan.mesh import mesh as mesh
    from derive.plan.mesh import regrouped as regrouped
    from derive.plan.search import search as search
    from derive.plan.task import task as task
    from derive.solve.derivation import prove as prove
    from derive.solve.derivation import steps as steps
    from derive.solve.evaluate import evaluate as evaluate
    from derive.solve.feasible import dividing_below as dividing_below
    from derive.solve.feasible import feasible as feasible
    from derive.solve.feasible import multiple_below as multiple_below
    from derive.solve.feasible import nearest_power_of_two as nearest_power_of_two
    from derive.solve.feasible import power_of_two_below as power_of_two_below
    from derive.solve.numerical import numerical as numerical
    from derive.solve.optimum import optimum as optimum
    from derive.solve.recomputation import recomputation as recomputation
    from derive.solve.threshold import threshold as threshold

_HOME = {
    "derive.cost.assumptions": ("Assumptions", "assume", "step_assumptions"),
    "derive.cost.block": ("gated",),
    "derive.cost.layout": ("spread",),
    "derive.cost.limits": (
        "LIMITS", "batch_feed", "context_ring", "gradient_sync", "pipeline_bubble", "tensor_share",
    ),
    "derive.cost.network": ("seconds",),
    "derive.cost.passes": ("program",),
    "derive.cost.reader": ("block",),
    "derive.cost.stage": ("run_seconds", "saved_activations", "training_flops"),
    "derive.cost.step": ("step_model",),
    "derive.cost.strategies": ("STRATEGIES", "Strategy", "layer", "strategy"),
    "derive.cost.transformer": ("BLOCKS",),
    "derive.facts": ("chip", "chips", "load_file", "model", "models"),
    "derive.notation.errors": ("DeriveError",),
    "derive.notation.quantity": ("Quantity", "evaluated", "number"),
    "derive.notation.symbols": ("find", "meaning"),
    "derive.plan.mesh": ("mesh", "regrouped"),
    "derive.plan.search": ("search",),
    "derive.plan.task": ("task",),
    "derive.solve.evaluate": ("evaluate",),
    "derive.solve.feasible": (
        "dividing_below", "feasible", "multiple_below", "nearest_power_of_two",
        "power_of_two_below",
    ),
    "derive.solve.numerical": ("numerical",),
    "derive.solve.optimum": ("optimum",),
    "derive.solve.recomputation": ("recomputation",),
    "derive.solve.derivation": ("prove", "steps"),
    "derive.solve.threshold": ("threshold",),
}  # fmt: skip
_MODULE_OF = {name: module for module, names in _HOME.items() for name in names}


def __getattr__(name: str) -> Any:
    if name == "__all__":
        import_module("derive.notation.tex").install_in_notebook()
        return __dir__()
    if name.startswith("__"):
        raise AttributeError(name)
    if name in _MODULE_OF:
        value = getattr(import_module(_MODULE_OF[name]), name)
        if callable(value) and not isinstance(value, type):
            value = import_module("derive.notation.errors").guarded(value)
        globals()[name] = value
        return value
    vocabulary = import_module("derive.notation.symbols").vocabulary()
    if name in vocabulary:
        return vocabulary[name].symbol
    strategies = import_module("derive.cost.strategies").STRATEGIES
    if name in strategies:
        return strategies[name]
    raise AttributeError(f"derive has no {name!r}")


def __dir__() -> list[str]:
    vocabulary = import_module("derive.notation.symbols").vocabulary()
    strategies = import_module("derive.cost.strategies").STRATEGIES
    # A user's own axes are no names of ours: `import *` must not put them over a user's values.
    symbols = [name for name, entry in vocabulary.items() if entry.role != "axis"]
    return [*sorted([*_MODULE_OF, *strategies]), *symbols]
