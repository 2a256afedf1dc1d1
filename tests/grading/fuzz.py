"""Random LaTeX, valid and broken, against the grader: ``python -m tests.grading.fuzz --seconds 600 --seed 1``.

Looks for exceptions, for failures of the grader, and for calls that take longer than `LIMIT` of CPU time.
"""

import argparse
import math
import random
import time
from collections import Counter

from rstar.grading import grade

LIMIT = 1.0
_KNOWN = r"""
\frac \frac{ \dfrac12 }{ } { ^ ^{ _ _{ ( ) [ ] \{ \} \left( \right) | \| / * + - = < > \le \ge \ne \pm \mp ! ' , ; :
\cdot \times \sqrt \sqrt{ \sqrt[3]{ \sin \cos \tan \ln \log \log_ \log_2 \exp e i x y n k a b \pi \infty \alpha 0 1
2 3 7 10 12 100 0.5 .5 1,000 1{,}000 3.14159265358979 0.\overline{3} 1e5 10^{10} 9^{9^{9}} 25_8 % \% $ \$ \text{ cm}
\text{and} \text{or} or and \text{hours} cm m/s ^\circ 3:30 p.m. \boxed{ \boxed{5} \fbox{ <answer> </answer> <think>
</think> #### **Answer:** answer is The \begin{pmatrix} \end{pmatrix} \begin{vmatrix} \end{vmatrix} & \\ \cup \cap
\in \mathbb{R} \setminus \emptyset \to \lfloor \rfloor \lceil \rceil \binom \binom{5}{2} \choose five half thousand
no solution yes (A) B C. \overline{AB} \angle ABC \int \sum \lim \pmod \mathrm{ \, \quad ~ . ... \ldots ½ √ ≤ ∞ ² − ×
"""
FRAGMENTS = (*_KNOWN.split(), "\n", "\x00", "\ud800", "é", "中", "😀")


def text(draw: random.Random) -> str:
    """A few fragments in a row, closed half of the time."""
    parts = [draw.choice(FRAGMENTS) for _ in range(draw.choice((1, 2, 3, 4, 6, 9, 14, 30)))]
    joined = draw.choice(("", " ")).join(parts)
    missing = joined.count("{") - joined.count("}")
    return joined + "}" * missing if missing > 0 and draw.random() < 0.7 else joined


def run(seed: int, pairs: float = math.inf, seconds: float = math.inf) -> tuple[Counter[str], list[str]]:
    """Grade random pairs, three verdicts each, until one of the limits is reached; return outcomes and failures."""
    draw, outcomes, wrong = random.Random(seed), Counter[str](), []
    end = time.monotonic() + seconds
    while pairs > 0 and time.monotonic() < end:
        pairs -= 1
        first, second = text(draw), text(draw)
        for gold, answer in ((first, second), (second, first), (first, first)):
            started = time.process_time()
            try:
                verdict = grade(gold, answer)
            except Exception as error:
                wrong.append(f"{type(error).__name__}: {error}: {gold!r} {answer!r}")
                continue
            if time.process_time() - started > LIMIT:
                wrong.append(f"slow: {gold!r} {answer!r}")
            outcomes[verdict.outcome] += 1
            if verdict.outcome == "error" and not verdict.reason.startswith("the gold answer"):
                wrong.append(f"error: {verdict.reason}: {gold!r} {answer!r}")
    return outcomes, wrong


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    counted, found = run(arguments.seed, seconds=arguments.seconds)
    print(dict(counted))
    print("\n".join(found[:50]) or "nothing found")
    raise SystemExit(bool(found))
