"""How many threads a model gets."""

import torch
from torch import nn

from rstar.models.device import SMALL, few_threads, useful_threads

CPU = torch.device("cpu")


def test_a_small_cpu_model_gets_one_thread() -> None:
    small, large = nn.Linear(4, 4), nn.Linear(SMALL, 1, device="meta")
    torch.set_num_threads(3)
    try:
        assert useful_threads(small, CPU) == 1
        assert useful_threads(large, CPU) == 3
        assert useful_threads(small, torch.device("cuda")) == 3
        with few_threads(small):
            assert torch.get_num_threads() == 1
        assert torch.get_num_threads() == 3
    finally:
        torch.set_num_threads(1)
