"""``rstar chat``: the agent answers what is typed, until an empty line."""

import os
import pty
import signal
import subprocess
import sys
import time

import pytest
from typer.testing import CliRunner

from rstar.agent.environment import Puzzles
from rstar.agent.solver import AgentSolver
from rstar.cli.app import app


@pytest.mark.parametrize("text", ["Add 1 and 2.\nAdd 3 and 4.\n\n", "Add 1 and 2.\nAdd 3 and 4.\n"])
def test_each_message_gets_an_answer_or_a_reason(text: str) -> None:
    done = CliRunner().invoke(app, ["chat", "--policy", "fake:steps"], input=text)
    assert done.exit_code == 0, done.output
    assert done.output.count("The agent ") + done.output.count("answer: ") >= 2


def test_the_bundled_agent_answers_by_default(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[AgentSolver] = []

    async def talk(solver: AgentSolver) -> None:
        seen.append(solver)

    monkeypatch.setattr("rstar.cli.chat._talk", talk)
    for options in ([], ["--policy", "fake:steps"], ["--set", "policy=tiny:agent-start"]):
        assert CliRunner().invoke(app, ["chat", *options]).exit_code == 0
    assert [str(solver.config.policy) for solver in seen] == ["tiny:agent", "fake:steps", "tiny:agent-start"]
    assert type(seen[0].environment) is Puzzles


def test_a_bundled_agent_says_what_it_does_not_know() -> None:
    done = CliRunner().invoke(app, ["chat", "--set", "search.max_response_tokens=8"], input="What is 17 times 23?\n")
    assert done.exit_code == 0, done.output
    assert "the bundled agent was trained on puzzles" in " ".join(done.output.split())


def test_bytes_that_are_no_text_are_read_as_such() -> None:
    command = [sys.executable, "-c", "from rstar.cli.app import main; main()", "chat", "--policy", "fake:steps"]
    done = subprocess.run(command, input=b"What is \xff?\n", capture_output=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr.decode()


def test_ctrl_c_at_the_prompt_ends_the_chat() -> None:
    # A shell starts what runs in its background with the signal ignored.
    heed = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)"
    code = f"{heed}; from rstar.cli.app import main; main()"
    command = [sys.executable, "-c", code, "chat", "--policy", "fake:steps"]
    terminal, end = pty.openpty()
    process = subprocess.Popen(command, stdin=end, stdout=end, stderr=end, start_new_session=True)
    try:
        shown = b""
        while b"> " not in shown:
            shown += os.read(terminal, 1000)
        time.sleep(0.2)  # `input` begins right behind the prompt
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 130
    finally:
        process.kill()
        os.close(end)
        os.close(terminal)


def test_a_message_that_does_not_fit_is_told() -> None:
    few = ["--set", "search.max_response_tokens=8"]
    done = CliRunner().invoke(app, ["chat", *few], input="many " * 3000 + "\nWhat?\n")
    assert done.exit_code == 0, done.output
    assert done.output.count("does not fit into the model's context") == 1


def test_an_environment_that_needs_the_data_of_problems_is_refused() -> None:
    done = CliRunner().invoke(app, ["chat", "--policy", "fake:steps", "--environment", "workup"], input="q\n")
    assert "'workup' needs the data of its problems" in str(done.exception)
    assert "> " not in done.output


def test_a_bad_environment_is_named() -> None:
    done = CliRunner().invoke(app, ["chat", "--policy", "fake:steps", "--environment", "chess"])
    assert "chess" in str(done.exception)
