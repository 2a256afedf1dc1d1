"""Fair shares of a scarce resource: queue slots, sessions, memory, connections.

A client may hold as much as is still free (dynamic thresholds, Choudhury and Hahne 1998): one client gets half, two
get a third each. So there is always some left for new clients, without fixed quotas.
"""

from __future__ import annotations

from collections import Counter


class ClientQuotas:
    """Amounts of one resource, by client.

    Args:
        total: total amount, in the unit of all amounts.
    """

    def __init__(self, total: int) -> None:
        self.total = total
        self._held: Counter[str] = Counter()
        self._used = 0

    def held(self, client: str) -> int:
        """Amount that a client holds."""
        return self._held[client]

    def fits(self, client: str, amount: int = 1) -> bool:
        """Whether a client may take `amount` more and still hold at most what is left; the first taker may take all.

        Nothing always fits. A check before an ``await`` says nothing about the time after it: `take` instead.
        """
        if amount <= 0:
            return True
        left = self.total - self._used - amount
        return left >= 0 and (self._held[client] + amount <= left or not self._used)

    def take(self, client: str, amount: int = 1) -> bool:
        """Take `amount` for a client if it fits. Returns whether it did."""
        if not self.fits(client, amount):
            return False
        self.add(client, amount)
        return True

    def add(self, client: str, amount: int = 1) -> None:
        """Change a client's amount without a check; negative amounts are released."""
        self._used += amount
        self._held[client] += amount
        if not self._held[client]:
            del self._held[client]


class Charge:
    """What one request holds of a client's share, until it is released as a whole."""

    def __init__(self, quotas: ClientQuotas, client: str) -> None:
        self._quotas, self._client, self._amount = quotas, client, 0

    @property
    def total(self) -> int:
        """What all clients together may hold."""
        return self._quotas.total

    @property
    def amount(self) -> int:
        """Amount held."""
        return self._amount

    def take(self, amount: int) -> bool:
        """Take `amount` more if it fits. Returns whether it did."""
        if not self._quotas.take(self._client, amount):
            return False
        self._amount += amount
        return True

    def release(self) -> None:
        """Give everything back."""
        self._quotas.add(self._client, -self._amount)
        self._amount = 0
