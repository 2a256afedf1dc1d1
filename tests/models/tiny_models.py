"""Small random models and tokenizers for the tests of this room."""

from __future__ import annotations

from pathlib import Path

import torch
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, processors

from rstar.models.decoder import Decoder, DecoderConfig
from rstar.models.decoder_files import save_decoder
from rstar.prompts.code_steps import MARKERS

MERGED = ("ab", "abc", ".Ċ", "en", "Ã©", "12")
SPECIALS = ("<s>", "</s>", *MARKERS)
BOS, EOS = 256 + len(MERGED), 257 + len(MERGED)
VOCAB = 256 + len(MERGED) + len(SPECIALS)


def byte_tokenizer() -> Tokenizer:
    """A byte-level BPE: bytes 0..255, a few merged tokens such as ``abc`` and ``.\\n``, then special tokens."""
    vocab = {token: i for i, token in enumerate((*sorted(pre_tokenizers.ByteLevel.alphabet()), *MERGED))}
    merges = [("a", "b"), ("ab", "c"), (".", "Ċ"), ("e", "n"), ("Ã", "©"), ("1", "2")]
    tokenizer = Tokenizer(models.BPE(vocab=vocab, merges=merges))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([AddedToken(name, special=True) for name in SPECIALS])
    tokenizer.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", BOS)])
    return tokenizer


def write_model(folder: Path, seed: int = 0, spread: float = 0.2, **changes: object) -> Decoder:
    """A tiny Llama whose logits differ enough (`spread`) that greedy choices have no near ties."""
    shape: dict[str, object] = {
        "vocab_size": VOCAB, "hidden_size": 48, "intermediate_size": 96, "num_hidden_layers": 3,
        "num_attention_heads": 6, "num_key_value_heads": 3, "head_dim": 8, "max_position_embeddings": 256,
        "bos_token_id": BOS, "eos_token_ids": (EOS,), "initializer_range": spread,
    }  # fmt: skip
    decoder = Decoder(DecoderConfig(**{**shape, **changes}), seed)  # type: ignore[arg-type]
    save_decoder(decoder, folder, torch.float32)
    byte_tokenizer().save(str(folder / "tokenizer.json"))
    return decoder
