r"""Trees become training data: solutions for the policy, preference pairs for the PPM (arXiv 2501.04519, 3.3 and 3.4).

``sft.jsonl``: per problem the correct solutions of highest mean Q, none with an execution error in them. A line is
``{"id", "pieces": [prompt, written, shown, written]}``, as `rstar train sft` reads it.

``pairs.jsonl``: per step the candidates of highest Q that lead to a correct answer against those of lowest Q that lead
to a wrong one, which share their prefix; for the last step the prefix may differ, and whole solutions are compared: the
correct ones of highest mean Q against the wrong ones of lowest. A line is ``{"id", "kind": "step" | "final", "prompt",
"prefix", "chosen": [text, …], "rejected": [text, …], "pairs": [[i, j], …], "q": [[…], […]]}``; pair (i, j) is of chosen
text i and rejected text j. Pairs that say little are left out: those whose Q differs by less than a margin, and those
whose texts hardly differ.

Trees are read one at a time, and nothing is kept of them but, where there are several folders, what was taken of which
problem.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from pydantic import Field
from rapidfuzz.distance import Levenshtein

from rstar.config import Section
from rstar.evolve.trees import Solved, StoredNode, StoredTree, read_trees
from rstar.prompts import steps as prompt
from rstar.runs import write_json

SFT, PAIRS, COUNTS = "sft.jsonl", "pairs.jsonl", "counts.json"

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
        folders: run folders with verified trees. Of a problem that is in several, all trees give pairs, and all
            together its solutions; earlier folders come first.
        out: folder that gets the data; what an earlier extraction left there is replaced, whole or not at all.
        config: what is taken.

    Raises:
        DataError: a folder without trees, or with damaged ones.
    """
    counts = Counts()
    out.mkdir(parents=True, exist_ok=True)
    parts = {name: out / f"{name}.part" for name in (SFT, PAIRS)}
    with parts[SFT].open("w", encoding="utf-8") as solutions, parts[PAIRS].open("w", encoding="utf-8") as pairs:
        taken: dict[str, set[int]] = {}
        for folder in folders:
            for tree in read_trees(folder):
                counts.found["trees"] += 1
                seen = taken.setdefault(tree.id, set()) if len(folders) > 1 else set()
                for line in sft_lines(tree, config, counts, seen):
                    solutions.write(json.dumps(line, ensure_ascii=False) + "\n")
                for line in pair_lines(tree, config, counts):
                    pairs.write(json.dumps(line, ensure_ascii=False) + "\n")
        counts.found["problems"] = len(taken) or counts.found["trees"]
    for name, part in parts.items():
        part.replace(out / name)
    write_json(out / COUNTS, counts.record())
    return counts


def difficulty(solved: Iterable[Solved]) -> Difficulty:
    """How hard a problem is by its solutions: `hard` when there is none, or none is correct."""
    verdicts = {one.correct for one in solved}
    return "hard" if True not in verdicts else "medium" if False in verdicts else "easy"


def sft_lines(tree: StoredTree, config: ExtractConfig, counts: Counts, taken: set[int]) -> Iterator[Line]:
    """The solutions of a tree that the policy is trained on; `taken` are the hashes of those of earlier trees."""
    solved = tree.solved()
    counts.found["solutions"] += len(solved)
    counts.difficulty[difficulty(solved)] += 1
    for one in sorted(solved, key=lambda one: -one.mean_q):
        if not one.correct:
            counts.dropped["solution: wrong"] += 1
        elif not one.ran:
            counts.dropped["solution: a step failed"] += 1
        elif (text := hash(one.text)) in taken:
            counts.dropped["solution: said before"] += 1
        elif len(taken) == config.solutions:
            counts.dropped["solution: enough of this problem"] += 1
        else:
            taken.add(text)
            counts.found["solutions kept"] += 1
            yield {"id": tree.id, "pieces": [prompt.prompt(tree.question), *one.pieces()]}


def pair_lines(tree: StoredTree, config: ExtractConfig, counts: Counts) -> Iterator[Line]:
    """The preference pairs of a tree: a line for each step that has some, and one for whole solutions."""
    base = {"id": tree.id, "prompt": prompt.prompt(tree.question)}
    for node in tree.nodes:
        going_on = [child for child in node.children if child.answer is None and child.finish is None]
        good = _best([child for child in going_on if child.right], config.candidates)
        bad = _worst([child for child in going_on if child.wrong], config.candidates)
        kept = _telling([(n.text, n.q) for n in good], [(n.text, n.q) for n in bad], config, counts, "step")
        if kept is not None:
            prefix = "".join(step.text for step in node.path())
            yield {**base, "kind": "step", "prefix": prefix, **kept}
    solved = tree.solved()
    right = sorted((one for one in solved if one.correct and one.ran), key=lambda one: -one.mean_q)
    wrong = sorted((one for one in solved if not one.correct), key=lambda one: one.mean_q)
    whole = [[(one.text, one.mean_q) for one in some[: config.candidates]] for some in (right, wrong)]
    kept = _telling(whole[0], whole[1], config, counts, "final")
    if kept is not None:
        yield {**base, "kind": "final", "prefix": "", **kept}


def _best(nodes: list[StoredNode], most: int) -> list[StoredNode]:
    return sorted(nodes, key=lambda node: -node.q)[:most]


def _worst(nodes: list[StoredNode], most: int) -> list[StoredNode]:
    return sorted(nodes, key=lambda node: node.q)[:most]


Candidate = tuple[str, float]
"""Text and Q."""


def _telling(
    good: list[Candidate], bad: list[Candidate], config: ExtractConfig, counts: Counts, kind: str
) -> Line | None:
    """The candidates that are in at least one pair worth learning from; None where there is no such pair."""
    pairs: list[tuple[int, int]] = []
    for i, (text, q) in enumerate(good):
        for j, (other, less) in enumerate(bad):
            if q - less < config.margin:
                counts.dropped[f"{kind} pair: Q differs by less than {config.margin:g}"] += 1
            elif Levenshtein.distance(text, other, score_cutoff=config.distance) < config.distance or text == other:
                counts.dropped[f"{kind} pair: texts differ by less than {config.distance}"] += 1
            else:
                pairs.append((i, j))
                counts.found[f"{kind} pairs kept"] += 1
    if not pairs:
        return None
    return {
        "chosen": [text for text, _ in good],
        "rejected": [text for text, _ in bad],
        "pairs": pairs,
        "q": [[round(q, 4) for _, q in side] for side in (good, bad)],
    }
