"""How much rollouts grow, learnt from the turns of others.

At every turn, `Growth` knows how many rollouts took it, how many tokens it added, and how many rollouts ended with it.
Rollouts that are still under way count for the turns that they took, because those that have ended are the short ones
(a product-limit estimate, as by Kaplan and Meier).

What a replica holds at some moment is not the mean: long turns and long rollouts are there for longer. At a random
moment, something of random length L that grows evenly has, on average, E[L²] / 2 E[L].
"""

from __future__ import annotations


class Growth:
    """Expected growth of rollouts by the number of turns that they have taken.

    Args:
        turns: maximum number of turns.
        tokens: first guess of the tokens that a turn and its tool's response add. A turn under way counts as much,
            because the turns that end first are the short ones. So guess high.
        ends: first guess of the probability that a rollout ends with a turn.
    """

    def __init__(self, turns: int, tokens: float, ends: float = 0.4) -> None:
        self._guess = tokens
        self._under_way = [1] * turns  # a first rollout that never ends
        self._taken = [0] * turns
        self._tokens = [0.0] * turns
        self._squares = [0.0] * turns
        self._ended = [ends] * (turns - 1) + [1.0]
        self._of_rollout: tuple[float, float] | None = None

    def begin(self, turn: int) -> None:
        """Record that a rollout begins turn number `turn` (from 0)."""
        self._under_way[min(turn, len(self._taken) - 1)] += 1
        self._of_rollout = None

    def end(self, turn: int, tokens: float, *, last: bool) -> None:
        """Record that this turn added `tokens`, and whether the rollout ended with it."""
        turn = min(turn, len(self._taken) - 1)
        self._under_way[turn] -= 1
        self._taken[turn] += 1
        self._tokens[turn] += tokens
        self._squares[turn] += tokens**2
        self._ended[turn] += last
        self._of_rollout = None

    def abandon(self, turn: int) -> None:
        """Record that a turn that had begun tells nothing: its rollout was dropped."""
        self._under_way[min(turn, len(self._taken) - 1)] -= 1
        self._of_rollout = None

    def of_turn(self, turn: int) -> float:
        """Tokens that a running turn number `turn` has added at a random moment."""
        _, mean, square = self._of(min(turn, len(self._taken) - 1))
        return square / (2 * mean)

    def of_rollout(self) -> float:
        """Tokens that a rollout has added at a random moment between its first turn and its end."""
        mean, square = self._moments()
        return square / (2 * mean)

    def mean(self) -> float:
        """Expected tokens that a rollout adds until its end."""
        return self._moments()[0]

    def _of(self, turn: int) -> tuple[float, float, float]:
        """Probability that a rollout goes on after the turn; mean and mean square of the tokens that the turn adds."""
        under_way, taken, guess = self._under_way[turn], self._taken[turn], self._guess
        count = under_way + taken
        mean = (self._tokens[turn] + under_way * guess) / count
        square = (self._squares[turn] + under_way * 2 * guess**2) / count  # an exponential distribution
        return 1 - self._ended[turn] / (taken + 1), mean, square

    def _moments(self) -> tuple[float, float]:
        """Mean and mean square of what a rollout adds."""
        if self._of_rollout is None:
            mean = square = 0.0
            for turn in reversed(range(len(self._taken))):
                goes_on, tokens, squared = self._of(turn)
                square = squared + goes_on * (2 * tokens * mean + square)
                mean = tokens + goes_on * mean
            self._of_rollout = mean, square
        return self._of_rollout
