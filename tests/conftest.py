"""One setting for all property tests: machines are shared, so no deadline per example."""

from hypothesis import settings

settings.register_profile("shared", deadline=None, max_examples=40, print_blob=True)
settings.load_profile("shared")
