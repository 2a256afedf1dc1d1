"""``rstar judge``: the sandbox as a network service."""

from __future__ import annotations

import importlib.util
import os
from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape

from rstar.cli.common import console
from rstar.config import Level
from rstar.errors import ConfigError

app = typer.Typer(no_args_is_help=True, help="Run the sandbox as a network service (the code judge).")

Workers = Annotated[
    int | None,
    typer.Option(help="Maximum number of programs that run at the same time.", min=1, show_default="one per processor"),
]
Redis = Annotated[str | None, typer.Option(help="URL of a shared queue, such as `redis://host:6379/0`.")]
Isolation = Annotated[Level, typer.Option(help="Required isolation level.")]


@app.command("serve")
def serve(
    host: Annotated[
        str, typer.Option(help="Address to listen on. An address other than a loopback address requires --token-file.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="Port to listen on; 0 picks a free port.", min=0, max=65_535)] = 8000,
    workers: Workers = None,
    redis: Redis = None,
    token_file: Annotated[
        Path | None, typer.Option(help="File with the token that clients must send.", show_default=False)
    ] = None,
    level: Isolation = "full",
    seconds: Annotated[float, typer.Option(help="Default limit on a call's wall time, in seconds.", min=0.1)] = 10.0,
    memory_mb: Annotated[int, typer.Option(help="Default limit on a call's memory, in MiB.", min=16)] = 256,
    idle_seconds: Annotated[
        float, typer.Option(help="A session that has not been used for this many seconds ends.", min=1)
    ] = 600.0,
    max_sessions: Annotated[
        int, typer.Option(help="Maximum number of sessions; a client host may hold half of them.", min=1)
    ] = 100_000,
) -> None:
    """Start an HTTP service that runs programs in isolation, checks answers and holds notebook sessions.

    Clients of Code Judge (the service used by rStar2-Agent) work unchanged. The routes are /run, /run/batch,
    /run/long-batch, /judge … `/docs` describes all endpoints. Without --redis, the service keeps its queue in memory,
    on one machine. With --redis, calls are queued in Redis, and you can add workers on any machine with `rstar judge
    worker`.

    Example: `rstar judge serve --port 8000`, then `rstar solve … --sandbox http://127.0.0.1:8000`
    """
    from rstar.judge.service import serve as run
    from rstar.judge.settings import JudgeSettings, read_token

    _check_packages(redis)
    token = None if token_file is None else read_token(token_file)
    settings = JudgeSettings(
        host=host, port=port, workers=_processors(workers), redis=redis, token=token, level=level, seconds=seconds,
        memory_mb=memory_mb, idle_seconds=idle_seconds, max_sessions=max_sessions,
    )  # fmt: skip
    note = f"{settings.workers} workers, isolation {level}, queue in {'Redis' if redis else 'memory'}"
    run(settings, announce=lambda url: console().print(f"serving [bold]{escape(url)}[/] ({note})", highlight=False))


@app.command("worker")
def worker(
    redis: Annotated[str, typer.Option(help="URL of the queue, such as `redis://host:6379/0`.")],
    workers: Workers = None,
    level: Isolation = "full",
) -> None:
    """Add this machine's processors to a service whose queue is in Redis.

    Example: `rstar judge worker --redis redis://head-node:6379/0`
    """
    from rstar.judge.service import serve as run
    from rstar.judge.settings import JudgeSettings

    _check_packages(redis)
    settings = JudgeSettings(workers=_processors(workers), redis=redis, level=level)
    console().print(f"{settings.workers} workers, isolation {level}; Ctrl-C stops them", highlight=False)
    run(settings, api=False)


def _processors(workers: int | None) -> int:
    return workers or len(os.sched_getaffinity(0))


def _check_packages(redis: str | None) -> None:
    needed = ("fastapi", "uvicorn", "prometheus_client", *(("redis",) if redis else ()))
    if missing := [name for name in needed if importlib.util.find_spec(name) is None]:
        raise ConfigError(f"the judge service needs {', '.join(missing)}: pip install 'rstar[judge]'")
