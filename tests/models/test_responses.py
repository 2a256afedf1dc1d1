"""What servers return, as samples."""

import pytest

from rstar.errors import EngineError
from rstar.models.responses import samples_of


@pytest.mark.parametrize(
    "choice",
    [
        {"text": "Seven."},
        {"message": {"content": "Seven."}},
        {"delta": {"content": "Seven."}},
        {"message": {"content": [{"type": "text", "text": "Sev"}, {"type": "image"}, {"type": "text", "text": "en."}]}},
    ],
)
def test_text_is_found_in_every_form(choice: dict[str, object]) -> None:
    (sample,) = samples_of("server", {"choices": [choice]})
    assert sample.text == "Seven."


def test_parts_of_another_kind_are_malformed() -> None:
    with pytest.raises(EngineError, match="malformed completion choice"):
        samples_of("server", {"choices": [{"message": {"content": ["Seven."]}}]})
