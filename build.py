"""Builds the chapters of the book: python build.py [--check] [NN ...]"""

import gc
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent

if __name__ == "__main__":
    gc.disable()  # a short run that keeps most of what it makes: collecting would only take time
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
