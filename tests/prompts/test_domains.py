import contextlib
import io
from pathlib import Path

import pytest

from rstar.errors import ConfigError
from rstar.grading import is_equivalent
from rstar.grading.find.extract import answer_of
from rstar.prompts.code_steps import ASSISTANT, USER, code_of
from rstar.prompts.domains import FILES, bundled_domains, open_domain
from rstar.search.actions import opening, style_of


def domain_folder(folder: Path) -> Path:
    folder.mkdir()
    (folder / "domain.toml").write_text('about = "Tests."\ncode = false\n')
    openings = {
        "question": "Question 1:",
        "reanswer": "Answer 1: Let's think step by step.",
        "rephrase": "Conditions: 1.",
    }
    for file in set(FILES.values()):
        solution = f"{openings.get(file, 'Step 1:')} That. It is 1."
        text = f'instruction = "Do {file}."\n[[example]]\nquestion = "How much?"\nsolution = "{solution}"\n'
        (folder / f"{file}.toml").write_text(text)
    return folder


def test_bundled_domains() -> None:
    assert bundled_domains() == ["competition", "programs", "word-problems", "yes-no"]


@pytest.mark.parametrize("name", bundled_domains())
def test_examples_are_written_as_the_search_asks(name: str) -> None:
    """Each worked example contains the openings of its action, in the form in which the search inserts them."""
    domain = open_domain(name)
    style = style_of(domain, 1)
    for action, examples in domain.examples.items():
        assert examples.instruction.strip()
        assert examples.worked, "an example says more than an instruction"
        for question, solution in examples.worked:
            first = opening(style, action, "" if action != "reanswer" else "Question 1: x\n")
            assert USER not in question
            if action == "reanswer" and not domain.code:
                last = solution.splitlines()[-1]
                asked = "\n".join(solution.splitlines()[:-1])
                assert last.startswith(opening(style, action, f"{asked}\n")), "the last answer is the new one"
            else:
                assert solution.startswith(first) or (action == "reanswer" and first in solution)


@pytest.mark.parametrize("name", bundled_domains())
@pytest.mark.parametrize("action", ["step", "question"])
def test_worked_solutions_are_consistent(name: str, action: str) -> None:
    """Examples of the same question give the same answer, whatever the action; code prints what is boxed."""
    answers: dict[str, str] = {}
    domain = open_domain(name)
    for other in ("step", "question"):
        for question, solution in domain.examples[other].worked:
            answer = answer_of(solution)
            assert answer is not None
            assert is_equivalent(answers.setdefault(question, answer), answer)
            if domain.code:
                printed = io.StringIO()
                with contextlib.redirect_stdout(printed):
                    exec(code_of(solution.partition("<output>")[0]), {})  # our own example
                assert printed.getvalue().strip() == answer


def test_prompt() -> None:
    domain = open_domain("word-problems")
    bare = f"{USER}\nHow much?\n{ASSISTANT}\n"
    assert domain.prompt("step", "How much?", 0) == bare
    shown = domain.prompt("step", "How much?", 2)
    assert shown.startswith("Solve the problem step by step.")
    assert shown.endswith(f"\n\n{bare}")
    assert shown.count(USER) == 3
    assert domain.prompt("finish", "How much?", 2) == shown, "one cached prefix for both"
    assert domain.prompt("step", "How much?", 99).count(USER) == len(domain.examples["step"].worked) + 1


def test_own_domain(tmp_path: Path) -> None:
    folder = domain_folder(tmp_path / "mine")
    assert "Do question." in open_domain(str(folder)).prompt("question", "How?", 1)


@pytest.mark.parametrize(
    ("file", "text", "message"),
    [
        ("domain.toml", 'about = "x"\n', "domain.toml: the key 'code' is missing"),
        ("domain.toml", 'about = "x"\ncode = "no"\n', "code: expected true or false"),
        ("domain.toml", 'about = "x"\ncode = true\nshots = 2\n', "unknown key 'shots'"),
        ("step.toml", 'instruction = "x"\nexample = []\n', "step.toml: example: expected at least one"),
        ("question.toml", 'instruction = ""\n[[example]]\n', "question.toml: instruction: expected a text"),
        ("rephrase.toml", 'instruction = "x"\n[[example]]\nquestion = "q"\n', "rephrase.toml, example 1: the key 'sol"),
        ("reanswer.toml", "instruction = ", "reanswer.toml: not valid TOML"),
    ],
)
def test_malformed_domain_names_the_file(tmp_path: Path, file: str, text: str, message: str) -> None:
    folder = domain_folder(tmp_path / "mine")
    (folder / file).write_text(text)
    with pytest.raises(ConfigError, match="mine/") as caught:
        open_domain(str(folder))
    assert message in str(caught.value)


def test_missing(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="not one of competition, programs, word-problems, yes-no"):
        open_domain("poetry")
    folder = domain_folder(tmp_path / "mine")
    (folder / "rephrase.toml").unlink()
    with pytest.raises(ConfigError, match=r"rephrase\.toml: the domain has no prompts"):
        open_domain(str(folder))


def test_the_digest_is_that_of_the_prompts(tmp_path: Path) -> None:
    """Not of the folder's name, of comments or of actions that are off; every prompt counts."""
    folder = domain_folder(tmp_path / "mine")
    other = domain_folder(tmp_path / "other")
    whole, some = open_domain(str(folder)).digest(), open_domain(str(folder), ("step",)).digest()
    assert open_domain(str(other)).digest() == whole != some
    (other / "rephrase.toml").write_text((other / "rephrase.toml").read_text().replace("Do", "Please do"))
    assert open_domain(str(other), ("step",)).digest() == some
    assert open_domain(str(other)).digest() != whole
    (folder / "step.toml").write_text("# my own\n" + (folder / "step.toml").read_text())
    assert open_domain(str(folder)).digest() == whole
    (folder / "step.toml").write_text((folder / "step.toml").read_text().replace("It is 1", "It is 2"))
    assert open_domain(str(folder), ("step",)).digest() != some
