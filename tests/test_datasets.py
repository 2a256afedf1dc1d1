import json
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rstar.datasets import read_problems
from rstar.errors import DataError


def write(tmp_path: Path, *lines: object) -> Path:
    file = tmp_path / "problems.jsonl"
    file.write_text("\n".join(x if isinstance(x, str) else json.dumps(x) for x in lines) + "\n")
    return file


def test_jsonl(tmp_path: Path) -> None:
    file = write(
        tmp_path,
        {"id": "a", "question": "1 + 1?", "answer": "2", "family": "sums", "level": 3},
        "",
        {"id": 7, "question": "no gold"},
        {
            "id": "g",
            "question": "24",
            "answer": "8 * 3",
            "check": {"kind": "expression", "numbers": [8, 3], "target": 24},
        },
    )
    found = read_problems(file)
    assert [p.id for p in found.problems] == ["a", "7", "g"]
    assert found.problems[0].meta == {"family": "sums", "level": 3}
    assert found.keys["a"].answer == "2"
    assert found.keys["g"].check == {"kind": "expression", "numbers": [8, 3], "target": 24}
    assert "7" not in found.keys
    assert len(found.head(2)) == 2
    assert "g" not in found.head(2).keys
    some = found.subset([found.problems[2], found.problems[0]])
    assert ([p.id for p in some.problems], set(some.keys)) == (["g", "a"], {"g", "a"})
    some.require_gold("nothing")
    with pytest.raises(DataError, match="1 problem has no gold answer, the first: '7'; a test needs them"):
        found.require_gold("a test")
    with pytest.raises(DataError, match="3 problems have no gold answer"):
        replace(found, keys={}).require_gold("a test")


def test_a_record_belongs_to_the_problem(tmp_path: Path) -> None:
    file = tmp_path / "p.jsonl"
    rows = [{"question": "q", "record": {"tests": {"a": "b"}}}, {"question": "q", "record": "a column of another kind"}]
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert [problem.record for problem in read_problems(file).problems] == [{"tests": {"a": "b"}}, {}]


def test_json_list_as_benchmarks_come(tmp_path: Path) -> None:
    file = tmp_path / "list.json"
    file.write_text(json.dumps([{"question": "q0", "answer": 3}, {"question": "q1", "answer": "\\frac12"}], indent=1))
    found = read_problems(file)
    assert [p.id for p in found.problems] == ["0", "1"]
    assert found.keys["0"].answer == "3"


def test_true_and_false_as_answers_are_yes_and_no(tmp_path: Path) -> None:
    file = tmp_path / "p.jsonl"
    file.write_text('{"question": "Is 7 prime?", "answer": true}\n{"question": "Is 8 prime?", "answer": false}\n')
    found = read_problems(file)
    assert [found.keys[name].answer for name in ("0", "1")] == ["yes", "no"]


BAD: list[tuple[object, str]] = [
    ("{", "not valid JSON"),
    ({"answer": "1"}, "'question' must be a non-empty string"),
    ({"text": "q"}, "'question' must be a non-empty string; looked for question, problem, prompt"),
    ({"question": "q", "problem": "r"}, "fields 'question' and 'problem' could both be the question"),
    ({"question": "q", "answer": "1", "gold": "2"}, "fields 'answer' and 'gold' could both be the answer"),
    ({"question": "q", "answer": "####"}, "'answer' is empty"),
    ({"question": "  "}, "'question' must be a non-empty string"),
    ({"question": "q", "answer": ["1"]}, "'answer' must be a string, a number or true/false, got list"),
    ({"question": "q", "answer": ""}, "'answer' is empty"),
    ({"question": "q", "id": [1]}, "'id' must be a string or an integer"),
    ('{"question": "q", "answer": ' + "9" * 5000 + "}", "not readable as JSON"),
    ("[" * 100_000, "not readable as JSON"),
    ('{"question": "\\ud800"}', "half a character"),
    ({"question": "q", "check": {"kind": "expression"}}, "'check' needs an 'answer'"),
    ({"question": "q", "id": "good"}, "id 'good' was used before"),
    ({"question": "q", "check": {"x": 1}}, "'check' must be an object with a 'kind'"),
    ("[1]", "expected an object with 'question', got list"),
]


@pytest.mark.parametrize(("line", "reason"), BAD)
def test_a_bad_line_is_named_and_stops(tmp_path: Path, line: object, reason: str) -> None:
    file = write(tmp_path, {"id": "good", "question": "q"}, line)
    with pytest.raises(DataError) as caught:
        read_problems(file)
    assert str(caught.value).startswith(f"{file}:2: ")
    assert reason in str(caught.value)


def test_ids_that_are_missing_or_null_are_numbers_that_nobody_uses(tmp_path: Path) -> None:
    file = write(tmp_path, {"question": "a"}, {"id": 0, "question": "b"}, {"id": None, "question": "c"})
    assert [p.id for p in read_problems(file).problems] == ["1", "0", "2"]


@pytest.mark.parametrize("mark", ["\u2028", "\x85"])
def test_only_line_feeds_end_a_line(tmp_path: Path, mark: str) -> None:
    file = tmp_path / "p.jsonl"
    rows = ({"question": f"one{mark}two"}, {"question": "three"})
    text = "\r\n".join(json.dumps(row, ensure_ascii=False) for row in rows)
    file.write_bytes(b"\xef\xbb\xbf" + text.encode())  # with a byte order mark
    assert [p.question for p in read_problems(file).problems] == [f"one{mark}two", "three"]


def test_skip_bad_counts(tmp_path: Path) -> None:
    file = write(tmp_path, {"id": "good", "question": "q"}, *(line for line, _ in BAD))
    found = read_problems(file, skip_bad=True)
    assert [p.id for p in found.problems] == ["good"]
    assert len(found.skipped) == len(BAD)
    only_bad = write(tmp_path, {"id": "bad"}, {"id": "worse"})
    with pytest.raises(DataError, match=r"no problems; all 2 entries were skipped, the first .*:1: 'question'"):
        read_problems(only_bad, skip_bad=True)


@pytest.mark.parametrize("content", ["", "[]", "[1"])
def test_nothing_to_do_is_an_error(tmp_path: Path, content: str) -> None:
    file = tmp_path / "p.json"
    file.write_text(content)
    with pytest.raises(DataError, match=r"p\.json"):
        read_problems(file)


def test_missing_and_binary_files(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="cannot read"):
        read_problems(tmp_path / "none.jsonl")
    (tmp_path / "b").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(DataError, match="not UTF-8"):
        read_problems(tmp_path / "b")


@given(st.dictionaries(st.text(), st.one_of(st.text(), st.integers(), st.none(), st.lists(st.integers()))))
def test_no_field_but_labels_reaches_the_solver(
    tmp_path_factory: pytest.TempPathFactory, extra: dict[str, object]
) -> None:
    """Whatever else an entry holds, the problem carries only the known labels: no gold answer can ride along."""
    file = tmp_path_factory.mktemp("d") / "p.jsonl"
    file.write_text(json.dumps(extra | {"question": "q", "id": "x", "answer": "GOLD", "solution": "GOLD"}))
    try:
        (problem,) = read_problems(file).problems
    except DataError:
        return
    assert set(problem.meta) <= {"family", "kind", "level", "subject", "source"}
    assert "GOLD" not in repr(problem)


def test_a_key_does_not_print_its_answer(tmp_path: Path) -> None:
    found = read_problems(write(tmp_path, {"question": "q", "answer": "SECRET"}))
    assert "SECRET" not in repr(found) + str(found.keys["0"])


SETS: dict[str, tuple[dict[str, object], str, str]] = {
    "GSM8K": ({"question": "q", "answer": "3 * 14 = <<3*14=42>>42\n#### 42"}, "q", "42"),
    "MATH": ({"problem": "q", "solution": r"so \boxed{\frac{1}{2}}.", "level": "Level 5"}, "q", r"\frac{1}{2}"),
    "MATH-500": ({"problem": "q", "solution": r"\boxed{7}", "answer": "7", "unique_id": "t/1"}, "q", "7"),
    "AIME": ({"ID": "2024-I-1", "Problem": "q", "Solution": "…", "Answer": 204}, "q", "204"),
    "DAPO, processed": ({"prompt": "q", "solution": "34"}, "q", "34"),
    "DAPO": (
        {"prompt": [{"role": "user", "content": "q"}], "reward_model": {"ground_truth": "34", "style": "rule"}},
        "q",
        "34",
    ),
    "OlympiadBench": ({"question": "q", "final_answer": ["2", "3"], "solution": ["…"]}, "q", "2, 3"),
    "Omni-MATH": ({"problem": "q", "answer": "n - 1", "solution": "…"}, "q", "n - 1"),
    "expected": ({"problem": "q", "expected_answer": "0.5"}, "q", "0.5"),
    "the same twice": ({"question": "q", "problem": "q", "answer": 1, "gold": 1}, "q", "1"),
}


@pytest.mark.parametrize(("entry", "question", "gold"), SETS.values(), ids=SETS)
def test_fields_of_public_sets_are_known(tmp_path: Path, entry: dict[str, object], question: str, gold: str) -> None:
    found = read_problems(write(tmp_path, entry))
    assert (found.problems[0].question, found.keys[found.problems[0].id].answer) == (question, gold)


def test_a_worked_solution_without_an_answer_is_no_gold(tmp_path: Path) -> None:
    assert not read_problems(write(tmp_path, {"problem": "q", "solution": "It is clear."})).keys


def test_fields_may_be_named(tmp_path: Path) -> None:
    file = write(tmp_path, {"text": "q", "question": "not this", "target": {"value": 7}}, {"text": "r"})
    found = read_problems(file, question_field="text", answer_field="target.value")
    assert [p.question for p in found.problems] == ["q", "r"]
    assert {name: key.answer for name, key in found.keys.items()} == {"0": "7"}
    with pytest.raises(DataError, match=r"no entry has a field 'txt'; the first has 'text', 'question', 'target'"):
        read_problems(file, question_field="txt")


def test_csv(tmp_path: Path) -> None:
    file = tmp_path / "p.csv"
    file.write_text('id,Question,Answer,level\r\na,"What is ""1,\n1""?",2,3\r\nb,No gold?,,\r\n', newline="")
    found = read_problems(file)
    assert [(p.id, p.question) for p in found.problems] == [("a", 'What is "1,\n1"?'), ("b", "No gold?")]
    assert {name: key.answer for name, key in found.keys.items()} == {"a": "2"}
    assert found.problems[0].meta == {"level": "3"}


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("question,answer\nq,1,2\n", ":2: 3 cells, but the first line names 2 columns"),
        ("question,question\nq,r\n", ":1: two columns have the same name"),
        ("a,b\n1,2\n", ":2: 'question' must be a non-empty string; looked for question, problem, prompt"),
        ('question\n"open\n', ":2: not readable as CSV"),
        ("question\n", "the file contains no problems"),
    ],
)
def test_bad_csv_is_named(tmp_path: Path, text: str, reason: str) -> None:
    file = tmp_path / "p.csv"
    file.write_text(text)
    with pytest.raises(DataError) as caught:
        read_problems(file)
    assert f"{file}{reason}" in str(caught.value) or reason in str(caught.value)
