"""One record to a row of the design, by a program of plain public data that needs no data frame.

The program is compiled from the design that everyone else uses (`dpstats.local.compile`) and travels in the
specification. Privacy does not rest on it: what it returns is shrunk to norm one, whatever it says.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpstats.cached import cached_property
from dpstats.domain import Domain, Range, as_number, canonical
from dpstats.errors import DataError, DomainError
from dpstats.formula.expression import Node, as_codes, as_numbers, bind, columns_of, evaluate
from dpstats.formula.public_frame import Codes, Encoded
from dpstats.formula.response import Response, ResponseSpec
from dpstats.formula.translate import compile_factor
from dpstats.quiet import quiet

Array = NDArray[np.float64]

MOST_SHOWN = 10  # So many declared levels are told a contributor whose cell has none of them
SLACK = 1e-12  # Rows are shrunk to this share below norm one, so that rounding never puts them above it


@dataclass(frozen=True, eq=False)
class Program:
    """A compiled design."""

    exog_domain: Domain  # The columns that explain
    endog_domain: Domain  # Those of the response, as it is coded
    response: ResponseSpec
    factors: tuple[str, ...]  # The code of every factor on the right-hand side
    # For each run of columns its factors: pairs of a position in `factors` and, for a factor of levels, the coding
    # matrix, shape (levels, columns). The first factor's columns vary fastest.
    subterms: tuple[tuple[tuple[int, Array | None], ...], ...]
    # lower, upper, center, scale: (p,), as in `DesignSpec`.
    lower: Array
    upper: Array
    center: Array
    scale: Array
    # First column, last column and one, l2 and l1 bound of the terms that are shrunk to their bounds.
    shrunk: tuple[tuple[int, int, float, float], ...] = field(default=())

    @property
    def size(self) -> int:
        """The number p of columns."""
        return len(self.lower)

    @cached_property
    def _nodes(self) -> tuple[Node, ...]:
        return tuple(bind(compile_factor(code).node, self.exog_domain) for code in self.factors)

    @cached_property
    def _response(self) -> Response:
        node = bind(compile_factor(self.response.name).node, self.endog_domain)
        return Response(self.response, node, self.endog_domain)

    def encode(self, record: Mapping[str, Any]) -> tuple[Array, float] | None:
        """The row in model units, of norm at most 1, and the response; None if a cell is missing or unusable.

        DataError if `record` is not a mapping, or lacks a column; None stands for a missing cell.
        """
        if not isinstance(record, Mapping):
            raise DataError(
                "record must be one contributor's cells by column, such as "
                f"{{{next(iter(self.exog_domain), 'x')!r}: ...}}, got {type(record).__name__}"
            )
        for name in (*self.exog_domain, *self.endog_domain):
            if name not in record:
                raise DataError(f"record lacks the column {name!r}; give None for a missing cell")
        with quiet():
            explaining = _cells(record, self.exog_domain)
            explained = _cells(record, self.endog_domain)
            if explaining is None or explained is None:
                return None
            row, outcome = self._row(explaining), float(self._response.encode(explained)[0])
            return (row, outcome) if np.isfinite(row).all() and np.isfinite(outcome) else None

    def faults(self, record: Mapping[str, Any]) -> dict[str, str]:
        """What is wrong with the cells of a record by field, in words that quote none of them; missing ones are not."""
        faults = {}
        for name, declared in (*self.exog_domain.items(), *self.endog_domain.items()):
            cell, number = record[name], as_number(record[name])
            if cell is None or (isinstance(cell, float) and math.isnan(cell)):
                continue
            if not isinstance(declared, Range):
                if canonical(cell) not in declared.code_of():
                    levels = ", ".join(repr(level) for level in declared.values[:MOST_SHOWN])
                    more = ", ..." if len(declared.values) > MOST_SHOWN else ""
                    faults[name] = f"none of its declared levels ({levels}{more}), and the report is a null one"
            elif not math.isfinite(number):
                faults[name] = "not a number, and the report is a null one"
            elif not declared.holds(np.array(number)):
                low, high = declared.interval
                fate = "the report is a null one" if declared.drops else "was moved to its nearer end"
                faults[name] = f"outside of its declared range ({low:g}, {high:g}), and {fate}"
        return faults

    def _row(self, cells: Mapping[str, Encoded]) -> Array:
        values = [evaluate(node, cells) for node in self._nodes]
        parts = []
        for subterm in self.subterms:
            columns = np.ones(1)
            for position, coding in subterm:
                columns = np.multiply.outer(_columns(values[position], coding), columns).ravel()
            parts.append(columns)
        row: Array = np.clip(np.concatenate(parts), self.lower, self.upper)
        row[~np.isfinite(row)] = np.nan
        row = (row - self.center) / self.scale
        for start, stop, l2, l1 in self.shrunk:
            part = row[start:stop]
            part *= min(1.0, _share(l2, np.linalg.norm(part)), _share(l1, np.abs(part).sum()))
        row *= min(1.0, _share(1.0, np.linalg.norm(row)))
        return row

    def to_dict(self) -> dict[str, Any]:
        levels = self.response.levels
        subterms = [
            [[position, None if coding is None else coding.tolist()] for position, coding in subterm]
            for subterm in self.subterms
        ]
        return {
            "exog_domain": self.exog_domain.to_dict(),
            "endog_domain": self.endog_domain.to_dict(),
            "response": {**vars(self.response), "levels": None if levels is None else list(levels)},
            "factors": list(self.factors),
            "subterms": subterms,
            **{name: getattr(self, name).tolist() for name in ("lower", "upper", "center", "scale")},
            "shrunk": [list(term) for term in self.shrunk],
        }

    @classmethod
    def from_dict(cls, stored: Mapping[str, Any]) -> Program:
        """The inverse of `to_dict`; DomainError for anything else."""
        try:
            response = dict(stored["response"])
            levels = response.pop("levels")
            program = cls(
                Domain.from_dict(stored["exog_domain"]),
                Domain.from_dict(stored["endog_domain"]),
                ResponseSpec(**response, levels=None if levels is None else tuple(levels)),
                tuple(stored["factors"]),
                tuple(tuple((int(p), None if c is None else _floats(c, 2)) for p, c in s) for s in stored["subterms"]),
                **{name: _floats(stored[name], 1) for name in ("lower", "upper", "center", "scale")},
                shrunk=tuple((int(a), int(b), float(l2), float(l1)) for a, b, l2, l1 in stored["shrunk"]),
            )
        except (KeyError, TypeError, ValueError) as error:
            raise DomainError("the stored specification does not hold a design") from error
        names = {name for node in program._nodes for name in columns_of(node)}
        sizes = {len(getattr(program, name)) for name in ("lower", "upper", "center", "scale")}
        if not names <= set(program.exog_domain) or len(sizes) != 1:
            raise DomainError("the stored specification's design reads columns that it does not declare")
        return program


def _cells(record: Mapping[str, Any], domain: Domain) -> dict[str, Encoded] | None:
    """One encoded cell a column, or None if one is missing: a range is clipped to, levels are matched."""
    encoded: dict[str, Encoded] = {}
    for name, declared in domain.items():
        if isinstance(declared, Range):
            number = as_number(record[name])
            if not np.isfinite(number) or (declared.drops and not declared.holds(np.array(number))):
                return None
            encoded[name] = np.array([min(max(number, declared.low), declared.high)], dtype=np.float64)
        else:
            code = declared.code_of().get(canonical(record[name]), -1)  # type: ignore[arg-type]
            if code < 0:
                return None
            encoded[name] = Codes(np.array([code], dtype=np.intp), declared.values)
    return encoded


def _columns(value: Any, coding: Array | None) -> Array:
    """One row's columns of a factor, shape (k,)."""
    if coding is not None:
        codes = as_codes(value)
        assert codes is not None
        return coding[codes.values[0]]
    many = isinstance(value, np.ndarray) and value.ndim > 1
    return np.atleast_1d(value[0] if many else np.asarray(as_numbers(value), dtype=np.float64).ravel()[0])


def _share(bound: float, size: Any) -> float:
    """The factor that keeps a part of this size within the bound; 1 for a part of zeros or of NaN."""
    return bound / (1 + SLACK) / float(size) if size > 0 else 1.0


def _floats(values: Any, axes: int) -> Array:
    array = np.asarray(values, dtype=np.float64)
    if array.ndim != axes or not np.isfinite(array).all():
        raise ValueError("not a finite array")
    return array
