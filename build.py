"""Builds the chapters of the book: python build.py [--check] [NN ...]"""

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent

if __name__ == "__main__":
    try:
        from derive.book.build import main

        code = main(sys.argv[1:], ROOT)
    except ModuleNotFoundError as error:
        print(f"{error.name} is not installed; run: pip install -e '.[book]'", file=sys.stderr)
        code = 2
    except KeyboardInterrupt:
        print("interrupted; no file is half written", file=sys.stderr)
        code = 2
    sys.exit(code)
