"""What the kernel does to hold a run: namespaces, Landlock, seccomp, limits."""
