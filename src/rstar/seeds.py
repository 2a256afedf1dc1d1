"""Seeds: every random choice has its own stream, derived from (run, problem, purpose).

Results therefore do not depend on the order in which problems are processed.
"""

from __future__ import annotations

import hashlib


def derive(seed: int, *parts: str | int) -> int:
    """A 63-bit seed from the run's seed and the names of its purpose. Equal arguments give equal seeds."""
    digest = hashlib.blake2b("\x1f".join(map(str, (seed, *parts))).encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big") >> 1
