"""Training and serving in processes of their own."""

import socket
import sys
import tomllib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rstar.errors import ConfigError, DataError, EngineError, TrainingError
from rstar.evolve.processes import as_toml, served, train
from rstar.specs import LocalModel, Server
from rstar.train.settings import TrainConfig

with socket.socket() as _free:
    _free.bind(("127.0.0.1", 0))
    PORT = _free.getsockname()[1]
KEYS = st.from_regex(r"[a-z_]{1,8}", fullmatch=True)
NUMBERS = st.integers(-(2**62), 2**62) | st.floats(allow_nan=False, allow_infinity=False)
VALUES = st.recursive(
    st.booleans() | NUMBERS | st.text('aé😀"\\\n'),
    lambda inner: (
        st.lists(inner.filter(lambda value: not isinstance(value, dict)), max_size=3)
        | st.dictionaries(KEYS, inner, max_size=3)
    ),
    max_leaves=8,
)

SERVER = """
import http.server, json, sys
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        body = json.dumps({"data": [{"id": sys.argv[2]}]}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
    def log_message(self, *_): pass
http.server.HTTPServer(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
"""


@given(st.dictionaries(KEYS, VALUES, max_size=4))
def test_toml_says_what_was_meant(tree):
    assert tomllib.loads(as_toml(tree)) == tree


def test_a_local_model_needs_no_server(tmp_path):
    with served(tmp_path, [], 1, 1.0) as model:
        assert model == LocalModel(str(tmp_path))


def test_a_server_runs_until_the_end_of_the_block(tmp_path):
    with served(tmp_path, [sys.executable, "-c", SERVER, "{port}", "model:{model}"], PORT, 30.0) as model:
        assert model == Server(f"http://127.0.0.1:{PORT}", f"model:{tmp_path}")
        with pytest.raises(ConfigError, match="is in use"), served(tmp_path, ["other"], PORT, 1.0):
            pass
    with socket.socket() as client:
        assert client.connect_ex(("127.0.0.1", PORT)) != 0  # nobody listens any more


def test_a_server_that_ends_or_never_answers(tmp_path):
    with (
        pytest.raises(EngineError, match="exit status 3 before it was ready"),
        served(tmp_path, [sys.executable, "-c", "raise SystemExit(3)"], PORT, 30.0),
    ):
        pass
    with (
        pytest.raises(EngineError, match=r"not ready after 0\.3 s"),
        served(tmp_path, [sys.executable, "-c", "import time; time.sleep(60)"], PORT, 0.3),
    ):
        pass
    with (
        pytest.raises(ConfigError, match="cannot start 'no-such-server'"),
        served(tmp_path, ["no-such-server"], PORT, 1.0),
    ):
        pass


def test_training_is_started_once_and_says_when_it_failed(tmp_path):
    data = tmp_path / "sft.jsonl"
    script = tmp_path / "launch.py"
    script.write_text(
        "import pathlib, sys\n"
        "assert sys.argv[1:4] == ['-m', 'rstar.train', 'sft'], sys.argv\n"
        "recipe, _, data, _, out = sys.argv[4:]\n"
        "assert pathlib.Path(recipe).read_text().startswith('tokens = 7')\n"
        "(pathlib.Path(out) / 'model').mkdir()\n"
        "sys.exit(0 if data.endswith('sft.jsonl') else 9)\n"
    )
    launcher = [sys.executable, str(script)]
    model = train("sft", TrainConfig(tokens=7), data, tmp_path / "policy", launcher)
    assert model == tmp_path / "policy" / "model"
    script.unlink()
    assert train("sft", TrainConfig(tokens=7), data, tmp_path / "policy", launcher) == model  # it is there
    with pytest.raises(TrainingError, match="exit status 2"):
        train("sft", TrainConfig(tokens=7), data, tmp_path / "other", launcher)
    with pytest.raises(DataError, match="invalid settings or data"):
        train("sft", TrainConfig(tokens=7), data, tmp_path / "fourth", [])  # there is no such file
    with pytest.raises(ConfigError, match="cannot start 'no-such-launcher'"):
        train("sft", TrainConfig(tokens=7), data, tmp_path / "third", ["no-such-launcher"])
