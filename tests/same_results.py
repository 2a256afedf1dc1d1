"""Whether a change of the code leaves results as they were: every method, a smoke evolution, every grading.

    python tests/same_results.py make OUT [--source CHECKOUT]    # once for each of the two versions
    python tests/same_results.py compare OUT OTHER

Times are left out. The two versions may name files and store trees differently, so only what a user reads is compared:
results, the evolution's table and its models' weights, verdicts.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
METHODS = ("greedy", "sample", "best-of-n", "beam", "mcts")
PROBLEMS, SEED = 100, 4242
TIMES = ("seconds", "clock")

GRADE = """
import json, sys
from pathlib import Path
from rstar.grading import grade
verdicts = {}
for file in sorted(Path(sys.argv[1]).rglob("*.txt")):
    for line in file.read_text().splitlines():
        sides = line.removeprefix("==").removeprefix("!=").split("|||")
        if len(sides) == 2:
            gold, answer = (side.strip().replace("\\u2424", "\\n") for side in sides)
            verdict = grade(gold, answer)
            verdicts[f"{gold} ||| {answer}"] = [verdict.outcome, verdict.reason]
print(json.dumps(verdicts))
"""


def make(out: Path, source: Path) -> None:
    """Run everything with the sources of a checkout, and write what came out."""
    out.mkdir(parents=True, exist_ok=True)

    def run(*command: str) -> str:
        env = os.environ | {"PYTHONPATH": str(source / "src")}
        return subprocess.run([sys.executable, *command], check=True, env=env, stdout=subprocess.PIPE, text=True).stdout

    verdicts = json.loads(run("-c", GRADE, str(ROOT / "tests/grading")))
    problems = out / "problems.jsonl"
    run("-m", "rstar", "problems", "make", "--out", str(problems), "--n", str(PROBLEMS), "--seed", str(SEED))
    found: dict[str, Any] = {"verdicts": verdicts}
    for method in METHODS:
        folder = out / method
        run(
            "-m", "rstar", "solve", "--problems", str(problems), "--method", method, "--out", str(folder),
            "--set", f"seed={SEED}",
        )  # fmt: skip
        lines = (folder / "results.jsonl").read_text().splitlines()
        found[method] = [{k: v for k, v in json.loads(line).items() if k not in TIMES} for line in lines]
    folder = out / "evolution"
    recipe = str(source / "recipes/tiny/evolve.toml")
    run("-m", "rstar", "evolve", "run", recipe, "--smoke", "--out", str(folder))
    found["rounds"] = json.loads((folder / "rounds.json").read_text())
    found["weights"] = {
        str(file.relative_to(folder)): hashlib.sha256(file.read_bytes()).hexdigest()
        for file in sorted(folder.glob("round*/*/model/*.safetensors"))
    }
    (out / "found.json").write_text(json.dumps(found, sort_keys=True, indent=1))


def compare(one: Path, other: Path) -> int:
    """Print what differs; the number of parts that do."""
    a, b = (json.loads((folder / "found.json").read_text()) for folder in (one, other))
    differ = 0
    for name in sorted(a.keys() | b.keys()):
        same = a.get(name) == b.get(name)
        differ += not same
        print(f"{name}: {'equal' if same else 'DIFFERENT'} ({len(a.get(name, ()))})")
        if not same and isinstance(a.get(name), list):
            pairs = [(x, y) for x, y in zip(a[name], b[name], strict=False) if x != y]
            keys = sorted({key for x, y in pairs for key in x.keys() | y.keys() if x.get(key) != y.get(key)})
            print(f"  {len(pairs)} lines, in {', '.join(keys)}")
            key = keys[0]
            print(f"  first: {pairs[0][0].get(key)!r}\n     now: {pairs[0][1].get(key)!r}")
        elif not same and isinstance(a.get(name), dict):
            keys = [key for key in a[name].keys() | b[name].keys() if a[name].get(key) != b[name].get(key)]
            print(f"  {len(keys)}: {keys[:3]}")
    return differ


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parts = parser.add_subparsers(dest="what", required=True)
    maker = parts.add_parser("make")
    maker.add_argument("out", type=Path)
    maker.add_argument("--source", type=Path, default=ROOT)
    comparer = parts.add_parser("compare")
    comparer.add_argument("one", type=Path)
    comparer.add_argument("other", type=Path)
    given = parser.parse_args()
    if given.what == "make":
        make(given.out.resolve(), given.source.resolve())
    else:
        sys.exit(compare(given.one, given.other))
