"""The generator of mutual reasoning: Monte Carlo tree search over actions (arXiv 2408.06195, section 3.2).

A rollout descends from the root to an answer. At each node it takes an untried child at random or, once there is none,
the child of highest UCT. The confidence of the answer that it reaches is backed up: the share of sampled answers that
agree with it. There is no reward model, and the model is not asked to evaluate itself.

A child is sampled when a rollout first takes it, not when its parent is expanded. The search is the same, and children
that no rollout takes cost nothing. The rollouts of a problem are sequential; problems are solved concurrently.

The worked examples differ from action to action, and so does the beginning of the model's input. Everything after the
prompt consists of the ids that were sampled. Tree, UCT and back-up are those of `rstar.search.tree`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from random import Random

from rstar.config import MutualConfig
from rstar.errors import ContextFullError
from rstar.grading.find.extract import answer_of
from rstar.lifecycle import gather_or_cancel
from rstar.models.engine import Completion, Context, Engine, Request
from rstar.problems import Problem
from rstar.prompts.domains import Domain
from rstar.sandbox.api import Limits, Sandbox
from rstar.search.actions import (
    ROOT,
    Action,
    allowed,
    asked,
    is_final_question,
    is_heading,
    is_item,
    lists_one_item,
    opening,
    read,
    style_of,
)
from rstar.search.choose import Equivalence, Votes
from rstar.search.code_steps import CODE_STEPS
from rstar.search.expand import Expander, failed
from rstar.search.samples import merged
from rstar.search.select import exploration, select_child
from rstar.search.tree import Node, back_up, close
from rstar.seeds import derive
from rstar.trajectories import FinishReason, Segment, Step

MAX_HEADINGS = 6
"""Lines that may follow the heading of a step until its text begins: empty ones, and headings below headings."""
MAX_CONDITIONS = 12
"""Lines of a list of conditions."""


@dataclass(frozen=True, slots=True)
class Draft:
    """A step that is being written.

    Attributes:
        node: the partial solution that gets the step as a child.
        source: the partial solution that the step continues: `node`, except for a new answer to a sub-question.
        segments: of the step so far: openings, and what the policy wrote.
        context: of `source` and these segments, under the prompt without examples.
    """

    node: Node
    source: Node
    segments: tuple[Segment, ...]
    context: Context

    @property
    def text(self) -> str:
        """The step so far."""
        return "".join([segment.text for segment in self.segments])

    def written(self, completion: Completion) -> Draft:
        """The draft with what the policy wrote."""
        segment = Segment(completion.text, "policy", completion.ids, completion.logprobs or None)
        return replace(self, segments=(*self.segments, segment), context=self.context.extend(completion))


@dataclass(frozen=True, slots=True)
class Vote:
    """Samples that continue the same draft.

    Attributes:
        child: the child with the most frequent outcome.
        counts: number of samples for each outcome; failed samples are not counted.
    """

    child: Node
    counts: Mapping[str, int]


class Generator(Expander):
    """Grows the tree of one problem by actions.

    Args:
        problem: the problem.
        domain: prompts of the actions.
        policy, sandbox, limits: see `Expander`.
        config: settings of the search.
        seed: the problem's seed.
        shots: worked examples per prompt; 0 for a model trained on the actions.
        equivalent: whether two answers are the same.
    """

    def __init__(
        self,
        problem: Problem,
        domain: Domain,
        policy: Engine,
        sandbox: Sandbox,
        config: MutualConfig,
        limits: Limits,
        seed: int,
        shots: int,
        equivalent: Equivalence,
    ) -> None:
        question = problem.question
        self._style = style_of(domain, shots)
        prompt, form = domain.prompt("step", question, 0), self._style.code or CODE_STEPS
        super().__init__(prompt, form, policy, sandbox, config, limits, seed)
        self._mutual, self._question, self._equivalent = config, question, equivalent
        self._prompts = {name: policy.context(domain.prompt(name, question, shots)) for name in domain.examples}
        self._untried: dict[Node, list[tuple[Action, int]]] = {}
        self._asked: dict[Node, Draft] = {}  # child of a sub-question → the step up to its answer
        self._finishes: dict[Node, Vote] = {}
        self.rollouts = 0

    def release(self) -> None:
        """See `Expander.release`."""
        for context in self._prompts.values():
            context.end()
        super().release()

    async def rollout(self) -> Node | None:
        """Make one rollout. Returns its answer if that is new. A dead end backs up 0 and is closed."""
        config, node, new = self._mutual, self.root, False
        c = exploration(config.c, config.schedule, self.rollouts, config.rollouts)
        while node.answer is None:
            child = await self._try(node)
            new = child is not None
            child = child or select_child(node, c)
            if child is None:
                close(node)
                break
            node = child
        back_up(node, node.value or 0.0)
        self.rollouts += 1
        return node if new and node.answer is not None else None

    async def _try(self, node: Node) -> Node | None:
        """Sample an untried child, at random; None once there is none. Failed children stay in the tree, closed."""
        if node not in self._untried:
            self._untried[node] = self._slots(node)
        while self._untried[node]:
            action, index = self._untried[node].pop()
            try:
                child = await self._child(node, action, index)
            except ContextFullError:
                child = _ended(Draft(node, node, (), node.context), action.name, "length")
            if child is None:
                continue
            child.place = (*node.place, len(node.children))
            node.children += (child,)
            if not child.closed:
                return child
        node.expanded = True
        return None

    def _slots(self, node: Node) -> list[tuple[Action, int]]:
        """The children that `node` may get, in random order. At the last depth a solution can only be finished."""
        config = self._mutual
        actions = allowed(ROOT if node.step is None else node.step.action or ROOT, config.actions)
        if node.depth + 1 >= config.max_depth and any(action.name == "finish" for action in actions):
            actions = [action for action in actions if action.name == "finish"]
        slots = [(action, i) for action in actions for i in range(config.children if action.several else 1)]
        Random(derive(self._seed, *node.place, "order")).shuffle(slots)
        return slots

    async def _child(self, node: Node, action: Action, index: int) -> Node | None:
        """Sample a child; None if it repeats an earlier one, which then gets the vote."""
        if action.name == "finish":
            return (await self._finish(node)).child
        if action.name == "reanswer":
            draft = self._open(replace(self._asked[node], node=node), "reanswer")
            return (await self._vote(draft, "reanswer")).child
        draft = self._open(Draft(node, node, (), node.context), action.name)
        (completion,) = await self._samples(draft, action.name, 1, index)
        completion = await self._with_lines_below(draft, action.name, completion, index)
        if (same := node.texts.get(completion.text)) is not None:
            same.votes += 1
            return None
        if action.name == "question":
            child = await self._sub_question(draft.written(completion), index)
        else:
            child = await self._grow(draft, action.name, completion)
            if child.answer is not None:  # its confidence needs samples, which `finish` takes anyway
                child.value = await self._share(child.answer, await self._finish(node))
        node.texts[completion.text] = child
        return child

    async def _with_lines_below(self, draft: Draft, action: str, completion: Completion, index: int) -> Completion:
        """The completion with the lines below it that belong to the step: below a heading, or more items of a list."""
        if self._style.code is not None or action not in ("step", "answer", "reanswer", "rephrase"):
            return completion
        lists = action == "rephrase" and lists_one_item(completion.text)
        for line in range(MAX_CONDITIONS if lists else MAX_HEADINGS):
            if completion.stop is None or not (lists or is_heading(completion.text, action)):
                break
            (below,) = await self._samples(draft.written(completion), action, 1, index, f"below {line}")
            if lists and completion.text.strip() and not is_item(below.text):
                break
            completion = completion.followed_by(below)
        return completion

    async def _sub_question(self, draft: Draft, index: int) -> Node:
        """The child for a sub-question: with the answer that most samples give to it."""
        question = asked(draft.segments[-1].text)
        if not question:
            return _ended(draft, "question", "no_step")
        final = is_final_question(question, self._question)
        vote = await self._vote(self._open(draft, "answer"), "answer", index, final)
        self._asked[vote.child] = draft
        return vote.child

    async def _finish(self, node: Node) -> Vote:
        """The rest of the solution, by vote; asked once per node."""
        if node not in self._finishes:
            draft = self._open(Draft(node, node, (), node.context), "finish")
            self._finishes[node] = await self._vote(draft, "finish")
        return self._finishes[node]

    async def _vote(self, draft: Draft, action: str, index: int = 0, final: bool = False) -> Vote:
        """Sample the rest of a step several times. An answer's value is the share of samples that agree with it."""
        n = self._mutual.votes
        drawn = await self._samples(draft, action, n, index * n)
        samples = merged(
            [await self._with_lines_below(draft, action, one, index * n + i) for i, one in enumerate(drawn)], True
        )
        children = await gather_or_cancel(self._grow(draft, action, one, votes, final) for one, votes in samples)
        votes, counts, first = Votes(self._equivalent), dict[str, int](), dict[str, Node]()
        for child in children:
            if child.finish_reason in (None, "answer"):
                outcome = (await votes.group(self._outcome(child))).answer
                counts[outcome] = counts.get(outcome, 0) + child.votes
                first.setdefault(outcome, child)
        if not first:
            return Vote(children[0], {})
        best = max(counts, key=counts.__getitem__)
        child = first[best]
        child.votes = counts[best]
        if child.answer is not None:
            child.value = counts[best] / n
        return Vote(child, counts)

    def _outcome(self, child: Node) -> str:
        """What votes for a child count: its answer or, within a solution, what its code or its text found."""
        assert child.step is not None
        if child.answer is not None:
            return child.answer
        if self._style.code is not None:
            return "; ".join(value for _, value in child.step.values) or child.step.text
        return answer_of(child.step.segments[-1].text) or child.step.segments[-1].text.strip()

    async def _share(self, answer: str, vote: Vote) -> float:
        """Share of the samples of a vote that agree with `answer`."""
        votes = Votes(self._equivalent)
        await votes.group(answer)
        agreeing = [count for other, count in vote.counts.items() if (await votes.group(other)).answer == answer]
        return sum(agreeing) / self._mutual.votes

    def _open(self, draft: Draft, action: str) -> Draft:
        """The draft with the opening of `action`."""
        text = opening(self._style, action, draft.context.text[len(self.root.context.text) :])
        if not text:
            return draft
        context = self._policy.append(draft.context, text)
        segment = Segment(text, "template", context.ids[len(draft.context.ids) :])
        return replace(draft, segments=(*draft.segments, segment), context=context)

    async def _samples(self, draft: Draft, action: str, n: int, first: int, *place: str) -> list[Completion]:
        """Samples that continue a draft, under the prompt of its action; `place` distinguishes those of one step."""
        config, root = self._mutual, self.root.context
        prompt = self._prompts["question" if action == "answer" else action]
        context = Context(
            prompt.text + draft.context.text[len(root.text) :], prompt.ids + draft.context.ids[len(root.ids) :]
        )
        request = Request(
            context,
            max_tokens=config.max_step_tokens * (config.max_depth if action == "finish" else 1),
            temperature=config.temperature,
            top_p=config.top_p,
            n=n,
            stop=self._style.answer[1] if action == "answer" else self._style.stops[action],
            seed=derive(self._seed, *draft.node.place, action, *place),
            first=first,
        )
        self.usage.expansions += 1
        return await self._complete(request)

    async def _grow(
        self, draft: Draft, action: str, completion: Completion, votes: int = 1, final: bool = False
    ) -> Node:
        """The child for a completion of a draft."""
        source, name = draft.source, "question" if action == "answer" else action
        before = "" if self._style.code is None else draft.text
        start = Node(
            draft.node,
            None,
            draft.context,
            source.state,
            source.stdout,
            depth=draft.node.depth,
            errors=source.errors,
            logprob=source.logprob,
        )
        child = await self.grow(start, completion, read(self._style, action, before, completion, final), votes)
        assert child.step is not None
        child.step = child.step._replace(segments=(*draft.segments, *child.step.segments), action=name)
        child.parent, child.chance = draft.node, None
        child.closed = child.closed and child.answer is None  # rollouts may come back to an answer
        return child


def _ended(draft: Draft, action: str, reason: FinishReason) -> Node:
    """A failed child for a step that was not written to its end."""
    segments = draft.segments or (Segment("", "template"),)
    step = Step(segments, action=action)
    return failed(Node(draft.node, step, draft.context, None, depth=draft.node.depth + 1), reason)
