"""How much memory there is for rows that are kept between passes, and how much of it is taken."""

from __future__ import annotations

import os
import weakref
from pathlib import Path

from dpstats.arguments import is_number, shown
from dpstats.errors import ArgumentError

SHARE = 0.5
"""Of the machine's memory, for rows that are kept between passes."""

ASSUMED = 2**32
"""Bytes of a machine that does not tell."""

_LIMITS = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")


class Memory:
    """Bytes that kept rows may take up together.

    Parameters
    ----------
    limit : float, optional
        `SHARE` of the machine's memory by default, or of what the container may use if that is less.

    Raises
    ------
    ArgumentError
        If `limit` is no positive number.
    """

    def __init__(self, limit: float | None = None) -> None:
        if limit is not None and not (is_number(limit) and limit > 0):
            raise ArgumentError(f"memory must be a positive number of bytes, such as 2e9, got {shown(limit)}")
        self.limit = SHARE * machine_bytes() if limit is None else float(limit)
        self.taken = 0

    def take(self, size: int) -> bool:
        """Take so many bytes if they are left."""
        if self.taken + size > self.limit:
            return False
        self.taken += size
        return True

    def give(self, size: int) -> None:
        """Give bytes back."""
        self.taken -= size

    def lend(self, owner: object, size: int) -> None:
        """Give bytes back when `owner` is gone."""
        weakref.finalize(owner, self.give, size)


def machine_bytes() -> float:
    """The memory of the machine, or of the container if that is less, in bytes."""
    try:
        physical = float(os.sysconf("SC_PAGE_SIZE")) * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):  # Windows has no sysconf
        return float(ASSUMED)
    return min(physical, *map(_container_limit, _LIMITS))


def _container_limit(path: str) -> float:
    try:
        return float(Path(path).read_text())
    except (OSError, ValueError):  # there is none, or it says "max"
        return float("inf")
