"""Process start: the template that is forked, and the path from the fork to the first line of code.

Everything here is trusted; the snippet's process begins in `interpreter.serve`.
"""

from __future__ import annotations

import os
import resource
import signal
import socket
from typing import NoReturn

from rstar.sandbox import channel
from rstar.sandbox.api import Limits
from rstar.sandbox.inside.interpreter import Interpreter, Order, serve
from rstar.sandbox.jail import kernel
from rstar.sandbox.jail.isolation import Jail
from rstar.sandbox.jail.kernel import LINK_FD, PROC_FD, RULESET_FD
from rstar.sandbox.keeper.keeper import Keeper
from rstar.sandbox.keeper.processes import HELLO, LISTENER, Template


def make_template(jail: Jail, interpreter: Interpreter, *, new: bool) -> Template:
    """Fork the template from this process. `new`: its children get new namespaces."""
    ours, theirs = channel.pair()
    pid = jail.clone(new=False)
    if pid:
        theirs.close()
        return Template(ours, pid)
    ours.close()
    os.dup2(theirs.fileno(), LINK_FD)
    kernel.close_from(LINK_FD + 1)
    kernel.prctl(kernel.PR_SET_PDEATHSIG, signal.SIGKILL)
    link, own = socket.socket(fileno=LINK_FD), os.getpid()
    while True:
        packet, handles, _, _ = socket.recv_fds(link, 16, 1)
        if not packet:
            os._exit(0)
        if not handles:  # a ping
            link.send(packet)
            continue
        try:
            if jail.clone(new=new, parent=True) == 0:
                start_process(handles[0], jail, interpreter)
        except OSError:  # the keeper sees that the link is closed
            if os.getpid() != own:
                os._exit(1)
        os.close(handles[0])


def start_process(fd: int, jail: Jail, interpreter: Interpreter) -> NoReturn:
    """In a new process: close all descriptors but the link at `fd` and execute the first order.

    Never returns, because the frames above belong to the keeper or the template.
    """
    try:
        os.dup2(fd, LINK_FD)
        kernel.close_from(LINK_FD + 1)
        link = socket.socket(fileno=LINK_FD)
        order = channel.receive(link)
        if order is not None:
            _set_up(link, order, jail, interpreter)
            serve(link, order, lambda: jail.clone(new=False, parent=True), interpreter)
    finally:
        os._exit(1)


def _set_up(link: socket.socket, order: Order, jail: Jail, interpreter: Interpreter) -> None:
    """Become a keeper, or a confined run that has sent its hello; on failure send the reason."""
    message, fds = order
    try:
        if message["do"] == "tree":
            _become_keeper(link, message["folder"], fds[0], jail, interpreter)
        _become_run(link, message, jail)
    except BaseException as error:
        link.send(f"{type(error).__name__}: {error}".encode())
        raise


def _become_run(link: socket.socket, message: channel.Message, jail: Jail) -> None:
    limits, folder = Limits(**message["limits"]), message["folder"]
    if message["last"] and jail.namespaces:
        jail.mount_scratch(folder, limits.scratch)
    forks = not message["last"]
    on_listener = (
        (lambda listener: socket.send_fds(link, [LISTENER], [listener])) if forks or jail.starts_programs else None
    )
    jail.confine(limits, folder, message["writable"], on_listener, forks=forks, threads=message["threads"])
    link.send(HELLO)
    os.close(RULESET_FD)
    os.close(PROC_FD)


def _become_keeper(link: socket.socket, folder: str, fd: int, jail: Jail, interpreter: Interpreter) -> NoReturn:
    """Run as the keeper of a tree, with the parent at `fd`."""
    if jail.namespaces:
        kernel.prctl(kernel.PR_SET_PDEATHSIG, signal.SIGKILL)
        jail.mount_tree_folder()
    else:
        kernel.prctl(kernel.PR_SET_CHILD_SUBREAPER, 1)
        os.mkdir(folder)
    template = make_template(jail, interpreter, new=False)  # before this process knows the folder of any step
    link.send(HELLO)
    link.close()
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))  # two per state
    Keeper(socket.socket(fileno=fd), jail, folder, template, holds_tree=True).loop()
    os._exit(0)
