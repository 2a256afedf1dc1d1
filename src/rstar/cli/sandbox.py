"""``rstar sandbox``: runs a snippet like the code of a step."""

from __future__ import annotations

import asyncio
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, TextIO

import typer

from rstar.cli.common import AsJson, ConfigFile, Overrides, print_json
from rstar.config import resolve
from rstar.errors import DataError
from rstar.sandbox import Limits, LocalSandbox, Result
from rstar.view.screen import visible

app = typer.Typer(no_args_is_help=True, help="Run code in the sandbox.")


@app.command("run")
def run(
    file: Annotated[str, typer.Argument(help="Python file, or `-` for standard input.")],
    as_json: AsJson = False,
    config: ConfigFile = None,
    set_: Overrides = None,
) -> None:
    """Run a Python file in the sandbox, under the limits of the configuration, and print its output.

    Exit code: 0 if the code ran without an error, else 1. `--json` prints the result as one JSON object.

    Example: `echo 'print(1 + 1)' | rstar sandbox run - --json`
    """
    settings = resolve(config, set_ or ()).sandbox
    try:
        code = sys.stdin.read() if file == "-" else Path(file).read_text(encoding="utf-8")
    except OSError as error:
        raise DataError(f"cannot read {file}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise DataError(f"{'standard input' if file == '-' else file}: not UTF-8 text (byte {error.start})") from error
    limits = Limits(seconds=settings.seconds, memory_mb=settings.memory_mb, output_bytes=settings.output_bytes)

    async def once() -> Result:
        async with LocalSandbox(level=settings.level, workers=1) as sandbox:
            return await sandbox.run(code, limits=limits)

    result = asyncio.run(once())
    if as_json:
        print_json(asdict(result))
    else:
        _write(result.stdout, sys.stdout)
        _write(result.stderr, sys.stderr)
        if not result.ok:
            _write(f"{result.status} after {result.seconds:.2f} s: {_why(result, limits)}\n", sys.stderr)
    raise typer.Exit(0 if result.ok else 1)


def _write(text: str, out: TextIO) -> None:
    """Write the output of model-written code: to a terminal only what cannot command it, elsewhere as it is."""
    out.write(visible(text) if out.isatty() else text)


def _why(result: Result, limits: Limits) -> str:
    """Why a run failed."""
    match result.status:
        case "timeout":
            return f"the time limit is {limits.seconds:g} s, and longer on a busy machine (sandbox.seconds)"
        case "memory":
            return f"the memory limit is {limits.memory_mb} MiB (sandbox.memory_mb)"
        case "output_limit":
            return f"the output limit is {limits.output_bytes} bytes (sandbox.output_bytes)"
        case "killed":
            return "its process was killed (by a forbidden system call, by a system limit, or by itself)"
    if result.exit_code is not None:
        return f"it ended with exit code {result.exit_code}"
    if result.error is None:
        return "see above"
    return f"{result.error.kind}: {result.error.message}" if result.error.message else result.error.kind
