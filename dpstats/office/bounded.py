"""Work on requests in processes of limited time and memory: a formula of one line may ask for a year of both.

They read no rows: plans, their accounts, rehearsals and tables of released values. They keep nothing between two calls.
"""

from __future__ import annotations

import atexit
import contextlib
import math
import os
import queue
import resource
import subprocess
import sys
import threading
from collections import defaultdict
from collections.abc import Callable, Iterator
from importlib import import_module
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from typing import Any, TypeVar

from dpstats.errors import ArgumentError, DPStatsError
from dpstats.office.store import Unavailable

Result = TypeVar("Result")

SECONDS = 10  # of a processor, for one call: what else the machine does changes little of what is refused
PATIENCE = 60.0  # seconds of the clock after which a call is given up that had no processor; that is no refusal
MEMORY = 3 << 29  # bytes of a process beyond those of a fresh one
PROCESSES = 4


class TooMuch(ArgumentError):
    """A request that would take more time or memory than one gets."""

    def __init__(self) -> None:
        super().__init__(
            "formula: this takes more time or memory to work out than the office gives to one request; ask for fewer "
            "columns and terms"
        )


class Failed(Exception):
    """A call that failed otherwise; its text is the type of the failure."""


class _Process:
    def __init__(self) -> None:
        self.connection, other = Pipe()
        with other:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "dpstats.office.bounded", str(other.fileno())],
                pass_fds=[other.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                env={**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"},
                start_new_session=True,
            )
        self.connection.recv()  # it is ready: the time to start is not that of the first call

    def end(self) -> None:
        self.process.kill()
        self.process.wait()
        self.connection.close()


_idle: queue.LifoQueue[_Process | None] = queue.LifoQueue()
for _ in range(PROCESSES):
    _idle.put(None)
_turns: defaultdict[str, threading.Lock] = defaultdict(threading.Lock)


@atexit.register
def _end() -> None:
    with contextlib.suppress(queue.Empty):
        while True:
            if (process := _idle.get_nowait()) is not None:
                process.end()


def bounded(by: str, function: Callable[..., Result], *arguments: Any, take: Callable[[Any], object] = id) -> Result:
    """What the function of a module returns or refuses, in a process of limited time and memory, else TooMuch.

    `take` gets what an iterator yields, as soon as it does. Of one caller (`by`) one call works at a time, so that
    nobody has all processes.
    """
    with _turns[by]:
        process = _idle.get()
        try:
            if process is not None and process.process.poll() is not None:
                process.end()
                process = None
            process = process or _Process()
            process.connection.send((SECONDS, function, arguments))
            kind = "part"
            while kind == "part":
                if not process.connection.poll(PATIENCE):
                    raise Unavailable
                kind, value = process.connection.recv()
                if kind == "part":
                    take(value)
        except BaseException as error:
            if process is not None:
                process.end()
                process = None
            if isinstance(error, (EOFError, ConnectionError)):  # the system has ended it, by a limit
                raise TooMuch from None
            raise
        finally:
            _idle.put(process)
    if kind == "returned":
        return value
    if kind == "refused":
        raise value
    raise TooMuch if value in ("MemoryError", "RecursionError", "_ArrayMemoryError") else Failed(value)


def serve(connection: Connection) -> None:
    import_module("dpstats.office.service")  # what calls need, before the first one

    with open("/proc/self/statm") as file:
        taken = int(file.read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (taken + MEMORY, taken + MEMORY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    connection.send("ready")
    while True:
        try:
            seconds, function, arguments = connection.recv()
        except (EOFError, OSError):
            return
        used = sum(resource.getrusage(resource.RUSAGE_SELF)[:2])
        resource.setrlimit(resource.RLIMIT_CPU, (math.ceil(used) + seconds, resource.RLIM_INFINITY))
        try:
            value = function(*arguments)
            if isinstance(value, Iterator):
                for part in value:
                    connection.send(("part", part))
                value = None
            answer = ("returned", value)
        except DPStatsError as error:
            answer = ("refused", error.with_traceback(None))
        except Exception as error:
            answer = ("failed", type(error).__name__)
        connection.send(answer)


if __name__ == "__main__":
    serve(Connection(int(sys.argv[1])))
