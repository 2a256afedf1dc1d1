"""Tokenisation by a model folder's ``tokenizer.json``, without importing transformers.

Every token id stands for a byte string. A completion's text is the concatenation of these, decoded as UTF-8 (invalid
bytes become U+FFFD), so text can be followed token by token, whatever the stop strings.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer

from rstar.errors import ConfigError


class TokenText:
    """Tokenizer of a model folder."""

    def __init__(self, folder: Path) -> None:
        """Read ``tokenizer.json``, and BOS and EOS from the other configuration files.

        Raises:
            ConfigError: no readable ``tokenizer.json``.
        """
        path = folder / "tokenizer.json"
        try:
            raw = path.read_text(encoding="utf-8")
            self._tokenizer = Tokenizer.from_str(raw)
        except Exception as error:  # the tokenizers library raises plain Exception
            raise ConfigError(f"{path}: {error}") from error
        self._tokenizer.no_padding()
        self._tokenizer.no_truncation()
        self._byte_level = "ByteLevel" in _kinds(json.loads(raw).get("decoder"))
        self._pieces: dict[int, bytes] = {}
        self._anchor = self._tokenizer.encode("a", add_special_tokens=False).ids[-1:]
        self._anchor_text = self._tokenizer.decode(self._anchor, skip_special_tokens=False)

        configs = {name: _read(folder / f"{name}.json") for name in ("config", "generation_config", "tokenizer_config")}
        self.eos_ids = self._eos_ids(configs)
        self._bos = self._missing_bos(configs)

    def prompt(self, text: str) -> tuple[int, ...]:
        """Token ids of a text that starts a context, with BOS if the model expects one."""
        return self._bos + tuple(self._tokenizer.encode(text, add_special_tokens=True).ids)

    def encode(self, text: str) -> tuple[int, ...]:
        """Token ids of a continuation; markers that are tokens become their single id."""
        return tuple(self._tokenizer.encode(text, add_special_tokens=False).ids)

    def piece(self, token: int) -> bytes:
        """Bytes that a token adds to the text; empty for unknown ids."""
        known = self._pieces.get(token)
        if known is None:
            known = self._pieces[token] = self._find_piece(token)
        return known

    def text(self, ids: Iterable[int]) -> str:
        """Text of tokens that continue a context."""
        return b"".join(map(self.piece, ids)).decode(errors="replace")

    def _find_piece(self, token: int) -> bytes:
        name = self._tokenizer.id_to_token(token)
        if name is None:
            return b""
        if self._byte_level:
            known = [_BYTE_OF.get(char) for char in name]
            return name.encode() if None in known else bytes(byte for byte in known if byte is not None)
        if match := re.fullmatch(r"<0x([0-9A-F]{2})>", name):
            return bytes([int(match[1], 16)])
        # Decode behind another token: word and sentence decoders drop a leading space.
        both = self._tokenizer.decode([*self._anchor, token], skip_special_tokens=False)
        return str(both[len(self._anchor_text) :]).encode()

    def _eos_ids(self, configs: dict[str, dict[str, Any]]) -> frozenset[int]:
        ids = set(self._named(configs["tokenizer_config"].get("eos_token")))
        for name in ("config", "generation_config"):
            value = configs[name].get("eos_token_id")
            ids.update(value if isinstance(value, list) else [] if value is None else [value])
        return frozenset(ids)

    def _missing_bos(self, configs: dict[str, dict[str, Any]]) -> tuple[int, ...]:
        """BOS, if the model expects one that the tokenizer does not add by itself."""
        if not configs["tokenizer_config"].get("add_bos_token"):
            return ()
        bos = self._named(configs["tokenizer_config"].get("bos_token"))
        if not bos and configs["config"].get("bos_token_id") is not None:
            bos = (configs["config"]["bos_token_id"],)
        present = tuple(self._tokenizer.encode("a", add_special_tokens=True).ids)
        return () if present[: len(bos)] == bos else bos

    def _named(self, token: str | dict[str, Any] | None) -> tuple[int, ...]:
        content = token.get("content") if isinstance(token, dict) else token
        token_id = None if content is None else self._tokenizer.token_to_id(content)
        return () if token_id is None else (token_id,)


def _read(path: Path) -> dict[str, Any]:
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except ValueError as error:
        raise ConfigError(f"{path}: {error}") from error
    return value if isinstance(value, dict) else {}


def _kinds(decoder: dict[str, Any] | None) -> set[str]:
    if not decoder:
        return set()
    return {decoder["type"]}.union(*(_kinds(part) for part in decoder.get("decoders", [])))


def _byte_of() -> dict[str, int]:
    """Map each character of a byte-level vocabulary to its byte.

    Printable Latin-1 maps to itself; the other bytes are U+0100 and on, in order.
    """
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    rest = [byte for byte in range(256) if byte not in printable]
    return {chr(byte): byte for byte in printable} | {chr(256 + i): byte for i, byte in enumerate(rest)}


_BYTE_OF = _byte_of()
