"""Builds the chapters of the book, as `derive build` does: python build.py [--check] [NN ...]"""

import sys
from pathlib import Path

from derive.cli import script

CHAPTERS = Path(__file__).resolve().parent / "chapters"

if __name__ == "__main__":
    arguments = sys.argv[1:]
    if not any(word.startswith("--chapters") for word in arguments):
        arguments = ["--chapters", str(CHAPTERS), *arguments]
    sys.exit(script(["build", *arguments]))
