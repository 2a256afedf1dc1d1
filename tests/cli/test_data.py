import json

from typer.testing import CliRunner

from rstar.cli.app import app


def test_dapo_becomes_a_problem_file(tmp_path):
    row = {"prompt": [{"role": "user", "content": "What is 2 + 2?"}], "reward_model": {"ground_truth": "4"}}
    other = row | {"prompt": "What is 2 + 3?"}
    source, out = tmp_path / "rows.jsonl", tmp_path / "new" / "dapo.jsonl"
    source.write_text(
        "".join(json.dumps(one) + "\n" for one in [row, row, other, other | {"reward_model": {"ground_truth": 5}}])
    )
    done = CliRunner().invoke(app, ["data", "dapo", str(source), "--out", str(out)])
    assert done.exit_code == 0, done.output
    assert [json.loads(line) for line in out.read_text().splitlines()] == [
        {"id": "dapo-0", "question": "What is 2 + 2?", "answer": "4"}
    ]
    assert "1 problem from 4 rows" in done.output
    assert "left out: 1 question with different answers" in done.output
