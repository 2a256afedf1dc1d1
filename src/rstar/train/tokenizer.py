"""A small tokenizer for code-step solutions, trained from scratch.

Byte-level BPE in which a number has the same tokens everywhere, so a small model copies numbers by attention instead of
memorising them: numbers below 100 are single tokens, all others are split into digits. Quoted numbers are split, too:
in this format they are rows of cells. The format's markers are single tokens, and so are *phrases*: blocks of code that
many solutions repeat verbatim (a helper function, for example).
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable
from itertools import chain
from pathlib import Path

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers, trainers

from rstar.prompts.code_steps import MARKERS
from rstar.train.settings import TokenizerConfig

EOS = "<|endoftext|>"
# Two-digit numbers; digits; line breaks. An operator takes the spaces around it if a number follows; words and signs
# take the space before them.
PATTERN = r"(?<!\d)(?<!\d\.)(?<!')\d\d(?!\d|\.\d|')|\d|\n+(?:# ?)?| ?[^\s\w]+ ?(?=\d)| ?[^\W\d]+| ?[^\s\w]+|\s"
SHORTEST_PHRASE = 16
FOREIGN = re.compile(r"<\||<[a-z_]+>|#")  # a marker of the format, or a comment


def train_tokenizer(texts: Iterable[str], config: TokenizerConfig) -> Tokenizer:
    """Train a tokenizer on solutions (prompt, steps and answer of each in one string)."""
    corpus = list(texts)
    numbers = [" ".join(map(str, range(10, 100)))] * len(corpus)  # often enough that each becomes one token
    phrases = find_phrases(corpus, config.phrase_share)
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(PATTERN), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    special = [EOS, *MARKERS]
    trainer = trainers.BpeTrainer(
        vocab_size=config.vocab_size - len(phrases),
        special_tokens=special,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    cut = re.compile("|".join(map(re.escape, sorted([*special, *phrases], key=len, reverse=True))))
    pieces = (piece for text in corpus for piece in cut.split(text) if piece)
    tokenizer.train_from_iterator(chain(numbers, pieces), trainer)
    tokenizer.add_tokens([AddedToken(phrase, normalized=False, special=False) for phrase in phrases])
    return tokenizer


def find_phrases(texts: Iterable[str], share: float) -> list[str]:
    """Blocks of code that at least `share` of the texts repeat verbatim, longest first.

    A block is a run of whole lines of fixed text: function definitions, and lines without a digit.
    """
    total = 0
    runs: Counter[str] = Counter()
    for text in texts:
        total += 1
        runs.update(set(_literal_runs(text)))
    frequent = [run for run, count in runs.items() if count >= share * total and len(run) >= SHORTEST_PHRASE]
    return sorted(frequent, key=lambda run: (-len(run), run))


def _literal_runs(text: str) -> Iterable[str]:
    """Maximal runs of lines without marker or comment that belong to a function or contain no digit."""
    run: list[str] = []
    for line in [*text.split("\n"), "0"]:
        fixed = line.startswith(("def ", " ")) or not re.search(r"\d", line)
        if line and fixed and not FOREIGN.search(line):
            run.append(line)
        elif run:
            yield "\n".join(run)
            run = []


def save_tokenizer(tokenizer: Tokenizer, folder: Path, max_context: int) -> None:
    """Write ``tokenizer.json`` and ``tokenizer_config.json`` in a form that transformers loads."""
    folder.mkdir(parents=True, exist_ok=True)
    config = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "eos_token": EOS,
        "pad_token": EOS,
        "clean_up_tokenization_spaces": False,
        "model_max_length": max_context,
    }
    (folder / "tokenizer_config.json").write_text(json.dumps(config, indent=2) + "\n", encoding="utf-8")
    part = folder / "tokenizer.part"  # atomic: a resumed run reuses tokenizer.json
    tokenizer.save(str(part))
    part.replace(folder / "tokenizer.json")
