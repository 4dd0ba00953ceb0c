"""The language: symbols, units, numbers as printed, TeX, and the parser of typed text.

Nothing here imports another part of the project.
"""
