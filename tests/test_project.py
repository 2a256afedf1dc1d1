"""The project holds its own rules: lint, types, import contract, and a core that imports without torch."""

import subprocess
import sys
from pathlib import Path

import pytest

from rstar.evals.compare import read_entries

ROOT = Path(__file__).parents[1]


def check(*command: str) -> None:
    done = subprocess.run([sys.executable, "-m", *command], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]


def test_ruff_lint() -> None:
    check("ruff", "check", ".")


def test_ruff_format() -> None:
    check("ruff", "format", "--check", ".")


def test_types() -> None:
    check("mypy")


def test_import_contract() -> None:
    command = [str(Path(sys.executable).parent / "lint-imports")]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-4000:]
    assert "4 kept, 0 broken" in done.stdout


@pytest.mark.parametrize("module", ["rstar", "rstar.cli.app", "rstar.sandbox", "rstar.grading", "rstar.models.spec"])
def test_core_imports_without_torch(module: str) -> None:
    """Neither torch nor transformers is loaded, and their absence would not matter."""
    code = (
        "import sys\n"
        "for name in ('torch', 'transformers', 'tokenizers', 'safetensors'): sys.modules[name] = None\n"
        f"import {module}\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, cwd=ROOT)


def test_comparison_recipes_are_valid() -> None:
    for recipe in (ROOT / "recipes").rglob("compare*.toml"):
        assert read_entries(recipe, {})
