from typing import Any

from rich.console import Console, RenderableType

from rstar.trees import Tree
from rstar.view.terminal import results_table, search_tree


def drawn(what: RenderableType) -> str:
    screen = Console(width=160, record=True, file=open("/dev/null", "w"))  # noqa: SIM115
    screen.print(what)
    return screen.export_text()


def node(parent: int, text: str = "", **extra: Any) -> dict[str, Any]:
    """A node of a line of ``trees.jsonl``."""
    plain = {"visits": 1, "q": 0.5, "value": None, "votes": 1, "finish": None, "answer": None, "error": None}
    return {"parent": parent, "segments": [{"author": "policy", "text": text}], **plain, **extra}


def tree(nodes: list[dict[str, Any]]) -> Tree:
    return Tree.from_json({"prompt": {"author": "template", "text": "q"}, "nodes": nodes})


def test_tree_shows_answers_and_why_branches_failed() -> None:
    nodes = [
        node(-1),
        node(0, "# 8 - 4 = 4\nuse(8)\n<end_of_step>", visits=3, q=0.75, values={"n": "4", "left": "[4, 6]"}),
        node(1, "print(left)<end_of_code>", finish="answer", answer="(8 - 4) * 6"),
        node(0, "use(9)<end_of_step>", finish="code_error", error="AssertionError: no [9]"),
        node(0, "…", finish="no_step"),
    ]
    text = drawn(search_tree(tree(nodes), "Make [24]"))
    for part in (
        "Make [24]",
        "N 3 Q +0.75  # 8 - 4 = 4  n = 4, left = [4, 6]",
        "⇒ (8 - 4) * 6",
        "✗ AssertionError: no [9]",
        "no step",
    ):
        assert part in text


def test_rollouts_of_an_agent_show_their_calls_and_responses() -> None:
    def turn(parent: int, code: str, response: str, status: str = "ok", **extra: Any) -> dict[str, Any]:
        call = {"name": "jupyter_code", "arguments": {"code": code}, "status": status, "response": response}
        return node(parent, f"<code>\n{code}\n<end_of_code>", calls=[call], visits=0, **extra)

    nodes = [
        node(-1, votes=3),
        turn(0, "left = [4, 6]\ngoal = 24", "left = [4, 6]", votes=3),
        turn(1, "# sum\nuse('+')", "AssertionError (line 2)", "error", votes=2),
        turn(2, "use('*')", "24", votes=2),
        node(3, "<answer>\\boxed{4 * 6}", finish="answer", answer="4 * 6", value=0.5, votes=2),
        turn(1, "use('-')", "left = [2]"),
        node(5, "<code>\nuse(", finish="length"),
    ]
    lines = drawn(search_tree(tree(nodes), "Make 24", answer="4 * 6")).splitlines()
    assert lines[1].startswith("×N rollouts that share a turn")
    assert [line.rstrip() for line in lines[2:]] == [
        "└── ▶ ×3  left = [4, 6]; goal = 24  left = [4, 6]",
        "    ├── ▶ ×2  # sum; use('+')  AssertionError (line 2)",
        "    │   ├── ▶ ×2  use('*')  24",
        "    │   └── ▶ ×2  <answer>\\boxed{4 * 6}  V 0.50  ⇒ 4 * 6",
        "    └── ×1  use('-')  left = [2]",
        "        └── ×1  <code>; use(  ✗ too long",
    ]


def test_large_trees_are_cut_to_the_most_visited_and_the_rest_is_counted() -> None:
    nodes = [node(-1), *(node(0, f"step {i}", visits=100 - i) for i in range(50)), node(50, "deep", answer="7")]
    text = drawn(search_tree(tree(nodes), "q", most=5))
    assert "⇒ 7" in text
    assert "step 49" in text, "the way to an answer is shown even when it was seldom visited"
    assert "step 0" in text
    assert "step 20" not in text
    assert "… 46 more" in text


def test_table() -> None:
    row = {
        "id": "numbers-1-7",
        "question": "How [much]\nis it?", "answer": "[1, 2]", "rollouts": 12, "tokens_out": 12345, "seconds": 1.26,
        "meta": {"family": "queens"},
    }  # fmt: skip
    text = drawn(results_table([row | {"correct": True}, row | {"correct": False, "answer": None}, row], "Title"))
    for part in (
        "Title",
        "numbers-1-7",
        "queens: How [much] is it?",
        "[1, 2]",
        "none",
        "right",
        "wrong",
        "12,345",
        "1.3",
    ):
        assert part in text
