"""``rstar grade``: verdicts on one answer or a file of them, and whether gold answers can be graded at all."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated, Any, BinaryIO, get_args

import typer
from rich.markup import escape

from rstar.cli.common import AnswerField, AsJson, QuestionField, console, counted, print_json
from rstar.cli.regrade import grade_run
from rstar.datasets import read_problems
from rstar.entries import answer_text, read_entries
from rstar.errors import ConfigError, DataError
from rstar.grading import grade as compare
from rstar.grading.golds import GOLD_FIELDS, check_gold, gold_of
from rstar.grading.verdict import Outcome, Verdict
from rstar.jsonl import encode_line
from rstar.view.progress import progress
from rstar.view.tables import Column, Grid

MAX_SHOWN = 20
"""Maximum number of gold answers or errors listed in text output."""

Row = dict[str, Any]


def grade(
    gold: Annotated[str | None, typer.Argument(help="The gold answer.", show_default=False)] = None,
    prediction: Annotated[
        str | None, typer.Argument(help="The prediction: an answer, or a text that contains one.", show_default=False)
    ] = None,
    explain: Annotated[
        bool, typer.Option("--explain", help="Show the compared forms and the rule that decided.")
    ] = False,
    file: Annotated[
        Path | None,
        typer.Option(
            help='File of pairs to grade, {"id"?, "gold", "pred"}, as JSONL or a JSON list; - is standard input.',
            show_default=False,
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            help="With --file: a new file for the verdicts, one JSON object per line, written during grading. With "
            "--run: a new run folder with the new verdicts.",
            show_default=False,
        ),
    ] = None,
    check_golds: Annotated[
        Path | None,
        typer.Option(
            help="Data set (JSONL or a JSON list) whose gold answers to check: those in the field answer, "
            "final_answer, gold or expected_answer, or in the last box of solution.",
            show_default=False,
        ),
    ] = None,
    run: Annotated[
        Path | None,
        typer.Option(
            help="Folder of a finished run to grade again. The run is not modified.",
            exists=True,
            file_okay=False,
            show_default=False,
        ),
    ] = None,
    problems: Annotated[
        Path | None,
        typer.Option(help="With --run: a problem file with other gold answers, matched by id.", show_default=False),
    ] = None,
    question_field: QuestionField = None,
    answer_field: AnswerField = None,
    as_json: AsJson = False,
) -> None:
    """Decide whether answers are mathematically equal, and explain the verdict.

    Give two answers as arguments, or a file of pairs with `--file`. `--check-golds` tests whether each gold answer of a
    data set can be read, and whether it equals itself when a prediction states it. `--run` grades the answers of a
    finished run again, with this version of the grader or with the gold answers of `--problems`. With `--run`, `--out`
    writes a new run folder.

    Exit code: 0 if the answer is correct, 1 if it is not correct (or a gold answer cannot be graded), 2 for bad input.
    With `--file` and `--run`, the exit code is 0 whatever the verdicts are.

    Examples: `rstar grade '\\frac{1}{2}' 'The answer is 0.5.' --explain`

    `rstar grade --run runs/first --problems corrected.jsonl --out runs/regraded`
    """
    for given in (gold, prediction):
        if given is not None and given.startswith("--") and given[2:3].isalpha():
            raise ConfigError(f"no such option: {given}")
    if gold is not None and prediction is None:
        raise ConfigError("the prediction is missing: rstar grade GOLD PREDICTION")
    if sum((gold is not None, file is not None, check_golds is not None, run is not None)) != 1:
        raise ConfigError("give exactly one of: two answers, --file, --check-golds, --run")
    if out is not None and file is None and run is None:
        raise ConfigError("--out needs --file or --run")
    if problems is not None and run is None:
        raise ConfigError("--problems needs --run")
    if (question_field or answer_field) and problems is None:
        raise ConfigError("--question-field and --answer-field need --problems")
    if run is not None:
        corrected = None if problems is None else read_problems(problems, False, question_field, answer_field)
        grade_run(run, corrected, out, as_json)
    elif file is not None:
        _grade_file(file, out, as_json)
    elif check_golds is not None:
        _check_golds(check_golds, as_json)
    else:
        assert gold is not None
        _grade_one(compare(gold, prediction), explain, as_json)


def _grade_one(verdict: Verdict, explain: bool, as_json: bool) -> None:
    if as_json:
        print_json(_plain(verdict))
    else:
        screen = console()
        screen.print(f"[{'green' if verdict.correct else 'red'}]{verdict.outcome}[/]", highlight=False)
        rows = [("why", verdict.reason)] if explain or verdict.outcome not in ("correct", "wrong") else []
        if explain:
            rows += [("gold", verdict.gold_form), ("answer", verdict.prediction_form)]
        for name, text in rows:
            screen.print(f"{name:7}{escape(text)}", highlight=False, soft_wrap=True)
    if not verdict.correct:
        raise typer.Exit(1)


def _plain(verdict: Verdict) -> dict[str, str]:
    return {
        "outcome": verdict.outcome,
        "reason": verdict.reason,
        "gold_form": verdict.gold_form,
        "prediction_form": verdict.prediction_form,
    }


def _grade_file(file: Path, out: Path | None, as_json: bool) -> None:
    pairs = list(_pairs(file))
    if not pairs:
        raise DataError(f"{file}: the file contains no pairs")
    found: dict[str, int] = dict.fromkeys(get_args(Outcome), 0)
    with ExitStack() as stack:
        verdicts = None if out is None else stack.enter_context(_new_file(out))
        advance = stack.enter_context(progress(len(pairs), "pairs"))
        for name, gold, prediction in pairs:
            verdict = compare(gold, prediction)
            found[verdict.outcome] += 1
            if verdicts is not None:
                row = {"id": name, "gold": gold, "pred": prediction, **_plain(verdict)}
                verdicts.write(encode_line(row))
            advance()
    accuracy = found["correct"] / len(pairs)
    if as_json:
        print_json({"pairs": len(pairs), **found, "accuracy": round(accuracy, 4)})
        return
    parts = ", ".join(f"{count:,} {outcome}" for outcome, count in found.items() if count)
    console().print(f"{counted(len(pairs), 'pair')}: {parts} ({accuracy:.1%} correct)", highlight=False)
    if out is not None:
        console().print(f"verdicts in [bold]{escape(str(out))}[/]", highlight=False)


def _new_file(out: Path) -> BinaryIO:
    try:
        return out.open("xb", buffering=0)  # every verdict is written at once
    except FileExistsError:
        raise ConfigError(f"--out {out}: the file already exists; choose another name") from None
    except OSError as error:
        raise ConfigError(f"--out {out}: {error.strerror}") from error


def _entries(file: Path) -> Iterator[tuple[str, Any]]:
    return read_entries(Path("/dev/stdin") if str(file) == "-" else file)


def _pairs(file: Path) -> Iterator[tuple[Any, str, str | None]]:
    """(id, gold, prediction) of each entry. Raises `DataError` that names the first bad ones, before any is graded."""
    errors = []
    for number, (where, entry) in enumerate(_entries(file), 1):
        if isinstance(entry, ValueError):
            errors.append(f"{where}: {entry}")
        elif not isinstance(entry, dict) or (gold := answer_text(entry.get("gold"))) is None:
            errors.append(f"{where}: expected an object whose 'gold' is a string, a number or true/false")
        elif "pred" not in entry or (entry["pred"] is not None and answer_text(entry["pred"]) is None):
            near = next((name for name in ("prediction", "answer", "output") if name in entry), None)
            hint = f" (the entry has {near!r}: rename it)" if near else ""
            errors.append(f"{where}: 'pred' must be a string, a number, true/false or null{hint}")
        else:
            yield entry.get("id", number), gold, answer_text(entry["pred"])
    if errors:
        more = f"\n… and {len(errors) - MAX_SHOWN:,} more" if len(errors) > MAX_SHOWN else ""
        raise DataError("\n".join(errors[:MAX_SHOWN]) + more)


def _check_golds(file: Path, as_json: bool) -> None:
    checked = list(_checked(file))
    if not checked:
        raise DataError(f"{file}: the file contains no gold answers; looked for {', '.join(GOLD_FIELDS)}")
    kinds = Counter(row["kind"] for row in checked)
    bad = [row for row in checked if row["kind"] in ("not gradeable", "missing")]
    if as_json:
        words = [row for row in checked if row["kind"] == "words"]
        print_json({"golds": len(checked), "kinds": kinds, "words": words, "not_gradeable": bad})
    else:
        parts = ", ".join(f"{count:,} {kind}" for kind, count in kinds.most_common())
        console().print(f"{counted(len(checked), 'gold answer')}: {parts}", highlight=False)
        if kinds["words"]:
            console().print("gold answers that are words equal the same words only; --json lists them", highlight=False)
        if bad:
            console().print(_bad_golds(bad))
    if bad:
        raise typer.Exit(1)


def _checked(file: Path) -> Iterator[Row]:
    for number, (where, entry) in enumerate(_entries(file), 1):
        if isinstance(entry, ValueError):
            raise DataError(f"{where}: {entry}")
        if not isinstance(entry, dict):
            raise DataError(f"{where}: expected an object")
        name, gold = entry.get("id", number), gold_of(entry)
        if gold is None:
            reason = f"no gold answer; looked for {', '.join(GOLD_FIELDS)}"
            yield {"id": name, "gold": "", "kind": "missing", "reason": reason}
        else:
            check = check_gold(gold)
            yield {"id": name, "gold": check.gold, "kind": check.kind, "reason": check.reason}


def _bad_golds(rows: list[Row]) -> Grid:
    table = Grid([Column("id"), Column("gold", flow="wrap"), Column("why", flow="wrap")])
    for row in rows[:MAX_SHOWN]:
        table.add(escape(str(row["id"])), escape(row["gold"]), escape(row["reason"]))
    if len(rows) > MAX_SHOWN:
        table.add("…", f"{len(rows) - MAX_SHOWN:,} more", "see --json")
    return table
