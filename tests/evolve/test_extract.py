"""Trees become training data."""

import json
import math
import re
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from rstar.cli.app import app
from rstar.errors import ConfigError, DataError
from rstar.evolve.extract import Counts, ExtractConfig, difficulty, extract, pair_line, sft_lines
from rstar.evolve.trees import VERIFIED_ENDS, VerifiedTree, read_trees
from rstar.jsonl import write_json
from rstar.prompts import code_steps as prompt
from rstar.train.data import read_pieces
from rstar.trajectories import Segment, Step
from rstar.trees import Tree

LOOSE = ExtractConfig(margin=0.0, distance=0)
PROMPT = Segment(prompt.prompt("What is 3 + 4?"), "template").to_json(tokens=True)
ROOT = {"parent": -1, "visits": 1, "q": 0.0, "value": None, "votes": 1, "finish": None, "answer": None}


def row(parent: int, q: float, status: str, *segments: Segment) -> dict[str, Any]:
    return ROOT | {"parent": parent, "q": q} | Step(segments, status).to_json(tokens=True)


def step(parent: int, text: str, q: float, status: str = "ok") -> dict[str, Any]:
    return row(parent, q, status, Segment(text, "policy"))


def end(parent: int, text: str, answer: str, value: float, status: str = "ok") -> dict[str, Any]:
    shown = Segment(prompt.output(answer), "tool"), Segment(prompt.answer(answer), "policy")
    found = row(parent, value, status, Segment(text, "policy"), *shown)
    return found | {"answer": answer, "value": value, "finish": "answer"}


def told(row: dict[str, Any]) -> dict[str, Any]:
    """The row of a step whose log-probability is known."""
    first, *others = row["segments"]
    return row | {"segments": [first | {"logprobs": [-0.5]}, *others]}


def tree(*rows: dict[str, Any], name: str = "p") -> VerifiedTree:
    return VerifiedTree(name, "What is 3 + 4?", Tree.from_json({"prompt": PROMPT, "nodes": [ROOT, *rows]}))


def written(node: dict[str, Any]) -> str:
    """What the policy wrote as the step of a node of a line."""
    return node["segments"][0]["text"]


EXAMPLE = (
    step(0, "good\n<end_of_step>", 0.5),  # 1
    step(0, "bad\n<end_of_step>", -1.0),  # 2
    end(1, "print(7)\n<end_of_code>", "7", 1.0),  # 3
    end(1, "print(8)\n<end_of_code>", "8", -1.0),  # 4
    end(2, "print(9)\n<end_of_code>", "9", -1.0),  # 5
    end(1, "print(3 + 4)\n<end_of_code>", "7", 1.0),  # 6
)


def test_solutions_for_the_policy():
    counts = Counts()
    (q, first), (_, second) = sft_lines(tree(*EXAMPLE), ExtractConfig(), counts)
    assert q == 0.75
    code = "good\n<end_of_step>print(7)\n<end_of_code>"
    output = "\n<output>7<end_of_output>\n<answer>"
    assert first["pieces"] == [prompt.prompt("What is 3 + 4?"), code, output, "\\boxed{7}<end_of_answer>"]
    assert second["pieces"][1].endswith("print(3 + 4)\n<end_of_code>")
    assert counts.found == {"solutions": 4, "solutions kept": 2}
    assert counts.dropped == {"solution: wrong": 2}
    assert counts.difficulty == {"medium": 1}


def test_solutions_with_an_error_in_them_are_left_out():
    counts = Counts()
    rows = (step(0, "x\n<end_of_step>", 1.0, "error"), end(1, "print(7)\n<end_of_code>", "7", 1.0))
    assert list(sft_lines(tree(*rows), ExtractConfig(), counts)) == []
    assert counts.dropped == {"solution: a step failed": 1}


def test_a_solution_counts_once():
    counts = Counts()
    again = end(1, "print(7)\n<end_of_code>", "7", 1.0)
    assert len(list(sft_lines(tree(*EXAMPLE, again), ExtractConfig(solutions=3), counts))) == 2
    assert counts.dropped["solution: said before"] == 1


def test_pairs_of_steps_and_of_solutions():
    rows = [told(row) if written(row).startswith("good") else row for row in EXAMPLE]
    line = pair_line(tree(*rows), LOOSE, Counts())
    assert line["prompt"] == prompt.prompt("What is 3 + 4?")
    nodes, (steps, final) = line["nodes"], line["steps"]
    texts = [(written(nodes[node["parent"]]) if node["parent"] >= 0 else "") + written(node) for node in nodes]
    # "good" leads to a wrong answer, too, but is not compared with itself
    assert [[texts[n] for n in pair] for pair in steps["pairs"]] == [["good\n<end_of_step>", "bad\n<end_of_step>"]]
    assert (steps["kind"], final["kind"]) == ("step", "final")
    right = [f"good\n<end_of_step>print({what})\n<end_of_code>" for what in ("7", "3 + 4")]
    wrong = ["bad\n<end_of_step>print(9)\n<end_of_code>", "good\n<end_of_step>print(8)\n<end_of_code>"]
    assert [[texts[n] for n in pair] for pair in final["pairs"]] == [[r, w] for r in right for w in wrong]
    assert sorted(texts) == sorted(["good\n<end_of_step>", "bad\n<end_of_step>", *right, *wrong])  # each once
    assert [node["q"] for node in nodes if node["parent"] < 0] == [0.5, -1.0]
    assert [node["segments"][0].get("logprobs") for node in nodes if node["parent"] < 0] == [[-0.5], None]
    assert all([one["author"] for one in node["segments"]] == ["policy"] for node in nodes if node["parent"] < 0)
    ends = [node["segments"] for node in nodes if node["parent"] >= 0]
    assert all([one["author"] for one in of_end] == ["policy", "tool", "policy"] for of_end in ends)
    assert all("<output>" in of_end[1]["text"] for of_end in ends)


def failing(parent: int, text: str, votes: int = 1) -> dict[str, Any]:
    return step(parent, text, -1.0, "error") | {"finish": "code_error", "votes": votes, "value": -1.0}


def test_dead_ends_are_worse_than_steps_that_lead_to_a_right_answer():
    """As in search families, where no wrong answer is ever reached."""
    rows = (
        step(0, "take(3)\n<end_of_step>", -0.8),  # 1
        step(0, "take(5)\n<end_of_step>", -0.9),  # 2
        step(0, "take(8)\n<end_of_step>", -1.0),  # 3: too few samples to say
        step(0, "take(9)\n<end_of_step>", -1.0),  # 4: not everything below was tried
        end(1, "print(7)\n<end_of_code>", "7", 1.0),
        failing(1, "take(1)\n<end_of_step>", 9),
        step(2, "take(2)\n<end_of_step>", -1.0),  # 7: below 2
        failing(7, "take(4)\n<end_of_step>", 2),
        failing(7, "take(6)\n<end_of_step>", 2),
        failing(3, "take(4)\n<end_of_step>", 3),
        failing(4, "take(4)\n<end_of_step>", 9),
        step(4, "take(6)\n<end_of_step>", 0.0),
    )
    counts = Counts()
    line = pair_line(tree(*rows), ExtractConfig(distance=1), counts)
    assert line is not None
    (found,) = line["steps"]
    assert [[written(line["nodes"][n]) for n in pair] for pair in found["pairs"]] == [
        ["take(3)\n<end_of_step>", "take(5)\n<end_of_step>"]
    ], "although their Q hardly differ"
    assert counts.found == {"step pairs kept": 1, "dead ends in pairs": 1}


def test_pairs_that_say_little_are_left_out():
    counts = Counts()
    assert pair_line(tree(*EXAMPLE), ExtractConfig(margin=1.9, distance=0), counts) is None
    assert counts.dropped == {
        "step pair: Q differs by less than 1.9": 2,
        "final pair: Q differs by less than 1.9": 4,
    }
    counts = Counts()
    assert pair_line(tree(*EXAMPLE), ExtractConfig(margin=0.0, distance=200), counts) is None
    assert counts.dropped == {
        "step pair: texts differ by less than 200": 2,
        "final pair: texts differ by less than 200": 4,
    }


@pytest.mark.parametrize(
    ("rows", "wanted"),
    [((), "hard"), (EXAMPLE, "medium"), (EXAMPLE[:3], "easy"), ((EXAMPLE[0], end(1, "x", "8", -1.0)), "hard")],
)
def test_difficulty(rows, wanted):
    assert difficulty(tree(*rows).solved) == wanted


def store(folder: Path, *trees: tuple[str, tuple[dict[str, Any], ...]]) -> Path:
    folder.mkdir(parents=True)
    write_json(folder / "config.json", {"identity": {"policy": "tiny", **VERIFIED_ENDS}})
    with (folder / "results.jsonl").open("w") as results, (folder / "trees.jsonl").open("w") as lines:
        for name, rows in trees:
            found = [{"answer": row["answer"]} for row in rows if row["answer"] is not None]
            results.write(json.dumps({"id": name, "question": "What is 3 + 4?", "trajectories": found}) + "\n")
            if rows:
                lines.write(json.dumps({"id": name, "prompt": PROMPT, "nodes": [ROOT, *rows]}) + "\n")
    return folder


def test_a_folder_of_trees(tmp_path):
    run = store(tmp_path / "run", ("a", EXAMPLE), ("none", ()), ("b", EXAMPLE[:3]))
    counts = extract([run], tmp_path / "data", ExtractConfig(distance=1))
    assert counts.found["trees"] == counts.found["problems"] == 2
    pieces = list(read_pieces(tmp_path / "data" / "sft.jsonl"))
    assert len(pieces) == counts.found["solutions kept"] == 3
    pairs = [json.loads(line) for line in (tmp_path / "data" / "pairs.jsonl").read_text().splitlines()]
    final = [step for line in pairs for step in line["steps"] if step["kind"] == "final"]
    assert sum(len(step["pairs"]) for step in final) == counts.found["final pairs kept"] > 0
    assert json.loads((tmp_path / "data" / "counts.json").read_text()) == counts.record()
    assert sorted(file.name for file in (tmp_path / "data").iterdir()) == ["counts.json", "pairs.jsonl", "sft.jsonl"]


def test_a_problem_in_several_folders_gives_its_share_once(tmp_path):
    runs = [store(tmp_path / name, ("a", EXAMPLE)) for name in ("one", "two")]
    counts = extract(runs, tmp_path / "data", ExtractConfig())
    assert (counts.found["problems"], counts.found["trees"], counts.found["solutions kept"]) == (1, 2, 2)
    assert counts.dropped["solution: said before"] == 2


@given(st.lists(st.lists(st.floats(-1, 1), max_size=3), min_size=2, max_size=3), st.integers(1, 3))
def test_of_all_trees_the_best_solutions_are_taken(many, most):
    with TemporaryDirectory() as home:
        runs = []
        for number, values in enumerate(many):
            ends = [end(0, f"print(7)  # {number} {place}\n<end_of_code>", "7", 1.0) | {"q": q}
                    for place, q in enumerate(values)]  # fmt: skip
            runs.append(store(Path(home) / str(number), ("other", EXAMPLE), ("a", ends)))
        counts = extract(runs, Path(home) / "data", ExtractConfig(solutions=most))
        lines = [json.loads(line) for line in (Path(home) / "data" / "sft.jsonl").read_text().splitlines()]
    found = {f"{number} {place}": q for number, values in enumerate(many) for place, q in enumerate(values)}
    taken = [re.search(r"# (.*)", line["pieces"][1])[1] for line in lines if line["id"] == "a"]
    assert len(set(taken)) == len(taken)
    assert sorted(found[name] for name in taken) == sorted(sorted(found.values())[-most:])
    assert sum(line["id"] == "other" for line in lines) == min(most, 2)
    assert counts.found["solutions kept"] == len(lines)
    assert (
        counts.found["solutions kept"]
        + sum(count for reason, count in counts.dropped.items() if reason.startswith("solution"))
        == counts.found["solutions"]
    )


def test_a_step_that_failed_is_not_preferred():
    for status, pairs in (("ok", 1), ("error", 0)):
        rows = (
            step(0, "good\n<end_of_step>", 0.5, status),
            step(0, "bad\n<end_of_step>", -1.0),
            end(1, "print(7)\n<end_of_code>", "7", 1.0),
            end(2, "print(9)\n<end_of_code>", "9", -1.0),
        )
        counts = Counts()
        pair_line(tree(*rows), LOOSE, counts)
        assert counts.found["step pairs kept"] == pairs


def test_damaged_trees_are_named(tmp_path):
    run = store(tmp_path / "run", ("a", EXAMPLE))
    lost = step(5, "x", 0.0)
    unverified = end(0, "print(7)", "7", 0.3)
    unranked = step(0, "x", math.nan)
    half = step(0, "\ud800", 0.0)
    empty = step(0, "x", 0.0) | {"segments": []}
    by_nobody = step(0, "x", 0.0) | {"segments": [{"author": "me", "text": "x"}]}
    for nodes in (
        [lost],
        [ROOT, lost],
        [ROOT, unverified],
        [ROOT, unranked],
        [ROOT, half],
        [ROOT, empty],
        [ROOT, by_nobody],
        [EXAMPLE[2] | {"parent": -1}],
    ):
        (run / "trees.jsonl").write_text(json.dumps({"id": "a", "prompt": PROMPT, "nodes": nodes}) + "\n")
        with pytest.raises(DataError, match="tree of problem 'a' is damaged"):
            list(read_trees(run))
    two = store(tmp_path / "two", ("a", EXAMPLE), ("b", EXAMPLE), ("c", EXAMPLE))
    trees = (two / "trees.jsonl").read_text().splitlines(keepends=True)
    results = (two / "results.jsonl").read_text().splitlines(keepends=True)
    (two / "results.jsonl").write_text("".join(results[:2]))
    assert [one.id for one in read_trees(two)] == ["a", "b"]  # killed between the tree of c and its result
    (two / "results.jsonl").write_text(results[0])
    with pytest.raises(DataError, match="'b' and others after it have no result"):
        list(read_trees(two))
    (two / "results.jsonl").write_text("".join(results))
    (two / "trees.jsonl").write_text("".join(trees[:2]) + trees[2][:50])
    with pytest.raises(DataError, match="tree of problem 'c' is not in the position of its result"):
        list(read_trees(two))


def test_only_verified_ends_become_training_data(tmp_path):
    run, data = store(tmp_path / "run", ("a", EXAMPLE)), tmp_path / "data"
    for identity, said in (
        ({"policy": "tiny"}, "ends of its trees were not verified"),
        (["ends"], "not the configuration of a run"),
    ):
        write_json(run / "config.json", {"identity": identity})
        with pytest.raises(DataError, match=said):
            extract([store(tmp_path / said, ("a", EXAMPLE)), run], data, ExtractConfig())
    (run / "config.json").unlink()
    with pytest.raises(DataError, match=r"config\.json is missing"):
        extract([run], data, ExtractConfig())
    twice = store(tmp_path / "twice", ("a", EXAMPLE))
    with pytest.raises(ConfigError, match="given twice"):
        extract([twice, tmp_path / "." / "twice"], data, ExtractConfig())
    assert not data.exists()


def test_other_problems_of_the_same_id_are_others(tmp_path):
    runs = [store(tmp_path / name, ("0", EXAMPLE)) for name in ("one", "two")]
    other = (runs[1] / "results.jsonl").read_text().replace("3 + 4", "2 + 5")
    (runs[1] / "results.jsonl").write_text(other)
    counts = extract(runs, tmp_path / "data", ExtractConfig())
    assert (counts.found["problems"], counts.found["solutions kept"]) == (2, 4)


def test_the_command(tmp_path):
    run = store(tmp_path / "run", ("a", EXAMPLE))
    done = CliRunner().invoke(app, ["evolve", "extract", str(run), "--out", str(tmp_path / "data"), "--json"])
    assert done.exit_code == 0
    assert json.loads(done.stdout)["found"]["solutions kept"] == 2
    shown = CliRunner().invoke(app, ["evolve", "extract", str(run), "--out", str(tmp_path / "data")])
    assert "dropped, solution: wrong" in shown.stdout


@st.composite
def trees(draw):
    rows: list[dict[str, Any]] = []
    open_nodes = [0]
    for index in range(1, draw(st.integers(1, 25))):
        parent = draw(st.sampled_from(open_nodes))
        q = draw(st.floats(-1, 1))
        text = draw(st.text("abc", min_size=1, max_size=4))
        if draw(st.booleans()):
            value = draw(st.sampled_from([1.0, -1.0]))
            rows.append(end(parent, text, draw(st.sampled_from("123")), value, draw(st.sampled_from(["ok", "error"]))))
        else:
            rows.append(step(parent, text, q))
            open_nodes.append(index)
    return tree(*rows)


@given(trees(), st.integers(1, 3), st.floats(0, 1), st.integers(0, 3))
def test_what_holds_for_every_tree(one, most, margin, distance):
    config = ExtractConfig(solutions=most, candidates=most, margin=margin, distance=distance)
    counts = Counts()
    lines = [line for _, line in sft_lines(one, config, counts)]
    assert len(lines) <= most
    kept = counts.found["solutions kept"]
    assert len(lines) == kept
    assert kept + sum(counts.dropped.values()) == counts.found["solutions"]
    texts = {solved.trajectory.text: solved.correct for solved in one.solved if solved.ran}
    assert all("".join(line["pieces"][1:]) in texts for line in lines)
    line = pair_line(one, config, Counts())
    for compared in line["steps"] if line else ():
        assert compared["pairs"]
        assert all(len({pair[side] for pair in compared["pairs"]}) <= most for side in (0, 1))
        for better, other in compared["pairs"]:
            first, second = line["nodes"][better], line["nodes"][other]
            if compared["kind"] == "step":
                assert first["parent"] == second["parent"]
                assert written(first) != written(second)
                assert first["q"] - second["q"] >= margin - 1e-3
    if line:
        assert all(node["parent"] < place for place, node in enumerate(line["nodes"]))
