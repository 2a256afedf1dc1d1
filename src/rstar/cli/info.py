"""``rstar info``: installed components, and capabilities of this machine."""

from __future__ import annotations

import os
import platform
from importlib.resources import files
from typing import Annotated, Any

import typer
from rich.markup import escape

from rstar.cli.common import AsJson, print_result, print_settings
from rstar.config import Config
from rstar.evals.run import versions
from rstar.sandbox.levels import probe
from rstar.tiny.generate import families
from rstar.view.tables import Column, Grid


def info(
    settings: Annotated[
        bool, typer.Option("--settings", help="List all settings with their defaults instead.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Show versions, the sandbox's isolation on this machine and the bundled models; or list all settings.

    Give settings in a TOML file (`--config`) with one table per group, or with `--set`.
    """
    if settings:
        print_settings(Config, as_json)
        return
    isolation = probe()
    bundled = {"tiny": "weights", "ppm:tiny": "ppm", "tiny:actions": "actions", "tiny:peer": "peer"}
    bundled |= {"tiny:agent": "agent", "tiny:agent-start": "agent-start"}
    facts: dict[str, Any] = {
        "versions": versions(),
        "machine": f"{platform.system()} {platform.release()}, {os.cpu_count()} processors",
        "isolation": {
            "level": isolation.strongest,
            "levels": isolation.levels,
            "mechanisms": {m.name: "works" if m.works else m.reason for m in isolation.mechanisms},
        },
        "models": {
            name: "bundled"
            if (files("rstar.tiny") / part / "model.safetensors").is_file()
            else "missing: `make weights`"
            for name, part in bundled.items()
        },
        "families": len(families()),
    }
    table = Grid([Column("fact"), Column("value", flow="wrap")], head=False)
    for name, version in facts["versions"].items():
        table.add(f"[bold]{name}[/]", version)
    table.add("[bold]machine[/]", facts["machine"])
    table.add(
        "[bold]isolation[/]",
        f"{isolation.strongest or 'none possible'} (rstar never runs code at a level below sandbox.level)",
    )
    for name, state in facts["isolation"]["mechanisms"].items():
        table.add("", escape(f"{name}: {state}"))
    for name, state in facts["models"].items():
        table.add(f"[bold]{'value' if name.startswith('ppm') else 'model'} {name}[/]", state)
    table.add("[bold]families[/]", f"{facts['families']} (rstar problems families)")
    print_result(facts, as_json, table)
