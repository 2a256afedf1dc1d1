"""Turns: what a model wrote is a call, an answer or nothing, in both styles."""

from pathlib import Path

from rstar.agent.calls import BadCall, Call
from rstar.agent.chat_template import ChatTemplate
from rstar.agent.tools import NOTEBOOK, PYTHON_TOOLS, Tool
from rstar.agent.turns import ChatTurns, CodeTurns, Turn
from rstar.models.engine import Completion

CHAT = ChatTurns(ChatTemplate((Path(__file__).parent / "templates/qwen.jinja").read_text(), {}))


def code(text: str, stop: str | None) -> Turn:
    return CodeTurns().read(Completion(text, (), (), "stop" if stop else "eos", stop))


def chat(text: str) -> Turn:
    return CHAT.read(Completion(text, (), (), "eos"))


def test_code_turns_read_cells_and_answers() -> None:
    assert code("<code>\nx = 1\n<end_of_code>", "<end_of_code>") == Turn((Call(NOTEBOOK.name, {"code": "x = 1"}),))
    assert code("<answer>\\boxed{\\frac{1}{2}}<end_of_answer>", "<end_of_answer>") == Turn(
        final="<answer>\\boxed{\\frac{1}{2}}<end_of_answer>"
    )
    assert code("<answer>seven<end_of_answer>", "<end_of_answer>") == Turn(final="<answer>seven<end_of_answer>")
    assert code("\\boxed{5}", None) == Turn()


def test_a_cell_without_its_beginning_is_a_bad_call() -> None:
    for text in ("x = 1<end_of_code>", "so <code>x = 1<end_of_code>"):
        (call,) = code(text, "<end_of_code>").calls
        assert isinstance(call, BadCall)


def test_cells_hold_calls_of_tools_other_than_python() -> None:
    turns = CodeTurns((Tool("look", "", {"place": "where", "how": "how"}), Tool("rest", "", {})))
    assert (
        turns.prompt("Where?", "", ())
        == "<|user|>:\nWhere?\n<|assistant|>: Let's try it with look(place, how), rest().\n"
    )
    cell = Completion('<code>\nlook("here", how="long")\nrest()\n<end_of_code>', (), (), "stop", "<end_of_code>")
    assert turns.read(cell) == Turn((Call("look", {"place": "here", "how": "long"}), Call("rest", {})))


def test_beside_the_notebook_a_cell_of_another_tool_holds_nothing_else() -> None:
    turns = CodeTurns((NOTEBOOK, Tool("undo", "", {})))

    def read(cell: str) -> Turn:
        return turns.read(Completion(f"<code>\n{cell}\n<end_of_code>", (), (), "stop", "<end_of_code>"))

    assert turns.prompt("Where?", "", ()).endswith("Let's try it in a notebook.\n")
    assert read("undo()") == Turn((Call("undo", {}),))
    assert read("x = undo()") == Turn((Call(NOTEBOOK.name, {"code": "x = undo()"}),))
    undone, other = read("undo()\nx = 1").calls
    assert undone == Call("undo", {})
    assert isinstance(other, BadCall)


def test_code_turns_show_outputs_between_turns() -> None:
    turns = CodeTurns()
    assert turns.responses(["4"]) == "\n<output>4<end_of_output>\n"
    assert turns.prompt("How much?", "be kind", PYTHON_TOOLS).startswith("<|user|>:\nHow much?\n<|assistant|>:")
    assert turns.message("And now?").startswith("\n<|user|>:\nAnd now?\n")


def test_chat_turns_read_calls_before_answers() -> None:
    call = '<tool_call>{"name": "f", "arguments": {}}</tool_call>'
    assert chat(f"I guess \\boxed{{3}}, let me check. {call}") == Turn((Call("f", {}),))
    assert chat("<answer>\\boxed{3}</answer>") == Turn(final="<answer>\\boxed{3}</answer>")
    assert chat("I do not know") == Turn(final="I do not know")


def test_thoughts_are_neither_calls_nor_answers() -> None:
    call = '<tool_call>{"name": "f"}</tool_call>'
    assert chat(f"<think>{call} or \\boxed{{1}}</think>\\boxed{{2}}") == Turn(final="\\boxed{2}")
    assert chat(f"<think>maybe \\boxed{{1}} {call}") == Turn(), "a thought that does not end"
    prints = '<tool_call>{"name": "f", "arguments": {"code": "print(\'</think>\')"}}</tool_call>'
    assert chat(prints) == Turn((Call("f", {"code": "print('</think>')"}),))


def test_a_template_may_open_the_thought() -> None:
    source = (Path(__file__).parent / "templates/qwen.jinja").read_text()
    opening = ChatTurns(ChatTemplate(source + "{% if add_generation_prompt %}{{ '<think>\n' }}{% endif %}", {}))
    assert opening.read(Completion("maybe \\boxed{1}</think>\\boxed{2}", (), (), "eos")).final == "\\boxed{2}"
    assert opening.read(Completion("maybe \\boxed{1}", (), (), "eos")) == Turn()


def test_chat_prompts_show_every_tool() -> None:
    prompt = CHAT.prompt("q", "", PYTHON_TOOLS)
    assert all(f'"name": "{tool.name}"' in prompt for tool in PYTHON_TOOLS)
