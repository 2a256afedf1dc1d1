import itertools
import json
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer

from rstar.errors import DataError
from rstar.models.decoder import Decoder, DecoderConfig
from rstar.prompts import code_steps as prompt
from rstar.tiny.generate import draw
from rstar.train.data import LENGTH_STEP, TokenSet, collate, pack, plan, rounded, tokenize
from rstar.train.settings import TokenizerConfig, TrainConfig
from rstar.train.sft import SupervisedObjective, sft_batches
from rstar.train.tokenizer import EOS, find_phrases, train_tokenizer


@pytest.fixture(scope="module")
def rows() -> list[list[str]]:
    return [drawn.row(solution=True)["pieces"] for drawn in draw(400, 5, "train")]


@pytest.fixture(scope="module")
def tokenizer(rows: list[list[str]]) -> Tokenizer:
    return train_tokenizer(("".join(pieces) for pieces in rows), TokenizerConfig(vocab_size=900))


def test_text_survives(tokenizer: Tokenizer, rows: list[list[str]]) -> None:
    for pieces in rows:
        for text in pieces:
            assert tokenizer.decode(tokenizer.encode(text).ids, skip_special_tokens=False) == text


@given(st.text())
def test_any_text_survives(tokenizer: Tokenizer, text: str) -> None:
    assert tokenizer.decode(tokenizer.encode(text).ids, skip_special_tokens=False) == text


@pytest.mark.parametrize("frame", ["{}", " {} ", "x = {}", "[{}, 5]", "({})", "costs ${} more", "={}", "{}%", "\n{}"])
def test_a_number_is_the_same_tokens_everywhere(tokenizer: Tokenizer, frame: str) -> None:
    for number in ("7", *map(str, range(10, 100)), "105", "1905", "12.50"):
        tokens = tokenizer.encode(frame.format(number)).tokens
        expected = [number] if number in map(str, range(100)) else list(number)
        start = tokens.index(expected[0])
        assert tokens[start : start + len(expected)] == expected


@pytest.mark.parametrize("row", ["4", "47", "471", "4715"])
def test_cells_of_a_quoted_row_are_tokens_of_their_own(tokenizer: Tokenizer, row: str) -> None:
    tokens = tokenizer.encode(f"go('{row}')").tokens
    assert [token for token in tokens if token.isdigit()] == list(row)


def test_markers_and_phrases_are_single_tokens(tokenizer: Tokenizer, rows: list[list[str]]) -> None:
    for marker in prompt.MARKERS:
        assert len(tokenizer.encode(marker).ids) == 1
    phrases = find_phrases(["".join(pieces) for pieces in rows], 0.002)
    assert any("def " in phrase for phrase in phrases)
    for phrase in phrases:
        assert len(tokenizer.encode(phrase).ids) == 1


def test_find_phrases_wants_repetition_to_the_letter() -> None:
    block = "def f(x):\n    assert x > 1\n    return x"
    texts = [f"a = {i}\n{block}\nf({i})\n" for i in range(10)]
    assert find_phrases(texts, 0.5) == [block]
    assert find_phrases([*texts, *["other"] * 20], 0.5) == []


def test_only_what_the_policy_wrote_is_trained(tmp_path: Path, tokenizer: Tokenizer) -> None:
    file = tmp_path / "d.jsonl"
    file.write_text(json.dumps({"pieces": ["question 1", "code 2", "output 3", "answer 4"]}) + "\n")
    eos = tokenizer.token_to_id(EOS)
    data, dropped = tokenize([file], tokenizer, eos, 100)
    assert (len(data), dropped) == (1, 0)
    trained = tokenizer.decode([int(i) for i in data.ids[data.written]], skip_special_tokens=False)
    assert trained == f"code 2answer 4{EOS}"
    assert data.ids[-1] == eos


def test_files_are_stages_of_a_curriculum(tmp_path: Path, tokenizer: Tokenizer) -> None:
    files = [tmp_path / f"{stage}.jsonl" for stage in range(3)]
    for stage, file in enumerate(files):
        rows = ({"pieces": ["q", f"{stage} " * (1 + i % 40)]} for i in range(30 + stage))
        file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    data, _ = tokenize(files, tokenizer, 0, 100)
    assert data.stages.tolist() == [0, 30, 61, 93]
    data.save(tmp_path / "tokens.npz")
    batches = sft_batches(TokenSet.load(tmp_path / "tokens.npz"), TrainConfig(batch_tokens=256, micro_tokens=128))
    stage_of = {tokenizer.token_to_id(str(stage)): stage for stage in range(3)}
    seen: list[int] = []
    for step in itertools.count():
        seen += [stage_of[int(row[1])] for batch in batches.of_step(step) for row in batch.ids]
        if len(seen) >= 2 * len(data):
            break
    epoch = [0] * 30 + [1] * 31 + [2] * 32
    assert seen[: 2 * len(epoch)] == epoch * 2


def test_too_long_is_dropped_and_counted(tmp_path: Path, tokenizer: Tokenizer) -> None:
    file = tmp_path / "d.jsonl"
    file.write_text("".join(json.dumps({"pieces": ["q", "1 " * n]}) + "\n" for n in (2, 500)))
    data, dropped = tokenize([file], tokenizer, 0, 50)
    assert (len(data), dropped) == (1, 1)


@pytest.mark.parametrize(
    "line",
    [b"{", b"[]", b'{"pieces": ["one"]}', b'{"pieces": [1, 2]}', b'{"x": 1}', b'{"pieces": ["q", "\\ud800"]}',
     b'{"pieces": ["q", "\xff"]}', b'{"pieces": ["q", "a"], "n": ' + b"9" * 6000 + b"}", b"[" * 100_000],
    ids=repr,
)  # fmt: skip
def test_bad_lines_are_named(tmp_path: Path, tokenizer: Tokenizer, line: bytes) -> None:
    file = tmp_path / "d.jsonl"
    file.write_bytes(json.dumps({"pieces": ["q", "a"]}).encode() + b"\n" + line + b"\n")
    with pytest.raises(DataError, match=r"d\.jsonl:2: "):
        tokenize([file], tokenizer, 0, 50)


def test_damaged_tokens_are_named(tmp_path: Path, tokenizer: Tokenizer) -> None:
    file = tmp_path / "d.jsonl"
    file.write_text(json.dumps({"pieces": ["q", "a"]}) + "\n")
    stored = tmp_path / "tokens.npz"
    tokenize([file], tokenizer, 0, 50)[0].save(stored)
    whole = stored.read_bytes()
    for cut in (0, 30, len(whole) // 2, len(whole) - 10):
        stored.write_bytes(whole[:cut])
        with pytest.raises(DataError, match=r"tokens\.npz: damaged; delete it to tokenise the data again"):
            TokenSet.load(stored)


@given(
    st.lists(st.integers(1, 300), min_size=1, max_size=200), st.integers(64, 2048), st.integers(1, 5), st.integers(0, 3)
)
def test_an_epoch_holds_every_sequence_once_within_the_limit(
    lengths: list[int], micro_tokens: int, per_step: int, epoch: int
) -> None:
    array = np.asarray(lengths, np.int64)
    steps = plan(array, micro_tokens, per_step, seed=1, epoch=epoch)
    micro = [rows for step in steps for rows in step]
    assert sorted(int(i) for rows in micro for i in rows) == list(range(len(lengths)))
    assert all(len(step) <= per_step for step in steps)
    for rows in micro:
        assert len(rows) == 1 or rounded(int(array[rows].max())) * len(rows) <= micro_tokens
    again = plan(array, micro_tokens, per_step, seed=1, epoch=epoch)
    assert [[list(r) for r in s] for s in steps] == [[list(r) for r in s] for s in again]


def test_collate(tmp_path: Path, tokenizer: Tokenizer) -> None:
    file = tmp_path / "d.jsonl"
    file.write_text("".join(json.dumps({"pieces": ["q", "1" * n]}) + "\n" for n in (2, 30)))
    data, _ = tokenize([file], tokenizer, 0, 50)
    batch = collate(data, np.arange(2, dtype=np.int32)[:, None])
    assert batch.ids.shape == batch.written.shape == (2, 2 * LENGTH_STEP)
    assert batch.written.sum() == data.written.sum()
    assert not batch.written[0, data.lengths[0] :].any()
    assert batch.ends is None


def random_set(lengths: list[int], stages: list[int]) -> TokenSet:
    draw = np.random.default_rng(1)
    total = sum(lengths)
    ids, written = draw.integers(0, 50, total).astype(np.int32), draw.random(total) < 0.6
    return TokenSet(ids, written, np.concatenate([[0], np.cumsum(lengths)]), np.asarray(stages))


@given(st.lists(st.integers(1, 300), min_size=2, max_size=200), st.data())
def test_packed_rows_hold_every_sequence_once(lengths: list[int], data: st.DataObject) -> None:
    array = np.asarray(lengths, np.int64)
    middle = data.draw(st.integers(1, len(lengths) - 1))
    rows, stages = pack(array, np.asarray([0, middle, len(lengths)]))
    assert stages[-1] == len(rows)
    for stage, (first, end) in enumerate([(0, middle), (middle, len(lengths))]):
        of_stage = rows[stages[stage] : stages[stage + 1]]
        assert sorted(int(i) for row in of_stage for i in row) == list(range(first, end))
        assert max(array[row].sum() for row in of_stage) == array[first:end].max()


def test_packing_changes_neither_loss_nor_gradient() -> None:
    data = random_set([30, 9, 8, 5, 12, 17, 1, 3], [0, 8])
    found = {}
    for packing in (False, True):
        config = TrainConfig(batch_tokens=4096, micro_tokens=4096, packing=packing)
        model = Decoder(DecoderConfig(50, 16, 32, 2, 2, 1, 8, 64), seed=1)
        objective = SupervisedObjective()
        (batch,) = sft_batches(data, config).of_step(0)
        assert (batch.ends is not None) == packing
        loss = objective.loss(model, batch)
        loss.backward()
        gradient = torch.cat([p.grad.flatten() for p in model.parameters() if p.grad is not None])
        found[packing] = objective.count(batch), loss.item(), gradient, len(batch.ids)
    assert found[True][0] == found[False][0]
    assert found[True][1] == pytest.approx(found[False][1], rel=1e-5)
    assert torch.allclose(found[True][2], found[False][2], atol=1e-4)
    assert found[True][3] < found[False][3] == len(data)
