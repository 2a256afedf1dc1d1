"""Files the interpreter needs: the jail admits them, and the parent sends the module search path to the zygote."""

from __future__ import annotations

import os
import sys
import sysconfig


def interpreter_paths() -> list[str]:
    """The files and folders this interpreter needs, outermost only, without executables."""
    found = {"/lib", "/lib64", "/usr/lib", "/usr/lib64", "/usr/share/zoneinfo", "/etc/ld.so.cache", "/etc/localtime"}
    found |= {os.path.join(prefix, "lib") for prefix in (sys.prefix, sys.base_prefix)}
    found |= {os.path.join(prefix, "lib64") for prefix in (sys.prefix, sys.base_prefix)}
    found |= set(sysconfig.get_paths().values()) & set(sys.path)
    found |= {path for path in sys.path if path.endswith(("-packages", ".zip"))}
    found |= {os.path.realpath(path) for path in found}
    existing = sorted(path for path in found if os.path.exists(path) and path != "/")
    return [path for path in existing if not any(path.startswith(f"{other}/") for other in existing)]


def search_path() -> list[str]:
    """Module search path of runs: the interpreter's own folders, none of a project's."""
    roots = interpreter_paths()
    return [path for path in sys.path if any(path == root or path.startswith(f"{root}/") for root in roots)]
