"""`derive figures` and `derive why`: the figures of the book, and where each comes from."""
