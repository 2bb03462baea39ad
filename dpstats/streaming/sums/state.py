"""The bytes of a running stream's state, and its lock (docs/proofs/streams, 7)."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import threading
from collections.abc import Iterator
from typing import Any

from dpstats.errors import ArgumentError, StreamError

VERSION = 1
HEADER = b"dpstats stream state %d: PRIVATE DATA, as confidential as the rows; never publish, copy or edit\n"


def pack(content: dict[str, Any]) -> bytes:
    """Header, SHA-256 of the body, body."""
    body = json.dumps(content, separators=(",", ":"), allow_nan=False).encode()
    return HEADER % VERSION + hashlib.sha256(body).hexdigest().encode() + b"\n" + body


def unpack(content: bytes) -> dict[str, Any]:
    """What `pack` was given. StreamError if the header, the version or the checksum is another."""
    if not isinstance(content, bytes):
        raise ArgumentError("content must be the bytes that to_bytes gave")
    header, _, rest = content.partition(b"\n")
    if header + b"\n" != HEADER % VERSION:
        raise StreamError("this is not a stream state of this version of dpstats")
    digest, _, body = rest.partition(b"\n")
    if hashlib.sha256(body).hexdigest().encode() != digest:
        raise StreamError("the state is damaged: its checksum does not match")
    facts = json.loads(body)
    assert isinstance(facts, dict)
    return facts


class TickLock:
    """One tick at a time, in the process that has the stream: two that are closed at once would have the same noise."""

    def __init__(self) -> None:
        self._process, self._lock = os.getpid(), threading.Lock()

    def check_process(self, fix: str) -> None:
        """StreamError in a process that was forked from the stream's."""
        if os.getpid() != self._process:
            raise StreamError(f"the stream belongs to another process, from which this one was forked: {fix}")

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        """StreamError while another thread is within the block."""
        if not self._lock.acquire(blocking=False):
            raise StreamError("another thread is closing a tick of this stream: close one after the other")
        try:
            yield
        finally:
            self._lock.release()
