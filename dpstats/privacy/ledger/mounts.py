"""Whether a file is mounted by itself: a second name of it, beside which its log and its lock would be other files.

A hard link is counted in the file's status; a bind mount of one file (``docker -v file:file``) is not.
"""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

MOUNTS = "/proc/self/mountinfo"
"""Where Linux says what is mounted; a bind mount within one file system has no other mark."""

_ESCAPED = re.compile(rb"\\([0-7]{3})")


def is_mount_point(path: Path) -> bool:
    """Whether something is mounted at an absolute `path` without links.

    Raises
    ------
    OSError
        If the system does not tell.
    """
    if not sys.platform.startswith("linux"):
        return os.path.ismount(path)
    with open(MOUNTS, "rb") as file:
        points = {_ESCAPED.sub(_letter, line.split(b" ")[4]) for line in file if line.count(b" ") > 4}
    return os.fsencode(path) in points


def _letter(found: re.Match[bytes]) -> bytes:
    """A blank, tab, end of line or backslash, which mountinfo writes in octal."""
    return bytes([int(found[1], 8)])
