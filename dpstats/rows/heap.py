"""Memory that a task frees and soon asks for again stays with the process while the task runs.

Dask has its workers give freed memory back at once (``MALLOC_TRIM_THRESHOLD_=65536``). A pass over rows takes and frees
some hundred kilobytes for every piece of them, and half as much time again goes into getting them back from the system.
"""

from __future__ import annotations

import ctypes
import functools
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

TRIM, MAP = -1, -3
"""glibc's M_TRIM_THRESHOLD and M_MMAP_THRESHOLD."""

KEPT = 2**26
"""Bytes at the end of the heap that are not given back during a task."""

LARGEST = 2**25
"""Bytes of an array that still goes into the heap; glibc takes no more."""

TRIMMED, MAPPED = 2**17, 2**17
"""glibc's own thresholds, where the environment sets none."""


@contextmanager
def kept_heap() -> Iterator[None]:
    """Keep freed memory until the end of the block, on systems that let us; elsewhere nothing happens."""
    option = _mallopt()
    if option is None:
        yield
        return
    option(TRIM, KEPT)
    option(MAP, LARGEST)
    try:
        yield
    finally:
        option(MAP, _threshold("MALLOC_MMAP_THRESHOLD_", MAPPED))
        option(TRIM, _threshold("MALLOC_TRIM_THRESHOLD_", TRIMMED))


def _threshold(name: str, otherwise: int) -> int:
    given = os.environ.get(name, "")
    return min(int(given), 2**31 - 1) if given.isdigit() else otherwise


@functools.cache
def _mallopt() -> Callable[[int, int], int] | None:
    """glibc's function; None in other libraries."""
    if sys.platform != "linux":
        return None
    library = ctypes.CDLL(None)
    return library.mallopt if hasattr(library, "gnu_get_libc_version") and hasattr(library, "mallopt") else None
