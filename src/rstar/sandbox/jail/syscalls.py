"""System call numbers on this architecture, and the allow-list for model-written code.

A call in none of the groups below fails with EPERM. A call above `NEWEST` fails with ENOSYS, as on an older kernel.
`filters` handles calls whose safety depends on an argument.
"""

from __future__ import annotations

import platform

NEWEST = 450
"""Highest call number reviewed for the groups below."""

# name, number on x86_64, number on aarch64 ("-": no such call)
_TABLE = """
read 0 63; write 1 64; open 2 -; openat 257 56; creat 85 -; close 3 57; stat 4 -; fstat 5 80; lstat 6 -
newfstatat 262 79; statx 332 291; statfs 137 43; fstatfs 138 44; lseek 8 62; pread64 17 67; pwrite64 18 68
readv 19 65; writev 20 66; preadv 295 69; pwritev 296 70; access 21 -; faccessat 269 48; faccessat2 439 439; dup 32 23
dup2 33 -; dup3 292 24; fcntl 72 25; flock 73 32; fsync 74 82; fdatasync 75 83; truncate 76 45; ftruncate 77 46
getdents 78 -; getdents64 217 61; getcwd 79 17; chdir 80 49; fchdir 81 50; rename 82 -; renameat 264 38
renameat2 316 276; mkdir 83 -; mkdirat 258 34; rmdir 84 -; unlink 87 -; unlinkat 263 35; link 86 -; linkat 265 37
symlink 88 -; symlinkat 266 36; readlink 89 -; readlinkat 267 78; umask 95 166; copy_file_range 326 285
sendfile 40 71; fallocate 285 47; fadvise64 221 223; close_range 436 436; pipe 22 -; pipe2 293 59; poll 7 -
ppoll 271 73; select 23 -; pselect6 270 72; epoll_create 213 -; epoll_create1 291 20; epoll_ctl 233 21
epoll_wait 232 -; epoll_pwait 281 22; epoll_pwait2 441 441; eventfd 284 -; eventfd2 290 19; ioctl 16 29
listxattr 194 11; llistxattr 195 12; flistxattr 196 13; getxattr 191 8; lgetxattr 192 9; fgetxattr 193 10; mmap 9 222
munmap 11 215; mremap 25 216; mprotect 10 226; madvise 28 233; brk 12 214; mincore 27 232; msync 26 227
membarrier 324 283; rt_sigaction 13 134; rt_sigprocmask 14 135; rt_sigreturn 15 139; rt_sigpending 127 136
rt_sigtimedwait 128 137; rt_sigsuspend 130 133; sigaltstack 131 132; pause 34 -; alarm 37 -; setitimer 38 103
getitimer 36 102; restart_syscall 219 128; clock_gettime 228 113; clock_getres 229 114; clock_nanosleep 230 115
nanosleep 35 101; gettimeofday 96 169; time 201 -; times 100 153; getrusage 98 165; sched_yield 24 124
sched_getaffinity 204 123; sched_getparam 143 121; sched_getscheduler 145 120; sched_get_priority_max 146 125
sched_get_priority_min 147 126; getpriority 140 141; getcpu 309 168; getpid 39 172; gettid 186 178; getppid 110 173
getuid 102 174; geteuid 107 175; getgid 104 176; getegid 108 177; getresuid 118 148; getresgid 120 150; getpgrp 111 -
getpgid 121 155; getsid 124 156; getgroups 115 158; uname 63 160; sysinfo 99 179; getrlimit 97 163; prlimit64 302 261
capget 125 90; getrandom 318 278; set_tid_address 218 96; set_robust_list 273 99; get_robust_list 274 100
rseq 334 293; futex 202 98; futex_waitv 449 449; exit 60 93; exit_group 231 94; clone 56 220; wait4 61 260
waitid 247 95; prctl 157 167; socketpair 53 199; sendto 44 206; recvfrom 45 207; sendmsg 46 211; recvmsg 47 212
shutdown 48 210; getsockname 51 204; getpeername 52 205; getsockopt 55 209; setsockopt 54 208; chmod 90 -
fchmod 91 52; fchmodat 268 53; utime 132 -; utimes 235 -; utimensat 280 88; futimesat 261 -; clone3 435 435
execve 59 221; execveat 322 281; fork 57 -; vfork 58 -; kill 62 129; tkill 200 130; tgkill 234 131; arch_prctl 158 -
setpgid 109 154; seccomp 317 277; unshare 272 97; capset 126 91; pivot_root 155 41; mount_setattr 442 442
open_tree 428 428; landlock_create_ruleset 444 444; landlock_add_rule 445 445; landlock_restrict_self 446 446
"""

_COLUMN = {"x86_64": 1, "aarch64": 2}.get(platform.machine(), 0)

NUMBERS: dict[str, int] = {
    entry[0]: int(entry[_COLUMN])
    for entry in (text.split() for text in _TABLE.replace("\n", ";").split(";") if text.strip())
    if _COLUMN and entry[_COLUMN] != "-"
}
"""Numbers on this architecture; empty if it is unsupported."""


def _names(text: str) -> list[str]:
    return text.split()


FILES = _names("""
read write open openat creat close stat fstat lstat newfstatat statx statfs fstatfs lseek pread64 pwrite64 readv writev
preadv pwritev access faccessat faccessat2 dup dup2 dup3 fsync fdatasync truncate ftruncate getdents getdents64
getcwd chdir fchdir rename renameat renameat2 mkdir mkdirat rmdir unlink unlinkat link linkat symlink symlinkat readlink
readlinkat umask copy_file_range sendfile fallocate fadvise64 close_range poll ppoll select pselect6
epoll_create epoll_create1 epoll_ctl epoll_wait epoll_pwait epoll_pwait2 eventfd eventfd2
listxattr llistxattr flistxattr getxattr lgetxattr fgetxattr
""")
"""Landlock and the mount namespace decide which files are reachable."""

MEMORY = _names("mmap munmap mremap mprotect madvise brk mincore msync membarrier")
"""Not memfd_create or shmget: RLIMIT_AS does not count their pages until they are mapped."""

SIGNALS = _names("""
rt_sigaction rt_sigprocmask rt_sigreturn rt_sigpending rt_sigtimedwait rt_sigsuspend sigaltstack pause alarm setitimer
getitimer restart_syscall
""")
"""Receiving only. Sending (kill etc.) is denied even to oneself: a filter cannot tell whose pid it sees."""

TIME = _names("clock_gettime clock_getres clock_nanosleep nanosleep gettimeofday time times getrusage")

PROCESS = _names("""
getpid gettid getppid getuid geteuid getgid getegid getresuid getresgid getpgrp getpgid getsid getgroups uname sysinfo
getrlimit capget getrandom set_tid_address set_robust_list get_robust_list rseq futex futex_waitv exit exit_group wait4
waitid sched_yield sched_getaffinity sched_getparam sched_getscheduler sched_get_priority_max sched_get_priority_min
getpriority getcpu
""")

SOCKETS = _names("recvfrom recvmsg shutdown getsockname getpeername getsockopt")
"""For socket pairs, inherited or created by the process (asyncio does); `socket` is denied. Not sendmsg: it can send
descriptors, and the kernel limits those in flight per user. Not setsockopt: it can enlarge buffers."""

METADATA = _names("chmod fchmod fchmodat utime utimes utimensat futimesat")
"""Only with a mount namespace, where all but the scratch folder is read-only: Landlock does not cover these calls."""

PROGRAMS = _names("execve execveat fork vfork arch_prctl setpgid pipe pipe2")
"""For runs that start other programs. Only these get pipes: the kernel limits pipe buffers per user, so a run with many
pipes would leave other runs with small ones."""

SENDING = _names("kill tkill tgkill")
"""For the same runs, in a PID namespace, which hides all other processes."""

ALLOWED = [*FILES, *MEMORY, *SIGNALS, *TIME, *PROCESS, *SOCKETS]
