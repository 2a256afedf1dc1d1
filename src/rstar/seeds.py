"""Seeds: every random choice has its own stream, derived from (run, problem, what it is for), so that results do not
depend on the order in which problems are worked on.
"""

from __future__ import annotations

import hashlib


def derive(seed: int, *parts: str | int) -> int:
    """A 63-bit seed from a run's seed and the names of what it is for. Equal arguments give equal seeds."""
    digest = hashlib.blake2b("\x1f".join(map(str, (seed, *parts))).encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big") >> 1
