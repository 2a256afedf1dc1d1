r"""Trees become training data: solutions for the policy, preference pairs for the PPM (arXiv 2501.04519, 3.3 and 3.4).

``sft.jsonl``: per problem the correct solutions of highest mean Q, none with an execution error in them. A line is
``{"id", "pieces": [prompt, written, shown, written]}``, as `rstar train sft` reads it.

``pairs.jsonl``: per step the candidates of highest Q that ran and lead to a correct answer against those of lowest Q
that lead to a wrong one, which share their prefix; for the last step the prefix may differ, and whole solutions are
compared: the correct ones of highest mean Q against the wrong ones of lowest. Pairs that say little are left out: those
whose Q differs by less than a margin, and those whose texts hardly differ. A line is the part of a problem's tree that
is compared, every step of it once: ``{"id", "prompt", "nodes": [{"parent", "text", "shown", "q", "values",
"logprobs"}, …], "steps": [{"kind": "step" | "final", "pairs": [[i, j], …]}, …]}``; `parent` is -1 for a first step, and
of pair (i, j) node i is preferred to node j.

Trees are read one at a time, and nothing is kept of them but, where there are several folders, hashes of the best
solutions of each problem.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, NamedTuple

from pydantic import Field
from rapidfuzz.distance import Levenshtein

from rstar.config import Section
from rstar.errors import ConfigError
from rstar.evolve.trees import Solved, StoredNode, StoredTree, check_verified, read_trees
from rstar.prompts import steps as prompt
from rstar.runs import make_folder, write_json

SFT, PAIRS, COUNTS = "sft.jsonl", "pairs.jsonl", "counts.json"
SAID, ENOUGH = "solution: said before", "solution: enough of this problem"

Difficulty = Literal["easy", "medium", "hard"]
Line = dict[str, Any]


class ExtractConfig(Section):
    """What is taken from trees."""

    solutions: int = Field(2, ge=1, description="solutions of a problem for the policy")
    candidates: int = Field(2, ge=1, description="candidates on either side of a step's pairs")
    margin: float = Field(0.5, ge=0, le=2, description="least difference of Q between the two of a pair")
    distance: int = Field(20, ge=0, description="least edit distance between the two of a pair, characters")


@dataclass(slots=True)
class Counts:
    """How much there was, and what became of it.

    Attributes:
        found: problems, trees, solutions, pairs and the like.
        dropped: reason -> how many.
        difficulty: class -> problems: easy, all solutions are correct; hard, none; medium, some.
    """

    found: Counter[str] = field(default_factory=Counter)
    dropped: Counter[str] = field(default_factory=Counter)
    difficulty: Counter[str] = field(default_factory=Counter)

    def record(self) -> dict[str, dict[str, int]]:
        """As plain data."""
        return {"found": dict(self.found), "dropped": dict(self.dropped), "difficulty": dict(self.difficulty)}


def extract(folders: Sequence[Path], out: Path, config: ExtractConfig) -> Counts:
    """Extract training data from the trees of run folders.

    Args:
        folders: run folders with verified trees. Of a problem that is in several, all trees give pairs, and its
            solutions are the best of all.
        out: folder that gets the data; what an earlier extraction left there is replaced, whole or not at all.
        config: what is taken.

    Raises:
        ConfigError: a folder is given twice, or `out` cannot be made.
        DataError: a folder without trees of verified ends, or with damaged ones.
    """
    for number, folder in enumerate(folders):
        check_verified(folder)
        if any(folder.samefile(other) for other in folders[:number]):
            raise ConfigError(f"{folder}: given twice")
    counts = Counts()
    make_folder(out)
    parts = {name: out / f"{name}.part" for name in (SFT, PAIRS)}
    best = _Best(config.solutions)
    with parts[SFT].open("w", encoding="utf-8") as solutions, parts[PAIRS].open("w", encoding="utf-8") as pairs:
        for folder in folders:
            for tree in read_trees(folder):
                counts.found["trees"] += 1
                for mean_q, line in sft_lines(tree, config, counts):
                    solutions.write(json.dumps(line, ensure_ascii=False) + "\n")
                    if len(folders) > 1:
                        best.see(line, mean_q)
                if len(folders) > 1:
                    best.problems.add(hash((tree.id, tree.question)))
                if (compared := pair_line(tree, config, counts)) is not None:
                    pairs.write(json.dumps(compared, ensure_ascii=False) + "\n")
    counts.found["problems"] = len(best.problems) or counts.found["trees"]
    if len(folders) > 1:
        best.keep_only(parts[SFT], counts)
    for name, part in parts.items():
        part.replace(out / name)
    write_json(out / COUNTS, counts.record())
    return counts


class _Best:
    """The solutions of highest mean Q of each problem, where its trees are in several folders; only hashes are kept."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._found: dict[int, dict[int, float]] = {}
        """Problem -> text -> mean Q."""
        self.problems: set[int] = set()

    def see(self, line: Line, mean_q: float) -> None:
        problem, text = self._hashes(line)
        found = self._found.setdefault(problem, {})
        found[text] = max(mean_q, found.get(text, -1.0))
        if len(found) > self._most:
            del found[min(reversed(found), key=lambda one: found[one])]  # of equal ones the first stays

    def keep_only(self, file: Path, counts: Counts) -> None:
        """Leave out of a file of lines what is not among the best, or was there before."""
        part = file.with_name(f"{file.name}.best")
        taken: set[tuple[int, int]] = set()
        with file.open(encoding="utf-8") as lines, part.open("w", encoding="utf-8") as kept:
            for line in lines:
                problem, text = which = self._hashes(json.loads(line))
                if text in self._found[problem] and which not in taken:
                    taken.add(which)
                    kept.write(line)
                else:
                    counts.found["solutions kept"] -= 1
                    counts.dropped[SAID if which in taken else ENOUGH] += 1
        part.replace(file)

    @staticmethod
    def _hashes(line: Line) -> tuple[int, int]:
        prompt, *solution = line["pieces"]
        return hash((line["id"], prompt)), hash("".join(solution))  # ids are often numbers only


def difficulty(solved: Iterable[Solved]) -> Difficulty:
    """How hard a problem is by its solutions: `hard` when there is none, or none is correct."""
    verdicts = {one.correct for one in solved}
    return "hard" if True not in verdicts else "medium" if False in verdicts else "easy"


def sft_lines(tree: StoredTree, config: ExtractConfig, counts: Counts) -> Iterator[tuple[float, Line]]:
    """The solutions of a tree that the policy is trained on, each with its mean Q."""
    solved = tree.solved()
    taken: set[str] = set()
    counts.found["solutions"] += len(solved)
    counts.difficulty[difficulty(solved)] += 1
    for one in sorted(solved, key=lambda one: -one.mean_q):
        if not one.correct:
            counts.dropped["solution: wrong"] += 1
        elif not one.ran:
            counts.dropped["solution: a step failed"] += 1
        elif one.text in taken:
            counts.dropped[SAID] += 1
        elif len(taken) == config.solutions:
            counts.dropped[ENOUGH] += 1
        else:
            taken.add(one.text)
            counts.found["solutions kept"] += 1
            yield one.mean_q, {"id": tree.id, "pieces": [prompt.prompt(tree.question), *one.pieces()]}


def pair_line(tree: StoredTree, config: ExtractConfig, counts: Counts) -> Line | None:
    """The preference pairs of a tree, those of each step and those of whole solutions; None where there are none."""
    compared: list[tuple[str, list[tuple[StoredNode, StoredNode]]]] = []
    for node in tree.nodes:
        going_on = [child for child in node.children if child.answer is None and child.finish is None]
        good = sorted((child for child in going_on if child.right and child.ran), key=lambda child: -child.q)
        bad = sorted((child for child in going_on if child.wrong), key=lambda child: child.q)
        above, below = ([Candidate(n, n.text, n.q) for n in some[: config.candidates]] for some in (good, bad))
        compared.append(("step", _telling(above, below, config, counts, "step")))
    solved = tree.solved()
    right = sorted((one for one in solved if one.correct and one.ran), key=lambda one: -one.mean_q)
    wrong = sorted((one for one in solved if not one.correct), key=lambda one: one.mean_q)
    above, below = (
        [Candidate(one.steps[-1], one.text, one.mean_q) for one in some[: config.candidates]] for some in (right, wrong)
    )
    compared.append(("final", _telling(above, below, config, counts, "final")))
    compared = [(kind, pairs) for kind, pairs in compared if pairs]
    if not compared:
        return None
    numbers: dict[StoredNode, int] = {}
    for node in (node for _, pairs in compared for pair in pairs for end in pair for node in end.path()):
        numbers.setdefault(node, len(numbers))  # parents before children
    return {
        "id": tree.id,
        "prompt": prompt.prompt(tree.question),
        "nodes": [_plain(node, numbers) for node in numbers],
        "steps": [
            {"kind": kind, "pairs": [[numbers[better], numbers[other]] for better, other in pairs]}
            for kind, pairs in compared
        ],
    }


def _plain(node: StoredNode, numbers: dict[StoredNode, int]) -> Line:
    parent = -1 if node.parent is None else numbers.get(node.parent, -1)
    row: Line = {"parent": parent, "text": node.text, "shown": node.shown, "q": round(node.q, 4)}
    told = {"values": node.values, "logprobs": node.logprobs}
    return row | {name: what for name, what in told.items() if what}


class Candidate(NamedTuple):
    """What can be one side of a pair."""

    node: StoredNode
    text: str
    q: float


def _telling(
    good: list[Candidate], bad: list[Candidate], config: ExtractConfig, counts: Counts, kind: str
) -> list[tuple[StoredNode, StoredNode]]:
    """The pairs worth learning from."""
    pairs: list[tuple[StoredNode, StoredNode]] = []
    for one in good:
        for other in bad:
            if one.q - other.q < config.margin:
                counts.dropped[f"{kind} pair: Q differs by less than {config.margin:g}"] += 1
            elif _alike(one.text, other.text, config.distance):
                counts.dropped[f"{kind} pair: texts differ by less than {config.distance}"] += 1
            else:
                pairs.append((one.node, other.node))
                counts.found[f"{kind} pairs kept"] += 1
    return pairs


def _alike(text: str, other: str, distance: int) -> bool:
    return text == other or Levenshtein.distance(text, other, score_cutoff=distance) < distance
