"""``rstar``: assembles the commands and turns errors into messages.

Exit codes: 0 done, 1 infrastructure failed (the model's server, the sandbox, the disk), 2 bad input or configuration, 3
no answer to a single question, 130 interrupted by SIGINT or SIGTERM. `rstar grade` and `rstar sandbox run` document
their own meaning of 1.
"""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterator, Mapping
from functools import cache
from importlib import import_module
from typing import Annotated, Any

import typer
from typer.core import TyperGroup
from typer.main import get_group

import rstar
from rstar.cli.common import console
from rstar.errors import BAD_INPUT, ConfigError, DataError, EngineError, RstarError, SandboxError, StorageError

_WHERE: dict[type[RstarError], str] = {EngineError: "model", SandboxError: "sandbox", StorageError: "run folder"}

LOCAL = ("torch", "safetensors", "tokenizers", "transformers", "tensorboardX", "jinja2", "llvmlite")
"""What rstar[local] installs."""

USAGE_ERROR: type[Exception] = typer.BadParameter.__bases__[0]
"""What the parser of arguments raises; of click, or of typer's own copy of it."""

_NAMES = (
    "solve", "compare", "chat", "view", "grade", "demo", "info", "problems", "data", "models", "sandbox", "judge",
    "train", "evolve", "rl", "bench",
)  # fmt: skip
"""In the order of the help. The module `rstar.cli.NAME` has a group of commands, `app`, or a function NAME."""


class _Commands(Mapping[str, Any]):
    """The commands by name. Each one's module is imported on first use, so no command waits for the others."""

    def __getitem__(self, name: str) -> Any:
        if name not in _NAMES:
            raise KeyError(name)
        return _load(name)

    def __iter__(self) -> Iterator[str]:
        return iter(_NAMES)

    def __len__(self) -> int:
        return len(_NAMES)


@cache
def _load(name: str) -> Any:
    module, parent = import_module(f"rstar.cli.{name}"), typer.Typer(rich_markup_mode="markdown")
    parent.callback()(lambda: None)  # makes it a group, even of one command
    if hasattr(module, "app"):
        parent.add_typer(module.app, name=name)
    else:
        settings = {"ignore_unknown_options": True} if name == "grade" else None  # -5 is an answer
        parent.command(name, context_settings=settings)(getattr(module, name))
    return get_group(parent).commands[name]


class _Group(TyperGroup):
    def __init__(self, **settings: Any) -> None:
        super().__init__(**{**settings, "commands": _Commands()})


app = typer.Typer(
    name="rstar",
    cls=_Group,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"rstar {rstar.__version__}")
        raise typer.Exit


@app.callback()
def common(
    version: Annotated[
        bool, typer.Option("--version", help="Show the version and exit.", callback=_version, is_eager=True)
    ] = False,
) -> None:
    """Reasoning with small language models: tree search over steps that combine natural language and executed code."""


def main() -> None:
    """Entry point of the ``rstar`` command."""
    signal.signal(signal.SIGTERM, _interrupt)
    try:
        code = app(prog_name="rstar", standalone_mode=False)
    except USAGE_ERROR as error:
        code = _refuse_usage(error)
    except (ConfigError, DataError) as error:
        code = _refuse("error:", str(error), BAD_INPUT)
    except RstarError as error:
        where = next((name for kind, name in _WHERE.items() if isinstance(error, kind)), "infrastructure")
        code = _refuse(f"error ({where}):", str(error), 1)
    except ImportError as error:
        if error.name not in LOCAL:
            raise
        code = _refuse("error:", f"this command needs {error.name}; install rstar[local]", BAD_INPUT)
    except KeyboardInterrupt:
        console(stderr=True).print("interrupted")
        code = 130
    sys.exit(code)


def _interrupt(*_: object) -> None:
    """Handle SIGTERM as Ctrl-C is handled. Schedulers of clusters end jobs by SIGTERM."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # a shell starts what runs in its background like this
        raise KeyboardInterrupt
    signal.raise_signal(signal.SIGINT)


def _refuse_usage(error: Any) -> int:
    """Print what is wrong with the arguments of a command, and how to learn more; returns the exit code."""
    message = error.format_message().replace("Value error, ", "")  # pydantic's prefix, kept by typer
    if error.ctx is None or type(error).__name__ == "NoArgsIsHelpError":  # the help is already printed
        return BAD_INPUT
    return _refuse("error:", f"{message}\nsee `{error.ctx.command_path} --help`", BAD_INPUT)


def _refuse(head: str, message: str, code: int) -> int:
    """Print an error; returns the exit code."""
    errors = console(stderr=True)
    errors.print(head, style="bold red", end=" ")
    errors.print(message, markup=False, highlight=False, soft_wrap=True)
    return code
