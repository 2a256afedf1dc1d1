"""``rstar models``: what a model or its server can do, and copies of models for servers."""

from __future__ import annotations

import asyncio
import shlex
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape

from rstar.cli.common import AsJson, ConfigFile, Overrides, console, print_result
from rstar.config import resolve
from rstar.errors import ConfigError, EngineError, ServerError
from rstar.models.check import check
from rstar.models.export import export
from rstar.models.spec import check_model, is_local, local_folder, server_client
from rstar.specs import Model, Server, parse_model
from rstar.view.tables import Column, Grid

app = typer.Typer(no_args_is_help=True, help="Check models, and export them for servers.")


@app.callback()
def models() -> None:
    """Check models, and export them for servers."""


@app.command("check")
def check_command(
    name: Annotated[str, typer.Argument(metavar="MODEL", help="Name of the model, as for `--policy`.")],
    config: ConfigFile = None,
    set_: Overrides = None,
    as_json: AsJson = False,
) -> None:
    """Ask a model's server what it can do, and say which methods work and which settings to use.

    The command sends about twenty short requests. It finds out which APIs the server has, how it reports stop strings,
    whether it streams, whether it returns log-probabilities, token ids and several samples, whether it respects seeds,
    and whether its chat API continues the assistant's turn. Models that run in this process can do everything.

    Exit code: 0 if search works with the model, 1 if it does not.

    Example: `rstar models check openai:http://127.0.0.1:8000#my-model`
    """
    model = _parse(name)
    settings = resolve(config, set_ or ())
    if not isinstance(model, Server):
        check_model(model)
        print_result(
            {"name": str(model), "server": False}, as_json, f"{escape(str(model))} runs here: everything works"
        )
        return
    try:
        report = asyncio.run(check(model, server_client(model, settings.engine)))
    except ServerError as error:
        raise EngineError(str(error)) from error
    facts = Grid([Column("server"), Column("works"), Column("seen", flow="wrap")])
    for fact in report.facts:
        facts.add(fact.name, "[green]yes[/]" if fact.works else "[yellow]no[/]", escape(fact.detail))
    methods = Grid([Column("rstar"), Column("works", flow="wrap")])
    for method, works in report.methods.items():
        methods.add(method, escape(works))
    name = shlex.quote(report.name)  # & joins its options
    advice = f"use [bold]{escape(name)}[/]" + "".join(f" --set {escape(one)}" for one in report.settings)
    usable = len(report.methods) > 1
    print_result(asdict(report), as_json, facts, methods, *([advice] if usable else []))
    if not usable:
        raise typer.Exit(1)


@app.command("export")
def export_command(
    name: Annotated[str, typer.Argument(metavar="MODEL", help="Model to copy: `tiny` or `hf:PATH`.")],
    out: Annotated[Path, typer.Option(help="Folder to write; it must not exist.")],
) -> None:
    """Copy a local model into a folder that inference servers can serve.

    In the copy, the markers of the step format are ordinary tokens, because servers remove special tokens from texts.
    If the model has no chat template, the copy gets one.

    Example: `rstar models export tiny --out models/tiny`, then
    `transformers serve models/tiny` or `vllm serve models/tiny`
    """
    model = _parse(name)
    if not is_local(model):
        raise ConfigError(f"{model}: expected a model in a folder: tiny or hf:PATH")
    export(local_folder(model), out)
    console().print(f"{escape(str(model))} written to [bold]{escape(str(out))}[/]", highlight=False)


def _parse(name: str) -> Model:
    """The model of that name. Raises `ConfigError`."""
    try:
        return parse_model(name)
    except ValueError as error:
        raise ConfigError(str(error)) from error
