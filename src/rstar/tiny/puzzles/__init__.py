"""Search problems over numbers, boards, grids, choices and walks."""
