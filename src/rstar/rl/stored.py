"""The groups that a training has stored, in ``rollouts.jsonl``, read by step."""

from __future__ import annotations

import math
from collections import defaultdict

from rstar.errors import DataError
from rstar.jsonl import RecordFile, read_lines
from rstar.rl.groups import Group
from rstar.train.trackers import METRICS

ROLLOUTS = "rollouts.jsonl"


class StoredGroups:
    """The groups of a file of lines (`Group.to_json`).

    Args:
        lines: the file.

    Raises:
        DataError: the file is damaged.
    """

    def __init__(self, lines: RecordFile) -> None:
        self._lines = lines
        self._keys: dict[int, list[tuple[int, str]]] = defaultdict(list)  # step → draws and the keys of their lines
        try:
            for key in lines.keys:
                step, _, draw = key.partition("/")
                self._keys[int(step)].append((int(draw), key))
        except (AttributeError, ValueError) as error:
            raise self._damaged(error) from error

    def require(self, steps: int) -> None:
        """Raise `DataError` if one of the first `steps` steps has no groups, or was interrupted."""
        if missing := next((step for step in range(1, steps + 1) if step not in self._keys), None):
            raise DataError(f"{self._lines.file}: holds no rollouts of step {missing}; the recipe has {steps} steps")
        metrics = self._lines.file.parent / METRICS  # missing if only the rollouts were copied
        if metrics.is_file():
            finished = max((line["step"] for line in read_lines(metrics, "step")), default=0)
            if finished < steps:
                raise DataError(
                    f"{self._lines.file}: its run has finished {finished} steps, so later ones may lack rollouts; the "
                    f"recipe has {steps} steps"
                )

    def of(self, step: int, vocab_size: float = math.inf) -> list[Group]:
        """The groups of a step, in the order of their draws.

        Args:
            step: from 1.
            vocab_size: number of tokens that the model to train knows.

        Raises:
            DataError: a group is damaged, or has tokens that the model does not know.
        """
        try:
            keys = [key for _, key in sorted(self._keys.get(step, ()))]
            groups = [Group.from_json(line) for line in self._lines.read(keys)]
        except (LookupError, TypeError, AttributeError, ValueError) as error:
            raise self._damaged(error) from error
        highest = max((token for group in groups for one, _ in group.ends for token in one.ids), default=0)
        if highest >= vocab_size:
            raise DataError(
                f"{self._lines.file}: step {step}: token {highest}, but the policy knows {vocab_size:,}: the rollouts "
                "are those of another model"
            )
        return groups

    def _damaged(self, error: Exception) -> DataError:
        return DataError(f"{self._lines.file}: damaged, or written by another version: {error!r}")
