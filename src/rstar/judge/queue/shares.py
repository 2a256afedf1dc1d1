"""How much one client may hold of a scarce resource: places, sessions, memory, connections.

A client may hold as much as is still free (dynamic thresholds, Choudhury and Hahne 1998): one alone half, two a third
each. So later clients find some, and nobody has a fixed part.
"""

from __future__ import annotations

from collections import Counter


class Shares:
    """Amounts of one resource, by client.

    Args:
        total: how much there is, in the unit of all amounts.
    """

    def __init__(self, total: int) -> None:
        self.total = total
        self._held: Counter[str] = Counter()
        self._used = 0

    def held(self, client: str) -> int:
        """How much a client has."""
        return self._held[client]

    def fits(self, client: str, amount: int = 1) -> bool:
        """Whether a client may take `amount` more: it then holds no more than is left. The very first may take all."""
        left = self.total - self._used - amount
        return left >= 0 and (self._held[client] + amount <= left or not self._used)

    def take(self, client: str, amount: int = 1) -> bool:
        """Give a client so much, if it may have that."""
        if not self.fits(client, amount):
            return False
        self.add(client, amount)
        return True

    def add(self, client: str, amount: int = 1) -> None:
        """Give a client so much, or take it back where `amount` is negative."""
        self._used += amount
        self._held[client] += amount
        if not self._held[client]:
            del self._held[client]
