"""One thread for torch in this room's tests: the models are tiny, and the tests may run beside other work."""

from __future__ import annotations

import pytest
import torch


@pytest.fixture(autouse=True, scope="session")
def _one_thread() -> None:
    torch.set_num_threads(1)
