"""A PostgreSQL server of the tests' own, from Debian's package or from the wheel pgserver, in a temporary folder."""

from __future__ import annotations

import contextlib
import glob
import importlib.util
import os
import pwd
import shutil
import sqlite3
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import psycopg


def binaries() -> Path:
    """The folder of initdb and postgres."""
    places = [
        Path(found).resolve().parent for found in filter(None, [shutil.which("initdb"), shutil.which("postgres")])
    ]
    places += [Path(found) for found in sorted(glob.glob("/usr/lib/postgresql/*/bin"), reverse=True)]
    if (spec := importlib.util.find_spec("pgserver")) is not None and spec.origin is not None:
        places.append(Path(spec.origin).parent / "pginstall" / "bin")
    for place in places:
        if (place / "initdb").exists() and (place / "postgres").exists():
            return place
    raise FileNotFoundError("no PostgreSQL server: pip install pgserver, or apt-get install postgresql")


class Server:
    """A running server, which may be killed and started again; it listens on a socket in its folder alone."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.data = folder, folder / "data"
        # The server refuses to run as root.
        root = os.getuid() == 0
        self._user = {"user": "nobody", "group": pwd.getpwnam("nobody").pw_gid} if root else {}
        if root:
            os.chown(folder, pwd.getpwnam("nobody").pw_uid, -1)
        self._run("initdb", "--username=keeper", "--auth=trust", "--encoding=UTF8", "--no-locale", "-D", str(self.data))
        self.start()

    def _run(self, program: str, *arguments: str) -> None:
        command = [str(binaries() / program), *arguments]
        found = subprocess.run(command, capture_output=True, cwd="/", **self._user)  # type: ignore[call-overload]
        assert found.returncode == 0, found.stderr

    def start(self) -> None:
        """Start, and wait until it answers."""
        options = f"-c listen_addresses='' -c unix_socket_directories={self.folder} -c max_connections=60"
        log = str(self.folder / "log")
        self._run("pg_ctl", "-D", str(self.data), "-w", "-t", "60", "-l", log, "-o", options, "start")

    def stop(self, mode: str = "immediate") -> None:
        """Stop; "immediate" is a crash, from which the next start recovers."""
        self._run("pg_ctl", "-D", str(self.data), "-w", "-m", mode, "stop")

    def url(self, schema: str) -> str:
        """Of a ledger."""
        return f"postgresql://keeper@/postgres?host={self.folder}&schema={schema}"


@contextlib.contextmanager
def server() -> Iterator[Server]:
    """A new server, gone with its folder afterwards."""
    with tempfile.TemporaryDirectory(prefix="dpstats-pg", dir="/tmp", ignore_cleanup_errors=True) as folder:
        running = Server(Path(folder))
        try:
            yield running
        finally:
            with contextlib.suppress(AssertionError):
                running.stop()


def schema_of(url: str) -> tuple[str, str]:
    """The URL of the database, and the schema of a ledger in it."""
    database, schema = url.split("&schema=")
    return database, schema


@contextlib.contextmanager
def raw(path: Path | str) -> Iterator[Callable[[str], object]]:
    """What executes a statement on a ledger, past the package."""
    if isinstance(path, Path):
        connection = sqlite3.connect(path, isolation_level=None)
        yield connection.execute
        connection.close()
        return
    database, schema = schema_of(path)
    with psycopg.connect(database, autocommit=True, options=f"-c search_path={schema}") as session:
        yield session.execute  # type: ignore[misc]


BROKEN_RULES = (sqlite3.IntegrityError, psycopg.IntegrityError)
