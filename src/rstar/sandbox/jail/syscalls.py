"""System call numbers on this architecture, and the allow-list for model-written code.

A call in none of the groups below fails with EPERM. A call above `NEWEST` fails with ENOSYS, as on an older kernel.
`seccomp` handles calls whose safety depends on an argument.
"""

from __future__ import annotations

import platform

NEWEST = 450
"""Highest call number reviewed for the groups below."""

_COLUMN = {"x86_64": 1, "aarch64": 2}.get(platform.machine(), 0)


def _numbers(table: str) -> dict[str, int]:
    """Numbers on this architecture; empty if it is unsupported.

    An entry has a name, the number on x86_64 and the number on aarch64 ("-": no such call).
    """
    entries = [entry.split() for entry in table.replace("\n", ";").split(";") if entry.strip()]
    return {entry[0]: int(entry[_COLUMN]) for entry in entries if _COLUMN and entry[_COLUMN] != "-"}


FILES = _numbers("""
read 0 63; write 1 64; open 2 -; openat 257 56; creat 85 -; close 3 57; stat 4 -; fstat 5 80; lstat 6 -
newfstatat 262 79; statx 332 291; statfs 137 43; fstatfs 138 44; lseek 8 62; pread64 17 67; pwrite64 18 68
readv 19 65; writev 20 66; preadv 295 69; pwritev 296 70; access 21 -; faccessat 269 48; faccessat2 439 439; dup 32 23
dup2 33 -; dup3 292 24; fsync 74 82; fdatasync 75 83; truncate 76 45; ftruncate 77 46; getdents 78 -
getdents64 217 61; getcwd 79 17; chdir 80 49; fchdir 81 50; rename 82 -; renameat 264 38; renameat2 316 276
mkdir 83 -; mkdirat 258 34; rmdir 84 -; unlink 87 -; unlinkat 263 35; link 86 -; linkat 265 37; symlink 88 -
symlinkat 266 36; readlink 89 -; readlinkat 267 78; umask 95 166
fadvise64 221 223; close_range 436 436; poll 7 -; ppoll 271 73; select 23 -; pselect6 270 72
epoll_create 213 -; epoll_create1 291 20; epoll_ctl 233 21; epoll_wait 232 -; epoll_pwait 281 22; epoll_pwait2 441 441
eventfd 284 -; eventfd2 290 19; listxattr 194 11; llistxattr 195 12; flistxattr 196 13; getxattr 191 8
lgetxattr 192 9; fgetxattr 193 10
""")
"""Landlock and the mount namespace decide which files are reachable."""

MEMORY = _numbers("""
mmap 9 222; munmap 11 215; mremap 25 216; mprotect 10 226; madvise 28 233; brk 12 214; mincore 27 232; msync 26 227
membarrier 324 283
""")
"""Not memfd_create or shmget: RLIMIT_AS does not count their pages until they are mapped."""

SIGNALS = _numbers("""
rt_sigaction 13 134; rt_sigprocmask 14 135; rt_sigreturn 15 139; rt_sigpending 127 136; rt_sigtimedwait 128 137
rt_sigsuspend 130 133; sigaltstack 131 132; pause 34 -; alarm 37 -; setitimer 38 103; getitimer 36 102
restart_syscall 219 128
""")
"""Receiving only. Sending (kill etc.) is denied even to oneself: a filter cannot tell whose pid it sees."""

TIME = _numbers("""
nanosleep 35 101; gettimeofday 96 169; time 201 -; times 100 153; getrusage 98 165
""")

PROCESS = _numbers("""
getpid 39 172; gettid 186 178; getppid 110 173; getuid 102 174; geteuid 107 175; getgid 104 176; getegid 108 177
getresuid 118 148; getresgid 120 150; getpgrp 111 -; getpgid 121 155; getsid 124 156; getgroups 115 158; uname 63 160
sysinfo 99 179; getrlimit 97 163; capget 125 90; getrandom 318 278; set_tid_address 218 96; set_robust_list 273 99
get_robust_list 274 100; rseq 334 293; exit 60 93; exit_group 231 94; wait4 61 260
waitid 247 95; sched_yield 24 124; sched_getaffinity 204 123; sched_getparam 143 121; sched_getscheduler 145 120
sched_get_priority_max 146 125; sched_get_priority_min 147 126; getpriority 140 141; getcpu 309 168
""")

SOCKETS = _numbers("""
recvfrom 45 207; recvmsg 47 212; shutdown 48 210; getsockname 51 204; getpeername 52 205; getsockopt 55 209
""")
"""For socket pairs, inherited or created by the process (asyncio does); `socket` is denied. Not sendmsg: it can send
descriptors, and the kernel limits those in flight per user. Not setsockopt: it can enlarge buffers."""

SPACE = _numbers("fallocate 285 47")
"""Only with a mount namespace, where the scratch folder is a file system of limited size: elsewhere it could take any
space at once, unseen by the file's size."""

COPYING = _numbers("copy_file_range 326 285; sendfile 40 71")
"""Refused as if the files did not support it; libraries then read and write. The kernel copies through a hidden pipe
that each thread keeps, and it limits pipe buffers per user."""

METADATA = _numbers("""
chmod 90 -; fchmod 91 52; fchmodat 268 53; utime 132 -; utimes 235 -; utimensat 280 88; futimesat 261 -
""")
"""Only with a mount namespace, where all but the scratch folder is read-only: Landlock does not cover these calls."""

PROGRAMS = _numbers("""
execve 59 221; execveat 322 281; fork 57 -; vfork 58 -; arch_prctl 158 -; pipe 22 -; pipe2 293 59
""")
"""For runs that start other programs. Not setpgid: such a run is one process group, and its priority is that of the
group. Only these runs get pipes, and few (`PipeQuota`): the kernel limits pipe buffers per user, so a run with many
pipes would leave other runs with small ones."""

SENDING = _numbers("kill 62 129; tkill 200 130; tgkill 234 131")
"""For the same runs, in a PID namespace, which hides all other processes."""

ALLOWED = FILES | MEMORY | SIGNALS | TIME | PROCESS | SOCKETS

_GUARDED = _numbers("""
fcntl 72 25; flock 73 32; ioctl 16 29; socketpair 53 199; sendto 44 206; clone 56 220; clone3 435 435
prlimit64 302 261; prctl 157 167; futex 202 98; clock_gettime 228 113; clock_getres 229 114; clock_nanosleep 230 115
""")
"""Decided by their arguments (`seccomp`)."""

_TRUSTED = _numbers("""
sendmsg 46 211; setsockopt 54 208; seccomp 317 277; unshare 272 97; capset 126 91; pivot_root 155 41
mount_setattr 442 442; open_tree 428 428; landlock_create_ruleset 444 444; landlock_add_rule 445 445
landlock_restrict_self 446 446; futex_waitv 449 449; kcmp 312 272
""")
"""Denied to runs; the sandbox makes them itself, or its tests try them."""

NUMBERS = ALLOWED | METADATA | SPACE | COPYING | PROGRAMS | SENDING | _GUARDED | _TRUSTED
"""All known numbers."""
