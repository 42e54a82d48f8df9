"""What holds for every test."""

from hypothesis import settings

# A busy machine is no failure: time limits belong to benchmarks.
settings.register_profile("coplace", deadline=None)
settings.load_profile("coplace")
