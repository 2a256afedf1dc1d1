"""``rstar sandbox``: running a snippet as a step's code is run."""

from __future__ import annotations

import asyncio
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from rstar.cli.common import AsJson, ConfigFile, Overrides, print_json
from rstar.config import resolve
from rstar.errors import DataError
from rstar.sandbox import Limits, LocalSandbox, Result

app = typer.Typer(no_args_is_help=True, help="Run code in the sandbox.")


@app.command("run")
def run(
    file: Annotated[str, typer.Argument(help="Python file, or `-` for standard input.")],
    as_json: AsJson = False,
    config: ConfigFile = None,
    set_: Overrides = None,
) -> None:
    """Run a Python file isolated, under the limits of the configuration, and show how it went.

    Exit code 0 when the code ran to its end, 1 otherwise. With `--json` the typed result is printed as one object.

    Example: `echo 'print(1 + 1)' | rstar sandbox run - --json`
    """
    settings = resolve(config, set_ or ()).sandbox
    try:
        code = sys.stdin.read() if file == "-" else Path(file).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"cannot read {file}: {error}") from error
    limits = Limits(seconds=settings.seconds, memory_mb=settings.memory_mb, output_bytes=settings.output_bytes)

    async def once() -> Result:
        async with LocalSandbox(level=settings.level, workers=1) as sandbox:
            return await sandbox.run(code, limits=limits)

    result = asyncio.run(once())
    if as_json:
        print_json(asdict(result))
    else:
        sys.stdout.write(result.stdout)
        sys.stderr.write(result.stderr)
        if not result.ok:
            sys.stderr.write(f"{result.status} after {result.seconds:.2f} s\n")
    raise typer.Exit(0 if result.ok else 1)
