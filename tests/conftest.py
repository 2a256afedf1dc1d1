"""Settings of all tests."""

import os

# One thread for torch, here and in the processes that tests start: the models are tiny, and the tests run side by side.
os.environ.setdefault("OMP_NUM_THREADS", "1")

from hypothesis import HealthCheck, settings

# A fixed choice of examples by default, so that a red test means that the change at hand broke something. New examples:
# HYPOTHESIS_PROFILE=explore make test. No clocks: a busy machine is no failure.
UNTIMED = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("fixed", UNTIMED, derandomize=True)
settings.register_profile("explore", UNTIMED, derandomize=False)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "fixed"))
