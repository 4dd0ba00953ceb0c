"""Puts this folder on the path, for what the tests of several folders share."""

import gc
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
# What the tests make is mostly kept, in caches: looking for cycles after every 700 objects more
# would only take time.
gc.set_threshold(100_000)


def pytest_collection_finish() -> None:
    """What is imported stays until the end: no search for garbage looks at it again."""
    gc.freeze()
