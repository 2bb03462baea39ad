"""The inverse of a matrix released with noise (docs/proofs/inference, 3)."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from dpstats.errors import ArgumentError
from dpstats.inference.matrix import MatrixLaw

Float = NDArray[np.float64]
MatrixMap = Callable[[Float], Float]

STEPS = 500
"""Newton steps at most; ten are usual."""

TOLERANCE = 1e-12
"""Size of an entry of the normalised equation's residual at which it counts as solved."""

SLOPE = 1e-4
"""Share of the decrease predicted by the slope that a step must reach (Armijo's rule)."""


def self_consistent_inverse(information: Float, law: MatrixLaw, start: Float | None = None) -> Float:
    """The positive definite G with G^-1 = H + S(G), S(A) = E[E A E].

    Parameters
    ----------
    information : ndarray, shape (p, p)
        H, any symmetric matrix: noise may have made it indefinite.
    law : MatrixLaw
        The law of its noise E; every diagonal entry must have some.
    start : ndarray, shape (p, p), optional
        A positive definite guess at G.

    Returns
    -------
    ndarray, shape (p, p)
        The minimiser of tr(HG) + tr(G S(G))/2 - log det G, by damped Newton steps, each found by conjugate gradients.
        Every step lowers that function, whatever H is.

    Raises
    ------
    ArgumentError
        If H is not symmetric and finite, or a diagonal entry has no noise.
    """
    information = check_symmetric("information", information, law.size)
    size = law.size
    deviations = np.sqrt(law.bilinear(np.eye(size), np.eye(size)))
    if not np.all(deviations > 0):
        raise ArgumentError("law must give every diagonal entry noise")
    unit = np.sqrt(deviations)
    scaled = information / np.outer(unit, unit)

    def square(matrix: Float) -> Float:
        return law.square(matrix / np.outer(unit, unit)) / np.outer(unit, unit)

    factor = _start(scaled, square(np.eye(size)), None if start is None else start * np.outer(unit, unit))
    before = np.inf
    for _ in range(STEPS):
        residual = factor.T @ (scaled + square(factor @ factor.T)) @ factor - np.eye(size)
        error = float(np.max(np.abs(residual)))
        # Newton's steps square small errors, so one that hardly falls has reached rounding.
        if error <= TOLERANCE or (error < 1e-5 and error > before / 4):
            break
        before = error
        factor = _step(residual, factor, square)
    inverse = factor @ factor.T / np.outer(unit, unit)
    return (inverse + inverse.T) / 2


def check_symmetric(name: str, matrix: Float, size: int) -> Float:
    """Return a finite symmetric `matrix`, shape (size, size), free of rounding's asymmetry, or raise ArgumentError."""
    matrix = np.asarray(matrix, dtype=np.float64)
    if matrix.shape != (size, size) or not np.all(np.isfinite(matrix)):
        raise ArgumentError(f"{name} must be a finite matrix of {size} rows and columns")
    if np.max(np.abs(matrix - matrix.T)) > 1e-8 * np.max(np.abs(matrix)):
        raise ArgumentError(f"{name} must be symmetric")
    return (matrix + matrix.T) / 2


def _start(scaled: Float, noise: Float, guess: Float | None) -> Float:
    """A factor L of a first G = L L': of the guess, or of (H + c I)^-1 with c = s^2 sum 1/(lambda_i + c)."""
    if guess is not None:
        return np.asarray(np.linalg.cholesky(guess), dtype=np.float64)
    values, vectors = np.linalg.eigh(scaled)
    variance = float(np.trace(noise)) / len(values) ** 2
    # The root lies above max(0, -lambda_min), and where 1/(lambda_i + c) are all at most what the smallest gives.
    low = max(0.0, -float(values[0]))
    high = low + np.sqrt(variance * len(values)) + 1e-300
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if middle < variance * np.sum(1 / (values + middle)) else (low, middle)
    return np.asarray(vectors / np.sqrt(values + high), dtype=np.float64)


def _step(residual: Float, factor: Float, square: MatrixMap) -> Float:
    """The factor after one damped Newton step."""

    def curvature(matrix: Float) -> Float:
        return matrix + factor.T @ square(factor @ matrix @ factor.T) @ factor

    direction = _newton_direction(residual, curvature)
    values, vectors = np.linalg.eigh(direction)
    slope = float(np.sum(residual * direction))
    quadratic = float(np.sum(direction * curvature(direction) - direction**2)) / 2
    step = 1.0
    while True:
        moved = step * values
        if moved[0] > -1:
            # The function's change, without cancellation: the linear term of the logarithm is in the residual.
            change = step * slope + step**2 * quadratic + float(np.sum(moved - np.log1p(moved)))
            if change <= SLOPE * step * slope or step < 1e-12:
                break
        step /= 2
    return np.asarray(factor @ vectors * np.sqrt(1 + step * values), dtype=np.float64)


def _newton_direction(residual: Float, curvature: MatrixMap) -> Float:
    """Y with curvature(Y) = -residual by conjugate gradients, stopped at a direction of negative curvature."""
    solution, left = np.zeros_like(residual), -residual
    search = left
    square = first = float(np.sum(left**2))
    goal = first * min(0.1, np.sqrt(first)) ** 2
    for step in range(10 * len(residual) + 50):
        image = curvature(search)
        bend = float(np.sum(search * image))
        if bend <= 0:
            return solution if step else left
        solution = solution + square / bend * search
        left = left - square / bend * image
        before, square = square, float(np.sum(left**2))
        if square <= goal:
            break
        search = left + square / before * search
    return (solution + solution.T) / 2
