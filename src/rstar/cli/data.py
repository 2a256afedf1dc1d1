"""``rstar data``: converts public data sets."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape

from rstar.agent.verifiers import problem_rows
from rstar.cli.common import console, counted
from rstar.dapo import read_dapo
from rstar.jsonl import encode_line, write_new
from rstar.runs import make_folder
from rstar.view.progress import progress

app = typer.Typer(no_args_is_help=True, help="Convert public data sets to problem files.")


@app.callback()
def data() -> None:
    """Convert public data sets to problem files."""


@app.command("dapo")
def dapo(
    file: Annotated[Path, typer.Argument(help="The data set, in Parquet or JSONL.", exists=True, dir_okay=False)],
    out: Annotated[Path, typer.Option(help="JSONL file to write.", dir_okay=False)],
) -> None:
    """Convert DAPO-Math-17k: each problem once, without the instruction around the question.

    Download the file first, for example `data/dapo-math-17k.parquet` of the data set's page. Parquet needs the extra
    `rstar[parquet]`.

    Example: `rstar data dapo dapo-math-17k.parquet --out dapo.jsonl`
    """
    with progress(None, "rows") as advance:
        found = read_dapo(file, advance)
    make_folder(out.parent)
    with write_new(out) as lines:
        for number, (question, answer) in enumerate(found.answers.items()):
            lines.write(encode_line({"id": f"dapo-{number}", "question": question, "answer": answer}))
    rows, problems = counted(found.rows, "row"), counted(len(found.answers), "problem")
    console().print(f"{problems} from {rows} written to [bold]{escape(str(out))}[/]", highlight=False)
    if found.ambiguous:
        count = counted(len(found.ambiguous), "question")
        console().print(f"[yellow]left out: {count} with different answers in different rows[/]")


@app.command("verifiers")
def verifiers(
    name: Annotated[str, typer.Argument(help="An installed task set of the verifiers library.")],
    out: Annotated[Path, typer.Option(help="JSONL file to write.", dir_okay=False)],
    n: Annotated[int | None, typer.Option("--n", help="Maximum number of problems.", min=1, show_default="all")] = None,
) -> None:
    """Convert a task set of the verifiers library, for an agent with the environment `verifiers:NAME`.

    A problem's `check` holds the data of its task, which the task set's reward functions need. This command needs the
    extra `rstar[verifiers]`.

    Example: `rstar data verifiers gsm8k --out gsm8k.jsonl`
    """
    make_folder(out.parent)
    written = 0
    with progress(n, "problems") as advance, write_new(out) as lines:
        for row in problem_rows(name, n):
            lines.write(encode_line(row))
            written += 1
            advance()
    console().print(f"{counted(written, 'problem')} written to [bold]{escape(str(out))}[/]", highlight=False)
