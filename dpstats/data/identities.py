"""Cells as identities of persons: 128 bits that no two persons share and every container agrees on."""

from __future__ import annotations

import decimal
import hashlib
import uuid
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpstats.domain import as_number

Identities = NDArray[np.uint64]
"""Shape (rows, 2)."""

MISSING_WORDS = ("", ".", "?", "NA", "N/A", "n/a", "NaN", "nan", "NULL", "null", "None", "<NA>", "#N/A")
"""Texts that stand for missing in the files of R, pandas, Stata and SAS, where no level is declared so."""

MISSING_IDENTITY = np.uint64(2**64 - 1)
"""Both halves of the identity of a missing cell."""

NUMBER, INTEGER = np.uint64(0), np.uint64(1)
"""First halves: of a number, whose bits follow, and of a whole number that no double holds. Texts' are hashed."""

LONGEST = 400
"""Letters of the longest text, and digits of the longest decimal, that is looked at as a number: doubles need fewer."""

EXACT = 2**53
"""Whole numbers below it are doubles."""


def of_numbers(numbers: NDArray[np.float64]) -> Identities:
    """Identities of doubles; what is not finite is missing."""
    identities = _by_bits(numbers)
    wide = np.isfinite(numbers) & (np.abs(numbers) >= EXACT)
    signed = wide & (np.abs(numbers) < 2.0**63)
    identities[signed] = of_integers(numbers[signed].astype(np.int64))
    for place in np.flatnonzero(wide & ~signed):
        identities[place] = _integer(int(numbers[place]))
    return identities


def of_integers(values: NDArray[np.integer[Any]], known: NDArray[np.bool_] | None = None) -> Identities:
    """Identities of integers of up to 64 bits, exactly; `known` is False where a cell is missing."""
    wide = (values >= EXACT) | (values <= -EXACT)
    exact = np.column_stack([np.full(len(values), INTEGER), values.astype(np.uint64, casting="unsafe")])
    identities = np.where(wide[:, None], exact, _by_bits(values.astype(np.float64)))
    return identities if known is None else np.where(known[:, None], identities, MISSING_IDENTITY)


def _by_bits(numbers: NDArray[np.float64]) -> Identities:
    """Doubles by their bits; what is not finite is missing."""
    # Adding zero makes minus zero zero.
    bits = (numbers + 0.0).view(np.uint64)
    return np.where(
        np.isfinite(numbers)[:, None], np.column_stack([np.full(len(bits), NUMBER), bits]), MISSING_IDENTITY
    )


def of_cell(cell: object) -> tuple[int, int]:
    """Both halves of one cell's identity. Never raises, and calls no method of the cell's own class."""
    kind = type(cell)
    if issubclass(kind, str) and len(stripped := str.strip(cell)) > LONGEST:  # type: ignore[arg-type]
        return _text(stripped)
    if kind is bytes:
        return _hashed(b"b" + cell)  # type: ignore[operator]
    if kind is uuid.UUID:
        return _hashed(b"u" + uuid.UUID.__int__(cell).to_bytes(16, "little"))  # type: ignore[arg-type]
    number = as_number(cell)
    if abs(number) < EXACT:
        return int(NUMBER), int(np.float64(number + 0.0).view(np.uint64))
    if issubclass(kind, int):
        return _integer(int.__int__(cell))  # type: ignore[arg-type]
    if issubclass(kind, np.integer):
        return _integer(int(cell))  # type: ignore[call-overload]
    if kind is decimal.Decimal or (issubclass(kind, str) and number == number):
        return _decimal(cell, number)
    if issubclass(kind, str):
        return _text(str.strip(cell))  # type: ignore[arg-type]
    # Doubles, and what counts as one, are whole from there on.
    return _integer(int(number)) if number == number else (int(MISSING_IDENTITY), int(MISSING_IDENTITY))


def _decimal(cell: Any, number: float) -> tuple[int, int]:
    """A decimal, or a text that spells one, from 2**53 on: by its whole number, or by its ratio of whole numbers."""
    try:
        value = cell if type(cell) is decimal.Decimal else decimal.Decimal(str.strip(cell))
    except decimal.InvalidOperation:  # what spells a double and no decimal
        return _integer(int(number))
    if number != number or len(value.as_tuple().digits) > LONGEST:  # beyond doubles, none, or too long to reckon with
        return (
            _hashed(b"d" + str(value).encode()) if value.is_finite() else (int(MISSING_IDENTITY), int(MISSING_IDENTITY))
        )
    over, under = value.as_integer_ratio()
    return _integer(over) if under == 1 else _hashed(b"r" + _bytes_of(over) + b"/" + _bytes_of(under))


def _text(text: str) -> tuple[int, int]:
    """Text that is no number that a double can be near: by its letters; what stands for missing is nobody's."""
    if not text:
        return int(MISSING_IDENTITY), int(MISSING_IDENTITY)
    first, second = _hashed(b"t" + text.encode("utf-8", "surrogatepass"))
    # Nobody's, by its first half, but no two cells that differ are alike: a pass over the rows is known by them.
    return int(MISSING_IDENTITY) if text in MISSING_WORDS else first, second


def _integer(value: int) -> tuple[int, int]:
    """A whole number from 2**53 on: by its bits as `of_integers` has them, or hashed if 64 do not hold it."""
    if -(2**63) <= value < 2**64:
        return int(INTEGER), value % 2**64
    return _hashed(b"i" + _bytes_of(value))


def _bytes_of(value: int) -> bytes:
    # Not as digits, which Python refuses to write of very long numbers.
    return value.to_bytes(value.bit_length() // 8 + 1, "little", signed=True)


def _hashed(cell: bytes) -> tuple[int, int]:
    digest = hashlib.blake2b(cell, digest_size=16).digest()
    return int.from_bytes(digest[:8], "little"), int.from_bytes(digest[8:], "little")
