"""Neighbouring data sets at which a generalised linear model's mechanism is hardest pressed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpstats.families.base import Family
from dpstats.privacy.guarantee import Adjacency, check_adjacency

Rows = tuple[NDArray[np.float64], NDArray[np.float64]]


class Pair(NamedTuple):
    """Two neighbouring data sets, each (endog, exog) of shapes (rows,) and (rows, size)."""

    name: str
    data: Rows
    neighbour: Rows


def worst_cases(family: Family, row_norm: float, size: int, adjacency: Adjacency = "add_remove") -> Iterator[Pair]:
    """Extreme neighbouring pairs for mechanisms on rows with ||x||_2 <= `row_norm`.

    Each pair has a base of few rows, where one more row weighs most: none at all, one aligned with the changed row,
    one opposed to it, one orthogonal to it, or zero rows (which count but say nothing). The changed row is as long
    as the bound allows, along the first axis or the diagonal, with each extreme response of the family.

    Parameters
    ----------
    family : Family
        Its response clipping tells the extreme responses.
    row_norm : float
        The l2 bound on rows.
    size : int
        Number of columns.
    adjacency : {"add_remove", "replace_one"}
        For "replace_one" the neighbour holds another row in the changed row's place, with the opposite response or
        pointing the other way.

    Yields
    ------
    Pair
    """
    check_adjacency(adjacency)
    responses = _responses(family)
    for shape, row in _rows(row_norm, size).items():
        for base_name, base in _bases(row, responses[-1]).items():
            for response in responses:
                name = f"{base_name}, {shape} row, response {response:g}"
                present = _append(base, response, row)
                if adjacency == "add_remove":
                    yield Pair(name, base, present)
                    continue
                opposite = responses[0] if response == responses[-1] else responses[-1]
                yield Pair(f"{name} turned round", present, _append(base, response, -row))
                yield Pair(f"{name} to {opposite:g}", present, _append(base, opposite, row))


def _responses(family: Family) -> list[float]:
    """Moderate and extreme responses, as the family's own clipping leaves them."""
    tried = np.array([-1e6, -1.0, 0.0, 1.0, 1e6])
    return [float(y) for y in np.unique(family.clip_response(tried))]


def _rows(row_norm: float, size: int) -> dict[str, NDArray[np.float64]]:
    axis = np.zeros(size)
    axis[0] = row_norm
    rows = {"axis": axis}
    if size > 1:
        rows["diagonal"] = np.full(size, row_norm / np.sqrt(size))
    return rows


def _bases(row: NDArray[np.float64], response: float) -> dict[str, Rows]:
    size = len(row)
    orthogonal = np.zeros(size)
    orthogonal[-1] = np.linalg.norm(row)
    bases = {
        "empty": np.empty((0, size)),
        "aligned": row[None, :],
        "opposed": -row[None, :],
        "zero rows": np.zeros((3, size)),
    }
    if size > 1:
        bases["last axis"] = orthogonal[None, :]
    return {name: (np.full(len(exog), response), exog) for name, exog in bases.items()}


def _append(base: Rows, response: float, row: NDArray[np.float64]) -> Rows:
    endog, exog = base
    return np.append(endog, response), np.vstack([exog, row])
