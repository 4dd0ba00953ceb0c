"""The figures of chapter 12: every number of it, derived, under the name that the prose uses.

Each part declares its figures when it is imported, so the parts are in the order of the chapter:
conditions are numbered as they are declared.
"""

# ruff: noqa: F401, I001

from .common import chapter
from . import books
from . import partitioners
from . import memory
