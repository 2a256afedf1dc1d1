"""Speed and memory of turning trees into training data."""

from __future__ import annotations

import json
import random
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rstar.evolve.trees import VERIFIED_ENDS
from rstar.prompts import steps as prompt
from rstar.runs import CONFIG, RESULTS, TREES, write_json

QUESTION = "How much money does Maya have after {0} weeks if she saves ${1} a week and begins with ${2}?"


@dataclass(frozen=True, slots=True)
class Extraction:
    """What an extraction took: trees and their size, seconds of wall time, and the most memory of its process."""

    trees: int
    megabytes: float
    seconds: float
    peak_megabytes: float


def bench_extract(trees: int, seed: int = 0) -> Extraction:
    """Extract from a folder of `trees` random trees of the size of a 16-rollout search, in a process of its own."""
    with tempfile.TemporaryDirectory() as place:
        run, out = Path(place, "run"), Path(place, "data")
        run.mkdir()
        draw = random.Random(seed)
        write_json(run / CONFIG, {"identity": VERIFIED_ENDS})
        with (run / RESULTS).open("w") as results, (run / TREES).open("w") as lines:
            for number in range(trees):
                question = QUESTION.format(*(draw.randrange(2, 99) for _ in range(3)))
                results.write(json.dumps({"id": str(number), "question": question}) + "\n")
                lines.write(json.dumps({"id": str(number), "nodes": list(_tree(draw))}) + "\n")
        size = (run / TREES).stat().st_size
        command = [sys.executable, "-m", "rstar", "evolve", "extract", str(run), "--out", str(out), "--json"]
        started = time.perf_counter()
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        seconds = time.perf_counter() - started
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024  # of the largest child; this is the only one
    return Extraction(trees, size / 1e6, seconds, peak)


def _tree(draw: random.Random) -> Iterator[dict[str, Any]]:
    """About 60 nodes in four levels, a third of them ends, with log-probabilities."""
    yield {"parent": -1, "q": 0.0, "value": None, "answer": None, "finish": None}
    level, number = [0], 1
    for depth in range(4):
        below: list[int] = []
        for parent in level:
            for _ in range(draw.randrange(2, 4)):
                ends = depth == 3 or draw.random() < 0.2
                answer = draw.choice("789")
                told = [-draw.random() for _ in range(20)]
                product = f"{draw.randrange(1000)} * {draw.randrange(1000)}"
                yield {
                    "parent": parent,
                    "text": f"# step {draw.random()}\nx = {product}\n<end_of_step>",
                    "shown": prompt.output(answer) + prompt.answer(answer) if ends else "",
                    "status": "ok",
                    "q": draw.uniform(-1, 1),
                    "value": (1.0 if answer == "7" else -1.0) if ends else None,
                    "answer": answer if ends else None,
                    "finish": "answer" if ends else None,
                    "logprobs": [round(value, 5) for value in told],
                }
                if not ends:
                    below.append(number)
                number += 1
        level = below
