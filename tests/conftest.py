"""Puts this folder on the path, for what the tests of several folders share."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
