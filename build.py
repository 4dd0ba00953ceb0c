"""Builds the chapters of the book: python build.py [--check] [NN ...]"""

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent

if __name__ == "__main__":
    try:
        from derive.book.build import main
    except ModuleNotFoundError as error:
        print(f"{error.name} is not installed; run: pip install -e '.[book]'", file=sys.stderr)
        sys.exit(2)
    sys.exit(main(sys.argv[1:], ROOT))
