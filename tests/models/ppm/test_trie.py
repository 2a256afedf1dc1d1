"""Sequences with common beginnings as one row."""

from hypothesis import given
from hypothesis import strategies as st

from rstar.models.ppm.trie import build_trie

SEQUENCES = st.lists(st.lists(st.integers(0, 3), min_size=1, max_size=8), min_size=1, max_size=8)


@given(SEQUENCES)
def test_every_sequence_is_the_way_to_its_last_token(sequences):
    trie = build_trie(sequences)
    tokens = [sequences[number][place] for number, place in trie.sources.tolist()]
    for sequence, last in zip(sequences, trie.last.tolist(), strict=True):
        seen = [place for place in range(last + 1) if trie.ends[place] > last]
        assert [tokens[place] for place in seen] == sequence


@given(SEQUENCES)
def test_common_beginnings_are_there_once(sequences):
    prefixes = {tuple(sequence[:end]) for sequence in sequences for end in range(1, len(sequence) + 1)}
    assert len(build_trie(sequences)) == len(prefixes)


@given(SEQUENCES)
def test_a_token_is_from_a_sequence_that_it_belongs_to(sequences):
    trie = build_trie(sequences)
    for place, (number, depth) in enumerate(trie.sources.tolist()):
        assert depth == sum(trie.ends[before] > place for before in range(place))  # as the decoder counts positions
        assert place <= trie.last[number] < trie.ends[place]
