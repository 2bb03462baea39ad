"""The bytes of a stream's state: a header that says what they are, a checksum, and JSON."""

from __future__ import annotations

import hashlib
import json
from typing import Any

from dpstats.errors import StreamError

VERSION = 1

HEADER = b"dpstats stream state %d: PRIVATE DATA, as confidential as the rows; never publish, copy or edit\n"


def pack(content: dict[str, Any]) -> bytes:
    """Header, SHA-256 of the body, body."""
    body = json.dumps(content, separators=(",", ":"), allow_nan=False).encode()
    return HEADER % VERSION + hashlib.sha256(body).hexdigest().encode() + b"\n" + body


def unpack(content: bytes) -> dict[str, Any]:
    """What `pack` was given.

    Raises
    ------
    StreamError
        If the header, the version or the checksum is another.
    """
    header, _, rest = content.partition(b"\n")
    if header + b"\n" != HEADER % VERSION:
        raise StreamError("this is no stream state of this version of dpstats")
    digest, _, body = rest.partition(b"\n")
    if hashlib.sha256(body).hexdigest().encode() != digest:
        raise StreamError("the state is damaged: its checksum does not match")
    found = json.loads(body)
    assert isinstance(found, dict)
    return found
