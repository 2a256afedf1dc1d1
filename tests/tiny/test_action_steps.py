"""Reference solutions in the actions of mutual reasoning."""

import contextlib
import io
import random

import pytest

from rstar.models.engine import Completion
from rstar.prompts.code_steps import END_CODE, END_STEP, code_of
from rstar.search.actions import CODE, opening, read
from rstar.tiny.action_steps import conditions, with_actions
from rstar.tiny.generate import draw


def run(code: str) -> str:
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        exec(code, {})  # our own reference solution
    return out.getvalue().strip()


def test_the_program_stays_the_same() -> None:
    """On every family: actions add comments, and the program prints what it printed before."""
    rng = random.Random(3)
    seen: set[str] = set()
    for drawn in draw(236, seed=4, split="train"):
        steps = drawn.instance.steps
        written = with_actions(drawn.instance.question, steps, rng)
        assert run("\n".join(written)) == run("\n".join(steps))
        assert len(written) - len(steps) in (0, 1)
        seen |= {line for step in written for line in step.splitlines() if line.startswith("# think")}
        seen |= {step[:8] for step in written if step.startswith("# given:")}
        seen |= {step[:11] for step in written if step.startswith("# question:")}
    assert seen == {"# think again", "# given:", "# question:"}


def test_the_search_reads_what_is_taught() -> None:
    """The openings are those that the search inserts, and what follows them is read as code."""
    rng = random.Random(5)
    for drawn in draw(118, seed=6, split="train"):
        text = ""
        steps = with_actions(drawn.instance.question, drawn.instance.steps, rng)
        for place, step in enumerate(steps):
            last = place == len(steps) - 1
            stop = END_CODE if last else END_STEP
            for action in ("question", "rephrase"):
                label = opening(CODE, action, text)
                if f"\n{step}".startswith(f"\n{label.lstrip()}") and label:
                    completion = Completion(f"{step}\n{stop}"[len(label.lstrip()) :], (), (), "stop", stop)
                    reading = read(CODE, action, label.lstrip(), completion)
                    assert reading.code == code_of(f"{step}\n{stop}")
                    assert reading.complete == last
            text += f"{step}\n{stop}"


def test_a_solution_depends_on_the_stream_alone() -> None:
    (drawn,) = draw(1, seed=1, split="train")
    first, again = (with_actions(drawn.instance.question, drawn.instance.steps, random.Random(2)) for _ in range(2))
    assert first == again
    rows = [drawn.row(solution=True, actions=actions)["pieces"] for actions in (False, True)]
    assert rows[0][0] == rows[1][0], "the same prompt"


@pytest.mark.parametrize(
    ("question", "expected"),
    [
        ("Iron makes up 25% of 12 loads.", "25%, 12 loads"),
        ("Shop sign: 7:59 to 16:21, 3/4 full, 2.5 hours", "7:59 to, 16:21, 3/4 full, 2.5 hours"),
        ("No number at all", ""),
    ],
)
def test_conditions(question: str, expected: str) -> None:
    assert conditions(question) == expected
