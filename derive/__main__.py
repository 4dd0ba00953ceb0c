"""`python -m derive` is the command line."""

from derive.cli import main

raise SystemExit(main())
