"""``rstar models``: what is printed about a server."""

import shlex
from typing import Any

import pytest
from typer.testing import CliRunner

from rstar.cli.app import app
from rstar.errors import ConfigError
from rstar.specs import Server, parse_model
from tests.models.chat_servers import chat_server, counter
from tests.models.completion_servers import choices, serving


def test_the_printed_name_can_be_pasted_into_a_shell() -> None:
    with serving(chat_server(counter), {"data": [{"id": "m"}]}) as server:
        done = CliRunner().invoke(app, ["models", "check", f"openai:{server.url}#m"], env={"COLUMNS": "500"})
    assert done.exit_code == 0, done.output
    (advice,) = (line for line in done.output.splitlines() if line.startswith("use "))
    words = shlex.split(advice)
    assert not {"&", "?"} & set(advice.replace(shlex.quote(words[1]), "")), "what a shell would read is quoted"
    assert parse_model(words[1]) == Server(server.url, "m", api="chat", continues="no")


def test_a_server_that_no_search_works_with() -> None:
    def whole(body: dict[str, Any]) -> Any:
        return choices({"text": "b"})

    with serving(whole, {"data": [{"id": "m"}]}) as server:
        done = CliRunner().invoke(app, ["models", "check", f"openai:{server.url}#m"], env={"COLUMNS": "500"})
    assert done.exit_code == 1
    assert "neither streams nor says which stop string ended a text" in done.output
    assert "use " not in done.output


@pytest.mark.parametrize("command", [["check"], ["export", "--out", "x"]])
def test_a_malformed_name_is_named_without_a_setting(command: list[str]) -> None:
    done = CliRunner().invoke(app, ["models", *command, "openai:foo"])
    assert isinstance(done.exception, ConfigError)
    assert "expected openai:URL#MODEL" in str(done.exception)
    assert "policy" not in str(done.exception)
