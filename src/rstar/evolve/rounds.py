"""Self-evolution, round by round (arXiv 2501.04519, section 3.4): search, extract, train policy and PPM, evaluate.

The run folder::

    base/              drawn reference solutions; the base model, if the recipe trains one
    problems.jsonl     drawn problems, and held_out.jsonl
    evaluation/        of the base
    round1/search/     trees with verified ends; search-2/ … are further searches of unsolved problems
    round1/data/       training data extracted from them
    round1/policy/     trained from the base on the data; ppm/ is trained from that policy
    round1/evaluation/ one run folder per entry
    round2/ …
    rounds.json        the result table; report.html has it with charts

Every stage resumes where it was interrupted, and depends only on the recipe and the stages before it, so a run ends
with the same table however often it was killed.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rstar import specs
from rstar.config import Config
from rstar.datasets import ProblemSet
from rstar.errors import ConfigError, DataError
from rstar.evals.compare import Entry, Row, compare_methods, entries_of, run_entries
from rstar.evals.compare_samples import solve_entry
from rstar.evals.run import FinishedRun, read_source, weights_identity
from rstar.evolve.annotate import generate, is_solved
from rstar.evolve.extract import COUNTS, PAIRS, SFT, extract
from rstar.evolve.processes import served, train
from rstar.evolve.settings import EvolveConfig, Round, with_overrides
from rstar.jsonl import Record, read_lines, write_json
from rstar.models.spec import check_model, fingerprint, is_local, local_folder
from rstar.problems import Problem
from rstar.runs import RESULTS, ROUNDS, RunFolder
from rstar.search.value import open_value
from rstar.seeds import derive
from rstar.specs import Model, Ppm
from rstar.tiny.generate import parse_levels
from rstar.tiny.source import ProblemSource, ProgressBar, draw_file

_OWN_PPM = Ppm(specs.LocalModel("of-the-round"))
"""Placeholder for the PPM of a round that has none yet."""


@dataclass(frozen=True, slots=True)
class Result:
    """Results of a round.

    Attributes:
        name: ``base``, or ``round 1`` and so on.
        rows: one per entry of the evaluation that could run.
        counts: of the extraction (see `rstar.evolve.extract.Counts`); empty for the base.
        solved: problem label → (with a verified solution, searched), over the trees that the round trains on.
    """

    name: str
    rows: list[Row]
    counts: dict[str, dict[str, int]]
    solved: dict[str, tuple[int, int]]

    def to_json(self) -> dict[str, Any]:
        """JSON form."""
        rows = [row.to_json() for row in self.rows]
        return {"name": self.name, "evaluation": rows, "counts": self.counts, "solved": self.solved}

    @classmethod
    def from_json(cls, plain: Mapping[str, Any]) -> Result:
        """Inverse of `to_json`. Raises `KeyError`, `TypeError` or `ValueError` for malformed data."""
        solved = {label: (int(right), int(n)) for label, (right, n) in plain["solved"].items()}
        return cls(plain["name"], [Row.from_json(row) for row in plain["evaluation"]], plain["counts"], solved)


def evolve(
    config: EvolveConfig,
    folder: Path,
    announce: Callable[[str], None],
    bar: ProgressBar,
    on_round: Callable[[Sequence[Result]], None] = lambda results: None,
) -> list[Result]:
    """Run or resume all rounds.

    Args:
        config: the recipe.
        folder: the run folder.
        announce: called with each stage before it begins.
        bar: creates progress bars.
        on_round: called with the results so far after each round.

    Raises:
        ConfigError, DataError: the recipe cannot work; raised before any work where possible.
        ResumeError: the folder belongs to another run, or is in use.
        EngineError, SandboxError, TrainingError: infrastructure failed; the same call resumes.
    """
    with RunFolder.open(folder, _identity(config)) as opened:
        opened.begin()
        evolution = _Evolution(config, folder, announce, bar)
        opened.keep()
        return evolution.run(on_round)


def read_results(folder: Path) -> list[Result]:
    """The finished rounds of a run. Raises `DataError` if they are damaged."""
    try:
        plain = json.loads((folder / ROUNDS).read_text(encoding="utf-8"))
        return [Result.from_json(one) for one in plain["rounds"]]
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise DataError(f"{folder / ROUNDS}: damaged: {error!r}") from error


class _Evolution:
    def __init__(self, config: EvolveConfig, folder: Path, announce: Callable[[str], None], bar: ProgressBar) -> None:
        self._config, self._folder, self._announce, self._bar = config, folder, announce, bar
        for entry in self._entries(None, None):
            if entry.config.value not in ("auto", _OWN_PPM):
                open_value(entry.config.value)
        for model in (config.base, config.first_policy):
            if model is not None:
                check_model(model)
        _find_programs(config)
        self._problems = read_source(config.problems, folder / "problems.jsonl", bar)
        self._held_out = read_source(config.held_out, folder / "held_out.jsonl", bar)
        _refuse_overlap("problems", (one.question for one in self._problems.problems), self._held_out)
        references = [("replay", file) for file in self._references("replay", config.replay)]
        if config.bootstrap is not None:
            stages = self._references("stage", config.bootstrap.problems)
            references += [("bootstrap.problems", file) for file in stages]
        for name, file in references:
            _refuse_overlap(name, (str(row["question"]) for row in read_lines(file)), self._held_out)
        self._problems_by_round = _problems_by_round(self._problems, config.rounds)

    def run(self, on_round: Callable[[Sequence[Result]], None]) -> list[Result]:
        config = self._config
        base = self._base()
        results = [Result("base", self._evaluate("base", base, None, self._folder / "evaluation"), {}, {})]
        policy, ppm = base, None
        searched: list[Path] = []
        for number, (settings, problems) in enumerate(zip(config.rounds, self._problems_by_round, strict=True), 1):
            name, folder = f"round {number}", self._folder / f"round{number}"
            before = searched if config.accumulate else []
            searcher, shots = (config.first_policy, config.first_shots) if number == 1 else (None, 0)
            searched = [*before, *self._search(name, settings, problems, before, policy, searcher, shots, ppm, folder)]
            counts = self._extract(name, searched, folder / "data")
            self._announce(f"{name}: training the policy from the base")
            policy_config = with_overrides(config.policy, settings.policy)
            policy_config = policy_config.model_copy(update={"base": base, "curriculum": False})
            data = [*self._references("replay", config.replay), folder / "data" / SFT]
            policy = train("sft", policy_config, data, folder / "policy", config.launcher)
            self._announce(f"{name}: training the process preference model")
            ppm_config = with_overrides(config.ppm, settings.ppm).model_copy(update={"base": policy})
            ppm = train("ppm", ppm_config, folder / "data" / PAIRS, folder / "ppm", config.launcher)
            rows = self._evaluate(name, policy, ppm, folder / "evaluation")
            results.append(Result(name, rows, counts, solved_by_label(searched)))
            if not self._is_stored(results):
                write_json(self._folder / ROUNDS, {"rounds": [result.to_json() for result in results]})
                on_round(results)
        return results

    def _is_stored(self, results: Sequence[Result]) -> bool:
        """Whether the stored table begins with these rounds: a resumed run does not shorten it."""
        with suppress(DataError):
            return read_results(self._folder)[: len(results)] == results
        return False

    def _base(self) -> Path:
        config = self._config
        if config.base is not None:
            assert is_local(config.base)  # validated with the recipe
            return local_folder(config.base)
        assert config.bootstrap is not None
        self._announce("base: training from scratch on reference solutions")
        data = self._references("stage", config.bootstrap.problems)
        return train("sft", config.bootstrap.train, data, self._folder / "base" / "sft", config.launcher)

    def _references(self, name: str, sources: Sequence[ProblemSource]) -> list[Path]:
        """Draw the problems of the sources with their reference solutions: files base/NAME1.jsonl, …"""
        return [
            draw_file(source, self._folder / "base" / f"{name}{number}.jsonl", self._bar, solutions=True)
            for number, source in enumerate(sources, 1)
        ]

    def _search(
        self,
        name: str,
        settings: Round,
        problems: ProblemSet,
        before: Sequence[Path],
        policy: Path,
        searcher: Model | None,
        shots: int,
        ppm: Path | None,
        folder: Path,
    ) -> list[Path]:
        """Search the round's problems, then again the unsolved ones; return the run folders."""
        config = self._config
        found: list[Path] = []
        for number, rollouts in enumerate((settings.rollouts, *settings.unsolved), 1):
            if found:
                solved = _solved_ids([*before, *found])
                # The first further search draws from all rounds; the next ones keep what it left unsolved.
                among = self._problems if len(found) == 1 else problems
                problems = self._problems.subset(_unsolved(among.problems, solved, settings.most))
                if not problems:
                    break
            out = folder / (f"search-{number}" if found else "search")
            self._announce(f"{name}: {rollouts} rollouts of {len(problems):,} problems")
            tokens = config.search.record_tokens or any(
                "logprobs" in with_overrides(config.ppm, a_round.ppm).inputs for a_round in config.rounds
            )
            own = {"rollouts": rollouts, "record_tokens": tokens}
            search = config.search.model_copy(update=own | ({"shots": shots} if shots else {}))
            with self._served(policy) if searcher is None else nullcontext(searcher) as model:
                search_config = Config(
                    policy=model,
                    value=Ppm(specs.LocalModel(str(ppm))) if settings.value == "ppm" else "agreement",
                    seed=derive(config.seed, name, number) % 2**31,
                    search=search,
                    sandbox=config.sandbox,
                    engine=config.engine,
                )
                with self._counting(len(problems), name, is_solved, "solved") as on_result:
                    identity = self._served_identity(policy) if searcher is None else {}
                    asyncio.run(generate(search_config, problems, out, on_result, identity))
            found.append(out)
        return found

    def _served(self, model: Path) -> AbstractContextManager[Model]:
        return served(model, self._config.serve, self._config.serve_port, self._config.serve_seconds)

    def _served_identity(self, model: Path) -> dict[str, str]:
        """Identity keys of a served model: its weights, not its port or name."""
        return weights_identity("policy", model) | {"engine.dtype": "served"} if self._config.serve else {}

    @contextmanager
    def _counting(
        self, total: int, what: str, good: Callable[[Record], bool], called: str
    ) -> Iterator[Callable[[Record], None]]:
        """A progress bar over results that shows the number of good ones."""
        right = done = 0
        with self._bar(total, what) as advance:

            def on_result(record: Record) -> None:
                nonlocal right, done
                done += 1
                right += good(record)
                advance(1, f"{right}/{done} {called}")

            yield on_result

    def _extract(self, name: str, searched: Sequence[Path], out: Path) -> dict[str, dict[str, int]]:
        if not (out / COUNTS).exists():
            self._announce(f"{name}: extracting training data")
            extract(searched, out, self._config.extract)
        counts: dict[str, dict[str, int]] = json.loads((out / COUNTS).read_text(encoding="utf-8"))
        found = counts["found"]
        pairs = found.get("step pairs kept", 0) + found.get("final pairs kept", 0)
        for kind, kept in (("solution", found.get("solutions kept", 0)), ("preference pair", pairs)):
            if not kept:
                raise DataError(f"{name}: no {kind} was kept from {found.get('trees', 0)} trees; see {out / COUNTS}")
        return counts

    def _entries(self, policy: Model | None, ppm: Path | None) -> list[Entry]:
        """The evaluation's entries; a value ``ppm`` is the round's own PPM. Without a policy: for validation only."""
        tables: list[dict[str, Any]] = []
        left_out: list[Any] = []
        for table in self._config.entries:
            own = table.get("value") == "ppm"
            if ppm is None and policy is not None and (own or table.get("samples_of") in left_out):
                left_out.append(table.get("name"))
                continue
            if own:
                table = table | {"value": _OWN_PPM if ppm is None else Ppm(specs.LocalModel(str(ppm)))}
            tables.append(table)
        sandbox, engine = (part.model_dump(mode="json") for part in (self._config.sandbox, self._config.engine))
        shared = {"sandbox": sandbox, "engine": engine}
        return entries_of(tables, shared, {"policy": policy, "seed": self._config.seed}, "entry")

    def _evaluate(self, name: str, policy: Path, ppm: Path | None, out: Path) -> list[Row]:
        with self._served(policy) as model:

            def run(entry: Entry) -> FinishedRun:
                self._announce(f"{name}: evaluation, {entry.name}")
                with self._counting(len(self._held_out), entry.name, lambda row: row["correct"], "right") as on_result:
                    identity = self._served_identity(policy)
                    return asyncio.run(solve_entry(entry, self._held_out, out, on_result, identity))

            return compare_methods(run_entries(self._entries(model, ppm), run))


def _identity(config: EvolveConfig) -> dict[str, Any]:
    """Identity of the run. Raises `ConfigError` or `DataError` for missing files."""
    identity = config.identity()
    for name, model in (("base", config.base), ("first_policy", config.first_policy)):
        if model is not None and is_local(model):
            identity[name] = fingerprint(local_folder(model))
    for name, source in (("problems", config.problems), ("held_out", config.held_out)):
        if source.file is not None:
            if not source.file.is_file():
                raise DataError(f"{name}.file: {source.file} does not exist")
            identity[name] = {"sha256": hashlib.sha256(source.file.read_bytes()).hexdigest()}
    return identity


def _find_programs(config: EvolveConfig) -> None:
    """Raise `ConfigError` now for missing programs of the recipe, which are needed only much later."""
    for name, command in (("launcher", config.launcher), ("serve", config.serve)):
        if command and shutil.which(command[0]) is None:
            raise ConfigError(f"{name}: program {command[0]!r} not found")


def _refuse_overlap(name: str, questions: Iterable[str], held_out: ProblemSet) -> None:
    """Raise `DataError` for held-out problems among the questions of a training source; `name` is its setting."""
    asked = set(questions)
    both = [problem.id for problem in held_out.problems if problem.question in asked]
    if both:
        raise DataError(
            f"{len(both)} of {len(held_out)} held-out problems are also training problems ({name}), such as {both[0]!r}"
        )


def _problems_by_round(problems: ProblemSet, rounds: Sequence[Round]) -> list[ProblemSet]:
    """The problems that each round searches. Raises `DataError` if a round takes more new ones than there are."""
    shares: list[ProblemSet] = []
    taken: set[str] = set()
    for number, one in enumerate(rounds, 1):
        levels = parse_levels(one.levels) if one.levels else None
        fit = [problem for problem in problems.problems if levels is None or problem.meta.get("level") in levels]
        if one.take is not None:
            fit = [problem for problem in fit if problem.id not in taken][: one.take]
        if len(fit) < (one.take or 1):
            of = f" of level {one.levels}" if one.levels else ""
            raise DataError(f"round {number} takes {one.take or 'all'} new problems{of}, but there are only {len(fit)}")
        taken |= {problem.id for problem in fit}
        shares.append(problems.subset(fit))
    return shares


def _unsolved(problems: Sequence[Problem], solved: Mapping[str, bool], most: int | None) -> list[Problem]:
    """Searched problems without a verified solution, at most `most`, evenly spaced."""
    left = [problem for problem in problems if not solved.get(problem.id, True)]
    return _evenly_spaced(left, most or len(left))


def _evenly_spaced(problems: list[Problem], most: int) -> list[Problem]:
    """At most `most` problems, evenly spaced."""
    return [problems[n * len(problems) // most] for n in range(most)] if len(problems) > most else problems


def _solved_ids(folders: Iterable[Path]) -> dict[str, bool]:
    """Problem id → whether any of the folders holds a verified solution."""
    found: dict[str, bool] = {}
    for folder in folders:
        for record in read_lines(folder / RESULTS):
            found[record["id"]] = found.get(record["id"], False) or is_solved(record)
    return found


def solved_by_label(folders: Sequence[Path]) -> dict[str, tuple[int, int]]:
    """(solved, searched) problems of run folders: of ``all``, and of each level if problems have one."""
    labels = {
        record["id"]: record["meta"].get("level") for folder in folders for record in read_lines(folder / RESULTS)
    }
    counts: dict[str, tuple[int, int]] = {}
    for name, right in _solved_ids(folders).items():
        for label in ("all", *(() if labels[name] is None else (f"level {labels[name]}",))):
            solved, searched = counts.get(label, (0, 0))
            counts[label] = solved + right, searched + 1
    return dict(sorted(counts.items()))
