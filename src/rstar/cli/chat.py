"""``rstar chat``: a conversation with an agent in the terminal."""

from __future__ import annotations

import asyncio
from typing import Annotated

import typer
from rich.markup import escape

from rstar.agent.chat import Conversation
from rstar.agent.solver import AgentSolver
from rstar.cli.common import ConfigFile, Overrides, Policy, Seed, console
from rstar.config import resolve
from rstar.trajectories import Step


def chat(
    policy: Policy = None,
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
    options = {
        "search.method": "agent",
        "policy": policy,
        "search.environment": environment,
        "search.temperature": temperature,
        "seed": seed,
    }
    asyncio.run(_talk(AgentSolver(resolve(config, set_ or (), options))))


async def _talk(solver: AgentSolver) -> None:
    out = console()

    def show(step: Step) -> None:
        out.print(escape(step.written.text), highlight=False)
        if step.shown:
            out.print(f"[dim]{escape(step.shown)}[/]", highlight=False)

    async with Conversation(solver) as talk:
        while text := await asyncio.to_thread(_ask):
            trajectory = await talk.say(text, show)
            if trajectory.answer is not None:
                out.print(f"[bold]answer: {escape(trajectory.answer)}[/]", highlight=False)
            else:
                out.print(f"[yellow]no answer[/] ({trajectory.finish_reason})", highlight=False)


def _ask() -> str:
    try:
        return input("> ").strip()
    except EOFError:
        return ""
