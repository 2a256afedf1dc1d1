"""The root of a jail: a mount namespace that holds only what the interpreter needs, read-only."""

from __future__ import annotations

import os

from rstar.sandbox.jail import kernel

SCRATCH = "/scratch/run"
"""Mount point of scratch folders. The Landlock rule names the folder above, because a rule for a folder that a mount
hides has no effect."""

DEVICES = ("/dev/null", "/dev/random", "/dev/urandom")
"""Devices of a jail; not /dev/zero, because no memory limit counts its shared maps."""


def build_root(paths: list[str]) -> None:
    """Pivot into a read-only root of `paths`, devices and a scratch mount point; needs a new mount namespace."""
    kernel.mount("none", "/", None, kernel.MS_REC | kernel.MS_PRIVATE)
    sources = [(path, os.open(path, os.O_PATH | os.O_CLOEXEC)) for path in (*paths, *DEVICES)]
    place = next(path for path in ("/tmp", "/mnt", "/dev") if os.path.isdir(path))
    mount_memory(place, "size=1m,mode=0755")
    os.makedirs(place + SCRATCH)
    for path, handle in sources:
        _bind_path(path, handle, place)
        os.close(handle)
    os.chmod(place, 0o755)
    kernel.make_readonly(place)
    kernel.pivot_root(place)


def mount_memory(folder: str, options: str) -> None:
    """Mount an empty file system in memory, without devices and set-user-id files, at `folder`."""
    kernel.mount("tmpfs", folder, "tmpfs", kernel.MS_NOSUID | kernel.MS_NODEV, options)


def _bind_path(path: str, handle: int, root: str) -> None:
    target = root + path
    os.makedirs(os.path.dirname(target), exist_ok=True)
    if os.path.islink(path):
        os.symlink(os.readlink(path), target)
        return
    if os.path.isdir(f"/proc/self/fd/{handle}"):
        os.makedirs(target, exist_ok=True)
    else:
        os.close(os.open(target, os.O_CREAT | os.O_WRONLY))
    kernel.mount(f"/proc/self/fd/{handle}", target, None, kernel.MS_BIND | kernel.MS_REC)
