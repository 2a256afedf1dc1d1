"""The format for instruct models that were not trained on code steps: fenced blocks of Python, one per turn.

The model writes text and one block. The block's output comes back as the user's next turn. A turn without a block ends
the solution with the boxed answer::

    <|user|>:
    QUESTION
    <|assistant|>:
    First, I count the rolls.
    ```python
    rolls = 4 * 18
    print(rolls)
    ```
    <|user|>:
    Output:
    ```
    72
    ```
    <|assistant|>:
    The answer is \\boxed{72}.

Turns need no continuation of a partial turn, so every chat API can be used. Servers with a completions API see the same
text with its role marks.
"""

from __future__ import annotations

from rstar.prompts.code_steps import ASSISTANT, USER

END_BLOCK = "\n```\n"

INSTRUCTION = """\
Solve the problem step by step with Python. In each turn, say in one sentence what you compute, and write one block of \
code that begins with ```python and prints its result. You then get its output. Variables are kept between blocks. \
When you know the answer, write no code, and state it as \\boxed{...}."""

EXAMPLES: tuple[tuple[str, tuple[tuple[str, str], ...], str], ...] = (
    (
        "A baker makes 4 trays of 18 rolls and sells 57 of them. How many rolls are left?",
        (
            ("First, I compute the number of rolls.\n```python\nrolls = 4 * 18\nprint(rolls)", "72"),
            ("Then I subtract the rolls that are sold.\n```python\nleft = rolls - 57\nprint(left)", "15"),
        ),
        "There are 15 rolls left. The answer is \\boxed{15}.",
    ),
    (
        "Find the larger root of x^2 - 3x - 10 = 0.",
        (
            (
                "I solve the equation exactly.\n```python\nfrom sympy import symbols, solve\nx = symbols('x')\n"
                "roots = solve(x**2 - 3*x - 10, x)\nprint(roots)",
                "[-2, 5]",
            ),
        ),
        "The larger of the two roots is 5. The answer is \\boxed{5}.",
    ),
    (
        "Two fair dice are rolled. What is the probability that the sum is at least 10? Answer as a fraction.",
        (
            (
                "I count the outcomes with a sum of at least 10.\n```python\nfrom fractions import Fraction\n"
                "hits = sum(a + b >= 10 for a in range(1, 7) for b in range(1, 7))\nprint(Fraction(hits, 36))",
                "1/6",
            ),
        ),
        "The answer is \\boxed{\\frac{1}{6}}.",
    ),
)
"""Worked examples: the question, the turns with their outputs, and the last turn."""


def prompt(question: str, shots: int = 0) -> str:
    """The model's input before its first turn: the instruction, `shots` worked examples, and the question."""
    parts = [f"{INSTRUCTION}\n\n"]
    for asked, turns, last in EXAMPLES[:shots]:
        parts.append(_opening(asked))
        parts += [f"{turn}{END_BLOCK}{output(printed)}" for turn, printed in turns]
        parts.append(f"{last}\n\n")
    return "".join(parts) + _opening(question)


def _opening(question: str) -> str:
    return f"{USER}\n{question}\n{ASSISTANT}\n"


def output(printed: str) -> str:
    """What a block printed, as the next turn, and the opening of the model's turn."""
    return f"{USER}\nOutput:\n```\n{printed}\n```\n{ASSISTANT}\n"
