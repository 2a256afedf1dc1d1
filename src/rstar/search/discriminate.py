"""The discriminator of mutual reasoning: a peer model completes parts of a solution (arXiv 2408.06195, section 3.3).

A solution is cut at several random places, each after 20% to 80% of its words, and before the last step states an
answer. The peer gets the part before the cut and writes the rest. The solution is kept if the peer's answers agree with
its own. If no solution is kept, all are.

Pure functions: where to cut, when answers agree, what a solution scores. `Discriminator` asks the peer.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

from rstar.config import MutualConfig
from rstar.errors import ContextFullError
from rstar.lifecycle import gather_or_cancel
from rstar.models.engine import Engine, Request
from rstar.problems import Problem
from rstar.prompts.domains import Domain
from rstar.sandbox.api import Limits, Sandbox
from rstar.search.actions import read, rest_stops, style_of
from rstar.search.choose import Equivalence, Votes
from rstar.search.code_steps import CODE_STEPS
from rstar.search.expand import Expander
from rstar.search.stated import before_statement, stated_answer
from rstar.search.tree import Node
from rstar.seeds import derive

_ANYTHING = "that."
"""An end of a sentence that gives no answer."""
_PLACE = re.compile(r"(?<=\S)(?=[ \t]+\S)|(?<=\n)(?=[ \t]*\S)")
"""Between two words, before the spaces: the token of a word begins with its space, and is unlikely after one."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A solution that the generator found, with the peer's answers.

    Attributes:
        node: where the solution ends.
        kept: whether the peer agreed, or was not asked.
        tokens: number of tokens that the peer generated.
    """

    node: Node
    kept: bool = True
    tokens: int = 0

    @property
    def score(self) -> float:
        """Product of the mean values along the solution, in [0, 1]."""
        return math.prod([node.q for node in self.node.path()])


def cut_places(text: str, cuts: int, seed: int) -> list[int]:
    """Character positions of at most `cuts` random words of `text`, each after 20% to 80% of the words, in order.

    What comes before a place ends with a word or a line, never with a space. A text too short for a cut gives [0]: the
    peer then solves the whole problem.

    >>> cut_places("a b c d e f g h i j", 2, seed=1)
    [3, 9]
    """
    places = [match.start() for match in _PLACE.finditer(text)]
    n = len(places) + 1
    inner = places[math.ceil(0.2 * n) - 1 : math.floor(0.8 * n)]
    return sorted(Random(seed).sample(inner, min(cuts, len(inner)))) or [0]


def agrees(mode: str, answers: Sequence[int | None], own: int) -> bool:
    """Whether the peer's answers support a solution.

    Args:
        mode: see `rstar.config.MutualConfig.agreement`.
        answers: the group of equivalent answers to which each of the peer's answers belongs; None: it found none.
        own: the group of the solution's answer.
    """
    agreeing = sum(answer == own for answer in answers)
    if mode == "majority":
        counts = {answer: answers.count(answer) for answer in answers if answer is not None}
        return bool(counts) and counts.get(own, 0) == max(counts.values())
    needed = {"strict": len(answers), "mid": math.ceil(len(answers) / 2), "loose": 1}[mode]
    return agreeing >= needed


def survivors(candidates: Sequence[Candidate]) -> list[Candidate]:
    """The candidates that the peer kept; all of them if it kept none."""
    return [candidate for candidate in candidates if candidate.kept] or list(candidates)


async def choose_candidate(candidates: Sequence[Candidate], final: str, equivalent: Equivalence) -> Candidate | None:
    """The solution whose answer is given; None without candidates. Earlier ones win ties.

    Args:
        candidates: all of a problem.
        final: ``product``: the survivor of highest score. ``sum``: the best survivor of the answer with the largest sum
            of its survivors' values (as a share of all values) plus the share of its candidates that survived.
        equivalent: whether two answers are the same.
    """
    left = survivors(candidates)
    if final == "product" or not left:
        return max(left, key=lambda candidate: candidate.score, default=None)
    votes = Votes(equivalent)
    groups = [id(await votes.group(candidate.node.answer or "")) for candidate in candidates]
    alive = {id(candidate) for candidate in left}
    values, kept = dict[int, float](), dict[int, int]()
    for group, candidate in zip(groups, candidates, strict=True):
        if id(candidate) in alive:
            values[group] = values.get(group, 0.0) + (candidate.node.value or 0.0)
            kept[group] = kept.get(group, 0) + 1
    total = sum(values.values()) or 1.0
    best = max(kept, key=lambda group: values[group] / total + kept[group] / groups.count(group))
    own = [one for group, one in zip(groups, candidates, strict=True) if group == best and id(one) in alive]
    return max(own, key=lambda candidate: candidate.score)


def _before_answer(text: str, answer: str) -> int:
    """Number of characters of a last step before it states the answer or, without a statement, last holds it.

    Behind that, what the peer writes would be read as its agreement, whatever it is.
    """
    stated = before_statement(text)
    held = [found.start() for found in re.finditer(rf"(?<!\w){re.escape(answer)}(?!\w)", text)]
    return held[-1] if stated == len(text) and answer and held else stated


def _unanswered(text: str, cut: int, answer: str, yes_no: bool) -> int:
    """The last place up to `cut` before which the text does not read as the answer, whatever follows."""
    while (begun := text[:cut].rstrip()) and stated_answer(f"{begun} {_ANYTHING}", yes_no=yes_no) == answer:
        cut = len(begun.removesuffix(begun.split()[-1]).rstrip(" \t"))
    return cut


class Discriminator(Expander):
    """Checks the solutions of one problem with a peer model.

    Args:
        problem: the problem.
        domain: prompts of the actions.
        peer: the model.
        sandbox, limits: see `Expander`.
        config: settings of the search.
        seed: the problem's seed.
        shots: worked examples per prompt; 0 for a model trained on the actions.
        equivalent: whether two answers are the same.
    """

    def __init__(
        self,
        problem: Problem,
        domain: Domain,
        peer: Engine,
        sandbox: Sandbox,
        config: MutualConfig,
        limits: Limits,
        seed: int,
        shots: int,
        equivalent: Equivalence,
    ) -> None:
        self._prompt = domain.prompt("finish", problem.question, shots)
        self._style = style_of(domain, shots)
        super().__init__(self._prompt, self._style.code or CODE_STEPS, peer, sandbox, config, limits, seed)
        self._mutual, self._equivalent = config, equivalent

    async def check(self, node: Node) -> Candidate:
        """Let the peer complete the solution that ends at `node`, and compare the answers."""
        path = node.path()
        start = len(path[0].parent.context.text) if path[0].parent else 0
        text = node.context.text[start:]
        last = len(node.parent.context.text) - start if node.parent and node.parent.step else 0
        latest = last + _before_answer(text[last:], "" if self._style.code else node.answer or "")
        latest = len(text[:latest].rstrip(" \t"))
        places = cut_places(text, self._mutual.cuts, derive(self._seed, *node.place, "cuts"))
        cuts = {min(place, latest) for place in places}
        if self._style.code is None:
            cuts = {_unanswered(text, cut, node.answer or "", self._style.yes_no) for cut in cuts}
        found = await gather_or_cancel(self._complete_from(path, start, text[:cut]) for cut in sorted(cuts))
        votes = Votes(self._equivalent)
        own = id(await votes.group(node.answer or ""))
        answers = [None if answer is None else id(await votes.group(answer)) for answer, _ in found]
        tokens = sum(tokens for _, tokens in found)
        return Candidate(node, agrees(self._mutual.agreement, answers, own), tokens)

    async def _complete_from(self, path: Sequence[Node], start: int, prefix: str) -> tuple[str | None, int]:
        """The peer's answer after the beginning of a solution, None if it reaches none; and its number of tokens."""
        config = self._mutual
        context = self._policy.context(self._prompt + prefix)
        request = Request(
            context,
            max_tokens=config.max_step_tokens * config.max_depth,
            temperature=config.temperature,
            top_p=config.top_p,
            stop=rest_stops(self._style, prefix),
            seed=derive(self._seed, prefix, "complete"),
        )
        try:
            (completion,) = await self._complete(request)
        except ContextFullError:
            return None, 0
        finally:
            context.end()
        source, done = path[0].parent, 0
        for node in path[:-1]:  # the last whole step before the cut; a step that was replaced is not in the text
            written = node.context.text[start:]
            if prefix.startswith(written) and node.state is not None:
                source, done = node, len(written)
        assert source is not None
        begun = Node(None, None, context, source.state, source.stdout)
        reading = read(self._style, "finish", prefix[done:], completion)
        return (await self.grow(begun, completion, reading)).answer, completion.n_tokens
