"""Settings for all tests: one thread per process, and property tests without a deadline.

Several test processes with as many threads as cores each would mostly wait for one another; and
machines are shared, so that no example may be failed for its duration.
"""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")  # before torch is imported, and for child processes

from hypothesis import settings

settings.register_profile("shared", deadline=None, max_examples=40, print_blob=True)
settings.load_profile("shared")
