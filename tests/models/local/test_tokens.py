"""Text to ids and back, against the tokenizers library."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer, decoders, models, normalizers

from rstar.errors import ConfigError
from rstar.models.local.tokens import TokenText
from tests.models.tiny_models import BOS, EOS, VOCAB, byte_tokenizer, write_model


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("model")
    write_model(path)
    return path


@pytest.fixture(scope="module")
def tokens(folder: Path) -> TokenText:
    return TokenText(folder)


def test_prompts_have_bos_and_foreign_text_has_none(tokens: TokenText) -> None:
    assert tokens.prompt("abc") == (BOS, *tokens.encode("abc"))
    assert len(tokens.encode("abc")) == 1
    assert tokens.eos_ids == {EOS}


def test_markers_are_single_tokens(tokens: TokenText) -> None:
    ids = tokens.encode("x\n<end_of_step>\n")
    assert len(ids) == 4
    assert tokens.piece(ids[2]) == b"<end_of_step>"


@given(st.text())
def test_text_round_trip(tokens: TokenText, text: str) -> None:
    assert tokens.text(tokens.encode(text)) == text


@given(st.lists(st.integers(0, VOCAB - 1), max_size=20))
def test_text_is_what_the_tokenizer_decodes(tokens: TokenText, ids: list[int]) -> None:
    assert tokens.text(ids) == byte_tokenizer().decode(ids, skip_special_tokens=False)


def test_ids_without_a_token_have_no_text(tokens: TokenText) -> None:
    assert tokens.text([VOCAB + 7]) == ""


def test_sentencepiece_like_tokenizer(tmp_path: Path) -> None:
    write_model(tmp_path)
    pieces = ["<unk>", "▁", "a", "▁be", "c", "<0xC3>", "<0xA9>"]
    tokenizer = Tokenizer(models.BPE(vocab={piece: i for i, piece in enumerate(pieces)}, merges=[], byte_fallback=True))
    tokenizer.normalizer = normalizers.Replace(" ", "▁")
    tokenizer.decoder = decoders.Sequence(
        [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    )
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    tokens = TokenText(tmp_path)
    assert tokens.text([3, 2, 5, 6, 1, 4]) == " beaé c"  # the space before the first word belongs to the text


def test_bos_and_eos_come_from_the_configuration_files(folder: Path, tmp_path: Path) -> None:
    for name in ("config.json", "tokenizer.json"):
        (tmp_path / name).write_bytes((folder / name).read_bytes())
    tokenizer = byte_tokenizer()
    tokenizer.post_processor = None
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    assert TokenText(tmp_path).prompt("abc") == TokenText(tmp_path).encode("abc")
    (tmp_path / "generation_config.json").write_text(json.dumps({"eos_token_id": [EOS, 3]}))
    settings = {"add_bos_token": True, "bos_token": {"content": "<s>"}, "eos_token": "<end_of_answer>"}
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(settings))
    tokens = TokenText(tmp_path)
    assert tokens.prompt("abc") == (BOS, *tokens.encode("abc"))
    assert tokens.eos_ids == {EOS, 3, *tokens.encode("<end_of_answer>")}
    (tmp_path / "tokenizer.json").write_bytes((folder / "tokenizer.json").read_bytes())
    assert TokenText(tmp_path).prompt("abc") == tokens.prompt("abc")  # not twice


def test_missing_tokenizer(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"tokenizer\.json"):
        TokenText(tmp_path)
