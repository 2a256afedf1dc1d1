"""Zygote process, started by `pool`: enter the jail, warm up, then serve as the keeper of runs.

A zygote imports only what it needs of this package and keeps its heap small, because every run is a copy of it.
"""

from __future__ import annotations

import gc
import os
import signal
import socket
import sys
from contextlib import suppress

from rstar.sandbox import channel
from rstar.sandbox.inside.interpreter import Interpreter
from rstar.sandbox.jail import kernel
from rstar.sandbox.jail.isolation import Jail, MechanismRefusedError
from rstar.sandbox.jail.self_test import self_test
from rstar.sandbox.keeper.keeper import Keeper
from rstar.sandbox.keeper.start import make_template

_COMMON = (
    "bisect cmath collections copy dataclasses datetime decimal enum fractions functools heapq io itertools json math"
    " operator random re statistics string textwrap threading time traceback typing"
)

_WARM_NUMPY = """
import numpy
numpy.linalg.solve(numpy.eye(2), numpy.ones(2)), repr(numpy.arange(3.0)), numpy.arange(10).sum()
numpy.random.seed(0)
"""

_WARM_MATH = """
import sympy
from sympy import Eq, Matrix, Rational, diff, factor, factorint, integrate, simplify, solve, sqrt, symbols, sympify
x, y = symbols("x y")
solve(x**2 - 5*x + 6, x)
solve([Eq(x + y, 10), Eq(x - y, 2)], [x, y])
simplify(sqrt(8) + Rational(1, 3)), factor(x**2 - 1), integrate(x**2, x), diff(x**3, x), factorint(360)
sympify("2*x + 1").evalf(subs={x: 2}), Matrix([[1, 2], [3, 4]]).inv(), str(x**2 / 3), repr(sqrt(x))
"""


def main(fd: int) -> None:
    """Serve the parent at the socket `fd`. The first message has the settings: mechanisms, folder, tier, path."""
    link = socket.socket(fileno=kernel.move_up(fd))
    received = channel.receive(link)
    if received is None:
        return
    settings = received[0]
    sys.path[:] = settings["path"]
    sys.dont_write_bytecode = True
    signal.signal(signal.SIGINT, signal.default_int_handler)
    with suppress(OSError), open("/proc/self/oom_score_adj", "w") as file:
        file.write("500")  # out of memory: kill runs before their keepers
    try:
        jail = Jail(settings["mechanisms"], settings["folder"], programs=settings["tier"] == "native")
        jail.enter()
        _warm(settings["tier"])
        interpreter = Interpreter()
        gc.collect()
        jail.finish_warm_up(kernel.PROC_FD, kernel.RULESET_FD)
        self_test(jail)
    except MechanismRefusedError as refused:
        channel.send(link, {"id": 0, "event": "refused", "mechanism": refused.mechanism, "reason": refused.reason})
        return
    except ImportError as error:
        channel.send(link, {"id": 0, "event": "absent", "reason": str(error)})
        return
    channel.send(link, {"id": 0, "event": "ready"})
    for name in [name for name in sys.modules if name.partition(".")[0] == "rstar"]:
        del sys.modules[name]  # snippets must not find a partial package
    Keeper(link, jail, jail.folder, make_template(jail, interpreter, new=True)).loop()
    os._exit(0)


def _warm(tier: str) -> None:
    for name in _COMMON.split():
        __import__(name)
    sys.modules["random"].seed(0)
    if tier in ("numpy", "math"):
        exec(_WARM_NUMPY, {"__name__": "warm"})
    if tier == "math":
        exec(_WARM_MATH, {"__name__": "warm"})
