"""Random tests draw the same examples on every run, and no slow machine fails them."""

from hypothesis import settings

settings.register_profile("steady", deadline=None, derandomize=True)
settings.load_profile("steady")
