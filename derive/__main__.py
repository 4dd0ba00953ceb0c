"""`python -m derive` is the command line."""

from derive.cli import script

raise SystemExit(script())
