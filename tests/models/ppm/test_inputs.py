"""What a process preference model reads beside the text."""

from importlib.resources import files

import pytest
from tokenizers import Tokenizer

from rstar.models.ppm.inputs import INPUTS, NUMBERS, Piece, SolutionEncoder, collate_rows, join, pieces
from rstar.trajectories import Segment, Step

READER = SolutionEncoder(Tokenizer.from_file(str(files("rstar") / "tiny" / "weights" / "tokenizer.json")), INPUTS)
NEW = NUMBERS - 1


def marks(prompt: str, text: str) -> list[tuple[str, int]]:
    """The marked parts of the text with their marks, neighbouring tokens of a mark joined."""
    encoding = READER._tokenizer.encode(text, add_special_tokens=False)
    numbers = READER.encode(prompt, [Piece(text)]).numbers[-len(encoding.ids) :]
    found: list[tuple[str, int]] = []
    end = -1
    for (first, stop), mark in zip(encoding.offsets, numbers, strict=True):
        if mark and found and found[-1][1] == mark and first == end:
            found[-1] = (found[-1][0] + text[first:stop], mark)
        elif mark:
            found.append((text[first:stop], mark))
        end = stop
    return [(part.strip(), mark) for part, mark in found]


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("x = 19 * 8 + 96", [("19", 2), ("8", 1), ("96", 3)]),
        ("x = 19 * 9", [("19", 2), ("9", NEW)]),
        ("x = 1234 + 123", [("1234", 4), ("123", NEW)]),
        ("x1 = 3.5", [("3.5", NEW)]),
        ("x = .08 + 0.19 + 8.0", [(".08", 1), ("0.19", 2), ("8.0", 1)]),
        ("y = x", []),
    ],
)
def test_numbers_are_known_again(text, wanted):
    found = marks("After 8 weeks, 19 a week, 96 at first, 1,234 in all?", text)
    assert found == wanted


def test_many_numbers_share_the_last_marks():
    prompt = " ".join(str(n) for n in range(100, 150))
    assert marks(prompt, "x = 100 + 149 + 9") == [("100", 1), ("149", NUMBERS - 2), ("9", NEW)]


def test_a_prompt_without_numbers():
    assert marks("How many?", "x = 7") == [("7", NEW)]


def test_log_probabilities_are_those_of_the_tokens():
    count = len(READER.encode("", [Piece("x = 3\n")]))
    told = [-0.1 * n for n in range(count)]
    assert READER.encode("Q\n", [Piece("x = 3\n", "written", told), Piece("y")]).logprobs[-count - 1 :] == [*told, None]


def test_other_tokens_share_the_sum():
    found = READER.encode("", [Piece("x = 3\n", "written", (-1.0, -3.0) * 9)]).logprobs
    assert found == [-36 / len(found)] * len(found)


def test_what_is_left_of_the_question_and_what_is_new():
    row = join([READER.encode("2 and 30 and 2", [Piece("x = 30 + 7\n"), Piece("y = 777 - 2")])])
    assert (row.features[: len(READER.encode("2 and 30 and 2", [])), 4:] == 0).all()
    unused, others = row.features[:, 4] * 2, row.features[:, 5] * 4
    end_of_step = len(READER.encode("2 and 30 and 2", [Piece("x = 30 + 7\n")])) - 1
    assert (unused[end_of_step], others[end_of_step]) == (1, 1)
    assert (unused[-1], others[-1]) == (0, 2)


def test_solutions_that_read_differently_share_no_token():
    """12 of 123 is no 12: tokens of equal text and unequal mark are two."""
    one, other = (READER.encode("A 1234 B\n", [Piece(text)]) for text in ("x = 1234", "x = 1235"))
    row = join([one, other])
    assert [int(row.numbers[last]) for last in row.trie.last] == [1, NEW]
    ways = [[p for p in range(last + 1) if row.trie.ends[p] > last] for last in row.trie.last.tolist()]
    assert [row.ids[way].tolist() for way in ways] == [one.ids, other.ids]
    assert [row.numbers[way].tolist() for way in ways] == [one.numbers, other.numbers]


def test_padding_sees_itself():
    rows = collate_rows([join([READER.encode(text, [Piece("x")])]) for text in ("Q", "Question 3")])
    assert rows.ids.shape == (2, 16)
    assert (rows.ends > 0).all()
    assert rows.row.tolist() == [0, 1]


def test_values_come_after_the_step_that_bound_them():
    segments = (Segment("x = 3 + 4\n", "policy"), Segment("\nsho", "tool"), Segment("wn", "policy"))
    found = pieces([Step(segments, values=(("x", "7"), ("y", "-2.5")))])
    assert [piece.text for piece in found] == ["x = 3 + 4\n", "\n> x = 7\n> y = -2.5", "\nshown"]
    assert [piece.kind for piece in found] == ["written", "values", "shown"]
    blind = SolutionEncoder(READER._tokenizer, ["logprobs", "numbers"])
    without = [Piece("x = 3 + 4\n", "written"), Piece("\nshown")]
    assert blind.encode("7 and 3", found) == blind.encode("7 and 3", without)
    seen, plain = READER.encode("7 and 3", found), READER.encode("7 and 3", without)
    told = READER._tokenizer.encode(found[1].text, add_special_tokens=False).ids
    place = plain.solution_start + len(READER.encode("", found[:1]))
    assert seen.ids == plain.ids[:place] + told + plain.ids[place:]
    assert seen.numbers[place : place + len(told)] == [0] * len(told)  # nobody has copied them from the question


def test_a_step_that_bound_nothing():
    step = Step((Segment("x\n", "policy", (), (-1.0,)),))
    assert pieces([step, step]) == [Piece("x\n", "written", (-1.0,))] * 2
