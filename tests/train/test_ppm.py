"""A process preference model: it learns what is preferred, resumes exactly, and is an ordinary transformers folder."""

import json
import math
import random
from dataclasses import replace
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from tokenizers import Tokenizer
from typer.testing import CliRunner

from rstar.cli.app import app
from rstar.errors import ConfigError, DataError
from rstar.models.decoder import Decoder, DecoderConfig
from rstar.models.decoder_files import save_decoder
from rstar.models.ppm.inputs import INPUTS, Piece, SolutionEncoder, collate_rows, join
from rstar.models.ppm.model import PreferenceModel, load_ppm
from rstar.train.loop import Progress
from rstar.train.ppm import (
    ComparedTree,
    PPMConfig,
    PreferenceObjective,
    collate_lines,
    pair_scores,
    preference_batches,
    read_pairs,
    train_ppm,
)
from rstar.trajectories import Segment, Step

TINY = Path(str(files("rstar") / "tiny" / "weights"))

SHAPE = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 2,
         "num_key_value_heads": 1, "head_dim": 16, "max_position_embeddings": 256}  # fmt: skip
CONFIG = PPMConfig(tokens=60_000, warmup_tokens=500, batch_tokens=2048, micro_tokens=1024, seed=3)


class StopError(Exception):
    pass


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("base")
    (folder / "tokenizer.json").write_text((TINY / "tokenizer.json").read_text())
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    save_decoder(
        Decoder(DecoderConfig(vocab_size=tokenizer.get_vocab_size(), eos_token_ids=(0,), pad_token_id=0, **SHAPE)),
        folder,
    )
    return folder


def node(parent: int, q: float, text: str, shown: str = "") -> dict[str, Any]:
    after = (Segment(shown, "tool"),) if shown else ()
    step = Step((Segment(text, "policy", (), (-0.5,) * 3), *after))
    return {"parent": parent, "q": q, **step.to_json(tokens=True)}


def line(draw: random.Random) -> dict[str, Any]:
    """Preferred is who adds the numbers of the prompt; solution 4 goes on where 0 ends, 5 where 2 does."""
    a, b = draw.randrange(2, 50), draw.randrange(2, 50)
    texts = [f"# add\nx = {a} + {b}\n<end_of_step>", f"# sum\nx = {b} + {a}\n<end_of_step>",
             f"# take away\nx = {a} - {b}\n<end_of_step>", f"# add\nx = {a} * {b}\n<end_of_step>"]  # fmt: skip
    nodes = [node(-1, q, text) for text, q in zip(texts, (1, 1, -1, -1), strict=True)]
    nodes += [node(parent, q, "print(x)\n<end_of_code>", f"\n<output>{x}<end_of_output>")
              for parent, x, q in ((0, a + b, 1), (2, a - b, -1))]  # fmt: skip
    steps = [{"kind": "step", "pairs": [[0, 2], [0, 3], [1, 2]]}, {"kind": "final", "pairs": [[4, 5]]}]
    return {"id": "p", "prompt": f"{a} {b}\n", "nodes": nodes, "steps": steps}


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("data") / "pairs.jsonl"
    draw = random.Random(1)
    file.write_text("".join(json.dumps(line(draw)) + "\n" for _ in range(200)))
    return file


def reader(base: Path, inputs=()) -> SolutionEncoder:
    return SolutionEncoder(Tokenizer.from_file(str(base / "tokenizer.json")), inputs)


def lines_of(file: Path, base: Path, inputs=()) -> list[ComparedTree]:
    return list(read_pairs(file, reader(base, inputs), 256))


def accuracy(folder: Path, lines: list[ComparedTree]) -> dict[str, float]:
    margins = list(pair_scores(load_ppm(folder), lines, batch_lines=7))
    by_kind = {kind: [margin > 0 for name, margin in margins if name == kind] for kind in ("step", "final")}
    return {kind: sum(found) / len(found) for kind, found in by_kind.items()}


def test_it_learns_and_an_interrupted_run_ends_with_the_same_weights(tmp_path, base, data):
    config = CONFIG.model_copy(update={"base": base, "checkpoint_seconds": 1e-9})

    def stop(progress: Progress) -> None:
        if progress.step == 3:
            raise StopError

    whole = train_ppm(config, [data], tmp_path / "whole", lambda progress: None)
    with pytest.raises(StopError):
        train_ppm(config, [data], tmp_path / "parts", stop)
    parts = train_ppm(config, [data], tmp_path / "parts", lambda progress: None)
    first, second = (load_file(folder / "model.safetensors") for folder in (whole, parts))
    assert all(torch.equal(first[name], second[name]) for name in first)
    fresh = tmp_path / "fresh.jsonl"
    draw = random.Random(2)
    fresh.write_text("".join(json.dumps(line(draw)) + "\n" for _ in range(50)))
    found = accuracy(whole, lines_of(fresh, base))
    assert found["step"] > 0.95
    assert found["final"] > 0.95


def test_a_model_that_reads_logprobs_refuses_pairs_without(tmp_path, base, data):
    entry = line(random.Random(3))
    del entry["nodes"][4]["segments"][0]["logprobs"]
    (file := tmp_path / "pairs.jsonl").write_text(data.read_text() + json.dumps(entry) + "\n")
    assert len(lines_of(file, base, ["numbers"])) == 201
    with pytest.raises(DataError, match=r"pairs.jsonl:201: .*record_tokens"):
        lines_of(file, base, ["logprobs"])


@pytest.mark.parametrize("target", ["q", "outcome"])
def test_the_models_it_is_compared_with_learn_too(tmp_path, base, data, target):
    config = CONFIG.model_copy(update={"base": base, "target": target, "inputs": list(INPUTS)})
    folder = train_ppm(config, [data], tmp_path, lambda progress: None)
    found = accuracy(folder, lines_of(data, base, INPUTS))
    assert found["final"] > 0.95
    assert load_ppm(folder).inputs == INPUTS


def test_transformers_reads_the_folder(tmp_path, base, data):
    from transformers import AutoModelForSequenceClassification

    folder = train_ppm(
        CONFIG.model_copy(update={"base": base, "tokens": 2_000, "save_dtype": "float16"}),
        [data],
        tmp_path,
        lambda progress: None,
    )
    assert json.loads((folder / "config.json").read_text())["torch_dtype"] == "float16"
    theirs = AutoModelForSequenceClassification.from_pretrained(folder, dtype=torch.float32)
    ours = load_ppm(folder)
    read = reader(base)
    solutions = [read.encode("3 4\n", [Piece(text)]) for text in ("x = 3 + 4\n", "x = 3 + 44\nprint(x)\n", "y")]
    with torch.no_grad():
        scores = ours(collate_rows([join(solutions)]))
        for solution, score in zip(solutions, scores, strict=True):
            logit = theirs(torch.tensor([solution.ids])).logits.squeeze()
            assert torch.allclose(score, torch.tanh(logit), atol=1e-5)


def test_padding_and_company_do_not_change_a_score(base, data):
    model = PreferenceModel(Decoder(DecoderConfig(vocab_size=2_000, **SHAPE)), INPUTS)
    with torch.no_grad():
        for parameter in (model.numbers.weight, model.features.weight):
            parameter.normal_(generator=torch.Generator().manual_seed(1))
    lines = lines_of(data, base, INPUTS)[:4]
    with torch.no_grad():
        scores = model(collate_lines(lines).rows)
        alone = torch.cat([model(collate_lines([line]).rows) for line in lines])
    assert len(scores) == 24
    assert torch.allclose(scores, alone, atol=1e-5)


def test_the_loss_is_the_mean_of_each_steps_pairs(base, data):
    model = PreferenceModel(Decoder(DecoderConfig(vocab_size=2_000, **SHAPE)))
    with torch.no_grad():
        model.score.weight *= 20
    lines = lines_of(data, base)[:3]
    objective = PreferenceObjective("pairs")
    loss = {n: objective.loss(model, collate_lines(lines[:n])).item() for n in (1, 2, 3)}
    scores = model(collate_lines(lines[:1]).rows)
    by_hand = [
        -torch.nn.functional.logsigmoid(scores[i] - scores[j]).item() for i, j in ((0, 2), (0, 3), (1, 2), (4, 5))
    ]
    assert loss[1] == pytest.approx((sum(by_hand[:3]) / 3 + by_hand[3]) / 2, rel=1e-4)
    alone = [objective.loss(model, collate_lines([line])).item() for line in lines]
    assert loss[3] == pytest.approx(sum(alone), rel=1e-4)


def test_an_outcome_model_learns_as_much_from_every_problem(base, data):
    """However many steps of it are compared, too."""
    line = lines_of(data, base)[0]
    assert {one.kind for one in line.comparisons} == {"step", "final"}
    only = replace(line, comparisons=[one for one in line.comparisons if one.kind == "final"])
    assert {one.kind for one in only.comparisons} == {"final"}
    model = PreferenceModel(Decoder(DecoderConfig(vocab_size=2_000, **SHAPE)))
    with torch.no_grad():
        model.score.weight.zero_()
    objective = PreferenceObjective("outcome")
    assert objective.loss(model, collate_lines([only])).item() == pytest.approx(math.log(2))


def test_an_epoch_holds_every_line_once(base, data):
    batches = preference_batches(lines_of(data, base), CONFIG)
    seen, step = 0, 0
    while seen < 200:
        seen += sum(batch.lines for batch in batches.of_step(step))
        step += 1
    assert seen == 200


SEGMENT = '{"author": "policy", "text": "a"}'
NODE = f'{{"parent": -1, "segments": [{SEGMENT}], "q": 1}}'
BAD_NODES = [
    NODE.replace("1}", "NaN}"),
    NODE.replace("1}", "1.5}"),
    NODE.replace("1}", '"nan"}'),
    NODE.replace("1}", "9" * 400 + "}"),
    NODE.replace("1}", "9" * 6000 + "}"),
    NODE.replace('"a"}', '"a", "logprobs": [NaN]}'),
    NODE.replace('"a"}', '"a", "logprobs": [900]}'),
    NODE.replace("1}", '1, "values": null}'),
    NODE.replace("1}", '1, "values": ["x"]}'),
    NODE.replace('"a"', '"\\ud800"'),
    NODE.replace('"a"', '"\udcff"'),
    NODE.replace('"a"', "7"),
    NODE.replace("policy", "nobody"),
    NODE.replace(SEGMENT, ""),
]


@pytest.mark.parametrize(
    "text", ["{", "[]", '{"prompt": "x"}', f'{{"prompt": "x", "nodes": [{NODE}], "steps": []}}',
             f'{{"prompt": "x", "nodes": [{NODE}], "steps": [{{"kind": "step", "pairs": [[0, 1]]}}]}}',
             f'{{"prompt": "x", "nodes": [{NODE}], "steps": [{{"kind": "step", "pairs": []}}]}}',
             f'{{"prompt": "x", "nodes": [{NODE.replace("-1", "0")}], "steps": [{{"kind": "x", "pairs": [[0, 0]]}}]}}',
             *(f'{{"prompt": "x", "nodes": [{node}, {NODE}], "steps": [{{"kind": "step", "pairs": [[0, 1]]}}]}}'
               for node in BAD_NODES),
             f'{{"prompt": "x", "nodes": [{NODE}], "steps": [{{"kind": "step", "pairs": [[0, 0]]}}]}}'],
)  # fmt: skip
def test_bad_lines_are_named(tmp_path, base, text):
    file = tmp_path / "pairs.jsonl"
    file.write_bytes(text.encode(errors="surrogateescape") + b"\n")
    with pytest.raises(DataError, match=r"pairs\.jsonl:1: not a line of preference pairs"):
        lines_of(file, base)


def test_a_policy_is_no_ppm(base, tmp_path):
    with pytest.raises(ConfigError, match="LlamaForSequenceClassification"):
        load_ppm(base)
    with pytest.raises(ConfigError, match="base: missing; set it to the folder of the policy"):
        train_ppm(CONFIG, [], tmp_path, lambda progress: None)


def test_the_command(tmp_path, base, data):
    recipe = tmp_path / "ppm.toml"
    recipe.write_text(f"tokens = 2000\nwarmup_tokens = 100\nbase = '{base}'\n")
    done = CliRunner().invoke(app, ["train", "ppm", str(recipe), "--data", str(data), "--out", str(tmp_path / "out")])
    assert done.exit_code == 0, done.output
    assert load_ppm(tmp_path / "out" / "model").config.hidden_size == 32
