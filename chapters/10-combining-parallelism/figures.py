"""The figures of chapter 10: every number of it, derived, under the name that the prose uses.

Each part declares its figures when it is imported, so the parts are in the order of the chapter:
conditions are numbered as they are declared.
"""

# ruff: noqa: F401, I001

from .common import chapter
from . import kinds
from . import layout
from . import model
from . import searches
from . import reading
from . import sequences
from . import stages
from . import thresholds
from . import corrections
from . import terms
from . import published
from . import as_ran
from . import law
from . import exercises
from . import errata
