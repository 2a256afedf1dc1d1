"""Which questions the bundled model knows the wording of."""

import random

import pytest

from rstar.tiny.family import Family, Instance, RejectedError
from rstar.tiny.generate import families
from rstar.tiny.recognise import recognise_family

FAMILIES = list(families().values())
LEVELS = (1, 3, 4, 5)


def drawn(family: Family, template: str, level: int) -> Instance:
    rng = random.Random(f"{family.name} {template} {level}")
    while True:
        try:
            return family.make(rng, level, template)
        except RejectedError:
            continue


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.name)
def test_every_trained_template_is_known_and_no_held_out_one(family: Family) -> None:
    for level in LEVELS:
        for template in family.templates:
            question = drawn(family, template, level).question
            assert recognise_family(question) is not None, question
        for template in family.held_templates:
            question = drawn(family, template, level).question
            assert recognise_family(question) is None, question


@pytest.mark.parametrize(
    "question",
    [
        "1+1",
        "2 + 2 is what?",
        "x",
        "",
        "What is the capital of France?",
        "Solve for x: what the capital of France is.",
        "Calculate 7x + 5 = 61 for x.",
        "solve for x: 7x + 5 = 61.",
        "Solve for x: 7x + 5 = 61. Explain.",
        "Please solve for x: 7x + 5 = 61.",
        "For x solve: 7x + 5 = 61.",
        "Solve for x: 7x + 5 equals 61.",
        "A shop starts the day with 69 oranges. 25 are thrown away. How many oranges does the shop have now?",
        "How many oranges does the shop have now? A shop starts the day with 69 oranges.",
        "A baker makes 12 loaves an hour. How many loaves does she make in 3 hours?",
        "What is 12.5 times 4?",
        "What is -5 plus 3?",
        "What is 1,000 times 3?",
        "What is 10 divided by 0?",
        "Solve for x: 2.5x + 5 = 61.",
        "Solve for \x01x: 7x + 5 = 61.",
        "Solve for x: 7x + 5 = 61. " * 100,
        "1 " * 5_000,
        "Solve for x: " + "7x + 5 = " * 200 + "61",
        "For {0} muffins you need {0} cups of butter. How many cups of butter are needed for {0} of muffins?".format(
            "1 " * 60
        ),
    ],
)
def test_other_wordings_are_unknown(question: str) -> None:
    assert recognise_family(question) is None


@pytest.mark.parametrize(
    ("question", "family"),
    [
        ("Solve for x: 7x + 5 = 61.", "linear"),
        ("Solve for x: 70000x + 5 = 61000.", "linear"),
        ("  Solve for x:\n7x + 5 = 61. ", "linear"),
        ("What is 17 times 23?", "calculate"),
        ("What is 2 + 2?", "calculate"),
        ("Solve for x: 4x - 28 = -12.", "linear"),
        ("Calculate 12 × (3 + 4).", "calculate"),
        ("Find the value of k when 167 = 9k + 14.", "linear"),
        ("A shop starts the day with 69 oranges. 20 are sold. How many oranges does the shop have now?", "inventory"),
    ],
)
def test_numbers_names_and_spacing_do_not_matter(question: str, family: str) -> None:
    assert recognise_family(question) == family
