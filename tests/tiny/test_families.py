"""The worded families: what each draw promises, the template language, and the words."""

from __future__ import annotations

import random
import re
from functools import cache
from typing import get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rstar.tiny.family import LEVELS, Family, Instance, Split, is_held_out
from rstar.tiny.generate import families
from rstar.tiny.templates import Draft, Story, family, parse_wordings, render
from rstar.tiny.words import (
    ANIMALS,
    BAKED,
    BOXES,
    CREW,
    DEAR,
    PEOPLE,
    PUPILS,
    THINGS,
    Noun,
    Person,
    Purchase,
    joined,
    plural,
    signed,
)

FAMILIES = tuple(drawn for drawn in families().values() if drawn.kind != "search")
SPLITS: tuple[Split, ...] = get_args(Split)
DRAWS = 20  # of each family, level and split
each_family = pytest.mark.parametrize("drawn", FAMILIES, ids=lambda drawn: drawn.name)

# Numbers that the code may have without the question: 0, 1, 2 and what everybody knows about the subject.
SMALL = {"0", "1", "2"}
KNOWN = {
    "clock": {"60"},
    "units": {"3", "7", "10", "12", "24", "60", "100", "1000"},
    "inventory": {"3", "4", "5"},  # a third, a quarter, a fifth
    "remainders": {"10000"},  # how far to look
    "primes": {"10"},  # the last digit
    **{name: {"100"} for name in ("percent-of", "discount", "percent-change", "tips", "mixture")},
}
WRONG_ARTICLE = re.compile(
    r"\b[Aa] (?!(?:and|are|as|at|if|in|instead|is|one|or)\b)(?:[aeio]|8\d*\b|11\b|18\b)"  # but: the letter A
    r"|\b[Aa]n (?!hour|[AEFHILMNORSX]\b)[^aeiou8]"
)
ONE_OF_MANY = re.compile(
    r"(?<![:+^/-] )(?<![:$^/.])\b1 (?:more )?(?!as|is|becomes|divides)(?:people|children|[a-z]+s)\b"
)
NUMBER = re.compile(r"(?<![\w.])\d+(?:\.\d+)?")


@cache
def sample(drawn: Family) -> tuple[tuple[int, Split, Instance], ...]:
    """`DRAWS` instances of each level and split."""
    return tuple(
        (level, split, drawn.draw(rng, level, split))
        for level in LEVELS
        for split in SPLITS
        for rng in [random.Random(f"{drawn.name}{level}{split}")]
        for _ in range(DRAWS)
    )


def printed(instance: Instance) -> str:
    """What the reference steps print. They are our own code, so that they may run in this process."""
    lines: list[str] = []
    exec("\n".join(instance.steps), {"print": lambda value: lines.append(str(value))})
    return "\n".join(lines)


def code_lines(instance: Instance) -> list[str]:
    return [line for step in instance.steps for line in step.split("\n") if not line.startswith("#")]


@each_family
def test_the_steps_print_the_answer(drawn: Family) -> None:
    for level, split, instance in sample(drawn):
        assert printed(instance) == instance.answer, (level, split, instance)


@each_family
def test_splits_keep_templates_and_numbers_apart(drawn: Family) -> None:
    for _, split, instance in sample(drawn):
        assert instance.template in (drawn.held_templates if split == "templates" else drawn.templates)
        assert is_held_out(drawn.share, drawn.name, instance.numbers) == (split != "train")


@each_family
def test_steps_have_the_code_step_form(drawn: Family) -> None:
    for level, _, instance in sample(drawn):
        *steps, last = instance.steps
        assert re.fullmatch(r"print\([^()]*\)", last)
        assert 1 <= len(steps) <= (3 if level == 1 else 7), instance
        for step in steps:
            comment, *code = step.split("\n")
            assert re.fullmatch(r"# \S.*", comment), step
            assert 1 <= len(code) <= 3, step
            assert len(step) <= 130, step
            assert all(code), step


@each_family
def test_code_uses_numbers_of_the_question(drawn: Family) -> None:
    known = SMALL | KNOWN.get(drawn.name, set())
    for _, _, instance in sample(drawn):
        asked = set(re.findall(r"\d+(?:\.\d+)?", instance.question))
        used = {number for line in code_lines(instance) for number in NUMBER.findall(line)}
        assert used - known <= asked, instance


@each_family
def test_questions_are_clean_english(drawn: Family) -> None:
    for _, _, instance in sample(drawn):
        text = instance.question
        assert not re.search(r"[{}\[\]<>|_]|\bNone\b(?! (?:is|was))|True", text), text
        assert not re.search(r"\s\s|^\s|\s$| [.,;?!]|[,;.?][,;.?]", text.replace("...", "and so on")), text
        assert re.match(r"[\"“(]*(?:[A-Z0-9$]|[a-z](?: ?[:=] |\())", text), text
        assert text.rstrip(')"')[-1] in ".?" or text[-1] == ")", text
        assert not re.search(r"[.?] [a-z]", text), text
        assert not re.search(WRONG_ARTICLE, text), text
        assert not ONE_OF_MANY.search(text), text


@each_family
def test_few_questions_repeat_and_one_has_one_answer(drawn: Family) -> None:
    """Whatever decides the answer is told: two drafts that read the same, names apart, have the same answer."""
    names = re.compile("|".join(rf"\b{person.name}\b" for person in PEOPLE))
    for level in LEVELS:
        rng = random.Random(f"{drawn.name}{level}")
        instances = [drawn.draw(rng, level, "train") for _ in range(150)]
        assert len({instance.question for instance in instances}) >= 141, level
        answers: dict[str, str] = {}
        for instance in instances:
            read = names.sub("NN", instance.question)
            assert answers.setdefault(read, instance.answer) == instance.answer, read


def test_the_same_seed_draws_the_same() -> None:
    for drawn in FAMILIES:
        first, again = (drawn.draw(random.Random(drawn.name), 5, "train") for _ in range(2))
        assert first == again


@settings(max_examples=150)
@given(st.sampled_from(FAMILIES), st.sampled_from(LEVELS), st.sampled_from(SPLITS), st.integers(0, 2**64))
def test_any_seed_draws_a_right_instance(drawn: Family, level: int, split: Split, seed: int) -> None:
    instance = drawn.draw(random.Random(seed), level, split)
    assert printed(instance) == instance.answer


def test_there_is_enough_variety() -> None:
    assert len(FAMILIES) >= 24
    assert len({drawn.name for drawn in FAMILIES}) == len(FAMILIES)
    assert {drawn.kind for drawn in FAMILIES} == {"word", "ratio", "algebra", "number", "counting"}
    for drawn in FAMILIES:
        assert len(drawn.templates) >= 6, drawn.name
        assert len(drawn.held_templates) >= 2, drawn.name
        assert drawn.about, drawn.name
    assert len(PEOPLE) == len({person.name for person in PEOPLE}) >= 60
    assert len(THINGS) == len(set(THINGS)) >= 80


def test_level_five_needs_more_steps_than_level_one() -> None:
    for drawn in FAMILIES:
        rng = random.Random(drawn.name)
        first, last = (sum(len(drawn.draw(rng, level, "train").steps) for _ in range(20)) for level in (1, 5))
        assert last > first, drawn.name


def test_groups_take_the_first_alternative_with_all_its_fields() -> None:
    rng = random.Random(0)
    text = "a[ b {b}| c {c}{?d}| e]."
    assert render(text, {"b": 1}, rng) == "a b 1."
    assert render(text, {"b": None, "c": 2, "d": True}, rng) == "a c 2."
    assert render(text, {"c": 2}, rng) == "a e."
    assert render("[{b} and [{c}|no c]|nothing]", {"b": 1}, rng) == "1 and no c"
    assert render("x [{b}] , y", {}, rng) == "x, y"


def test_wordings_are_chosen_at_random_and_may_hold_fields() -> None:
    rng = random.Random(0)
    assert {render("<{a}|b> c", {"a": 1}, rng) for _ in range(50)} == {"1 c", "b c"}


def test_a_missing_field_outside_a_group_is_an_error() -> None:
    with pytest.raises(KeyError):
        render("{a}", {"a": None}, random.Random(0))


@pytest.mark.parametrize("text", ["- a [b] {n}", "- a [b|{n}]", "- a [{n}|b|c]", "- [x [{n}]|y] z"])
def test_alternatives_that_would_hide_others_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match="alternative"):
        parse_wordings(text)


def test_a_family_reads_its_name_and_purpose_from_the_function() -> None:
    @family("word", wordings=(parse_wordings("- {n}?\n- And {n}\n  too?"), parse_wordings("- Held {n}?")))
    def two_words(r: random.Random, level: int) -> Draft:
        """What it is about."""
        return Draft({"n": level}, [("one", "x = 1")], r.randint(0, 99), (level,))

    assert (two_words.name, two_words.about, two_words.kind) == ("two-words", "What it is about", "word")
    assert two_words.templates == {"t1": "{n}?", "t2": "And {n} too?"}
    assert two_words.held_templates == {"h1": "Held {n}?"}
    instance = two_words.make(random.Random(0), 3, "t2")
    assert (instance.question, instance.steps) == ("And 3 too?", ("# one\nx = 1", "print(x)"))


def test_a_story_tells_its_moves_in_the_setting_asked_for() -> None:
    settings = {"bus": {"+": "{n} get on.", "-": "{n} get off."}, "shop": {"+": "we buy {n}.", "-": "we sell {n}."}}
    story = Story(settings, [("+", {"n": 3}), ("-", {"n": 2})], random.Random(0))
    assert f"{story:bus}" == "3 get on. 2 get off."
    assert f"{story:shop}" == "We buy 3. We sell 2."


def test_plurals() -> None:
    known = {
        "apple": "apples", "cherry": "cherries", "toy car": "toy cars", "box": "boxes", "peach": "peaches",
        "glass": "glasses", "knife": "knives", "sheep": "sheep", "child": "children", "key ring": "key rings",
        "tray": "trays", "brush": "brushes", "goose": "geese", "potato": "potatoes", "piano": "pianos",
    }  # fmt: skip
    assert {one: plural(one) for one in known} == known
    for noun in (*THINGS, *ANIMALS, *BAKED, *BOXES, *CREW, *DEAR, *PUPILS):
        many = f"{noun:s}"
        assert many in {"sheep"} or many != noun.one
        assert not re.search(r"(?:[^aeiou]ys|xs|chs|shs|ss|childs|fes)$", many), many


def test_nouns_and_people_put_themselves_into_sentences() -> None:
    assert f"{Noun('egg'):a}, {Noun('egg'):A}, {Noun('cup'):a}, {Noun('cup')}, {Noun('toy car'):S}" == (
        "an egg, An egg, a cup, cup, Toy cars"
    )
    ann, tom = Person("Ann", True), Person("Tom", False)
    assert f"{ann} {ann:he} {ann:him} {ann:his} {ann:He} {ann:His}" == "Ann she her her She Her"
    assert f"{tom} {tom:he} {tom:him} {tom:his} {tom:He} {tom:His}" == "Tom he him his He His"


def test_purchases_have_forms() -> None:
    bought = Purchase([(3, Noun("pen"), "4"), (2, Noun("egg"), "1.50")])
    assert f"{bought:at}" == "3 pens at $4 each and 2 eggs at $1.50 each"
    assert f"{bought:for}" == "3 pens for $4 each and 2 eggs for $1.50 each"
    assert f"{bought:count}" == "3 pens and 2 eggs"
    assert f"{bought:one}" == "$4 for a pen and $1.50 for an egg"
    assert f"{bought:price}; {bought:Price}".startswith("pens cost $4 each and eggs cost $1.50 each; Pens cost")
    with pytest.raises(ValueError, match="form"):
        f"{bought:x}"


def test_numbers_follow_others_with_their_sign() -> None:
    assert [signed(5), signed(-5), signed(0)] == ["+ 5", "- 5", "+ 0"]


def test_joined() -> None:
    assert [joined([1]), joined([1, 2]), joined([1, 2, 3])] == ["1", "1 and 2", "1, 2 and 3"]
