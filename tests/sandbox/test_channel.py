"""Messages arrive whole, with their descriptors, or not at all."""

from __future__ import annotations

import os
import socket

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rstar.sandbox import channel


@given(st.dictionaries(st.text(), st.integers() | st.text() | st.none(), max_size=5))
def test_messages_arrive(message: channel.Message) -> None:
    one, other = channel.pair()
    with one, other:
        channel.send(one, message)
        assert channel.receive(other) == (message, [])


@pytest.mark.parametrize("size", [0, channel.MAX_PACKET - 20, channel.MAX_PACKET, 5_000_000])
def test_size_does_not_matter(size: int) -> None:
    one, other = channel.pair()
    with one, other:
        reading, writing = os.pipe()
        channel.send(one, {"text": "x" * size, "odd": "\ud800"}, [writing])
        received = channel.receive(other)
        assert received is not None
        message, handles = received
        assert (len(message["text"]), message["odd"]) == (size, "\ud800")
        os.write(handles[0], b"through")
        assert os.read(reading, 10) == b"through"
        channel.close_all([reading, writing, *handles])


def test_the_end() -> None:
    one, other = channel.pair()
    with other:
        assert channel.receive_untrusted(other) is None
        one.send(b"x" * (channel.MAX_REPORT + 10))
        one.close()
        assert channel.receive_untrusted(other) == b"x" * channel.MAX_REPORT
        assert channel.receive_untrusted(other) == b""
        assert channel.receive(other) is None


def test_a_full_channel_does_not_block() -> None:
    one, other = channel.pair()

    def flood() -> None:
        for _ in range(100_000):
            channel.send(one, {"text": "x" * 1000}, flags=socket.MSG_DONTWAIT)

    with one, other, pytest.raises(BlockingIOError):
        flood()
