"""A process preference model as the reward of a search."""

import asyncio
from importlib.resources import files
from pathlib import Path

import pytest
import torch
from tokenizers import Tokenizer

from rstar.config import Config, SearchConfig
from rstar.errors import ConfigError
from rstar.models.decoder import Decoder, DecoderConfig
from rstar.models.decoder_files import copy_tokenizer
from rstar.models.fake import FakeEngine
from rstar.models.ppm import PreferenceModel, Scorer, save_ppm
from rstar.problems import Problem
from rstar.prompts.steps import prompt
from rstar.search.choose import Votes
from rstar.search.reward import open_reward
from rstar.search.solver import Solver
from rstar.trajectories import Step, Trajectory
from tests.search.plain import PlainSandbox

TINY = Path(str(files("rstar") / "tiny" / "weights"))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A PPM that nobody has trained."""
    found = tmp_path_factory.mktemp("ppm")
    size = Tokenizer.from_file(str(TINY / "tokenizer.json")).get_vocab_size()
    shape = DecoderConfig(size, 32, 64, 2, 2, 1, 16, 128)
    model = PreferenceModel(Decoder(shape))
    with torch.no_grad():
        model.score.weight *= 20
    save_ppm(model, found, torch.float32)
    copy_tokenizer(TINY, found)
    return found


def test_scores_do_not_depend_on_company(folder):
    scorer = Scorer(folder, batch_tokens=64)
    texts = ["x = 1\n<end_of_step>", "x = 2 + 3\n<end_of_step>\ny = 4\n<end_of_step>", "", "y\n"]
    together = scorer.score("Question\n", texts)
    assert together == pytest.approx([scorer.score("Question\n", [text])[0] for text in texts], abs=1e-5)
    assert len({round(value, 4) for value in together}) == len(texts)
    assert all(-1 <= value <= 1 for value in together)


def test_what_is_too_long_gets_no_opinion(folder):
    assert Scorer(folder).score("Question\n", ["x", "x = 1\n" * 100])[1] is None


def test_the_reward_scores_the_text_so_far(folder):
    reward = open_reward(f"ppm:{folder}")
    problem = Problem("p", "What is 3 + 4?")
    steps = (Step("x = 3\n<end_of_step>"), Step("print(x)\n<end_of_code>", "\n<output>3<end_of_output>"))
    trajectories = [Trajectory(steps[:1], "no_step"), Trajectory(steps, "answer", "3")]
    found = asyncio.run(reward.score(problem, trajectories, Votes(lambda a, b: a == b)))
    assert found == Scorer(folder).score(prompt(problem.question), [t.text for t in trajectories])


def test_a_search_with_it(folder):
    config = Config(reward=f"ppm:{folder}", search=SearchConfig(method="mcts", rollouts=6, expansions=4))
    (solution,) = Solver(config, policy=FakeEngine("fake:steps"), sandbox=PlainSandbox()).solve(
        [Problem("p", "What is 3 + 4?")]
    )
    scored = [node for node in solution.tree if node["finish"] in (None, "answer") and node["parent"] >= 0]
    assert scored
    assert all(node["value"] is not None for node in scored)
    best = max(node["value"] for node in solution.tree if node["answer"] is not None)
    assert solution.value == pytest.approx(best, abs=1e-6)


def test_what_is_no_model_is_refused_at_once(tmp_path):
    with pytest.raises(ConfigError, match=r"config\.json is missing"):
        open_reward(f"ppm:{tmp_path}")
    (tmp_path / "config.json").write_text("{}")
    with pytest.raises(ConfigError, match=r"tokenizer\.json is missing"):
        Scorer(tmp_path)
