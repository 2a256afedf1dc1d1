"""What models write that are asked to go on, and which part of it continues their text."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rstar.models.repetition import continuation
from rstar.prompts.code_steps import MARKERS


@pytest.mark.parametrize(
    ("begun", "text", "rest"),
    [
        ("Step 1:", "3 + 4 = 7.", " 3 + 4 = 7."),
        ("Step 1:", "Step 1: 3 + 4 = 7.", " 3 + 4 = 7."),
        ("Step 1: ", "Step 1: 3 + 4 = 7.", "3 + 4 = 7."),
        ("Step 1:", "Step 1:\n\n3 + 4 = 7.", " 3 + 4 = 7."),
        ("A\nStep 2: we", " A\nStep 2: we add", " add"),
        ("A\nB\nStep 2: we", "B\n\nStep 2: we add", " add"),
        ("A\nStep 2: we", "Step 2: we add", " add"),
        ("A\nStep 2: we now ", "we now add", "add"),
        ("A", "Because", " Because"),
        ("Step 1:", "\n\n3 + 4 = 7.", " 3 + 4 = 7."),
        ("Step 1:", "**Step 1:** 3 + 4 = **7**.", " 3 + 4 = **7**."),
        ("Step 1:", "**Step 1**: 3 + 4 = 7.", " 3 + 4 = 7."),
        ("Step 1:", "**Step 1: 3 + 4 = 7.**\nSo", " 3 + 4 = 7.\nSo"),
        ("Step 1:", "- Step 1: 3 + 4 = 7.\n- Step 2: So", " 3 + 4 = 7.\n- Step 2: So"),
        ("Step 1:", "* Step 1: 3 + 4 = 7.", " 3 + 4 = 7."),
        ("Step 1:", "> Step 1: 3 + 4 = 7.", " 3 + 4 = 7."),
        ("Step 1: 3 + ", "...4 = 7.", "4 = 7."),
        ("Step 1:", "Sure, here is the continuation:\n\nStep 1: 7.", " 7."),
        ("Step 1:", "Here is the rest:\n7.", " 7."),
        ("Step 1:", "Of course!\n\n**Step 1:** 7.", " 7."),
        ("Step 1:", "Okay, so 3 + 4 = 7.\nStep 2: So", " Okay, so 3 + 4 = 7.\nStep 2: So"),
        ("Step 1:", "Certainly the sum is 7:", " Certainly the sum is 7:"),
        ("Step 1:", "<think>\nStep 1: 8?\n</think>\n\nStep 1: 7.", " 7."),
        ("Step 1:", "<think>\nStep 1: 8?", " <think>\nStep 1: 8?"),
        ("a = 1\n<end_of_step>", "print(a)", "\nprint(a)"),
        ("a = 1\n<end_of_step>", "\n\nprint(a)", "\nprint(a)"),
        ("a = 1\n<end_of_step>\n", " print(a)", "print(a)"),
        ("for a in b:\n<end_of_step>\n", "    print(a)\n    c()", "    print(a)\n    c()"),
        ("<code>\n", "```python\nprint(7)", "```python\nprint(7)"),
        ("<code>\na = 1\n<end_of_step>\n", "<code>\na = 1\n<end_of_step>\nprint(a)", "print(a)"),
        ("I add:\n```\n", "```python\nprint(7)\n```", "print(7)\n```"),
        ("# question:", "what is the sum?", " what is the sum?"),
        ("<answer>", "7", "\n7"),
        ("Step 1:", "", ""),
        ("Step 1:", "Step 1:", ""),
    ],
)
def test_what_comes_next(begun: str, text: str, rest: str) -> None:
    assert continuation(begun, text) == rest


@pytest.mark.parametrize(
    ("begun", "text", "rest"),
    [
        ("Step 1:", "Step", None),
        ("Step 1:", "\n\n", None),
        ("Step 1: Six.\nStep 2:", "Step 1: Six.\n", None),
        ("Step 1: Six.\nStep 2:", "Step 1: Seven.\n", " Step 1: Seven.\n"),
        ("Step 1:", "Sure, here is the continuation:\n\n", None),
        ("Step 1:", "Sure, here is the continuation:\n\nSt", None),
        ("Step 1:", "<think>\nStep 1: 8?\n", None),
        ("Step 1:", "Step 1: 7.\n", " 7.\n"),
        ("Step 1:", "7.\n", " 7.\n"),
    ],
)
def test_a_message_that_may_still_repeat_is_waited_for(begun: str, text: str, rest: str | None) -> None:
    assert continuation(begun, text, ended=False) == rest


LINES = st.lists(st.sampled_from(["Step 1: Six.", "Step 2:", "**Step 2:** 7", "", "- a = 1", "Sure:", "print(7)"]))


@given(LINES.map("\n".join).filter(str.strip), st.sampled_from(["", " ", "\n", *MARKERS]), LINES.map("\n".join))
def test_no_code_is_indented_and_nothing_that_was_known_changes(begun: str, end: str, text: str) -> None:
    whole = continuation(begun + end, text)
    assert whole is not None
    assert whole.strip() in text.replace("**", "").strip() or whole.strip() in text
    if end == "\n" or end in MARKERS:
        assert not whole.startswith(" ")
    for cut in range(len(text)):
        early = continuation(begun + end, text[:cut], ended=False)
        assert early is None or "\n" not in early.strip() or whole.startswith(early.rpartition("\n")[0])
