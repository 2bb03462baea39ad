"""The files of a stream: written whole, locked, and with what the system refuses said in words."""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Iterator
from pathlib import Path

from dpstats.errors import StreamError

_FULL = "cannot be written: the disk is full, or a quota or limit is reached; free some space"
_FORBIDDEN = "cannot be read or written; give this process permission to the file and its folder"
_UNLOCKED = "cannot be locked: this file system has no locks; keep it on a local disk"
MOUNTED = "is a mount point, and a state is replaced by renaming; mount the folder that it is in, not the file"

_ADVICE = {
    **dict.fromkeys((errno.ENOSPC, errno.EDQUOT, errno.EFBIG), _FULL),
    **dict.fromkeys((errno.EACCES, errno.EPERM, errno.EROFS), _FORBIDDEN),
    **dict.fromkeys((errno.ENOLCK, errno.EOPNOTSUPP), _UNLOCKED),
    errno.EBUSY: MOUNTED,
}


@contextlib.contextmanager
def on_disk(path: Path) -> Iterator[None]:
    """Raise StreamError, with the fix, where the system refuses to read or write what stands at `path`."""
    try:
        yield
    except OSError as error:
        advice = _ADVICE.get(error.errno or 0, f"cannot be read or written ({error.strerror}); check its disk")
        raise StreamError(f"state: {str(path)!r} {advice}") from error


def write_at(descriptor: int, content: bytes, place: int = 0) -> None:
    """All of `content` into an open file, on the disk when this returns: the system may write less than it is given."""
    rest = memoryview(content)
    os.lseek(descriptor, place, os.SEEK_SET)
    while rest:
        rest = rest[os.write(descriptor, rest) :]
    os.fsync(descriptor)


@contextlib.contextmanager
def locked(path: Path, *, make: bool) -> Iterator[None]:
    """Hold the lock of the file at `path`, where the system can lock files; a killed process holds none.

    Without `make` a file that is not there is not locked.
    """
    descriptor = _lock(path, os.O_RDWR | (os.O_CREAT if make else 0))
    try:
        yield
    finally:
        if descriptor is not None:
            os.close(descriptor)


def _lock(path: Path, flags: int) -> int | None:
    try:
        import fcntl
    except ImportError:  # Windows: the ledger alone tells processes apart
        return None
    while True:
        try:
            descriptor = os.open(path, flags, 0o600)
        except FileNotFoundError:
            return None
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            # Another file may have taken the name while this one waited: then the lock is of no use.
            if os.path.samestat(os.fstat(descriptor), os.stat(path)):
                return descriptor
        except FileNotFoundError:
            pass
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)
