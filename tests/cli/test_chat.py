"""``rstar chat``: the agent answers what is typed, until an empty line."""

import pytest
from typer.testing import CliRunner

from rstar.cli.app import app


@pytest.mark.parametrize("text", ["Add 1 and 2.\nAdd 3 and 4.\n\n", "Add 1 and 2.\nAdd 3 and 4.\n"])
def test_each_message_gets_an_answer_or_a_reason(text: str) -> None:
    done = CliRunner().invoke(app, ["chat", "--policy", "fake:steps"], input=text)
    assert done.exit_code == 0, done.output
    assert done.output.count("no answer") + done.output.count("answer: ") >= 2


def test_a_bad_environment_is_named() -> None:
    done = CliRunner().invoke(app, ["chat", "--policy", "fake:steps", "--environment", "chess"])
    assert "chess" in str(done.exception)
