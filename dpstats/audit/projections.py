"""Scalar views of a vector of released numbers, some learnt to tell two data sets apart."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import numpy as np
from scipy.special import expit

from dpstats.audit.bounds import FloatArray

Projection = Callable[[FloatArray], FloatArray]

_MOST_COORDINATES = 16
_MOST_IN_REGRESSION = 8
_TRAINING_ROWS = 20_000


def projections(first: FloatArray, second: FloatArray) -> Iterator[tuple[str, Projection]]:
    """Name and give each scalar view worth thresholding.

    Parameters
    ----------
    first, second : ndarray, shape (runs, size)
        What was released on the two data sets, finite.

    Yields
    ------
    name : str
    projection : callable
        Maps (rows, size) to (rows,).
    """
    size = first.shape[1]
    chosen = _telling_coordinates(first, second)
    for j in chosen[:_MOST_COORDINATES]:
        yield f"[{j}]", partial(_coordinate, j)
    if size > 1:
        yield from _norms(np.median(first, axis=0), np.median(second, axis=0))
        direction = _discriminant(first, second)
        yield "difference of means", lambda values: values @ direction
    yield "logistic regression", _regression(first, second, chosen[:_MOST_IN_REGRESSION])


def _coordinate(j: int, values: FloatArray) -> FloatArray:
    return values[:, j]


def _telling_coordinates(first: FloatArray, second: FloatArray) -> list[int]:
    """Coordinates by how far apart their empirical distribution functions are (on a subsample)."""
    a, b = np.sort(first[:_TRAINING_ROWS], axis=0), np.sort(second[:_TRAINING_ROWS], axis=0)
    grid = np.linspace(0, 1, 101)[1:-1]
    gaps = []
    for j in range(first.shape[1]):
        points = np.quantile(np.concatenate([a[:, j], b[:, j]]), grid)
        gap = np.searchsorted(a[:, j], points) / len(a) - np.searchsorted(b[:, j], points) / len(b)
        gaps.append(float(np.abs(gap).max()))
    return [int(j) for j in np.argsort(gaps)[::-1]]


def _norms(here: FloatArray, there: FloatArray) -> Iterator[tuple[str, Projection]]:
    yield "l1 norm", lambda values: np.abs(values).sum(axis=1)
    yield "l2 norm", lambda values: np.linalg.norm(values, axis=1)
    yield "largest entry", lambda values: np.abs(values).max(axis=1)
    yield "distance to the data set's median", lambda values: np.linalg.norm(values - here, axis=1)
    yield "distance to the neighbour's median", lambda values: np.linalg.norm(values - there, axis=1)


def _discriminant(first: FloatArray, second: FloatArray) -> FloatArray:
    """Fisher's direction; a combination that is free of noise on both sides dominates it, as it should."""
    spread = (np.atleast_2d(np.cov(first.T)) + np.atleast_2d(np.cov(second.T))) / 2
    spread += (1e-12 * np.trace(spread) + 1e-300) * np.eye(len(spread))
    direction: FloatArray = np.linalg.lstsq(spread, second.mean(axis=0) - first.mean(axis=0), rcond=None)[0]
    return direction


def _features(first: FloatArray, second: FloatArray, chosen: list[int]) -> Projection:
    """Level, size, square, support and nearness to zero and to either median; products when there are few."""
    pooled = np.vstack([first, second])
    middle = np.median(pooled, axis=0)
    scale = np.median(np.abs(pooled - middle), axis=0)
    scale = np.where(scale > 0, scale, np.where(pooled.std(axis=0) > 0, pooled.std(axis=0), 1.0))
    centres = [np.zeros(pooled.shape[1]), np.median(first, axis=0), np.median(second, axis=0)]
    floor = 1e-12 * scale

    def features(values: FloatArray) -> FloatArray:
        z = ((values - middle) / scale)[:, chosen]
        near = [np.log((np.abs(values - centre) + floor) / scale)[:, chosen] for centre in centres]
        far = [np.log((np.linalg.norm(values - centre, axis=1) + floor.min()) / scale.max()) for centre in centres]
        parts = [np.arcsinh(z), np.minimum(np.abs(z), 20), np.minimum(z**2, 50), *near, values[:, chosen] == 0]
        if len(chosen) <= 4:
            parts += [np.clip(z[:, [i]] * z[:, [j]], -50, 50) for i in range(len(chosen)) for j in range(i)]
        return np.column_stack([*parts, *far])

    return features


def _regression(first: FloatArray, second: FloatArray, chosen: list[int]) -> Projection:
    """The log odds of a ridge logistic regression on `_features`: an approximate log-likelihood ratio."""
    first, second = first[:_TRAINING_ROWS], second[:_TRAINING_ROWS]
    features = _features(first, second, chosen)
    design = features(np.vstack([first, second]))
    mean, spread = design.mean(axis=0), design.std(axis=0)
    spread = np.where(spread > 1e-9, spread, 1.0)
    design = np.column_stack([np.ones(len(design)), (design - mean) / spread])
    target = np.repeat([0.0, 1.0], [len(first), len(second)])
    ridge = 1e-3 * len(target) ** 0.5 * np.eye(design.shape[1])
    weights = np.zeros(design.shape[1])
    for _ in range(12):
        fitted = expit(design @ weights)
        hessian = (design.T * np.maximum(fitted * (1 - fitted), 1e-4)) @ design + ridge
        weights += np.linalg.solve(hessian, design.T @ (target - fitted) - ridge @ weights)
    return lambda values: ((features(values) - mean) / spread) @ weights[1:] + weights[0]
