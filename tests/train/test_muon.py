"""Our Muon is torch's."""

import pytest
import torch
from torch import nn

from rstar.train.muon import Muon, newton_schulz


@pytest.mark.parametrize("shape", [(8, 24), (24, 8), (5, 5)])
def test_it_is_the_muon_of_torch(shape: tuple[int, int]) -> None:
    draw = torch.Generator().manual_seed(1)
    start = torch.randn(shape, generator=draw)
    ours, theirs = nn.Parameter(start.clone()), nn.Parameter(start.clone())
    unused = nn.Parameter(start.clone())
    mine = Muon([ours, unused], lr=0.1, momentum=0.9, weight_decay=0.05)
    reference = torch.optim.Muon([theirs], lr=0.1, momentum=0.9, weight_decay=0.05)
    for _ in range(5):
        gradient = torch.randn(shape, generator=draw)
        for parameter, optimizer in ((ours, mine), (theirs, reference)):
            parameter.grad = gradient.clone()
            optimizer.step()
    assert torch.equal(ours, theirs)
    assert torch.equal(unused, start)


def test_singular_values_become_about_one() -> None:
    matrix = torch.randn(20, 50, generator=torch.Generator().manual_seed(2))
    values = torch.linalg.svdvals(newton_schulz(matrix))
    assert values.min() > 0.5
    assert values.max() < 1.5
