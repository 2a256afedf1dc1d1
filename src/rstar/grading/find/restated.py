"""Values given in words and then in digits: "deux cinquièmes, c'est-à-dire 2/5", "drei Viertel, d. h. 3/4".

The phrases between the two are in English by then (`languages`). Words that hedge or deny the value hold for its
digits.
"""

from __future__ import annotations

import re

from rstar.grading.find.hedges import is_hedged

_NUMBER = r"-?\d[\d,]*(?:\.\d+)?(?: ?/ ?\d+)?(?: ?\\?%)?"
_RESTATED = re.compile(
    r"(?P<words>[^\d$\\=.:;?]{3,60}),? (?:that is|i\.e\.|namely|in other words):?,?"
    rf" (?P<value>\$[^$]+\$|{_NUMBER})[\s.*!]*"
)
_DENIAL = re.compile(r"\b(?:not|never|no|nor|neither|or|wrong|false|if)\b|n't\b", re.IGNORECASE)
MAX_WORDS = 7


def restated_value(text: str) -> str | None:
    """The digits after a value in words, if nothing else follows; None for any other text."""
    match = _RESTATED.fullmatch(text)
    if match is None or len(match["words"].split()) > MAX_WORDS or _DENIAL.search(match["words"]):
        return None
    return None if is_hedged(match["words"], "") else match["value"]
