"""The scratch folders of a keeper's runs: created, compared and removed.

With a mount namespace each folder is a file system of its own, and read-only while its state is at rest. Without one
the folders are on a shared disk, and a step can write to those of the steps before it, whose paths it knows.
"""

from __future__ import annotations

import os
import time
from collections.abc import Container

from rstar.sandbox.api import Limits
from rstar.sandbox.folders import fingerprint, remove_tree
from rstar.sandbox.jail.isolation import Jail
from rstar.sandbox.keeper.processes import Run

_REMOVED_AT_ONCE, _REMOVAL_SECONDS = 500, 60.0
"""Files removed between two looks at messages, which takes milliseconds, and how long a removal is tried."""


class Scratch:
    """Removes folders a little at a time, so that no run can hold up the others.

    A folder is removed once the process of its run is dead. Processes that this one has started may be a little behind
    it and still add files. So the removal is tried until it succeeds, or for `_REMOVAL_SECONDS`; what is left then goes
    when the sandbox closes.

    Args:
        jail: the jail the keeper is in.
        folder: parent of the folders.
        holds_tree: the runs are the states of one tree.

    Attributes:
        removing: for each folder that is to be removed, the process whose death is awaited, and when to give up.
    """

    def __init__(self, jail: Jail, folder: str, *, holds_tree: bool) -> None:
        self._jail, self._folder, self._holds_tree = jail, folder, holds_tree
        self.removing: dict[str, tuple[int, float]] = {}
        self._ended: set[str] = set()

    def make(self, name: str, limits: Limits) -> str:
        """Create the folder of a run. Returns its path."""
        if self._jail.namespaces:
            return self._jail.add_folder(name, limits.scratch)
        folder = f"{self._folder}/{name}"
        os.mkdir(folder, 0o700)
        return folder

    def of_tree(self, number: int) -> str:
        """The parent of the folders of a tree, which its keeper creates."""
        return self._folder if self._jail.namespaces else f"{self._folder}/tree{number}"

    def is_changed(self, state: Run) -> bool:
        """Whether another run has changed the folder of a state at rest."""
        return not self._jail.namespaces and fingerprint(state.folder) != state.fingerprint

    def remove(self, folder: str, pid: int = 0) -> None:
        """Remove the folder of a run after the death of its process."""
        if not self._jail.namespaces:
            self.removing.setdefault(folder, (pid, time.monotonic() + _REMOVAL_SECONDS))
            if self._holds_tree:
                self._ended.add(folder)
        elif self._holds_tree:
            self._jail.remove_folder(folder)

    def remove_tree(self, number: int, pid: int) -> None:
        """Remove the folders of a tree after the death of its keeper."""
        if not self._jail.namespaces:
            self.remove(self.of_tree(number), pid)

    def remove_again(self) -> None:
        """Remove what has the name of an ended run's folder: its files count for no run."""
        for folder in self._ended.intersection(f"{self._folder}/{name}" for name in os.listdir(self._folder)):
            self.remove(folder)

    def go_on(self, dying: Container[int]) -> None:
        """Remove a part of the next folder whose process is not among the `dying`."""
        for folder, (pid, end) in list(self.removing.items()):
            if pid not in dying:
                del self.removing[folder]
                if not remove_tree(folder, _REMOVED_AT_ONCE) and time.monotonic() < end:
                    self.removing[folder] = pid, end  # now the last
                return
