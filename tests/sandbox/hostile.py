"""Snippets that attack the sandbox, each with the outcomes that count as contained.

A case's code may print LEAK when it got what it should not; no run may ever print that.
"""

from __future__ import annotations

from dataclasses import dataclass

ANY = frozenset({"ok", "error", "timeout", "memory", "killed", "output_limit"})
ENDS = frozenset({"ok", "error"})
STUCK = frozenset({"timeout"})
DEAD = frozenset({"killed"})


@dataclass(frozen=True)
class Case:
    """`expect`: statuses that are fine; `says`: what stdout must contain; `seconds`: the wall limit."""

    name: str
    code: str
    expect: frozenset[str]
    says: str = ""
    seconds: float = 20.0


def refused(name: str, action: str, *, before: str = "") -> Case:
    """An action that must raise `OSError` (`ValueError` in some wrappers)."""
    body = f"{before}\ntry:\n    {action}\nexcept (OSError, ValueError) as error:\n    print('refused', error)\n"
    return Case(name, f"{body}else:\n    print('LEAK')\n", ENDS, says="refused")


def stuck(name: str, code: str) -> Case:
    """Code that never ends by itself."""
    return Case(name, code, STUCK, seconds=0.4)


_LIBC = "import ctypes, os\nlibc = ctypes.CDLL(None, use_errno=True)\n"


def syscall(name: str, call: str) -> Case:
    """A raw call that must fail."""
    return Case(name, f"{_LIBC}r = {call}\nprint('refused' if r < 0 else 'LEAK')\n", ENDS, says="refused")


PROCESSES = [
    refused("fork", "os.fork()", before="import os"),
    refused("vfork", "subprocess.run(['/bin/sh', '-c', 'echo LEAK'])", before="import subprocess"),
    refused("exec shell", "os.execv('/bin/sh', ['sh', '-c', 'echo LEAK'])", before="import os"),
    refused("exec python", "os.execv(sys.executable, ['python', '-c', 'print(0)'])", before="import os, sys"),
    refused("spawn", "os.posix_spawn('/bin/true', ['true'], {})", before="import os"),
    refused("pty fork", "pty.fork()", before="import pty"),
    refused("setsid orphan", "os.fork() or (os.setsid(), os.fork())", before="import os"),
    Case(
        "fork bomb",
        "import os\nn = 0\nfor _ in range(1000):\n    try:\n        os.fork()\n        n += 1\n    except OSError:\n"
        "        pass\nprint('forks', n)\n",
        ENDS,
        says="forks 0",
    ),
    Case(
        "multiprocessing",
        "import multiprocessing\nmultiprocessing.get_context('fork').Process(target=print, args=('LEAK',)).start()",
        ENDS,
    ),
    Case(
        "thread bomb",
        "import threading, time\nthreading.stack_size(65536)\nn = 0\ntry:\n    while True:\n"
        "        threading.Thread(target=time.sleep, args=(9,), daemon=True).start()\n        n += 1\n"
        "except RuntimeError:\n    print('threads', n < 2000)\n",
        ANY,
        seconds=5.0,
    ),
    syscall("clone with new user namespace", "libc.syscall(56, 0x10000000 | 17, 0, 0, 0, 0)"),
    syscall("clone3", "libc.syscall(435, ctypes.create_string_buffer(88), 88)"),
    syscall("unshare", "libc.unshare(0x10000000)"),
    syscall("setns", "libc.setns(0, 0)"),
    syscall("chroot", "libc.chroot(b'/')"),
    syscall("mount", "libc.mount(b'none', b'/', b'tmpfs', 0, None)"),
    syscall("umount", "libc.umount2(b'/scratch', 2)"),
    syscall("pivot_root", "libc.syscall(155, b'/', b'/')"),
    syscall("memfd_create and fexecve", "libc.memfd_create(b'x', 0)"),
    syscall("32-bit personality", "libc.personality(8)"),
]

SIGNALS = [
    refused("kill init", "os.kill(1, 9)", before="import os"),
    refused("kill all", "os.kill(-1, 9)", before="import os"),
    refused("kill own group", "os.killpg(0, 9)", before="import os"),
    refused("stop itself", "os.kill(os.getpid(), signal.SIGSTOP)", before="import os, signal"),
    refused("stop parent", "os.kill(os.getppid(), signal.SIGSTOP)", before="import os, signal"),
    syscall("tgkill", "libc.syscall(234, 1, 1, 9)"),
    syscall("ptrace", "libc.ptrace(16, 1, 0, 0)"),
    syscall("process_vm_readv", "libc.syscall(310, 1, 0, 0, 0, 0, 0)"),
    syscall("pidfd_open", "libc.syscall(434, 1, 0)"),
    syscall("pidfd_getfd", "libc.syscall(438, 0, 0, 0)"),
    Case(
        "owner of a descriptor",
        "import fcntl, os\nr, w = os.pipe()\ntry:\n    fcntl.fcntl(r, fcntl.F_SETOWN, 1)\nexcept OSError:\n"
        "    print('refused')\nelse:\n    print('LEAK')\n",
        ENDS,
        says="refused",
    ),
    stuck("ignores signals", "import signal\nfor s in (2, 15, 24):\n    signal.signal(s, signal.SIG_IGN)\nwhile True: pass"),
    stuck("alarm games", "import signal\nsignal.signal(14, lambda *a: signal.alarm(1))\nsignal.alarm(1)\nwhile True: pass"),
    stuck("blocks signals", "import signal\nsignal.pthread_sigmask(0, signal.valid_signals())\nwhile True: pass"),
    Case("raises SIGKILL by limit", "import resource\nresource.setrlimit(resource.RLIMIT_CPU, (0, 0))\n", ENDS),
]

FILES = [
    refused("reads /etc/shadow", "print('LEAK', open('/etc/shadow').read())"),
    refused("reads /etc/passwd", "print('LEAK', open('/etc/passwd').read())"),
    refused("reads the parent's environment", "print('LEAK', open(f'/proc/{os.getppid()}/environ').read())", before="import os"),
    refused("reads its own maps", "print('LEAK', open('/proc/self/maps').read())"),
    refused("scans /proc", "print('LEAK', os.listdir('/proc'))", before="import os"),
    refused("scans /home", "print('LEAK', os.listdir('/home'))", before="import os"),
    refused("writes to site-packages", "open(os.path.join(os.path.dirname(os.__file__), 'evil.py'), 'w')", before="import os"),
    refused("writes over the library", "open(os.__file__, 'a')", before="import os"),
    refused("deletes the library", "os.unlink(os.__file__)", before="import os"),
    refused("renames the library", "os.rename(os.__file__, '/scratch/os.py')", before="import os"),
    refused("changes the mode of the library", "os.chmod(os.__file__, 0o777)", before="import os"),
    refused("touches the library", "os.utime(os.__file__, (0, 0))", before="import os"),
    refused("changes the owner", "os.chown('.', 0, 0)", before="import os"),
    refused("writes to the root", "open('/evil', 'w')"),
    refused("writes to /tmp", "open('/tmp/rstar-evil', 'w')"),
    refused("writes to /dev/shm", "open('/dev/shm/rstar-evil', 'w')"),
    refused("opens a disk", "open('/dev/vda', 'rb')"),
    refused("makes a device", "os.mknod('disk', 0o60600, os.makedev(8, 0))", before="import os"),
    refused("follows a symlink", "(os.symlink('/etc/passwd', 'x'), print('LEAK', open('x').read()))", before="import os"),
    refused("hard link to the library", "os.link(os.__file__, 'mine')", before="import os"),
    syscall("open_by_handle_at", "libc.syscall(304, 0, 0, 0)"),
    Case("deletes everything", "import shutil\nshutil.rmtree('/', ignore_errors=True)\nimport fractions\n", ENDS),
    Case(
        "disk bomb",
        "n = 0\ntry:\n    with open('big', 'wb') as f:\n        while True:\n            n += f.write(bytes(1 << 16))\n"
        "except OSError as e:\n    print('stopped', n < 8 << 20)\n",
        ENDS,
        says="stopped True",
    ),
    Case(
        "many big files",
        "n = 0\ntry:\n    for i in range(1000):\n        with open(str(i), 'wb') as f:\n            n += f.write(bytes(1 << 20))\n"
        "except OSError as e:\n    print('stopped', n <= 8 << 20)\n",
        ENDS,
        says="stopped True",
    ),
    Case(
        "many small files",
        "n = 0\ntry:\n    while True:\n        open(str(n), 'w').close()\n        n += 1\nexcept OSError as e:\n"
        "    print('stopped', n < 20000)\n",
        ENDS,
        says="stopped True",
    ),
    Case(
        "sparse giant",
        "try:\n    open('x', 'wb').truncate(1 << 40)\nexcept OSError:\n    print('stopped')\n",
        ENDS,
        says="stopped",
    ),
    Case(
        "many descriptors",
        "import os\nkept = []\ntry:\n    while True:\n        kept.append(os.pipe())\nexcept OSError:\n    print('stopped')\n",
        ENDS,
        says="stopped",
    ),
    Case(
        "deep folders",
        "import os\ntry:\n    while True:\n        os.mkdir('d')\n        os.chdir('d')\nexcept OSError:\n    print('stopped')\n",
        ENDS,
        says="stopped",
    ),
    Case(
        "zip bomb",
        "import zlib\nlayer = zlib.compress(bytes(50_000_000), 9)\nkept = [zlib.decompress(layer) for _ in range(100)]\n",
        frozenset({"memory"}),
    ),
]

NETWORK = [
    refused("tcp socket", "socket.create_connection(('127.0.0.1', 80), 1)", before="import socket"),
    refused("udp socket", "socket.socket(socket.AF_INET, socket.SOCK_DGRAM)", before="import socket"),
    refused("raw socket", "socket.socket(socket.AF_PACKET, socket.SOCK_RAW)", before="import socket"),
    refused("unix socket", "socket.socket(socket.AF_UNIX)", before="import socket"),
    refused("netlink", "socket.socket(socket.AF_NETLINK, socket.SOCK_RAW)", before="import socket"),
    refused("vsock", "socket.socket(40, socket.SOCK_STREAM)", before="import socket"),
    refused("url", "urllib.request.urlopen('http://127.0.0.1/', timeout=1)", before="import urllib.request"),
    syscall("inet socketpair", "libc.socketpair(2, 1, 0, ctypes.create_string_buffer(8))"),
]

KERNEL = [
    refused("raises its limits", "resource.setrlimit(resource.RLIMIT_AS, (-1, -1))", before="import resource"),
    refused("lifts its file size", "resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 40, 1 << 40))", before="import resource"),
    syscall("keyctl", "libc.syscall(250, 0, 0, 0, 0, 0)"),
    syscall("add_key", "libc.syscall(248, b'user', b'x', b'y', 1, -2)"),
    syscall("bpf", "libc.syscall(321, 0, 0, 0)"),
    syscall("perf_event_open", "libc.syscall(298, 0, 0, 0, 0, 0)"),
    syscall("io_uring_setup", "libc.syscall(425, 8, ctypes.create_string_buffer(120))"),
    syscall("userfaultfd", "libc.syscall(323, 1)"),
    syscall("inotify", "libc.inotify_init()"),
    syscall("fanotify", "libc.syscall(300, 0, 0)"),
    syscall("shared memory", "libc.shmget(0, 1 << 30, 0o1600)"),
    syscall("message queue", "libc.msgget(0, 0o1600)"),
    syscall("seccomp", "libc.syscall(317, 1, 0, 0)"),
    syscall("setuid 0", "libc.setuid(0)"),
    syscall("sethostname", "libc.sethostname(b'x', 1)"),
    syscall("reboot", "libc.reboot(0x1234567)"),
    syscall("kexec", "libc.syscall(246, 0, 0, 0, 0)"),
    syscall("clock", "libc.clock_settime(0, ctypes.create_string_buffer(16))"),
    syscall("nice below zero", "libc.setpriority(0, 0, -20)"),
    syscall("a call of the future", "libc.syscall(460, 0)"),
    syscall("an x32 call", "libc.syscall(0x40000000 + 41, 2, 1, 0)"),
    syscall("capset", "libc.syscall(126, 0, 0)"),
    refused("dumpable again", "ctypes.CDLL(None).prctl(4, 1) and (_ for _ in ()).throw(OSError)", before="import ctypes"),
]

RESOURCES = [
    stuck("endless loop", "while True: pass"),
    stuck("endless sleep", "import time\ntime.sleep(1000)"),
    stuck("huge integer", "x = 9 ** 9 ** 9\n"),
    stuck("huge integer as text", "import sys\nsys.set_int_max_str_digits(0)\nstr(7 ** 9_000_000)"),
    stuck("regex catastrophe", "import re\nre.match(r'(a+)+$', 'a' * 40 + 'b')"),
    stuck("endless destructor", "class A:\n    def __del__(self):\n        while True: pass\nA()\n"),
    stuck("endless atexit", "import atexit\natexit.register(lambda: [0 for _ in iter(int, 1)])\n"),
    stuck("thread that never ends", "import threading\nthreading.Thread(target=lambda: [0 for _ in iter(int, 1)]).start()\n"),
    stuck("endless repr", "class A:\n    def __repr__(self):\n        while True: pass\nA()\n"),
    stuck("deadlock", "import threading\nlock = threading.Lock()\nlock.acquire()\nlock.acquire()"),
    stuck("waits for input", "import os\nr, w = os.pipe()\nos.read(r, 1)"),
    Case("memory bomb", "x = []\nwhile True:\n    x.append(bytearray(1 << 20))\n", frozenset({"memory"})),
    Case("one big block", "x = bytearray(1 << 33)\n", frozenset({"memory"})),
    Case("doubling list", "x = [0]\nwhile True:\n    x += x\n", frozenset({"memory"})),
    Case("mapped memory", "import mmap\nx = []\nwhile True:\n    x.append(mmap.mmap(-1, 1 << 24))\n", frozenset({"error", "memory"})),
    Case("catches MemoryError", "x = []\ntry:\n    while True:\n        x.append(bytearray(1 << 20))\nexcept MemoryError:\n    del x\n    print('fine')\n", ENDS, says="fine"),
    Case("deep recursion", "def f(): f()\nf()\n", frozenset({"error"})),
    Case("bottomless recursion", "import sys\nsys.setrecursionlimit(1 << 30)\ndef f(): f()\nf()\n", frozenset({"memory", "killed", "error", "timeout"}), seconds=5.0),
    Case("deep nesting", "x = []\nfor _ in range(1_000_000):\n    x = [x]\nprint(len(repr(x)))\n", frozenset({"error", "killed"})),
    Case("stack overflow in C", "import ctypes\nF = ctypes.CFUNCTYPE(None)\ndef g(): h()\nh = F(g)\nimport sys\nsys.setrecursionlimit(10**9)\nh()\n", frozenset({"killed", "error", "memory"}), seconds=5.0),
    Case("endless output", "while True: print('x' * 1000)", frozenset({"output_limit"})),
    Case("endless stderr", "import sys\nwhile True: print('x' * 1000, file=sys.stderr)", frozenset({"output_limit"})),
    Case("a gigabyte at once", "import os\nb = bytes(1 << 24)\nwhile True: os.write(1, b)", frozenset({"output_limit"})),
    Case("many exceptions", "e = None\nfor i in range(100000):\n    n = ValueError(i)\n    n.__context__ = e\n    e = n\nraise e", ANY, seconds=1.0),
]

CHANNEL = [
    Case("closes all descriptors", "import os\nos.closerange(0, 256)\n", DEAD),
    Case("closes the channel", "import os\nos.closerange(3, 256)\nprint('x')", DEAD),
    Case("exits at once", "import os\nos._exit(0)", DEAD),
    Case("exits with a code", "import os\nos._exit(70)", DEAD),
    Case("garbage on the channel", "import os\nfor fd in range(3, 20):\n    try: os.write(fd, b'garbage' * 50)\n    except OSError: pass\nwhile True: pass", DEAD),
    Case("binary garbage", "import os\nfor fd in range(3, 20):\n    try: os.write(fd, bytes(range(256)) * 100)\n    except OSError: pass\n", DEAD),
    Case("flood on the channel", "import os\nwhile True:\n    os.write(5, b'x' * 60000)\n", DEAD),
    Case("a forged failure", "import os\nos.write(5, b'OSError: no space')\n", DEAD),
    Case("a forged hello", "import os\nos.write(5, b'hello')\n", DEAD),
    Case("a forged event", "import os\nos.write(5, b'{\"id\": 1, \"event\": \"refused\"}')\n", DEAD),
    Case("a forged report of the wrong form", "import os\nos.write(5, b'{\"status\": \"ok\", \"exit_code\": \"x\"}')\n", DEAD),
    Case("a deep report", "import os\nos.write(5, b'[' * 60000)\n", DEAD),
    Case("a report of its own", "import os\nos.write(5, b'{\"status\": \"ok\"}')\nwhile True: pass", frozenset({"ok"})),
    Case("descriptors on the channel", "import socket\ns = socket.socket(fileno=5)\nsocket.send_fds(s, [b'x'], [0, 1, 2])\nwhile True: pass", DEAD),
    Case("an empty packet", "import socket\nsocket.socket(fileno=5).send(b'')\nwhile True: pass", DEAD),
    Case("the channel as stdout", "import os\nos.dup2(5, 1)\nprint('hello')\nwhile True: pass", DEAD),
    Case("reads orders", "import socket\ns = socket.socket(fileno=5)\ns.setblocking(False)\ntry: s.recv(100)\nexcept BlockingIOError: print('nothing')\nfinally: s.detach()\n", ENDS),
]

INTERPRETER = [
    Case("segfault", "import ctypes\nctypes.string_at(0)", DEAD),
    Case("abort", "import ctypes\nctypes.CDLL(None).abort()", DEAD),
    Case("bad instruction", "import ctypes, mmap\nm = mmap.mmap(-1, 4096, prot=7)\nm.write(b'\\x0f\\x0b')\nctypes.CFUNCTYPE(None)(ctypes.addressof(ctypes.c_char.from_buffer(m)))()", DEAD),
    Case("broken built-ins", "import builtins\nfor name in list(vars(builtins)):\n    if name not in ('list', 'vars', '__import__', 'setattr', 'builtins'):\n        setattr(builtins, name, None)\n", ANY),
    Case("no len", "import builtins\ndel builtins.len, builtins.print, builtins.str\nx = 1\n", ANY),
    Case("broken json", "import json\njson.dumps = json.loads = None\n", ANY),
    Case("broken os", "import os\nos.write = os.read = os.close = os._exit = None\nx = 1\n", ENDS),
    Case("broken streams", "import sys\nsys.stdout = sys.stderr = None\nx = 1\n", frozenset({"ok"})),
    Case("broken sys.modules", "import sys\nsys.modules.clear()\n", ANY),
    Case("tracing", "import sys\ndef t(*a):\n    raise RuntimeError('traced')\nsys.settrace(t)\ndef f(): pass\nf()\n", ANY),
    Case("profiling", "import sys\nsys.setprofile(lambda *a: 1 / 0)\nlen('')\n", ANY),
    Case("audit hook", "import sys\ndef h(*a):\n    raise RuntimeError('audit')\nsys.addaudithook(h)\nopen('x')\n", ANY),
    Case("frames of the host", "import sys\nf = sys._getframe()\nwhile f:\n    f.f_locals.clear()\n    f = f.f_back\n", ANY),
    Case("garbage of the host", "import gc\nfor o in gc.get_objects():\n    if type(o).__name__ in ('socket', 'Interpreter'):\n        try: o.close()\n        except Exception: pass\n", ANY),
    Case("exception that cannot be shown", "class E(Exception):\n    def __str__(self): raise ValueError\n    __repr__ = __str__\nraise E\n", frozenset({"error"})),
    Case("exception with a giant message", "raise ValueError('x' * 10_000_000)", frozenset({"error"})),
    Case("exit in a destructor", "class A:\n    def __del__(self): raise SystemExit(3)\nA()\n", ENDS),
    Case("keyboard interrupt", "raise KeyboardInterrupt", frozenset({"error"})),
    Case("interrupts itself", "import _thread\n_thread.interrupt_main()\nwhile True: pass\n", frozenset({"error", "timeout"}), seconds=1.0),
    Case("lone surrogates", "raise ValueError('\\ud800')", frozenset({"error"})),
    Case("null byte in the source", "x = 1\0", frozenset({"error"})),
    Case("secrets in the environment", "import os\nprint('LEAK' if any('HOME' in k or 'KEY' in k or 'PATH' in k for k in os.environ) else 'clean')", ENDS, says="clean"),
    Case("identity", "import os\nprint('LEAK' if 0 in (os.getuid(), os.geteuid(), os.getgid()) else 'nobody')", ENDS, says="nobody"),
]

CASES = [*PROCESSES, *SIGNALS, *FILES, *NETWORK, *KERNEL, *RESOURCES, *CHANNEL, *INTERPRETER]
