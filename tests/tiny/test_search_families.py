"""The search families against solvers of their own, written from the rules and not from the generators."""

from __future__ import annotations

import ast
import contextlib
import io
import operator
import random
import re
from collections import Counter
from collections.abc import Callable, Iterator
from fractions import Fraction
from functools import cache
from itertools import combinations, pairwise, permutations, product
from typing import Any, get_args

import pytest

from rstar.tiny.family import LEVELS, Family, Instance, Split
from rstar.tiny.puzzles import arithmetic as search_arithmetic
from rstar.tiny.puzzles import board as search_board
from rstar.tiny.puzzles import choice as search_choice
from rstar.tiny.puzzles import grid as search_grid
from rstar.tiny.puzzles import path as search_path

MODULES = (search_arithmetic, search_grid, search_board, search_choice, search_path)
FAMILIES: dict[str, Family] = {family.name: family for module in MODULES for family in module.FAMILIES}
EXPRESSIONS = ("game24", "countdown")
MOVE = re.compile(r"^(?:[a-d] = )?(use|put|take|pay|load|give|press|go)\(")

by_family = pytest.mark.parametrize("name", FAMILIES)


@cache
def drawing(name: str, level: int, split: Split) -> tuple[list[Instance], random.Random]:
    """The instances drawn so far, and the generator that draws more."""
    return [], random.Random(f"{name} {level} {split}")


def drawn(name: str, level: int, split: Split, count: int) -> tuple[Instance, ...]:
    found, rng = drawing(name, level, split)
    while len(found) < count:
        found.append(FAMILIES[name].draw(rng, level, split))
    return tuple(found[:count])


def some(name: str, count: int) -> Iterator[Instance]:
    for level, split in product(LEVELS, get_args(Split)):
        yield from drawn(name, level, split, count)


def execute(steps: tuple[str, ...]) -> str:
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        exec("\n".join(steps), {})
    return out.getvalue().removesuffix("\n")


# What is right, from the rules.


def value(node: ast.AST) -> Fraction:
    match node:
        case ast.Expression(body):
            return value(body)
        case ast.Constant(int(n)):
            return Fraction(n)
        case ast.BinOp(left, op, right):
            signs = {ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv}
            result: Fraction = signs[type(op)](value(left), value(right))
            return result
    raise AssertionError(ast.dump(node))


def makes_target(expression: str, check: dict[str, Any]) -> bool:
    tree = ast.parse(expression, mode="eval")
    used = Counter(node.value for node in ast.walk(tree) if isinstance(node, ast.Constant))
    return check["kind"] == "expression" and used == Counter(check["numbers"]) and value(tree) == check["target"]


def squares(boxes: bool, start: str) -> list[list[int]]:
    def fits(row: tuple[str, ...], clues: str) -> bool:
        return all(clue in ("0", digit) for digit, clue in zip(row, clues, strict=True))

    rows = [[p for p in permutations("1234") if fits(p, start[i : i + 4])] for i in range(0, 16, 4)]
    found = []
    for grid in product(*rows):
        blocks = [[grid[r][c] for r in rs for c in cs] for rs, cs in product(((0, 1), (2, 3)), repeat=2)]
        if all(len(set(part)) == 4 for part in (*zip(*grid, strict=True), *(blocks if boxes else ()))):
            found.append([int("".join(row)) for row in grid])
    return found


def queens(size: int, squares: tuple[tuple[int, int], ...], text: str) -> list[list[int]]:
    given = {(int(r), int(c)) for r, c in re.findall(r"row (\d), column (\d) must", text)}
    forbidden = set(squares) - given
    found = []
    for columns in permutations(range(1, size + 1)):
        if len({c - r for r, c in enumerate(columns)}) < size or len({c + r for r, c in enumerate(columns)}) < size:
            continue
        placed = set(enumerate(columns, 1))
        if placed >= given and not placed & forbidden:
            found.append(list(columns))
    return found


def tables(top: int, across: tuple[int, ...], down: tuple[int, ...]) -> list[list[int]]:
    found = []
    for first in permutations(range(1, top + 1), len(down)):
        second = [total - digit for total, digit in zip(down, first, strict=True)]
        cells = [*first, *second]
        different = len(set(cells)) == len(cells) and all(1 <= d <= top for d in second)
        if different and (sum(first), sum(second)) == across:
            found.append(cells)
    return found


def coins(kinds: tuple[int, ...], goal: int, count: int) -> list[tuple[int, ...]]:
    if not kinds:
        return [()] if goal == count == 0 else []
    found = []
    for n in range(count + 1):
        found += [(kinds[0],) * n + rest for rest in coins(kinds[1:], goal - n * kinds[0], count - n)]
    return found


def presses(start: int, keys: tuple[tuple[str, int], ...], goal: int, count: int) -> list[list[int]]:
    found = []
    for walk in product(range(len(keys)), repeat=count):
        shown = Fraction(start)
        for key in walk:
            sign, n = keys[key]
            shown = {"+": shown + n, "-": shown - n, "*": shown * n, "/": shown / n}[sign]
            if shown.denominator > 1 or not 0 <= shown <= 99:
                break
        else:
            if shown == goal:
                found.append([key + 1 for key in walk])
    return found


def paths(start: int, names: str) -> list[list[int]]:
    roads = {(int(a), int(b)) for a, _, b in names.split()} | {(int(b), int(a)) for a, _, b in names.split()}
    others = {place for road in roads for place in road} - {start}
    walks = [[start]]
    for _ in others:
        walks = [[*w, p] for w in walks for p in others if p not in w and (w[-1], p) in roads]
    return walks


def loads(items: tuple[int, ...], room: tuple[int, ...]) -> list[list[int]]:
    found = []
    for trucks in product(range(len(room)), repeat=len(items)):
        full = [0] * len(room)
        for item, truck in zip(items, trucks, strict=True):
            full[truck] += item
        if tuple(full) == room:
            found.append([truck + 1 for truck in trucks])
    return found


def joined(numbers: tuple[int, ...]) -> str:
    return ", ".join(map(str, numbers))


def subsets(*numbers: int) -> list[str]:
    items, goal = numbers[:-1], numbers[-1]
    chosen = [c for size in range(1, len(items) + 1) for c in combinations(items, size) if sum(c) == goal]
    return [joined(c) for c in chosen]


def trucks_of(x: Instance) -> int:
    return len(re.findall(r"room, trucks = .*?\], \[(.*?)\]", x.steps[0])[0].split(","))


SOLVERS: dict[str, Callable[[Instance], list[Any]]] = {
    "latin": lambda x: squares(False, x.numbers[0]),
    "sudoku4": lambda x: squares(True, x.numbers[0]),
    "queens": lambda x: queens(x.numbers[0], x.numbers[1:], x.question),
    "cross-sums": lambda x: tables(x.numbers[0], x.numbers[1:3], x.numbers[3:]),
    "subset-sum": lambda x: subsets(*x.numbers),
    "change": lambda x: [joined(c) for c in coins(x.numbers[:-2], *x.numbers[-2:])],
    "loading": lambda x: loads(x.numbers[: -trucks_of(x)], x.numbers[-trucks_of(x) :]),
    "assign": lambda x: [
        list(jobs)
        for jobs in permutations(range(1, len(x.numbers) + 1))
        if all(str(job) in able for job, able in zip(jobs, x.numbers, strict=True))
    ],
    "registers": lambda x: presses(x.numbers[0], x.numbers[1:-2], *x.numbers[-2:]),
    "hamilton": lambda x: paths(*x.numbers),
}


@by_family
def test_reference_solution_prints_the_answer(name: str) -> None:
    for x in some(name, 15):
        assert execute(x.steps) == x.answer
        if x.check is not None:
            assert makes_target(x.answer, x.check)


@pytest.mark.parametrize("name", SOLVERS)
def test_the_answer_is_the_only_one(name: str) -> None:
    for x in some(name, 3):
        assert [str(found) for found in SOLVERS[name](x)] == [x.answer]
        assert x.check is None


@by_family
def test_question_holds_all_that_the_answer_depends_on(name: str) -> None:
    def flat(part: object) -> Iterator[str]:
        if isinstance(part, tuple):
            for inner in part:
                yield from flat(inner)
        else:
            yield from re.findall(r"\d+", str(part))

    for x in some(name, 3):
        text = re.sub(r"(?<=\d{4}) (?=\d{4})", "", x.question)
        if name == "assign":
            sentences = [s for s in x.question.split(". ") if re.fullmatch(r"\w+ \d [a-z ]+ \d(?:[\d, ]|or)*\.?", s)]
            assert [re.sub(r"\D", "", s)[1:] for s in sentences] == list(x.numbers)
        else:
            assert not Counter(flat(x.numbers)) - Counter(re.findall(r"\d+", text)), x.question


@by_family
def test_every_template_is_used_and_filled_in(name: str) -> None:
    family = FAMILIES[name]
    assert len(family.templates) >= 5
    assert len(family.held_templates) >= 2
    seen = {x.template for level in LEVELS for split in get_args(Split) for x in drawn(name, level, split, 25)}
    assert seen == {*family.templates, *family.held_templates}
    for x in some(name, 15):
        assert not re.search(r"[{}]|  | [,.]", x.question), x.question
        start = x.question.lstrip('"“')[0]
        assert start.isupper() or start.isdigit(), x.question
        assert x.question.endswith((".", "?", ".)", "?)", '."')), x.question


@by_family
def test_steps_are_commented_moves(name: str) -> None:
    for x in some(name, 5):
        assert 3 <= len(x.steps) <= 10
        for i, step in enumerate(x.steps):
            lines = step.split("\n")
            assert lines[0].startswith("# ")
            assert sum(bool(MOVE.match(line)) for line in lines) == (i > 0)
            assert i in (0, len(x.steps) - 1) or len(lines) == 2
            assert i == 0 or len(lines) <= 4


def corrupted(steps: tuple[str, ...], rng: random.Random) -> tuple[str, ...]:
    """The solution with one digit of one move replaced: a wrong move, or a wrong claim about where it leads."""
    places = [
        (i, at)
        for i, step in enumerate(steps)
        for at, line in enumerate(step.split("\n"))
        if MOVE.match(line) and re.search(r"\d", line)
    ]
    i, at = rng.choice(places)
    lines = steps[i].split("\n")
    digit = rng.choice([n for n, c in enumerate(lines[at]) if c.isdigit()])
    other = rng.choice([d for d in "0123456789" if d != lines[at][digit]])
    lines[at] = lines[at][:digit] + other + lines[at][digit + 1 :]
    return (*steps[:i], "\n".join(lines), *steps[i + 1 :])


@by_family
def test_a_wrong_move_ends_in_an_exception(name: str) -> None:
    rng = random.Random(name)
    for x in some(name, 8):
        with pytest.raises((AssertionError, IndexError, ValueError, KeyError, SyntaxError, TypeError)):
            execute(corrupted(x.steps, rng))


@by_family
def test_leaving_out_a_move_ends_in_an_exception(name: str) -> None:
    for x in some(name, 3):
        last = x.steps[-1].split("\n")
        without = [line for line in last if not MOVE.match(line)]
        with pytest.raises((AssertionError, IndexError)):
            execute((*x.steps[:-1], "\n".join(without)))


MOVES: dict[str, Callable[[dict[str, Any]], list[str]]] = {
    "latin": lambda v: [f"put({v['grid'].replace('0', d, 1)!r})" for d in "1234"],
    "sudoku4": lambda v: [f"put({v['grid'].replace('0', d, 1)!r})" for d in "1234"],
    "queens": lambda v: [f"put('{v['queens']}{d}')" for d in range(1, 9)],
    "cross-sums": lambda v: [f"put('{v['cells']}{d}')" for d in range(1, 10)],
    "subset-sum": lambda v: [f"take({n})" for n in v["items"]],
    "change": lambda v: [f"pay({c})" for c in v["coins"]],
    "loading": lambda v: [f"load({v['items'][0]}, {t + 1})" for t in range(len(v["room"]))],
    "assign": lambda v: [f"give('{v['jobs']}{d}')" for d in range(1, 9)],
    "registers": lambda v: [f"press({key})" for key in v["keys"]],
    "hamilton": lambda v: [f"go('{v['path']}{d}')" for d in range(1, 10)],
}


def legal(name: str, code: list[str]) -> list[str]:
    """The moves that run without an exception after this code."""
    variables: dict[str, Any] = {}
    exec("\n".join(code), variables)
    if variables.get("grid", "0").count("0") == 0 or variables.get("items") == []:
        return []
    moves = []
    for move in MOVES[name](variables):
        with contextlib.suppress(AssertionError, IndexError):
            exec("\n".join([*code, move]), {})
            moves.append(move)
    return moves


@pytest.mark.parametrize("name", MOVES)
def test_a_program_that_runs_to_its_end_is_right(name: str) -> None:
    """A player who makes random legal moves ends in an exception, or arrives at the answer."""
    rng, outcomes = random.Random(name), Counter[bool]()
    for x in drawn(name, 1, "train", 15)[:12] + drawn(name, 3, "train", 15)[:6]:
        setup, last = x.steps[0].split("\n"), x.steps[-1].split("\n")
        finish = last[next(n for n, line in enumerate(last) if MOVE.match(line)) + 1 :]
        for _ in range(5):
            code = list(setup)
            for _ in x.steps[1:]:
                moves = legal(name, code)
                code += [rng.choice(moves)] if moves else []
            try:
                printed = execute((*code, *finish))
            except AssertionError:
                outcomes[False] += 1
                continue
            assert printed == x.answer
            outcomes[True] += 1
    assert min(outcomes[True], outcomes[False]) > 0


# The split.


@by_family
def test_no_trained_state_is_a_state_of_a_held_out_problem(name: str) -> None:
    trained = {s for level in LEVELS for x in drawn(name, level, "train", 60) for s in x.path}
    held = {
        s
        for level in LEVELS
        for split in ("numbers", "templates")
        for x in drawn(name, level, split, 40)
        for s in x.states
    }
    assert trained
    assert held
    assert not trained & held


def program_states(name: str, x: Instance) -> set[str]:
    """What the program holds after each step of the reference solution but the last, without the moves behind it."""
    states = set()
    for n in range(1, len(x.steps)):
        v: dict[str, Any] = {}
        exec("\n".join(x.steps[:n]), v)
        if name in EXPRESSIONS:
            v = {"left": sorted(eval(str(e)) for e in v["left"]), "goal": v["goal"]}
        if name == "registers":
            v["keys"] = sorted(re.findall(r"lambda n: (n . \d+)", x.steps[0]))
        past = ("taken", "paid", "trucks", "pressed")
        states.add(str(sorted((k, v[k]) for k in v if k not in past and k != "__builtins__" and not callable(v[k]))))
    return states


@by_family
def test_classes_of_states_keep_program_states_apart(name: str) -> None:
    trained = {s for level in LEVELS for x in drawn(name, level, "train", 80) for s in program_states(name, x)}
    for level in LEVELS:
        for x in drawn(name, level, "numbers", 40):
            assert not program_states(name, x) & trained


@cache
def reachable(numbers: tuple[int, ...]) -> frozenset[int]:
    """Every value that all of the numbers together can have, through whole positive numbers only."""
    if len(numbers) == 1:
        return frozenset(numbers)
    found: set[int] = set()
    for picks in product((False, True), repeat=len(numbers)):
        one = tuple(n for n, p in zip(numbers, picks, strict=True) if p)
        two = tuple(n for n, p in zip(numbers, picks, strict=True) if not p)
        if one and two:
            for a, b in product(reachable(one), reachable(two)):
                found |= {a + b, a * b} | ({a - b} if a > b else set()) | ({a // b} if a % b == 0 else set())
    return frozenset(found)


def test_states_of_game24_are_all_from_which_24_can_be_made() -> None:
    for x in drawn("game24", 3, "numbers", 5) + drawn("game24", 3, "train", 5):
        good: set[tuple[int, ...]] = set()
        border = {x.numbers}
        while border:
            after = set()
            for state in border:
                for i, j in combinations(range(len(state)), 2):
                    rest = [n for k, n in enumerate(state) if k not in (i, j)]
                    after |= {tuple(sorted((*rest, c))) for c in reachable((state[i], state[j]))}
            border = {state for state in after if len(state) > 1 and 24 in reachable(state)}
            good |= border
        assert x.states == {" ".join(map(str, state)) for state in good}
        assert set(x.path) <= x.states


def test_latin_squares_and_sudokus_share_no_board() -> None:
    def boards(name: str) -> set[str]:
        return {x.path[0] for x in some(name, 15)}

    assert not boards("latin") & boards("sudoku4")


def test_hamilton_class_ignores_the_names_of_the_places() -> None:
    x = drawn("hamilton", 3, "train", 1)[0]
    order = ast.literal_eval(x.answer)
    roads = {frozenset(map(int, name.split("-"))) for name in x.numbers[1].split()}
    assert {frozenset(order[i] for i in road) for road in ast.literal_eval(x.path[0])} == roads
    assert all(frozenset(pair) in roads for pair in pairwise(order))
