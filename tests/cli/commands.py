"""The command line in processes that are forked from one that has imported it: a command starts in milliseconds."""

import multiprocessing
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path

_FORKS = multiprocessing.get_context("forkserver")
_FORKS.set_forkserver_preload(["rstar.cli.app", "rstar.evals.run", "rstar.sandbox.parent.pool", "torch", __name__])


def rstar(*arguments: str, code: int = 0, stdin: str = "", cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    """Run a command with its output in files, 180 columns wide. It must end with exit code `code`."""
    with tempfile.TemporaryFile("w+") as given, tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as errors:
        given.write(stdin)
        given.seek(0)
        streams = (given.fileno(), out.fileno(), errors.fileno())
        process = start(arguments, streams, cwd, os.environ | {"COLUMNS": "180"})
        process.join()
        texts = []
        for stream in (out, errors):
            stream.seek(0)
            texts.append(stream.read().decode().replace("\r\n", "\n"))
    done = subprocess.CompletedProcess(arguments, process.exitcode or 0, *texts)
    assert done.returncode == code, done.stdout + done.stderr
    assert "Traceback" not in done.stderr
    return done


def start(
    arguments: tuple[str, ...], streams: tuple[int, int, int], cwd: Path | None, environment: Mapping[str, str]
) -> BaseProcess:
    """Start a command with these descriptors as its standard input, output and errors."""
    links = [Connection(os.dup(stream)) for stream in streams]  # the only descriptors that travel to a fork server
    process = _FORKS.Process(target=_run, args=(arguments, links, cwd, dict(environment)))
    process.start()
    for link in links:
        link.close()
    return process


def _run(arguments: tuple[str, ...], streams: list[Connection], cwd: Path | None, environment: dict[str, str]) -> None:
    for number, stream in enumerate(streams):
        os.dup2(stream.fileno(), number)
        stream.close()
    sys.stdin = os.fdopen(0, encoding="utf-8", closefd=False)
    os.environ.clear()
    os.environ.update(environment)
    if cwd is not None:
        os.chdir(cwd)
    sys.argv = ["rstar", *arguments]
    from rstar.cli.app import main

    main()
