"""How a file is written: whole or not at all, so that a full disk or a killed process costs no older one."""

from __future__ import annotations

import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

from dpstats.arguments import check_path, safe_repr
from dpstats.errors import ArgumentError


@contextmanager
def whole_file(path: Path, *, new: bool = False) -> Iterator[IO[bytes]]:
    """A file that takes its place when the block ends, and never if the block or the disk fails.

    It is written beside `path` under another name, put on the disk and then renamed. A device, such as /dev/stdout, is
    written to as it is.

    Parameters
    ----------
    path : Path
    new : bool
        Whether there must be no file yet.

    Raises
    ------
    OSError
        If it cannot be written; what was at `path` is there as before.
    """
    if new:
        path.open("xb").close()  # taken now, so that nobody else's file is replaced at the end
    elif path.exists() and not path.is_file():
        with path.open("wb") as file:
            yield file
        return
    target = Path(os.path.realpath(path))
    staged = target.with_name(f".{secrets.token_hex(8)}.part")
    try:
        with staged.open("xb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        if target.exists():
            staged.chmod(stat.S_IMODE(target.stat().st_mode))
        os.replace(staged, target)
    except BaseException:
        for left in (staged, target) if new else (staged,):
            with suppress(OSError):
                left.unlink()
        raise


def write_whole(path: Path, text: str, *, new: bool = False) -> None:
    """A text in UTF-8 as `whole_file` writes it."""
    with whole_file(path, new=new) as file:
        file.write(text.encode("utf-8"))


def write_file(path: str | Path, content: bytes) -> None:
    """Write a result to where a caller wants it; ArgumentError if it cannot be written."""
    target = check_path("path", path)
    try:
        with whole_file(target) as file:
            file.write(content)
    except OSError as error:
        refused = f"path: {safe_repr(str(target))} cannot be written ({error.strerror}); choose another"
        raise ArgumentError(refused) from error


def written_text(path: str | Path | None, text: str) -> str:
    """The text, which the file at `path` then holds as well, if there is a path."""
    if path is not None:
        write_file(path, text.encode("utf-8"))
    return text
