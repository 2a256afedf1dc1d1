r"""Training data from trees: solutions for the policy, preference pairs for the PPM (arXiv 2501.04519, 3.3 and 3.4).

``sft.jsonl``: per problem, the correct solutions of highest mean Q without an execution error. A line is
``{"id", "pieces": [prompt, written, shown, written]}``, the input of `rstar train sft`.

``pairs.jsonl``: per step, among candidates with the same prefix, those of highest Q that ran and lead to a correct
answer against those of lowest Q that lead to a wrong one, or that are dead ends. The last step compares whole
solutions, whose prefixes may differ: the correct ones of highest mean Q against the wrong ones of lowest. Uninformative
pairs are dropped: their Q differs by less than a margin (dead ends apart), or their texts hardly differ. A line is the
compared part of a problem's tree, each step once: ``{"id", "prompt", "nodes": [{"parent", "q", …STEP}, …], "steps":
[{"kind": "step" | "final", "pairs": [[i, j], …]}, …]}``. `rstar.trajectories.Step` defines `STEP`; `parent` is -1 for a
first step; of pair (i, j), node i is preferred to node j.

Trees are read one at a time and not kept. Given several folders, hashes of each problem's best solutions are kept.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, NamedTuple

from pydantic import Field
from rapidfuzz.distance import Levenshtein

from rstar.errors import ConfigError
from rstar.evolve.trees import Solved, VerifiedTree, check_verified, read_trees
from rstar.jsonl import Record, atomic_write, decode_line, encode_line, write_json
from rstar.prompts import code_steps as prompt
from rstar.runs import make_folder
from rstar.sections import Section
from rstar.trees import TreeNode

SFT, PAIRS, COUNTS = "sft.jsonl", "pairs.jsonl", "counts.json"
DUPLICATE, SURPLUS = "solution: said before", "solution: enough of this problem"  # keys of `COUNTS`

Difficulty = Literal["easy", "medium", "hard"]


class ExtractConfig(Section):
    """What to extract from trees."""

    solutions: int = Field(2, ge=1, description="number of correct solutions kept per problem")
    candidates: int = Field(2, ge=1, description="number of candidates on each side of a step's pairs")
    margin: float = Field(0.5, ge=0, le=2, description="minimum difference in Q within a pair")
    dead_end: int = Field(
        4,
        ge=1,
        description="minimum number of samples below a step, all of them failed, for the step to count as a dead end, "
        "which can be a rejected candidate",
    )
    distance: int = Field(20, ge=0, description="minimum edit distance within a pair, characters")


@dataclass(slots=True)
class Counts:
    """What was found, and what became of it.

    Attributes:
        found: problems, trees, solutions, pairs and so on.
        dropped: reason → count.
        difficulty: class → problems. easy: all solutions are correct; medium: some; hard: none.
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
        folders: run folders with verified trees. If a problem is in several, all its trees give pairs, and its
            solutions are the best of all.
        out: output folder; the data of an earlier extraction is replaced atomically.
        config: what to extract.

    Raises:
        ConfigError: a folder is given twice, or `out` cannot be created.
        DataError: a folder has no trees with verified ends, or damaged ones.
    """
    for number, folder in enumerate(folders):
        check_verified(folder)
        if any(folder.samefile(other) for other in folders[:number]):
            raise ConfigError(f"{folder}: given twice")
    counts = Counts()
    make_folder(out)
    best = _BestSolutions(config.solutions)
    with atomic_write(out / SFT) as solutions, atomic_write(out / PAIRS) as pairs:
        for folder in folders:
            for tree in read_trees(folder):
                counts.found["trees"] += 1
                for mean_q, line in sft_lines(tree, config, counts):
                    solutions.write(encode_line(line))
                    if len(folders) > 1:
                        best.add(line, mean_q)
                if len(folders) > 1:
                    best.problems.add(hash((tree.id, tree.question)))
                if (compared := pair_line(tree, config, counts)) is not None:
                    pairs.write(encode_line(compared))
    counts.found["problems"] = len(best.problems) or counts.found["trees"]
    if len(folders) > 1:
        best.keep_only(out / SFT, counts)
    write_json(out / COUNTS, counts.record())
    return counts


class _BestSolutions:
    """The solutions of highest mean Q per problem, if its trees are in several folders; only hashes are kept."""

    def __init__(self, count: int) -> None:
        self._count = count
        self._found: dict[int, dict[int, float]] = {}
        """Problem hash → solution hash → mean Q."""
        self.problems: set[int] = set()

    def add(self, line: Record, mean_q: float) -> None:
        problem, text = self._hashes(line)
        found = self._found.setdefault(problem, {})
        found[text] = max(mean_q, found.get(text, -1.0))
        if len(found) > self._count:
            del found[min(reversed(found), key=found.__getitem__)]  # on ties the first stays

    def keep_only(self, file: Path, counts: Counts) -> None:
        """Drop the lines that are not among the best, or are duplicates."""
        kept_keys: set[tuple[int, int]] = set()
        with file.open("rb") as lines, atomic_write(file) as kept:
            for line in lines:
                problem, text = key = self._hashes(decode_line(line))
                if text in self._found[problem] and key not in kept_keys:
                    kept_keys.add(key)
                    kept.write(line)
                else:
                    counts.found["solutions kept"] -= 1
                    counts.dropped[DUPLICATE if key in kept_keys else SURPLUS] += 1

    @staticmethod
    def _hashes(line: Record) -> tuple[int, int]:
        prompt, *solution = line["pieces"]
        return hash((line["id"], prompt)), hash("".join(solution))  # ids are often just numbers


def difficulty(solved: Iterable[Solved]) -> Difficulty:
    """Difficulty of a problem by its solutions: `hard` if there is none, or none is correct."""
    verdicts = {one.correct for one in solved}
    return "hard" if True not in verdicts else "medium" if False in verdicts else "easy"


def sft_lines(tree: VerifiedTree, config: ExtractConfig, counts: Counts) -> Iterator[tuple[float, Record]]:
    """Yield the solutions of a tree that the policy is trained on, each with its mean Q."""
    solved = tree.solved
    taken: set[str] = set()
    counts.found["solutions"] += len(solved)
    counts.difficulty[difficulty(solved)] += 1
    for one in sorted(solved, key=lambda one: -one.mean_q):
        if not one.correct:
            counts.dropped["solution: wrong"] += 1
        elif not one.ran:
            counts.dropped["solution: a step failed"] += 1
        elif (text := one.text) in taken:
            counts.dropped[DUPLICATE] += 1
        elif len(taken) == config.solutions:
            counts.dropped[SURPLUS] += 1
        else:
            taken.add(text)
            counts.found["solutions kept"] += 1
            yield one.mean_q, {"id": tree.id, "pieces": [prompt.prompt(tree.question), *one.trajectory.turns()]}


def pair_line(tree: VerifiedTree, config: ExtractConfig, counts: Counts) -> Record | None:
    """The preference pairs of a tree, of each step and of whole solutions; None if there are none."""
    compared: list[tuple[str, list[tuple[TreeNode, TreeNode]]]] = []
    for node in tree.tree.nodes:
        good, bad = [], []
        for child in node.children:
            if child.step is None or child.finish_reason is not None:
                continue
            dead_end = tree.is_dead_end(child, config.dead_end)
            candidate = Candidate(child, child.step.text, child.q, dead_end)
            good += [candidate] * (tree.right[child] > 0 and child.step.ran)
            bad += [candidate] * (tree.wrong[child] > 0 or dead_end)
        if good and bad:
            compared.append(("step", informative_pairs(good, bad, config, counts, "step")))
    whole = [(one, Candidate(one.nodes[-1], one.text, one.mean_q)) for one in tree.solved]
    right = [candidate for one, candidate in whole if one.correct and one.ran]
    wrong = [candidate for one, candidate in whole if not one.correct]
    compared.append(("final", informative_pairs(right, wrong, config, counts, "final")))
    compared = [(kind, pairs) for kind, pairs in compared if pairs]
    if not compared:
        return None
    numbers: dict[TreeNode, int] = {}
    for end in (end for _, pairs in compared for pair in pairs for end in pair if end not in numbers):
        for node in end.path():
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


def _plain(node: TreeNode, numbers: dict[TreeNode, int]) -> Record:
    assert node.step is not None
    parent = -1 if node.parent is None else numbers.get(node.parent, -1)
    return {"parent": parent, "q": round(node.q, 4), **node.step.to_json(tokens=True)}


class Candidate(NamedTuple):
    """A possible side of a pair."""

    node: TreeNode
    text: str
    q: float
    dead_end: bool = False


def informative_pairs(
    good: list[Candidate], bad: list[Candidate], config: ExtractConfig, counts: Counts, kind: str
) -> list[tuple[TreeNode, TreeNode]]:
    """The informative pairs among the best of the good and the worst of the bad candidates."""
    pairs: list[tuple[TreeNode, TreeNode]] = []
    for better in sorted(good, key=lambda candidate: -candidate.q)[: config.candidates]:
        for worse in sorted(bad, key=lambda candidate: candidate.q)[: config.candidates]:
            if better.q - worse.q < config.margin and not worse.dead_end:
                counts.dropped[f"{kind} pair: Q differs by less than {config.margin:g}"] += 1
            elif Levenshtein.distance(better.text, worse.text, score_cutoff=config.distance) < max(config.distance, 1):
                counts.dropped[f"{kind} pair: texts differ by less than {config.distance}"] += 1
            else:
                pairs.append((better.node, worse.node))
                counts.found[f"{kind} pairs kept"] += 1
                counts.found["dead ends in pairs"] += worse.dead_end
    return pairs
