"""The five ways to search one problem, each a short loop over the same expansion.

``greedy`` one program, most probable tokens. ``sample`` independent programs, run as a whole. ``best-of-n`` independent
programs whose steps run as they are written, so that a failing step ends its program and saves the rest. ``beam`` step
beam search. ``mcts`` Monte Carlo tree search. All follow arXiv 2501.04519, section 3, except where
docs/deviations.md says otherwise.

A method returns nothing: what it found is in the tree. No method waits for another problem.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field

from rstar.config import Method, SearchConfig
from rstar.problems import Problem
from rstar.search.choose import Votes
from rstar.search.expand import Expander, Growth, together
from rstar.search.parts import scores
from rstar.search.reward import Reward
from rstar.search.select import select_child, unexplored
from rstar.search.tree import Node, back_up, reopen


@dataclass(slots=True)
class Search:
    """One problem under way: what a method needs, and its count of rollouts."""

    problem: Problem
    config: SearchConfig
    expander: Expander
    reward: Reward
    votes: Votes
    rollouts: int = 0
    answered: list[Node] = field(default_factory=list)

    @property
    def done(self) -> bool:
        """Whether to start nothing new: the budget is spent, or (with `early_stop`) the answer is settled."""
        config = self.config
        settled = config.early_stop and self.votes.settled(config.settled_share, config.settled_votes)
        return settled or self.expander.spent

    def wave(self, left: int) -> int:
        """How many of `left` programs to begin together: as many as the rest of the budget buys, to the nearest."""
        budget, spent = self.config.max_tokens, self.expander.usage.tokens_out
        if budget is None and not self.config.early_stop:
            return left
        wave = min(left, self.config.expansions)
        if budget is not None and spent:
            wave = min(wave, round((budget - spent) * self.rollouts / spent))
        return max(1, wave)

    async def grow(self, nodes: Sequence[Node], n: int, *, merge: bool = True, score: bool = True) -> list[Node]:
        """Expand `nodes` at the same time; then, in their order, count the new answers and let the reward judge."""
        grown = await together(self.expander.expand(node, n, merge=merge) for node in nodes)
        for growth in grown:
            await self.judge(growth, score)
        return [child for growth in grown for child in growth.children]

    async def judge(self, growth: Growth, score: bool = True) -> None:
        """Count the answers; with `score`, set the reward's value of the new children that have not failed."""
        new = [child for child in growth.children if child.answer is not None]
        self.answered += new
        if new or growth.widened:
            await self.votes.count((node.answer or "", node.votes, node.mass) for node in self.answered)
        alive = [child for child in growth.children if not child.closed or child.answer is not None]
        if score and alive:
            values = await scores(self.reward, self.problem, [child.trajectory() for child in alive], self.votes)
            for child, value in zip(alive, values, strict=True):
                child.value = value


async def greedy(search: Search) -> None:
    """One program, the most probable tokens."""
    growth = await search.expander.expand(search.expander.root, 1, greedy=True, whole=True)
    await search.judge(growth)
    search.rollouts = 1


async def sample(search: Search) -> None:
    """`samples` independent programs, each written in one go and then run.

    With a budget of tokens they come in waves of `expansions`, the last one as small as the budget asks.
    """
    config, root = search.config, search.expander.root
    while search.rollouts < config.samples and not search.done and root.finish is None:
        wave = search.wave(config.samples - search.rollouts)
        growth = await search.expander.expand(root, wave, merge=False, whole=True)
        await search.judge(growth, score=False)
        search.rollouts += wave


async def best_of_n(search: Search) -> None:
    """`samples` independent programs, one step of all at a time; a program ends at its first failing step.

    With a budget of tokens or `early_stop` they come in waves of `expansions`, the last one as small as the budget
    asks; no wave starts once the answer is settled.
    """
    config, root = search.config, search.expander.root
    while search.rollouts < config.samples and not search.done and root.finish is None:
        wave = search.wave(config.samples - search.rollouts)
        programs = await search.grow([root], wave, merge=False, score=False)
        root.closed = False
        while (going_on := [node for node in programs if not node.closed]) and not search.expander.spent:
            programs = await search.grow(going_on, 1, merge=False, score=False)
        search.rollouts += wave


async def beam(search: Search) -> None:
    """Step beam search: of all continuations of the beam keep the `beam_width` best by the reward's value.

    A reward without an opinion on partial solutions leaves the ranking to the policy's log-probability. With a budget
    of tokens no step of the beam may take more than half of what is left of it: the beam gets narrower, and ends well.
    """
    config, expander = search.config, search.expander
    frontier = [expander.root]
    while frontier and not search.done:
        n = config.expansions
        if (affordable := expander.affordable) is not None:
            frontier = frontier[: max(1, affordable // 2)]
            n = min(n, max(1, affordable // 2 // len(frontier)))
        open_nodes = [child for child in await search.grow(frontier, n) if not child.closed]
        ranks = {id(node): (node.value if node.value is not None else 0.0, _logprob(node)) for node in open_nodes}
        frontier = sorted(open_nodes, key=lambda node: ranks[id(node)], reverse=True)[: config.beam_width]
    search.rollouts = config.beam_width


async def mcts(search: Search) -> None:
    """Monte Carlo tree search: `rollouts` descents, each from the root to a node that cannot be continued.

    When everything below the root has been explored and rollouts are left, the tree is widened: the children of a
    node were a sample of what the policy could do there, not all of it.
    """
    root = search.expander.root
    while search.rollouts < search.config.rollouts and not search.done:
        if root.finish is not None:  # the question alone fills the model's context
            return
        if root.closed:
            reopen(unexplored(root))
        await _rollout(search)
        search.rollouts += 1


async def _rollout(search: Search) -> None:
    """Descend by UCT, expanding what is not expanded yet; every new answer's value is backed up at once.

    A new child that the reward has an opinion of starts with it as its first visit: q(s)⁰. A descent that meets
    failures only is a visit that brought nothing: without it, a child below which everything fails would stay
    unvisited, and be chosen before its siblings for ever.
    """
    config, node = search.config, search.expander.root
    answers = failures = 0
    while True:
        if not node.expanded:
            n = config.expansions if node.depth else config.root_expansions or config.expansions
            for child in await search.grow([node], n):
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
        node = chosen
    if failures and not answers:
        back_up(node, 0.0)


def _logprob(node: Node) -> float:
    return sum(sum(step.logprobs) for step in (n.step for n in node.path()) if step is not None)


METHODS: dict[Method, Callable[[Search], Awaitable[None]]] = {
    "greedy": greedy,
    "sample": sample,
    "best-of-n": best_of_n,
    "beam": beam,
    "mcts": mcts,
}
