"""The one writer and the one reader of a line of ``trees.jsonl``."""

import copy
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rstar.jsonl import encode_line
from rstar.trajectories import Segment, Step, ToolCall
from rstar.trees import Tree, TreeNode

TEXTS = st.text(st.characters(codec="utf-8"), max_size=8)
LOGPROBS = st.integers(-(10**6), 0).map(lambda n: round(n / 10**5, 5))
VALUES = st.integers(-(10**6), 10**6).map(lambda n: round(n / 10**6, 6))
SEGMENTS = st.lists(st.tuples(st.integers(0, 2**17), LOGPROBS), max_size=4).flatmap(
    lambda tokens: st.builds(
        Segment,
        TEXTS,
        st.sampled_from(["policy", "tool", "template"]),
        st.just(tuple(token for token, _ in tokens)),
        st.none() | st.just(tuple(logprob for _, logprob in tokens)),
    )
)
CALLS = st.builds(
    ToolCall, TEXTS, st.dictionaries(TEXTS, TEXTS | st.integers(), max_size=2), st.sampled_from(["ok", "error"]), TEXTS
)
STEPS = st.builds(
    Step,
    st.lists(SEGMENTS, min_size=1, max_size=3).map(tuple),
    st.sampled_from([None, "ok", "error", "timeout"]),
    st.none() | TEXTS,
    st.dictionaries(TEXTS, TEXTS, max_size=2).map(lambda values: tuple(values.items())),
    st.lists(CALLS, max_size=2).map(tuple),
)


@st.composite
def trees(draw: st.DrawFn) -> Tree:
    nodes: list[TreeNode] = []
    for place in range(draw(st.integers(1, 8))):
        parent = nodes[draw(st.integers(0, place - 1))] if nodes else None
        answer = draw(st.none() | TEXTS) if parent is not None else None
        finish_reason = (
            "answer" if answer is not None else draw(st.sampled_from([None, "no_step", "code_error", "length"]))
        )
        node = TreeNode(
            parent,
            None if parent is None else draw(STEPS),
            visits=draw(st.integers(0, 100)),
            q=draw(VALUES),
            value=draw(st.none() | VALUES),
            votes=draw(st.integers(1, 9)),
            finish_reason=finish_reason,
            answer=answer,
        )
        if parent is not None:
            parent.children.append(node)
        nodes.append(node)
    return Tree(draw(SEGMENTS), nodes)


def bare(segment: Segment) -> Segment:
    return Segment(segment.text, segment.author)


def content(tree: Tree, tokens: bool) -> list[object]:
    """All that a tree says, in a form that can be compared; without `tokens`, as if there were none."""
    kept = (lambda segment: segment) if tokens else bare
    rows: list[object] = [kept(tree.prompt)]
    for node in tree.nodes:
        step = node.step and Step(
            tuple(map(kept, node.step.segments)), node.step.status, node.step.error, node.step.values
        )
        parent = None if node.parent is None else tree.nodes.index(node.parent)
        children = [tree.nodes.index(child) for child in node.children]
        numbers = node.visits, node.q, node.value, node.votes
        rows.append((parent, children, step, numbers, node.finish_reason, node.answer))
    return rows


@given(trees(), st.booleans())
def test_what_is_written_is_read_again(tree: Tree, tokens: bool) -> None:
    line = json.loads(encode_line(tree.to_json(tokens)))
    found = Tree.from_json(line)
    assert content(found, True) == content(tree, tokens)
    assert found.to_json(tokens) == line
    assert ("ids" in line["prompt"]) == tokens


@given(trees())
def test_ends_are_the_nodes_with_an_answer(tree: Tree) -> None:
    ends = list(tree.ends())
    assert [node for node, _ in ends] == [node for node in tree.nodes if node.answer is not None]
    for node, end in ends:
        assert (end.prompt, end.steps) == (tree.prompt, tuple(one.step for one in node.path()))
        assert end.steps
        assert (end.answer, end.finish_reason, end.value) == (node.answer, node.finish_reason, node.value)
        assert end.votes == node.votes


@given(trees())
def test_the_masses_of_all_leaves_are_one(tree: Tree) -> None:
    leaves = [node for node in tree.nodes[1:] if not node.children]
    for node in tree.nodes[1:]:
        node.answer = "x" if node in leaves else None
    assert not leaves or sum(end.mass for _, end in tree.ends()) == pytest.approx(1.0)


SEGMENT = {"author": "policy", "text": "x", "ids": [1], "logprobs": [-0.5]}
NODE = {"visits": 1, "q": 0.5, "value": None, "votes": 1, "finish": None, "answer": None}
LINE = {
    "prompt": {"author": "template", "text": "q", "ids": [0]},
    "nodes": [NODE | {"parent": -1}, NODE | {"parent": 0, "segments": [SEGMENT], "status": "ok", "error": None}],
}


def test_an_example() -> None:
    tree = Tree.from_json(LINE)
    assert tree.nodes[1].step == Step((Segment("x", "policy", (1,), (-0.5,)),), "ok")
    assert tree.to_json(tokens=True) == LINE


@pytest.mark.parametrize(
    ("place", "key", "value"),
    [
        *[((1,), "parent", parent) for parent in (-1, 1, 2, -2, None, "0", 0.5)],
        ((0,), "parent", 0),
        ((0,), "answer", "7"),
        ((1,), "q", float("nan")),
        ((1,), "q", float("inf")),
        ((1,), "q", None),
        ((1,), "segments", []),
        ((1,), "segments", None),
        ((1,), "segments", ["x"]),
        ((1,), "values", ["x"]),
        ((1, "segments", 0), "author", "user"),
        ((1, "segments", 0), "text", None),
        ((1, "segments", 0), "text", "\ud800"),
        ((1, "segments", 0), "ids", 1),
        ((1, "segments", 0), "logprobs", [float("nan")]),
        ((1, "segments", 0), "logprobs", ["x"]),
    ],
)
def test_damaged_lines_are_refused(place: tuple[Any, ...], key: str, value: object) -> None:
    line = copy.deepcopy(LINE)
    target: Any = line["nodes"]
    for part in place:
        target = target[part]
    target[key] = value
    with pytest.raises((LookupError, TypeError, AttributeError, ValueError)):
        Tree.from_json(line)


@pytest.mark.parametrize(
    "line",
    [{}, {"prompt": LINE["prompt"]}, {"nodes": LINE["nodes"]}, {"prompt": "q", "nodes": []}]
    + [LINE | {"nodes": [{key: value for key, value in NODE.items() if key != one}]} for one in NODE],
)
def test_lines_that_lack_something_are_refused(line: dict[str, Any]) -> None:
    with pytest.raises((LookupError, TypeError, AttributeError, ValueError)):
        Tree.from_json(line)
