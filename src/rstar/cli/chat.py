"""``rstar chat``: a conversation with an agent in the terminal."""

from __future__ import annotations

import asyncio
import threading
from typing import Annotated

import typer
from rich.markup import escape

from rstar.agent.chat import Conversation
from rstar.agent.solver import AgentSolver, environment_name
from rstar.agent.verifiers import PREFIX
from rstar.cli.common import MODEL, ConfigFile, Overrides, Seed, console
from rstar.config import resolve
from rstar.errors import ConfigError
from rstar.lifecycle import call_in_loop, set_result
from rstar.trajectories import Step, Trajectory
from rstar.view.terminal import NOTICES

_ENDINGS = {
    "no_answer": "The agent ended its turn without an answer.",
    "gave_up": "The agent gave up.",
    "too_deep": "The agent used all its turns without an answer.",
    "length": "The agent used all its tokens without an answer.",
    "too_long": "The message does not fit into the model's context: send a shorter one.",
    "repeated": "The agent repeated calls that had failed, without an answer.",
    "deadline": "The agent ran out of time without an answer.",
}
"""Why there is no answer, by the reason for which the rollout ended."""


def chat(
    policy: Annotated[str | None, typer.Option(help=MODEL, show_default="tiny:agent")] = None,
    environment: Annotated[
        str | None,
        typer.Option(
            help="Tools: `mathematics`, `puzzles`, or your own `module:Class`.",
            show_default="puzzles for the bundled agents, otherwise mathematics",
        ),
    ] = None,
    temperature: Annotated[
        float | None, typer.Option(help="Sampling temperature; 0: greedy.", min=0, show_default="1.0")
    ] = None,
    seed: Seed = None,
    config: ConfigFile = None,
    set_: Overrides = None,
) -> None:
    """Talk to an agent that can call tools. Each call and its result are shown.

    The agent is the same as in `rstar solve --method agent`. The notebook and the conversation last until you leave
    with an empty line or Ctrl-D.

    Example: `rstar chat --policy hf:models/Qwen2.5-7B-Instruct --temperature 0.7`
    """
    options: dict[str, object] = {
        "search.method": "agent",
        "policy": policy,
        "search.environment": environment,
        "search.temperature": temperature,
        "seed": seed,
    }
    settings = resolve(config, set_ or (), options)
    if (name := environment_name(settings)) == "workup" or name.startswith(PREFIX):
        raise ConfigError(f"environment {name!r} needs the data of its problems, so it works only with `rstar solve`")
    asyncio.run(_talk(AgentSolver(settings)))


async def _talk(solver: AgentSolver) -> None:
    out = console()

    def show(step: Step) -> None:
        out.print(escape(step.written.text), highlight=False)
        if step.shown:
            out.print(f"[dim]{escape(step.shown)}[/]", highlight=False)

    async with Conversation(solver) as talk:
        out.print("[dim]Ask a question. An empty line ends the chat.[/]")
        while text := await _next_message():
            trajectory = await talk.say(text, show)
            if trajectory.answer is not None:
                out.print(f"[bold]answer: {escape(trajectory.answer)}[/]", highlight=False)
            else:
                out.print(f"[yellow]{_ENDINGS[_ending(trajectory)]}[/]")
            for notice in solver.notices(text, out_of_time=trajectory.finish_reason == "deadline"):
                out.print(f"[yellow]{escape(NOTICES[notice])}[/]", highlight=False)


def _ending(trajectory: Trajectory) -> str:
    reason = trajectory.finish_reason or "no_answer"
    return "too_long" if reason == "length" and not trajectory.steps else reason


async def _next_message() -> str:
    """The user's next message; empty at the end. Ctrl-C ends the waiting: a daemon thread may stay in `input`."""
    loop = asyncio.get_running_loop()
    message: asyncio.Future[str] = loop.create_future()
    threading.Thread(target=lambda: call_in_loop(loop, set_result, message, _ask()), daemon=True).start()
    return await message


def _ask() -> str:
    try:
        return input("> ").strip().encode(errors="surrogateescape").decode(errors="replace")
    except EOFError:
        return ""
