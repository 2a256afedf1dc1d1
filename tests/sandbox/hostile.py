"""Snippets that attack the sandbox, each with the outcomes that count as contained.

A case is headed by a line ``## name: statuses; says TEXT; seconds N; lasts``. Any status in the list will do ("any" for
all, "ends" for ok or error), stdout must contain TEXT, and the wall limit is N (20 by default). What ``lasts`` never
ends by itself, but a step that leaves it behind is over and frozen, so there "ok" is fine. A snippet prints LEAK when
it got what it should not; no run may ever print that. ``refused: ACTION`` and ``syscall: CALL`` are short for an action
that must raise an exception and for a raw call (numbers of x86_64) that must fail.
"""

from __future__ import annotations

from dataclasses import dataclass

ANY = frozenset({"ok", "error", "timeout", "memory", "killed", "output_limit"})
ENDS = frozenset({"ok", "error"})


@dataclass(frozen=True)
class Case:
    """See above."""

    name: str
    code: str
    expect: frozenset[str]
    says: str = ""
    seconds: float = 20.0
    lasts: bool = False


def parse(text: str) -> list[Case]:
    """The cases in `text`."""
    cases = []
    for block in text.split("\n## ")[1:]:
        head, _, code = block.partition("\n")
        name, _, rest = head.partition(": ")
        statuses, *options = rest.split("; ")
        settings = {key: value for key, _, value in (option.partition(" ") for option in options)}
        expect = {"any": ANY, "ends": ENDS}.get(statuses) or frozenset(statuses.split())
        seconds = float(settings.get("seconds", 20))
        cases.append(Case(name, expand(code), expect, settings.get("says", ""), seconds, "lasts" in settings))
    return cases


def expand(code: str) -> str:
    """A snippet with its short forms written out."""
    before, _, action = code.rpartition("refused: ")
    if action != code:
        lines = f"try:\n    {action.strip()}\nexcept (OSError, ValueError) as error:\n    print('refused', error)\n"
        return f"{before}{lines}else:\n    print('LEAK')\n"
    before, _, call = code.rpartition("syscall: ")
    if call != code:
        return f"{LIBC}{before}result = {call.strip()}\nprint('refused' if result < 0 else 'LEAK')\n"
    return code


LIBC = "import ctypes, os\nlibc = ctypes.CDLL(None, use_errno=True)\n"

# making processes, running programs
PROCESSES = r"""
## fork: ends; says refused
import os
refused: os.fork()

## vfork: ends; says refused
import subprocess
refused: subprocess.run(['/bin/sh', '-c', 'echo LEAK'])

## exec shell: ends; says refused
import os
refused: os.execv('/bin/sh', ['sh', '-c', 'echo LEAK'])

## exec python: ends; says refused
import os, sys
refused: os.execv(sys.executable, ['python', '-c', 'print(0)'])

## spawn: ends; says refused
import os
refused: os.posix_spawn('/bin/true', ['true'], {})

## pty fork: ends; says refused
import pty
refused: pty.fork()

## setsid orphan: ends; says refused
import os
refused: os.fork() or (os.setsid(), os.fork())

## fork bomb: ends; says forks 0
import os
n = 0
for _ in range(1000):
    try:
        os.fork()
        n += 1
    except OSError:
        pass
print('forks', n)

## multiprocessing: ends
import multiprocessing
multiprocessing.get_context('fork').Process(target=print, args=('LEAK',)).start()

## thread bomb: any; seconds 5
import threading, time
threading.stack_size(65536)
n = 0
try:
    while True:
        threading.Thread(target=time.sleep, args=(9,), daemon=True).start()
        n += 1
except RuntimeError:
    print('threads', n < 2000)

## clone with new user namespace: ends; says refused
syscall: libc.syscall(56, 0x10000000 | 17, 0, 0, 0, 0)

## clone3: ends; says refused
syscall: libc.syscall(435, ctypes.create_string_buffer(88), 88)

## unshare: ends; says refused
syscall: libc.unshare(0x10000000)

## setns: ends; says refused
syscall: libc.setns(0, 0)

## chroot: ends; says refused
syscall: libc.chroot(b'/')

## mount: ends; says refused
syscall: libc.mount(b'none', b'/', b'tmpfs', 0, None)

## umount: ends; says refused
syscall: libc.umount2(b'/scratch', 2)

## pivot_root: ends; says refused
syscall: libc.syscall(155, b'/', b'/')

## memfd_create and fexecve: ends; says refused
syscall: libc.memfd_create(b'x', 0)

## 32-bit personality: ends; says refused
syscall: libc.personality(8)
"""

# reaching other processes
SIGNALS = r"""
## kill init: ends; says refused
import os
refused: os.kill(1, 9)

## kill all: ends; says refused
import os
refused: os.kill(-1, 9)

## kill own group: ends; says refused
import os
refused: os.killpg(0, 9)

## stop itself: ends; says refused
import os, signal
refused: os.kill(os.getpid(), signal.SIGSTOP)

## stop parent: ends; says refused
import os, signal
refused: os.kill(os.getppid(), signal.SIGSTOP)

## tgkill: ends; says refused
syscall: libc.syscall(234, 1, 1, 9)

## ptrace: ends; says refused
syscall: libc.ptrace(16, 1, 0, 0)

## process_vm_readv: ends; says refused
syscall: libc.syscall(310, 1, 0, 0, 0, 0, 0)

## pidfd_open: ends; says refused
syscall: libc.syscall(434, 1, 0)

## pidfd_getfd: ends; says refused
syscall: libc.syscall(438, 0, 0, 0)

## owner of a descriptor: ends; says refused
import fcntl, socket
r, w = socket.socketpair()
try:
    fcntl.fcntl(r, fcntl.F_SETOWN, 1)
except OSError:
    print('refused')
else:
    print('LEAK')

## ignores signals: timeout; seconds 0.4
import signal
for s in (2, 15, 24):
    signal.signal(s, signal.SIG_IGN)
while True: pass

## alarm games: timeout; seconds 0.4
import signal
signal.signal(14, lambda *a: signal.alarm(1))
signal.alarm(1)
while True: pass

## blocks signals: timeout; seconds 0.4
import signal
signal.pthread_sigmask(0, signal.valid_signals())
while True: pass

## raises SIGKILL by limit: ends
import resource
resource.setrlimit(resource.RLIMIT_CPU, (0, 0))
"""

# files and disk space
FILES = r"""
## reads /etc/shadow: ends; says refused
refused: print('LEAK', open('/etc/shadow').read())

## reads /etc/passwd: ends; says refused
refused: print('LEAK', open('/etc/passwd').read())

## reads the parent's environment: ends; says refused
import os
refused: print('LEAK', open(f'/proc/{os.getppid()}/environ').read())

## reads its own maps: ends; says refused
refused: print('LEAK', open('/proc/self/maps').read())

## scans /proc: ends; says refused
import os
refused: print('LEAK', os.listdir('/proc'))

## scans /home: ends; says refused
import os
refused: print('LEAK', os.listdir('/home'))

## writes to site-packages: ends; says refused
import os
refused: open(os.path.join(os.path.dirname(os.__file__), 'evil.py'), 'w')

## writes over the library: ends; says refused
import os
refused: open(os.__file__, 'a')

## deletes the library: ends; says refused
import os
refused: os.unlink(os.__file__)

## renames the library: ends; says refused
import os
refused: os.rename(os.__file__, '/scratch/os.py')

## changes the mode of the library: ends; says refused
import os
refused: os.chmod(os.__file__, 0o777)

## touches the library: ends; says refused
import os
refused: os.utime(os.__file__, (0, 0))

## changes the owner: ends; says refused
import os
refused: os.chown('.', 0, 0)

## writes to the root: ends; says refused
refused: open('/evil', 'w')

## writes to /tmp: ends; says refused
refused: open('/tmp/rstar-evil', 'w')

## writes to /dev/shm: ends; says refused
refused: open('/dev/shm/rstar-evil', 'w')

## opens a disk: ends; says refused
refused: open('/dev/vda', 'rb')

## makes a device: ends; says refused
import os
refused: os.mknod('disk', 0o60600, os.makedev(8, 0))

## follows a symlink: ends; says refused
import os
refused: (os.symlink('/etc/passwd', 'x'), print('LEAK', open('x').read()))

## hard link to the library: ends; says refused
import os
refused: os.link(os.__file__, 'mine')

## open_by_handle_at: ends; says refused
syscall: libc.syscall(304, 0, 0, 0)

## deletes everything: ends
import shutil
shutil.rmtree('/', ignore_errors=True)
import fractions

## disk bomb: ends; says stopped True
n = 0
try:
    with open('big', 'wb') as f:
        while True:
            n += f.write(bytes(1 << 16))
except OSError as e:
    print('stopped', 1 << 20 < n < 8 << 20)

## many big files: ends; says stopped True
n = 0
try:
    for i in range(1000):
        with open(str(i), 'wb') as f:
            n += f.write(bytes(1 << 20))
except OSError as e:
    print('stopped', 1 << 20 < n <= 8 << 20)

## many small files: ends; says stopped True
n = 0
try:
    while True:
        open(str(n), 'w').close()
        n += 1
except OSError as e:
    print('stopped', 100 < n < 20000)

## sparse giant: ends; says stopped
try:
    open('x', 'wb').truncate(1 << 40)
except OSError:
    print('stopped')

## many descriptors: ends; says stopped
import socket
kept = []
try:
    while True:
        kept.append(socket.socketpair())
except OSError:
    print('stopped')

## deep folders: ends; says stopped
import os
try:
    while True:
        os.mkdir('d')
        os.chdir('d')
except OSError:
    print('stopped')

## zip bomb: memory
import zlib
layer = zlib.compress(bytes(50_000_000), 9)
kept = [zlib.decompress(layer) for _ in range(100)]
"""

# the network
NETWORK = r"""
## tcp socket: ends; says refused
import socket
refused: socket.create_connection(('127.0.0.1', 80), 1)

## udp socket: ends; says refused
import socket
refused: socket.socket(socket.AF_INET, socket.SOCK_DGRAM)

## raw socket: ends; says refused
import socket
refused: socket.socket(socket.AF_PACKET, socket.SOCK_RAW)

## unix socket: ends; says refused
import socket
refused: socket.socket(socket.AF_UNIX)

## netlink: ends; says refused
import socket
refused: socket.socket(socket.AF_NETLINK, socket.SOCK_RAW)

## vsock: ends; says refused
import socket
refused: socket.socket(40, socket.SOCK_STREAM)

## url: ends; says refused
import urllib.request
refused: urllib.request.urlopen('http://127.0.0.1/', timeout=1)

## inet socketpair: ends; says refused
syscall: libc.socketpair(2, 1, 0, ctypes.create_string_buffer(8))
"""

# the kernel's other doors
KERNEL = r"""
## sendfile, which keeps a pipe: ends; says refused
import os
open('a', 'w').write('x')
refused: os.sendfile(os.open('b', os.O_WRONLY | os.O_CREAT), os.open('a', os.O_RDONLY), 0, 1)

## copy_file_range, which keeps a pipe: ends; says refused
import os
open('a', 'w').write('x')
refused: os.copy_file_range(os.open('a', os.O_RDONLY), os.open('b', os.O_WRONLY | os.O_CREAT), 1)

## raises its limits: ends; says refused
import resource
refused: resource.setrlimit(resource.RLIMIT_AS, (-1, -1))

## lifts its file size: ends; says refused
import resource
refused: resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 40, 1 << 40))

## keyctl: ends; says refused
syscall: libc.syscall(250, 0, 0, 0, 0, 0)

## add_key: ends; says refused
syscall: libc.syscall(248, b'user', b'x', b'y', 1, -2)

## bpf: ends; says refused
syscall: libc.syscall(321, 0, 0, 0)

## perf_event_open: ends; says refused
syscall: libc.syscall(298, 0, 0, 0, 0, 0)

## io_uring_setup: ends; says refused
syscall: libc.syscall(425, 8, ctypes.create_string_buffer(120))

## userfaultfd: ends; says refused
syscall: libc.syscall(323, 1)

## inotify: ends; says refused
syscall: libc.inotify_init()

## fanotify: ends; says refused
syscall: libc.syscall(300, 0, 0)

## shared memory: ends; says refused
syscall: libc.shmget(0, 1 << 30, 0o1600)

## message queue: ends; says refused
syscall: libc.msgget(0, 0o1600)

## seccomp: ends; says refused
syscall: libc.syscall(317, 1, 0, 0)

## setuid 0: ends; says refused
syscall: libc.setuid(0)

## sethostname: ends; says refused
syscall: libc.sethostname(b'x', 1)

## reboot: ends; says refused
syscall: libc.reboot(0x1234567)

## kexec: ends; says refused
syscall: libc.syscall(246, 0, 0, 0, 0)

## clock: ends; says refused
syscall: libc.clock_settime(0, ctypes.create_string_buffer(16))

## nice below zero: ends; says refused
syscall: libc.setpriority(0, 0, -20)

## a call of the future: ends; says refused
syscall: libc.syscall(460, 0)

## an x32 call: ends; says refused
syscall: libc.syscall(0x40000000 + 41, 2, 1, 0)

## capset: ends; says refused
syscall: libc.syscall(126, 0, 0)

## dumpable again: ends; says refused
import ctypes
refused: ctypes.CDLL(None).prctl(4, 1) and (_ for _ in ()).throw(OSError)
"""

# using up time, memory, output
RESOURCES = r"""
## endless loop: timeout; seconds 0.4
while True: pass

## endless sleep: timeout; seconds 0.4
import time
time.sleep(1000)

## huge integer: timeout; seconds 0.4
x = 9 ** 9 ** 9

## huge integer as text: timeout; seconds 0.4
import sys
sys.set_int_max_str_digits(0)
str(7 ** 9_000_000)

## regex catastrophe: timeout; seconds 0.4
import re
re.match(r'(a+)+$', 'a' * 40 + 'b')

## endless destructor: timeout; seconds 0.4
class A:
    def __del__(self):
        while True: pass
A()

## endless atexit: timeout; seconds 0.4; lasts
import atexit
atexit.register(lambda: sum(0 for _ in iter(int, 1)))

## thread that never ends: timeout; seconds 0.4; lasts
import threading
threading.Thread(target=lambda: sum(0 for _ in iter(int, 1))).start()

## thread that keeps the interpreter lock: timeout; seconds 0.4
import threading, time
threading.Thread(target=lambda: any(iter(int, 1))).start()
time.sleep(0.2)

## endless repr: timeout; seconds 0.4
class A:
    def __repr__(self):
        while True: pass
A()

## deadlock: timeout; seconds 0.4
import threading
lock = threading.Lock()
lock.acquire()
lock.acquire()

## waits for input: timeout; seconds 0.4
import socket
r, w = socket.socketpair()
r.recv(1)

## memory bomb: memory
x = []
while True:
    x.append(bytearray(1 << 20))

## one big block: memory
x = bytearray(1 << 33)

## doubling list: memory
x = [0]
while True:
    x += x

## mapped memory: error memory
import mmap
x = []
while True:
    x.append(mmap.mmap(-1, 1 << 24, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS))

## catches MemoryError: ends; says fine
x = []
try:
    while True:
        x.append(bytearray(1 << 20))
except MemoryError:
    del x
    print('fine')

## deep recursion: error
def f(): f()
f()

## bottomless recursion: error killed memory timeout; seconds 5
import sys
sys.setrecursionlimit(1 << 30)
def f(): f()
f()

## deep nesting: error killed
x = []
for _ in range(1_000_000):
    x = [x]
print(len(repr(x)))

## stack overflow in C: any; seconds 1
import ctypes
F = ctypes.CFUNCTYPE(None)
def g(): h()
h = F(g)
import sys
sys.setrecursionlimit(10**9)
h()

## endless output: output_limit
while True: print('x' * 1000)

## endless stderr: output_limit
import sys
while True: print('x' * 1000, file=sys.stderr)

## a gigabyte at once: output_limit
import os
b = bytes(1 << 24)
while True: os.write(1, b)

## many exceptions: any; seconds 1
e = None
for i in range(100000):
    n = ValueError(i)
    n.__context__ = e
    e = n
raise e
"""

# the channel on which results travel
CHANNEL = r"""
## closes all descriptors: killed
import os
os.closerange(0, 256)

## closes the channel: killed
import os
os.closerange(3, 256)
print('x')

## exits at once: killed
import os
os._exit(0)

## exits with a code: killed
import os
os._exit(70)

## garbage on the channel: killed
import os
for fd in range(3, 20):
    try: os.write(fd, b'garbage' * 50)
    except OSError: pass
while True: pass

## binary garbage: killed
import os
for fd in range(3, 20):
    try: os.write(fd, bytes(range(256)) * 100)
    except OSError: pass

## flood on the channel: killed
import os
while True:
    os.write(5, b'x' * 60000)

## a forged failure: killed
import os
os.write(5, b'OSError: no space')

## a forged hello: killed
import os
os.write(5, b'hello')

## a forged event: killed
import os
os.write(5, b'{"id": 1, "event": "refused"}')

## a forged report of the wrong form: killed
import os
os.write(5, b'{"status": "ok", "exit_code": "x"}')

## a deep report: killed
import os
os.write(5, b'[' * 60000)

## a report of its own: ok
import os
os.write(5, b'{"status": "ok"}')
while True: pass

## descriptors on the channel: ends; says refused
import socket
s = socket.socket(fileno=5)
refused: socket.send_fds(s, [b'x'], [0, 1, 2])

## an empty packet: killed
import socket
socket.socket(fileno=5).send(b'')
while True: pass

## the channel as stdout: killed
import os
os.dup2(5, 1)
print('hello')
while True: pass

## reads orders: ends
import socket
s = socket.socket(fileno=5)
s.setblocking(False)
try: s.recv(100)
except BlockingIOError: print('nothing')
finally: s.detach()
"""

# the interpreter that the code shares with its host
INTERPRETER = r"""
## segfault: killed
import ctypes
ctypes.string_at(0)

## abort: killed
import ctypes
ctypes.CDLL(None).abort()

## bad instruction: killed
import ctypes, mmap
m = mmap.mmap(-1, 4096, prot=7, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
m.write(b'\x0f\x0b')
ctypes.CFUNCTYPE(None)(ctypes.addressof(ctypes.c_char.from_buffer(m)))()

## broken built-ins: any
import builtins
for name in list(vars(builtins)):
    if name not in ('list', 'vars', '__import__', 'setattr', 'builtins'):
        setattr(builtins, name, None)

## no len: any
import builtins
del builtins.len, builtins.print, builtins.str
x = 1

## broken json: any
import json
json.dumps = json.loads = None

## broken os: ends
import os
os.write = os.read = os.close = os._exit = None
x = 1

## broken streams: ok
import sys
sys.stdout = sys.stderr = None
x = 1

## broken sys.modules: any
import sys
sys.modules.clear()

## tracing: any
import sys
def t(*a):
    raise RuntimeError('traced')
sys.settrace(t)
def f(): pass
f()

## profiling: any
import sys
sys.setprofile(lambda *a: 1 / 0)
len('')

## audit hook: any
import sys
def h(*a):
    raise RuntimeError('audit')
sys.addaudithook(h)
open('x')

## frames of the host: any
import sys
f = sys._getframe()
while f:
    f.f_locals.clear()
    f = f.f_back

## garbage of the host: any
import gc
for o in gc.get_objects():
    if type(o).__name__ in ('socket', 'Interpreter'):
        try: o.close()
        except Exception: pass

## exception that cannot be shown: error
class E(Exception):
    def __str__(self): raise ValueError
    __repr__ = __str__
raise E

## exception with a giant message: error
raise ValueError('x' * 10_000_000)

## exit in a destructor: ends
class A:
    def __del__(self): raise SystemExit(3)
A()

## keyboard interrupt: error
raise KeyboardInterrupt

## interrupts itself: error timeout; seconds 1
import _thread
_thread.interrupt_main()
while True: pass

## lone surrogates: error
raise ValueError('\ud800')

## secrets in the environment: ends; says clean
import os
print('LEAK' if any('HOME' in k or 'KEY' in k or 'PATH' in k for k in os.environ) else 'clean')

## identity: ends; says nobody
import os
print('LEAK' if 0 in (os.getuid(), os.geteuid(), os.getgid()) else 'nobody')
"""

SOURCES = [
    Case("null byte in the source", "x = 1\x00", frozenset({"error"})),
]

CASES = [
    case
    for text in (PROCESSES, SIGNALS, FILES, NETWORK, KERNEL, RESOURCES, CHANNEL, INTERPRETER)
    for case in parse(text)
] + SOURCES
