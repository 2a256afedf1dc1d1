"""Settings of all tests."""

import os

from hypothesis import settings

# A fixed choice of examples by default, so that a red test means that the change at hand broke something. New examples:
# HYPOTHESIS_PROFILE=explore make test
settings.register_profile("fixed", derandomize=True)
settings.register_profile("explore", derandomize=False)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "fixed"))
