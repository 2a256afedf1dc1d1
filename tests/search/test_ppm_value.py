"""A process preference model as the value of a search."""

import asyncio
from importlib.resources import files
from pathlib import Path

import pytest
import torch
from tokenizers import Tokenizer

from rstar.config import Config, resolve
from rstar.errors import ConfigError, EngineError
from rstar.models.decoder import Decoder, DecoderConfig
from rstar.models.decoder_files import copy_tokenizer
from rstar.models.fake import FakeEngine
from rstar.models.ppm.inputs import INPUTS, collate_rows, join, pieces
from rstar.models.ppm.model import PreferenceModel, save_ppm
from rstar.models.ppm.scorer import Scorer
from rstar.problems import Problem
from rstar.prompts.code_steps import prompt
from rstar.search.choose import Votes
from rstar.search.solver import Solver
from rstar.search.value import Preference, open_value, value_name
from rstar.specs import parse_value
from rstar.trajectories import Segment, Step, Trajectory
from tests.search.plain import PlainSandbox
from tests.search.scripted import nodes_of

PROMPT = Segment("What is 3 + 4?", "template")
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


def wrote(text: str, *logprobs: float) -> Step:
    return Step((Segment(text, "policy", (), logprobs or None),))


def score(scorer: Scorer, *questions: tuple[str, list[str]]) -> list[list[float | None]]:
    """Each text a solution of one step, all questions at the same time."""

    async def run() -> list[list[float | None]]:
        asked = (scorer.score(question, [[wrote(text)] for text in texts]) for question, texts in questions)
        return await asyncio.gather(*asked)

    return asyncio.run(run())


def test_scores_do_not_depend_on_company(folder):
    texts = ["x = 1\n<end_of_step>", "x = 2 + 3\n<end_of_step>\ny = 4\n<end_of_step>", "", "y\n"]
    questions = [(f"Question {n}\n" * n, texts[n % 2 :]) for n in range(1, 6)]
    together = score(Scorer(folder), *questions)
    for (question, some), found in zip(questions, together, strict=True):
        assert score(Scorer(folder), (question, some)) == [found]  # to the last bit
        for text, value in zip(some, found, strict=True):
            assert score(Scorer(folder), (question, [text])) == [[pytest.approx(value, abs=1e-5)]]
            assert -1 <= value <= 1
    assert len({round(value, 4) for found in together for value in found}) == sum(len(some) for _, some in questions)


def test_scores_are_those_of_the_model_on_whole_solutions(folder):
    scorer = Scorer(folder)
    steps = [wrote(f"x = {n} + 3\n<end_of_step>\n") for n in range(4)]
    for length in range(1, 5):  # each continues the one before
        (found,) = asyncio.run(scorer.score("Question 7\n", [steps[:length]]))
        encoded = scorer.encoder.encode("Question 7\n", pieces(steps[:length]))
        (wanted,) = scorer.model(collate_rows([join([encoded])])).tolist()
        assert found == pytest.approx(wanted, abs=1e-5)
        assert asyncio.run(Scorer(folder).score("Question 7\n", [steps[:length]])) == [found]  # to the last bit


def test_what_is_too_long_gets_no_opinion(folder):
    assert score(Scorer(folder), ("Question\n", ["x", "x = 1\n" * 100]))[0][1] is None
    assert score(Scorer(folder), ("Question\n" * 100, ["x"])) == [[None]]


def test_a_cancelled_question_leaves_the_others_alone(folder):
    async def run() -> list[float | None]:
        scorer = Scorer(folder)
        lost = asyncio.create_task(scorer.score("Lost\n", [[wrote("x")]]))
        await asyncio.sleep(0)
        kept = asyncio.create_task(scorer.score("Kept\n", [[wrote("x")]]))
        await asyncio.sleep(0)
        lost.cancel()
        return await kept

    assert asyncio.run(run()) == pytest.approx(score(Scorer(folder), ("Kept\n", ["x"]))[0], abs=1e-5)


def test_a_failure_reaches_who_asks(folder, monkeypatch):
    scorer = Scorer(folder)
    monkeypatch.setattr(scorer, "compute", lambda solutions: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        score(scorer, ("Question\n", ["x"]))


def test_the_value_scores_the_steps_so_far(folder):
    value = open_value(parse_value(f"ppm:{folder}"))
    problem = Problem("p", "What is 3 + 4?")
    last = (Segment("print(x)\n<end_of_code>", "policy"), Segment("\n<output>3<end_of_output>", "tool"))
    steps = (wrote("x = 3\n<end_of_step>"), Step(last))
    trajectories = [Trajectory(PROMPT, steps[:1], None), Trajectory(PROMPT, steps, "answer", "3")]
    found = asyncio.run(value.score(problem, trajectories, Votes(lambda a, b: a == b)))
    wanted = asyncio.run(Scorer(folder).score(prompt(problem.question), [t.steps for t in trajectories]))
    assert found == wanted
    assert found[0] != found[1]


def test_it_computes_where_the_engine_is_told_to(folder):
    config = resolve(overrides=["policy=fake:steps", f"value=ppm:{folder}", "engine.device=nowhere"])
    with pytest.raises(ConfigError, match="device 'nowhere'"):
        list(Solver(config).solve([Problem("p", "What is 3 + 4?")]))


def test_one_that_reads_logprobs_says_what_it_needs(tmp_path, folder):
    size = Tokenizer.from_file(str(TINY / "tokenizer.json")).get_vocab_size()
    model = PreferenceModel(Decoder(DecoderConfig(size, 32, 64, 2, 2, 1, 16, 128)), INPUTS)
    with torch.no_grad():
        for parameter in (model.features.weight, model.score.weight):
            parameter.normal_(generator=torch.Generator().manual_seed(1))
    save_ppm(model, tmp_path, torch.float32)
    copy_tokenizer(TINY, tmp_path)
    value = open_value(parse_value(f"ppm:{tmp_path}"))

    def worth(*logprobs: float) -> float:
        one = Trajectory(PROMPT, (wrote("x = 3\n<end_of_step>", *logprobs),), None)
        return asyncio.run(value.score(Problem("p", "What is 3 + 4?"), [one], Votes(lambda a, b: a == b)))[0]

    assert worth(-0.1) != worth(-2.0)
    with pytest.raises(EngineError, match="log-probabilities"):
        worth()


def test_a_search_with_it(folder):
    config = Config(value=f"ppm:{folder}", search={"method": "mcts", "rollouts": 6, "expansions": 4})
    (solution,) = Solver(config, policy=FakeEngine(), sandbox=PlainSandbox()).solve([Problem("p", "What is 3 + 4?")])
    nodes = nodes_of(solution)
    scored = [node for node in nodes if node.finish_reason in (None, "answer") and node.parent is not None]
    assert scored
    assert all(node.value is not None for node in scored)
    best = max(node.value for node in nodes if node.answer == solution.answer)
    assert solution.value == pytest.approx(best, abs=1e-6)


def test_what_is_no_model_is_refused_at_once(tmp_path):
    with pytest.raises(ConfigError, match=r"config\.json is missing"):
        open_value(parse_value(f"ppm:{tmp_path}"))
    (tmp_path / "config.json").write_text("{}")
    with pytest.raises(ConfigError, match=r"tokenizer\.json is missing"):
        Scorer(tmp_path)


@pytest.mark.parametrize(
    ("policy", "method", "value", "meant"),
    [
        ("tiny", "mcts", "auto", "agreement"),
        ("tiny", "beam", "auto", "ppm:tiny"),
        ("tiny", "best-of-n", "auto", "agreement"),
        ("tiny", "sample", "auto", "agreement"),
        ("tiny", "greedy", "auto", "agreement"),
        ("fake:steps", "mcts", "auto", "agreement"),
        ("tiny", "mcts", "grounded", "grounded"),
    ],
)
def test_the_bundled_ppm_guides_beams_of_the_bundled_policy(policy, method, value, meant):
    config = Config(policy=policy, value=value, search={"method": method})
    assert value_name(config) == parse_value(meant)
    assert Solver(config).value.name == meant.partition(":")[0]


def test_it_does_not_judge_a_policy_that_nobody_has_named():
    assert Solver(policy=FakeEngine()).value.name == "agreement"


def test_the_bundled_ppm_reads_what_the_bundled_policy_writes():
    value = open_value(parse_value("ppm:tiny"))
    assert isinstance(value, Preference)
    problem = Problem("p", "What is 7 * 6 - 5?")
    config = Config(value="ppm:tiny", search={"method": "mcts", "rollouts": 4, "expansions": 2})
    (solution,) = Solver(config, sandbox=PlainSandbox()).solve([problem])
    values = [node.value for node in nodes_of(solution)[1:] if node.finish_reason in (None, "answer")]
    assert values
    assert all(-1 < one < 1 for one in values)
    assert len(set(values)) > 1
