"""Speed and memory of extracting training data from trees."""

from __future__ import annotations

import random
import resource
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from rstar.evals.rewards import RIGHT, WRONG
from rstar.evolve.trees import VERIFIED_ENDS
from rstar.jsonl import encode_line, write_json
from rstar.prompts import code_steps
from rstar.runs import CONFIG, RESULTS, TREES
from rstar.trajectories import Segment, Step
from rstar.trees import Tree, TreeNode

QUESTION = "How much money does Maya have after {0} weeks if she saves ${1} a week and begins with ${2}?"

_EXTRACT = """
import sys
from pathlib import Path
from rstar.evolve.extract import ExtractConfig, extract
extract([Path(sys.argv[1])], Path(sys.argv[2]), ExtractConfig())
"""


@dataclass(frozen=True, slots=True)
class Extraction:
    """Cost of an extraction: number and size of trees, wall-clock seconds, and peak memory of its process."""

    trees: int
    megabytes: float
    seconds: float
    peak_megabytes: float


def bench_extract(trees: int, seed: int = 0) -> Extraction:
    """Extract from `trees` random trees, each the size of a 16-rollout search, in a process of its own."""
    with tempfile.TemporaryDirectory() as place:
        run, out = Path(place, "run"), Path(place, "data")
        run.mkdir()
        draw = random.Random(seed)
        write_json(run / CONFIG, {"identity": VERIFIED_ENDS})
        with (run / RESULTS).open("wb") as results, (run / TREES).open("wb") as lines:
            for number in range(trees):
                question = QUESTION.format(*(draw.randrange(2, 99) for _ in range(3)))
                results.write(encode_line({"id": str(number), "question": question}))
                lines.write(encode_line({"id": str(number), **_tree(draw, question).to_json(tokens=True)}))
        size = (run / TREES).stat().st_size
        command = [sys.executable, "-c", _EXTRACT, str(run), str(out)]
        started = time.perf_counter()
        subprocess.run(command, check=True)
        seconds = time.perf_counter() - started
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024  # of the largest child: the only one
    return Extraction(trees, size / 1e6, seconds, peak)


def _tree(draw: random.Random, question: str) -> Tree:
    """About 60 nodes in four levels, a third of them ends, with log-probabilities."""
    root = TreeNode(None, None, 0, 0.0, None, 1, None, None)
    nodes, level = [root], [root]
    for depth in range(4):
        new = [_node(draw, parent, depth == 3) for parent in level for _ in range(draw.randrange(2, 4))]
        nodes += new
        level = [node for node in new if node.answer is None]
    return Tree(Segment(code_steps.prompt(question), "template"), nodes)


def _node(draw: random.Random, parent: TreeNode, last: bool) -> TreeNode:
    """A random step; the `last` one of a solution ends it, others may."""
    ends = last or draw.random() < 0.2
    answer = draw.choice("789")
    told = tuple(-draw.random() for _ in range(20))
    product = f"{draw.randrange(1000)} * {draw.randrange(1000)}"
    segments = [Segment(f"# step {draw.random()}\nx = {product}\n<end_of_step>", "policy", (), told)]
    q = draw.uniform(-1, 1)
    if not ends:
        return TreeNode(parent, Step(tuple(segments), "ok"), 1, q, None, 1, None, None)
    segments += [Segment(code_steps.output(answer), "tool"), Segment(code_steps.answer(answer), "policy")]
    return TreeNode(parent, Step(tuple(segments), "ok"), 1, q, RIGHT if answer == "7" else WRONG, 1, "answer", answer)
