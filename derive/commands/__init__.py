"""What the command line does, one module per command; each gives plain data and its text."""
