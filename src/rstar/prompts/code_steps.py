"""The code-step format of rStar-Math (arXiv 2501.04519, section 3.2 and its published code).

A solution is a Python program of steps (a comment and its code), then the program's output, then the answer::

    <code>
    # 5 apples a day for 7 days
    n = 5 * 7
    <end_of_step>
    print(n)
    <end_of_code>
    <output>35<end_of_output>
    <answer>\\boxed{35}<end_of_answer>
"""

from __future__ import annotations

from collections.abc import Sequence

USER, ASSISTANT = "<|user|>:", "<|assistant|>:"
CODE, END_STEP, END_CODE = "<code>", "<end_of_step>", "<end_of_code>"
OUTPUT, END_OUTPUT = "<output>", "<end_of_output>"
ANSWER, END_ANSWER = "<answer>", "<end_of_answer>"
MARKERS = (USER, ASSISTANT, CODE, END_STEP, END_CODE, OUTPUT, END_OUTPUT, ANSWER, END_ANSWER)
STOPS = (END_STEP, END_CODE, END_ANSWER)


def prompt(question: str, shots: int = 0) -> str:
    """The policy's input before its first step: the question, and the opening of the program.

    `shots` worked examples come first (0 to 4), for models not trained on the format.
    """
    examples = "".join(f"{_opening(question)}{rest}\n\n" for question, rest in EXAMPLES[:shots])
    return examples + _opening(question)


def _opening(question: str) -> str:
    return f"{USER}\n{question}\n{ASSISTANT} Let's think step by step and solve the problem with code.\n{CODE}\n"


def code_of(text: str) -> str:
    """The Python code in the policy's text: without the step markers."""
    for marker in (CODE, END_STEP, END_CODE):
        text = text.replace(marker, "")
    return text


def output(stdout: str) -> str:
    """The program's output as shown to the policy after `END_CODE`, with the opening of the answer."""
    return f"\n{OUTPUT}{stdout}{END_OUTPUT}\n{ANSWER}"


def answer(text: str) -> str:
    """The last step: the boxed answer."""
    return f"\\boxed{{{text}}}{END_ANSWER}"


def solution(steps: Sequence[str], result: str) -> tuple[str, ...]:
    """A reference solution in pieces: the code steps joined into one, the output, the answer.

    Even positions are written by the policy (trained on), odd positions are shown to it.
    """
    code = "".join(f"{step}\n{END_STEP}\n" for step in steps[:-1]) + f"{steps[-1]}\n{END_CODE}"
    return code, output(result), answer(result)


EXAMPLES: tuple[tuple[str, str], ...] = tuple(
    (question, "".join(solution(steps, result)))
    for question, steps, result in (
        (
            "A baker makes 4 trays of 18 rolls and sells 57 of them. How many rolls are left?",
            ("# 4 trays of 18 rolls\nrolls = 4 * 18", "# 57 are sold\nleft = rolls - 57", "print(left)"),
            "15",
        ),
        (
            "What is the sum of all positive divisors of 60 that are not divisible by 4?",
            (
                "# list the divisors of 60\ndivisors = [d for d in range(1, 61) if 60 % d == 0]",
                "# keep those that 4 does not divide, and add them\ntotal = sum(d for d in divisors if d % 4)",
                "print(total)",
            ),
            "24",
        ),
        (
            "Find the larger root of x^2 - 3x - 10 = 0.",
            (
                "# solve the equation exactly\nfrom sympy import symbols, solve\nx = symbols('x')\n"
                "roots = solve(x**2 - 3*x - 10, x)",
                "# check both roots and take the larger\nassert all(r**2 - 3*r - 10 == 0 for r in roots)\n"
                "larger = max(roots)",
                "print(larger)",
            ),
            "5",
        ),
        (
            "Two fair dice are rolled. What is the probability that the sum is at least 10? Answer as a fraction.",
            (
                "# count the outcomes with a sum of at least 10\n"
                "hits = sum(a + b >= 10 for a in range(1, 7) for b in range(1, 7))",
                "# divide by all 36 outcomes\nfrom fractions import Fraction\np = Fraction(hits, 36)",
                "print(p)",
            ),
            "1/6",
        ),
    )
)
"""Worked examples for models not trained on the format, shortest first."""
