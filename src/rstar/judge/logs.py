r"""Log lines of the service's processes: bounded in length and number, and without control characters.

Anyone who can connect can cause log lines, and their text may come from clients or programs. Continuation lines, such
as those of a traceback, are indented, so no text can pass for a line of its own.
"""

from __future__ import annotations

import logging
import re
import time

MAX_LENGTH = 8_000
"""Characters per record; the beginning and the end of a longer one are kept."""

MAX_LINES, WINDOW_SECONDS = 10, 60.0
"""Records per place in the code and time window; the others are counted."""

_CONTROL = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


class PlainFormatter(logging.Formatter):
    """Formats a record as one bounded line with indented continuation lines."""

    def format(self, record: logging.LogRecord) -> str:
        """See `logging.Formatter.format`."""
        text = super().format(record)
        if len(text) > MAX_LENGTH:
            half = MAX_LENGTH // 2
            text = f"{text[:half]} [... {len(text) - 2 * half:,} characters ...] {text[-half:]}"
        return _CONTROL.sub("\ufffd", text).replace("\n", "\n    ")


class RateLimit(logging.Filter):
    """Lets `MAX_LINES` records from one place in the code pass per time window."""

    def __init__(self) -> None:
        super().__init__()
        self._windows: dict[tuple[str, int], tuple[float, int]] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        """See `logging.Filter.filter`."""
        place, now = (record.pathname, record.lineno), time.monotonic()
        began, count = self._windows.get(place, (now, 0))
        if now - began >= WINDOW_SECONDS:
            if count > MAX_LINES:
                record.msg = f"{record.getMessage()} ({count - MAX_LINES:,} more such records were left out)"
                record.args = ()
            began, count = now, 0
        self._windows[place] = began, count + 1
        return count < MAX_LINES


def set_up_logging() -> None:
    """Log warnings of all packages to stderr."""
    handler = logging.StreamHandler()
    handler.setFormatter(PlainFormatter("%(asctime)s %(name)s %(levelname)s %(message)s"))
    handler.addFilter(RateLimit())
    logging.basicConfig(handlers=[handler], level=logging.WARNING)
