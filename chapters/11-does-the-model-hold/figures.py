"""The figures of chapter 11: every number of it, derived, under the name that the prose uses.

Each part declares its figures when it is imported, so the parts are in the order of the chapter.
"""

# ruff: noqa: F401, I001

from .common import chapter
from . import chosen
from . import errors
from . import apart
from . import terms
