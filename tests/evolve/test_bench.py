"""The benchmark of extraction."""

import json

from typer.testing import CliRunner

from rstar.cli.app import app


def test_it_extracts_from_its_trees():
    done = CliRunner().invoke(app, ["bench", "extract", "--trees", "20", "--json"])
    assert done.exit_code == 0, done.output
    found = json.loads(done.stdout)
    assert found["trees"] == 20
    assert 0.1 < found["megabytes"] < 5
    assert found["seconds"] > 0
    assert found["peak_megabytes"] > 10
