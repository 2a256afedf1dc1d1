"""The five search methods, each a short loop over the same expansion.

``greedy``: one program by greedy decoding. ``sample``: independent programs, run as a whole. ``best-of-n``: independent
programs whose steps run as they are sampled, so a failing step ends its program and saves the rest. ``beam``: step beam
search. ``mcts``: Monte Carlo tree search. All follow arXiv 2501.04519, section 3, except as stated in
docs/deviations.md.

A method returns nothing: its results are in the tree. No method waits for another problem.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from rstar.config import (
    AnySearch,
    BeamConfig,
    BestOfNConfig,
    EarlyStopConfig,
    GreedyConfig,
    MctsConfig,
    Method,
    SampleConfig,
)
from rstar.lifecycle import gather_or_cancel
from rstar.problems import Problem
from rstar.search.checks import scores
from rstar.search.choose import COVERED, TREE_METHODS, Votes, decided, masses
from rstar.search.expand import Expander, Expansion
from rstar.search.select import select_child, unexplored
from rstar.search.tree import Node, back_up, reopen
from rstar.search.value import Value

C = TypeVar("C", bound=AnySearch)
_PROGRAM_TOKENS = 100
"""Assumed length of a program, as long as none is known."""


@dataclass(slots=True)
class Search(Generic[C]):
    """The search of one problem: inputs of a method, and its count of rollouts."""

    problem: Problem
    config: C
    expander: Expander
    value: Value
    votes: Votes
    rollouts: int = 0
    answered: list[Node] = field(default_factory=list)

    @property
    def done(self) -> bool:
        """Whether to start nothing new: the budget is spent, or (with `early_stop`) the answer is settled."""
        config = self.config
        if isinstance(config, EarlyStopConfig) and config.early_stop:
            return self.votes.settled(config.settled_share, config.settled_votes) or self.expander.spent
        return self.expander.spent

    def wave(self, left: int, size: int) -> int:
        """Number of programs to start together: at most `left`, `size`, and what the remaining budget buys; never 0.

        Until the first are known, a program is assumed to have `_PROGRAM_TOKENS`.
        """
        budget, spent = self.config.max_tokens, self.expander.usage.tokens_out
        wave = min(left, size)
        if budget is not None:
            bought = round((budget - spent) * self.rollouts / spent) if spent else budget // _PROGRAM_TOKENS
            wave = min(wave, bought)
        return max(1, wave)

    def masses(self, ends: Sequence[Node]) -> list[float]:
        """The masses of solutions. Independent samples have equal ones."""
        if self.config.method in TREE_METHODS:
            return masses([(node.probability, node.share) for node in ends])
        return [node.share for node in ends]

    async def decided(self) -> bool:
        """Whether nothing that the search can still find would change the answer.

        False where this is unknown: the policy's log-probabilities are needed.
        """
        name, config = self.value.name, self.config
        if not isinstance(config, MctsConfig) or config.choose or config.top_k or name not in ("agreement", "ppm"):
            return False
        ends = [node.probability for node in self.expander.root.walk() if node.finish_reason is not None]
        known = [probability for probability in ends if probability is not None]
        found = [(node, node.probability) for node in self.answered if node.probability is not None]
        if len(known) < len(ends) or sum([probability for _, probability in found]) < COVERED:
            return False
        weighed = []
        for node, probability in found:
            factor = 1.0 if name == "agreement" else (1 + (node.value or 0.0)) / 2
            weighed.append((await self.votes.group(node.answer or ""), probability, factor))
        return decided(weighed, max(0.0, 1.0 - sum(known)))

    async def grow(
        self, nodes: Sequence[Node], n: int, *, merge: bool = True, score: bool = True, whole: bool = False
    ) -> list[Node]:
        """Expand `nodes` concurrently; then, in order, count the new answers and score the new nodes."""
        grown = await gather_or_cancel(self.expander.expand(node, n, merge=merge, whole=whole) for node in nodes)
        for growth in grown:
            await self.judge(growth, score)
        return [child for growth in grown for child in growth.children]

    async def finish(self, programs: Sequence[Node], *, whole: bool = False) -> None:
        """Continue independent programs to their ends, one step of all at a time."""
        while (going_on := [node for node in programs if not node.closed]) and not self.expander.spent:
            programs = await self.grow(going_on, 1, merge=False, score=False, whole=whole)

    async def judge(self, growth: Expansion, score: bool = True) -> None:
        """Count the new answers; with `score`, score the new children that have not failed."""
        new = [child for child in growth.children if child.answer is not None]
        self.answered += new
        if new or growth.widened:
            weighed = zip(self.answered, self.masses(self.answered), strict=True)
            await self.votes.count((node.answer or "", node.votes, mass) for node, mass in weighed)
        alive = [child for child in growth.children if not child.closed or child.answer is not None]
        if score and alive:
            values = await scores(self.value, self.problem, [child.trajectory() for child in alive], self.votes)
            for child, value in zip(alive, values, strict=True):
                child.value = value


async def greedy(search: Search[GreedyConfig]) -> None:
    """One program by greedy decoding."""
    programs = await search.grow([search.expander.root], 1, whole=True)
    await search.finish(programs, whole=True)
    search.rollouts = 1


async def sample(search: Search[SampleConfig]) -> None:
    """`samples` independent programs, each sampled in one go and then run.

    With a token budget they come in waves of `expansions`; the last wave shrinks to fit the budget.
    """
    config, root = search.config, search.expander.root
    while search.rollouts < config.samples and not search.done and root.finish_reason is None:
        left = config.samples - search.rollouts
        wave = left if config.max_tokens is None else search.wave(left, config.expansions)
        programs = await search.grow([root], wave, merge=False, score=False, whole=True)
        root.closed = False
        await search.finish(programs, whole=True)
        search.rollouts += wave


async def best_of_n(search: Search[BestOfNConfig]) -> None:
    """`samples` independent programs, one step of all at a time; a program ends at its first failing step.

    With a token budget or `early_stop` they come in waves of `expansions`; the last wave shrinks to fit the budget. No
    wave starts once the answer is settled.
    """
    config, root = search.config, search.expander.root
    while search.rollouts < config.samples and not search.done and root.finish_reason is None:
        left = config.samples - search.rollouts
        in_waves = config.max_tokens is not None or config.early_stop
        wave = search.wave(left, config.expansions) if in_waves else left
        programs = await search.grow([root], wave, merge=False, score=False)
        root.closed = False
        await search.finish(programs)
        search.rollouts += wave


async def beam(search: Search[BeamConfig]) -> None:
    """Step beam search: keep the `beam_width` continuations of highest value at each step.

    If the value does not score partial solutions, the policy's log-probability ranks them. With a token budget, no step
    may use more than half of the remainder: the beam narrows, and its solutions finish.
    """
    config, expander = search.config, search.expander
    frontier = [expander.root]
    while frontier and not search.done:
        n = config.expansions
        if (affordable := expander.affordable) is not None:
            frontier = frontier[: max(1, affordable // 2)]
            n = min(n, max(1, affordable // 2 // len(frontier)))
        open_nodes = [child for child in await search.grow(frontier, n) if not child.closed]
        frontier = sorted(open_nodes, key=_rank, reverse=True)[: config.beam_width]
    search.rollouts = config.beam_width


async def mcts(search: Search[MctsConfig]) -> None:
    """Monte Carlo tree search: `rollouts` descents, each from the root to a node that cannot be continued.

    If the tree is exhausted and rollouts remain, it is widened: a node's children are only a sample of the policy's
    continuations. The search ends early if nothing that it could still find would change the answer.
    """
    root = search.expander.root
    while search.rollouts < search.config.rollouts and not search.done:
        if root.finish_reason is not None:  # the question alone fills the context
            return
        if root.closed:
            reopen(unexplored(root))
        await _rollout(search)
        search.rollouts += 1
        if await search.decided():
            return


async def _rollout(search: Search[MctsConfig]) -> None:
    """Descend by UCT, expanding unexpanded nodes; the value of every new answer is backed up at once.

    A new child with a value starts with it as its first visit: q(s)⁰. A descent that meets only failures backs up 0;
    otherwise a child with only failures below would stay unvisited, and be selected before its siblings forever.
    """
    config, node = search.config, search.expander.root
    answers = failures = 0
    while True:
        if not node.expanded:
            n = config.expansions if node.depth else config.root_expansions or config.expansions
            children = await search.grow([node], n)
            failures += node.finish_reason is not None  # its context is full
            for child in children:
                if child.answer is not None:
                    back_up(child, child.value or 0.0)
                    answers += 1
                elif child.closed:
                    failures += 1
                elif child.value is not None:
                    child.visits, child.total = 1, child.value
        chosen = select_child(node, config.c)
        if chosen is None or search.done:
            break
        usage = search.expander.usage
        usage.selections += 1
        usage.choices += sum(not child.closed for child in node.children) > 1
        node = chosen
    if failures and not answers:
        back_up(node, 0.0)


def _rank(node: Node) -> tuple[float, float]:
    return node.value or 0.0, node.trajectory().logprob


METHODS: dict[Method, Callable[[Search[Any]], Awaitable[None]]] = {
    "greedy": greedy,
    "sample": sample,
    "best-of-n": best_of_n,
    "beam": beam,
    "mcts": mcts,
}
