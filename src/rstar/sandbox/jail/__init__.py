"""Kernel mechanisms that confine a run: namespaces, Landlock, seccomp, rlimits."""
