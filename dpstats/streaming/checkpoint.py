"""The state of a running stream on disk: written durably before its numbers are shown, valid once, never turned back.

docs/proofs/streams, 11. A commit writes the next state beside the valid one, has the ledger move the stream on, and
renames. Wherever a process is killed, the ledger says which of the two files holds the valid state.
"""

from __future__ import annotations

import contextlib
import errno
import glob
import hashlib
import logging
import os
import secrets
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from dpstats.arguments import check_path, safe_repr
from dpstats.data import Table
from dpstats.errors import ArgumentError, LedgerError, StreamError
from dpstats.ledger.ledger import LedgerLike, as_ledger
from dpstats.ledger.spender import Spender
from dpstats.ledger.sqlite import is_mount_point, sync_directory
from dpstats.privacy.guarantee import Guarantee
from dpstats.quiet import strip_context
from dpstats.streaming.labels import ClosedLabels
from dpstats.streaming.sums.state import TickLock, pack, unpack

_log = logging.getLogger("dpstats")

CREATE = (
    """CREATE TABLE IF NOT EXISTS stream (
    entry INTEGER PRIMARY KEY REFERENCES entry, tick INTEGER NOT NULL CHECK (tick >= 0), digest TEXT NOT NULL
)""",
    """CREATE TRIGGER IF NOT EXISTS stream_moves_on BEFORE UPDATE ON stream
WHEN NEW.entry <> OLD.entry OR NEW.tick <> OLD.tick + 1 BEGIN
    SELECT RAISE(ABORT, 'a stream moves on by one tick');
END""",
    """CREATE TRIGGER IF NOT EXISTS stream_stays BEFORE DELETE ON stream BEGIN
    SELECT RAISE(ABORT, 'streams are never deleted');
END""",
)


class Position(NamedTuple):
    """A stream's last tick and the hash of its state after it."""

    tick: int
    digest: str


class StreamPositions:
    """The current tick of every stream in a ledger."""

    def __init__(self, spender: Spender) -> None:
        self._store, self._account = spender._store, spender._account

    def charge_of(self, plan_hash: str) -> int | None:
        """The number of the entry charged as `plan_hash`, unless it was refunded; None if there is none."""
        query = "SELECT id FROM entry WHERE plan_hash = ? AND state <> 'refunded'"
        with self._store.transaction(write=False) as connection:
            row = connection.execute(query, (plan_hash,)).fetchone()
        return None if row is None else int(row[0])

    def latest_like(self, plan_hash: str) -> int | None:
        """The number of the latest entry for a stream of the same rows and this plan; None if there is none."""
        query = """SELECT id FROM entry WHERE account = ? AND plan_hash LIKE ? AND state <> 'refunded'
ORDER BY id DESC LIMIT 1"""
        with self._store.transaction(write=False) as connection:
            row = connection.execute(query, (self._account, f"{plan_hash}:%")).fetchone()
        return None if row is None else int(row[0])

    def begin(self, entry: int, digest: str) -> None:
        """Record that the stream of an entry is before its first tick, unless the ledger knows the stream already.

        LedgerError if the charge was refunded, or the file cannot be written.
        """
        with self._store.transaction(write=True) as connection:
            if not self._store.has_table(connection, "stream"):
                for statement in CREATE:
                    connection.execute(statement)
            connection.execute("INSERT INTO stream VALUES (?, 0, ?) ON CONFLICT DO NOTHING", (entry, digest))
            connection.execute("UPDATE entry SET state = 'read' WHERE id = ? AND state = 'charged'", (entry,))
            state = connection.execute("SELECT state FROM entry WHERE id = ?", (entry,)).fetchone()
            if state is None or state[0] != "read":
                raise LedgerError(f"charge {entry} was refunded; charge the ledger again before reading rows")

    def position(self, entry: int) -> Position | None:
        """The position of the stream of an entry; None if the ledger knows no such stream."""
        with self._store.transaction(write=False) as connection:
            if not self._store.has_table(connection, "stream"):
                return None
            row = connection.execute("SELECT tick, digest FROM stream WHERE entry = ?", (entry,)).fetchone()
        return None if row is None else Position(int(row[0]), str(row[1]))

    def advance(self, entry: int, before: Position, digest: str) -> bool:
        """Advance a stream by one tick, durably, if its position is `before`; returns whether it was."""
        update = "UPDATE stream SET tick = tick + 1, digest = ? WHERE entry = ? AND tick = ? AND digest = ?"
        with self._store.transaction(write=True) as connection:
            return connection.execute(update, (digest, entry, before.tick, before.digest)).rowcount == 1


_FULL = "cannot be written: the disk is full, or a quota or limit is reached; free some space"
_FORBIDDEN = "cannot be read or written; give this process permission to the file and its folder"
_UNLOCKED = "cannot be locked: this file system has no locks; keep it on a local disk"
MOUNTED = "is a mount point, and a state is replaced by renaming; mount its folder instead"
_ADVICE = {
    **dict.fromkeys((errno.ENOSPC, errno.EDQUOT, errno.EFBIG), _FULL),
    **dict.fromkeys((errno.EACCES, errno.EPERM, errno.EROFS), _FORBIDDEN),
    **dict.fromkeys((errno.ENOLCK, errno.EOPNOTSUPP), _UNLOCKED),
    errno.EBUSY: MOUNTED,
}


@contextlib.contextmanager
def on_disk(path: Path) -> Iterator[None]:
    """Raise StreamError, with the fix, where the system refuses to read or write the file at `path`."""
    try:
        yield
    except OSError as error:
        advice = _ADVICE.get(error.errno or 0, f"cannot be read or written ({error.strerror}); check its disk")
        raise StreamError(f"state: {str(path)!r} {advice}") from error


def write_durably(path: Path, content: bytes, place: int | None = None) -> None:
    """Write a file that only its owner can read, or a part of it at `place`: it is on the disk when this returns."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | (os.O_TRUNC if place is None else 0), 0o600)
    try:
        os.lseek(descriptor, place or 0, os.SEEK_SET)
        rest = memoryview(content)
        while rest:  # the system may write less than it is given
            rest = rest[os.write(descriptor, rest) :]
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def file_lock(path: Path, *, make: bool) -> Iterator[None]:
    """Hold the lock of the file at `path`, where the system can lock files; a killed process holds none.

    Without `make` a file that is not there is not locked.
    """
    try:
        import fcntl
    except ImportError:  # Windows: the ledger alone tells processes apart
        yield
        return
    descriptor = _open_current(path, make, lambda one: fcntl.flock(one, fcntl.LOCK_EX))
    try:
        yield
    finally:
        if descriptor is not None:
            # Closed alone it would stay locked by a process that was forked meanwhile.
            fcntl.flock(descriptor, fcntl.LOCK_UN)
            os.close(descriptor)


def _open_current(path: Path, make: bool, lock: Callable[[int], None]) -> int | None:
    """The file at `path`, open and locked; None if there is none."""
    while True:
        try:
            descriptor = os.open(path, os.O_RDWR | (os.O_CREAT if make else 0), 0o600)
        except FileNotFoundError:
            return None
        try:
            lock(descriptor)
            # Another file may have taken the name while this one waited: then the lock is of no use.
            if os.path.samestat(os.fstat(descriptor), os.stat(path)):
                return descriptor
        except FileNotFoundError:
            pass
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)


OLD = (
    "the state is not the valid one: it is an old copy, or another process has closed a tick since. No charge "
    "covers a release from it; continue from the current state"
)
WAITS = "The tick is computed but not recorded: call update again, which records and shows it and reads no rows"
BROKEN = "a tick was not completed: open the stream again from its state; nothing is lost"
LOST = "a tick was not completed, and a stream without state= cannot continue: start a new one with state="


class Checkpoint:
    """One stream's state file and its place in the ledger, either of which may be missing."""

    def __init__(self, path: str | os.PathLike[str] | None, ledger: LedgerLike) -> None:
        self.ledger = as_ledger(ledger)
        self.path = None if path is None else _state_path(check_path("state", path))
        self._books = None if self.ledger is None else StreamPositions(self.ledger)
        self.entry: int | None = None
        """The number of the charge, once it is made."""
        self._position: Position | None = None
        self._first_state: bytes | None = None
        self._waiting: tuple[Mapping[str, Any], bytes] | None = None
        self._overtaken = False

    def load(self) -> dict[str, Any] | None:
        """The valid state, after repair of what a killed process left behind; None if no stream has begun here."""
        if self.path is None:
            return None
        with self._locked():
            content = self._content()
            content = self._first() if content is None else content
            if content is None:
                return None
            facts = unpack(content)
            if facts["charged"] != (self._books is not None):
                fix = "pass the ledger that it was charged to" if facts["charged"] else "leave it out"
                raise StreamError(f"ledger: the stream of this state was started differently; {fix}")
            if self._books is not None:
                content = self._valid(content, facts["identity"])
            self._put(content)
            return unpack(content)

    def warn_of_another(self, plan_hash: str) -> None:
        """Warn where a stream that has no state yet would be charged as one of the same plan was before."""
        entry = None if self._books is None else self._books.latest_like(plan_hash)
        if self._books is None or entry is None:
            return
        position = self._books.position(entry)
        ticks = 0 if position is None else position.tick
        there = "no state= was passed" if self.path is None else f"there is no state at {str(self.path)!r}"
        _log.warning(
            "dpstats: state: %s, so this is a new stream, and its first tick is charged anew. The ledger has paid "
            "for the same stream before (charge %d, %d %s): pass the state= of that one to continue it",
            there,
            entry,
            ticks,
            "tick" if ticks == 1 else "ticks",
        )

    def begin(self, facts: Mapping[str, Any], guarantee: Guarantee, **entry: Any) -> None:
        """Charge the ledger, if there is one, and make `facts`, with an "identity" that no other stream has, the state
        before tick 1; `entry` is what `Ledger.charge` is told.

        What fails after the charge may be tried again, and is not charged again: the state is the one of the charge.
        """
        content = self._first_state or self._packed(facts)
        with self._locked():
            if self.path is not None:
                if self._content() not in (None, content):
                    raise StreamError(OLD)
                # Staged before the charge: a process that is killed after it finds the stream that was paid for.
                self._stage(content)
            if self.ledger is not None and self._books is not None:
                if self.entry is None:
                    self.entry = self.ledger.charge(guarantee, plan_hash=facts["identity"], **entry).number
                    self._first_state = content
                self._books.begin(self.entry, digest_of(content))
            self._put(content)
        self._first_state = None

    def commit(self, facts: Mapping[str, Any]) -> None:
        """Make `facts` the valid state, one tick on, durably; nothing of the tick may be shown before.

        Where it fails these facts may be tried again, and no others: a tick of which two releases had been made would
        show, by the one that could be recorded, something of the other with the same noise.
        """
        if self._waiting is None:
            self._waiting = facts, self._packed(facts)
        pending, content = self._waiting
        if self._overtaken or self._position is None or pending is not facts:
            raise self._refused()
        after = Position(self._position.tick + 1, digest_of(content))
        with self._locked():
            if self.path is not None:
                # An attempt that failed late may have put it there.
                if digest_of(self._content() or b"") not in (self._position.digest, after.digest):
                    raise self._refused()
                self._stage(content)
            books, entry = self._books, self.entry
            if books is not None and entry is not None:
                advanced = books.advance(entry, self._position, after.digest)
                if not advanced and books.position(entry) != after:
                    raise self._refused()
            self._put(content)
        self._waiting = None

    def may_retry(self, error: BaseException) -> bool:
        """Whether the commit that `error` stopped may be tried again; a note in the error then says so.

        With a state file, a process that is interrupted continues from the file instead.
        """
        lasting = isinstance(error, Exception if self.path is not None else (Exception, KeyboardInterrupt))
        if retry := lasting and not self._overtaken:
            error.add_note(WAITS)
        return retry

    def _refused(self) -> StreamError:
        """Mark this object as unusable, since its state is not the valid one; returns the error that says so."""
        self._overtaken = True
        return StreamError(OLD)

    def _packed(self, facts: Mapping[str, Any]) -> bytes:
        """A state as bytes. Whoever may read the ledger sees a hash of it, which must not tell a guess of the rows from
        another: after the last tick nothing but this salt is secret in it.
        """
        return pack({**facts, "charged": self._books is not None, "salt": secrets.token_hex(32)})

    def _content(self) -> bytes | None:
        """The content of the state file; None if there is no file."""
        return self.path.read_bytes() if self.path is not None and self.path.exists() else None

    def _first(self) -> bytes | None:
        """The state before the first tick that a killed process paid for but did not move to the path."""
        for staged in self._staged_files():
            content = staged.read_bytes()
            with contextlib.suppress(StreamError):
                facts = unpack(content)
                entry = None if self._books is None else self._books.charge_of(facts["identity"])
                if self._books is not None and facts["tick"] == 0 and entry is not None:
                    self._books.begin(entry, digest_of(content))
                    return content
        return None

    def _valid(self, content: bytes, identity: str) -> bytes:
        """`content`, or the state one tick later that was committed but not moved to the path.

        StreamError if the ledger knows of another state than both.
        """
        assert self._books is not None
        self.entry = self._books.charge_of(identity)
        position = None if self.entry is None else self._books.position(self.entry)
        if position is None:
            raise StreamError("ledger: it was not charged for the stream of this state; pass the ledger that was")
        if position.digest == digest_of(content):
            return content
        for staged in self._staged_files():
            later = staged.read_bytes()
            if digest_of(later) == position.digest:
                return later
        raise StreamError(OLD)

    def _put(self, content: bytes) -> None:
        """Move `content` to the path, durably, and remove other staged files."""
        after = Position(int(unpack(content)["tick"]), digest_of(content))
        if self.path is not None:
            # Looked for before the rename: whoever locks the new state may stage the one after it from then on.
            staged_before = self._staged_files()
            if self._content() != content:
                if self._staged_path(content) not in staged_before:
                    self._stage(content)
                os.replace(self._staged_path(content), self.path)
            # Without a ledger the name alone decides: were it lost with the power, the tick could be closed again.
            sync_directory(self.path.parent)
            for staged in staged_before:
                with contextlib.suppress(OSError):
                    staged.unlink()
        self._position = after

    def _stage(self, content: bytes) -> None:
        """Write `content` to a file beside the state, durably, unless it is there: the ledger may name that file."""
        staged = self._staged_path(content)
        if not (staged.exists() and staged.read_bytes() == content):
            try:
                write_durably(staged, content)
            except (OSError, KeyboardInterrupt):
                with contextlib.suppress(OSError):
                    staged.unlink()
                raise
        sync_directory(staged.parent)

    def _staged_path(self, content: bytes) -> Path:
        assert self.path is not None
        return self.path.with_name(f".{self.path.name}.next-{digest_of(content)[:32]}")

    def _staged_files(self) -> list[Path]:
        assert self.path is not None
        return sorted(self.path.parent.glob(f".{glob.escape(self.path.name)}.next-*"))

    @contextlib.contextmanager
    def _locked(self) -> Iterator[None]:
        """Admit one process at a time, where the system can lock files, and turn its refusals into StreamError.

        The lock beside the state is there before the state is. Whoever removes it lets others in, so the state's own
        file is locked too: a rename gives its name to another file, and whoever has waited for the old one begins anew.
        """
        if self.path is None:
            yield
            return
        lock = self.path.with_name(f".{self.path.name}.lock")
        with on_disk(self.path), file_lock(lock, make=True), file_lock(self.path, make=False):
            yield


def _state_path(path: Path) -> Path:
    """The file of a state, links followed: a state has one name, or two objects would go on from it."""
    path = Path(os.path.realpath(path))
    if not path.parent.is_dir():
        raise ArgumentError(f"state: there is no directory {str(path.parent)!r}; make it first")
    if path.exists() and path.stat().st_nlink > 1:
        raise ArgumentError(f"state: {str(path)!r} has a second hard link; keep one of them")
    with on_disk(path):
        mounted = is_mount_point(path)
    if mounted:
        raise StreamError(f"state: {str(path)!r} {MOUNTED} (nothing was charged)")
    return path


class PendingTick(NamedTuple):
    """A tick that is computed but not shown yet."""

    facts: Mapping[str, Any] | None  # the state after it; None once that is valid
    release: Any
    label: str | None = None


class DurableTicks(ABC):
    """A stream's ticks, closed one after another in one process, each on the disk before it is shown."""

    label: str | None = None
    """Of the tick that was closed last."""

    def __init__(self, state: str | os.PathLike[str] | None, ledger: LedgerLike, last: int) -> None:
        self._checkpoint, self._last = Checkpoint(state, ledger), last
        self.lock, self._broken = TickLock(), False
        self._waiting: PendingTick | None = None
        self._labels = ClosedLabels()
        self._identity, self._begun = secrets.token_hex(16), False

    def _load(self, plan_hash: str) -> None:
        """Continue from the state, if there is one; else this is a new stream of the plan with that hash."""
        facts = self._checkpoint.load()
        if facts is not None:
            self._resume(facts)
            self._identity, self._begun = facts["identity"], True
        else:
            self._identity = f"{plan_hash}:{self._identity}"
            self._checkpoint.warn_of_another(plan_hash)

    @property
    def kept(self) -> str:
        """Where the state is, in words that follow others; empty without one."""
        path = self._checkpoint.path
        if path is None:
            return ""
        return f", state in {str(path)!r}" if self._begun else f", new, state to be kept in {str(path)!r}"

    @property
    @abstractmethod
    def tick(self) -> int:
        """Ticks closed so far."""

    @abstractmethod
    def table(self, rows: object) -> Table:
        """`rows` as a table of the stream's; ArgumentError, DataError, DomainError by its schema if it is none."""

    @abstractmethod
    def begin(self) -> None:
        """Charge the ledger and write the first state, once."""

    @abstractmethod
    def _compute(self, tables: Sequence[Table], label: str | None) -> Callable[[], PendingTick]:
        """Read the rows of a tick, which are paid for; returns the function that then makes the release."""

    @abstractmethod
    def _show(self, release: Any, label: str | None) -> None:
        """Make a release the latest one; a failure changes nothing."""

    @abstractmethod
    def _resume(self, facts: dict[str, Any]) -> None:
        """Continue from a state; StreamError if it is that of another stream."""

    def check_usable(self) -> None:
        """StreamError unless this object may close another tick, or record the pending one."""
        if self._broken:
            raise StreamError(LOST if self._checkpoint.path is None else BROKEN)
        self.lock.check_process("open it there")
        if self.tick >= self._last:
            raise StreamError(
                f"the stream is past its last tick, {self._last:,}: declare a longer horizon for a new one"
            )

    def check_label(self, label: str | None) -> None:
        """Raise unless `label` may follow the last one, or is that of the pending tick."""
        if label is not None and not isinstance(label, str):
            raise ArgumentError("label must be text: the public name of a tick")
        if self._waiting is not None:
            if label != self._waiting.label:
                named = "no label" if self._waiting.label is None else f"label={safe_repr(self._waiting.label)}"
                raise StreamError(
                    f"label: the tick that is not recorded yet has {named}; call update with that label first"
                )
            return
        if self.tick and (label is None) != (self.label is None):
            raise ArgumentError("label must be given for every tick, or for none")
        if label is not None:
            self._labels.check(label)

    @property
    def waits(self) -> bool:
        """Whether a tick is computed that could not be recorded: it is the next one, whatever rows are passed."""
        return self._waiting is not None

    def update(self, rows: object, label: str | None) -> None:
        """Close a tick with its rows, or record and show the pending one: another would have the same noise."""
        with self.lock.held():
            self.check_usable()
            self.check_label(label)
            if self.waits:
                strip_context(self._record)
                return
            table = self.table(rows)
            self.begin()
            self.close([table], label)

    def close(self, tables: Sequence[Table], label: str | None) -> None:
        """Close a tick, whose rows are charged for."""

        def close() -> None:
            step = self._compute(tables, label)
            self._broken = True  # until the step is whole: half of one can neither be gone on from nor taken back
            self._waiting = step()
            self._record()

        # Frames hold exact sums, and a release that nobody may see before it is on the disk.
        strip_context(close)

    def _record(self) -> None:
        assert self._waiting is not None
        self._broken = True  # until the tick is on the disk, unless it can be tried again
        try:
            if self._waiting.facts is not None:
                self._checkpoint.commit(self._waiting.facts)
                self._waiting = self._waiting._replace(facts=None)
            self._show(self._waiting.release, self._waiting.label)
        except BaseException as error:
            self._broken = not self._checkpoint.may_retry(error)
            raise
        self._waiting, self._broken = None, False


def digest_of(content: bytes) -> str:
    """A hash of a state; the state holds a salt that nobody can guess, so the hash says nothing of it."""
    return hashlib.sha256(content).hexdigest()
