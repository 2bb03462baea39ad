"""What a method is likely to cost: second-order predictions on rows made up from public facts (docs/guide/methods)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpstats.families import Family

Vector = NDArray[np.float64]
Matrix = NDArray[np.float64]

COEFFICIENTS = 64
"""Draws of typical coefficients that a prediction is the mean over."""

SEED = 20231
"""Of what is made up; public, like all that a prediction rests on."""


@dataclass(frozen=True)
class Prediction:
    """What a release is likely to cost at some number of rows.

    Attributes
    ----------
    noise : float
        Root mean square over the coefficients of the standard deviation that noise gives them, in model units.
    excess : float
        The mean over the noise of what privacy adds to the mean loss of the rows.
    """

    noise: float
    excess: float


@dataclass(frozen=True, eq=False)
class MadeUp:
    """Populations of rows made up from public facts.

    Attributes
    ----------
    coefficients : ndarray, shape (k, p)
        Counted from what the quadratic term shrinks to, in model units.
    information : ndarray, shape (k, p, p)
        The mean of l'' x x' at each of them.
    """

    coefficients: Matrix
    information: Matrix

    def mean(self, costs: Callable[[Matrix, Vector], tuple[Matrix, Matrix]], rows: float) -> Prediction:
        """The mean over the populations.

        Parameters
        ----------
        costs : callable
            From the Hessian of all rows and the coefficients to the covariance of the noise in the release and the mean
            square of its bias, each of shape (p, p).
        rows : float
        """
        found = []
        for information, coefficients in zip(self.information, self.coefficients, strict=True):
            hessian = rows * information
            noise, bias = costs(hessian, coefficients)
            found.append((np.trace(noise) / len(noise), np.sum(hessian * (noise + bias)) / (2 * rows)))
        square, excess = np.mean(found, axis=0)
        return Prediction(float(np.sqrt(square)), float(excess))


def made_up_populations(family: Family, exog: Matrix, sizes: Vector, center: Vector) -> MadeUp:
    """Rows beside coefficients drawn at random with the typical sizes.

    Parameters
    ----------
    family : Family
    exog : ndarray, shape (rows, p)
        Made-up rows in model units.
    sizes : ndarray, shape (p,)
        Typical sizes of the coefficients.
    center : ndarray, shape (p,)
        What they are counted from.

    Notes
    -----
    Responses are the mean that the coefficients predict: a response's own scatter is not public.
    """
    coefficients = sizes * np.random.default_rng(SEED).normal(size=(COEFFICIENTS, len(sizes)))
    information = np.empty((COEFFICIENTS, exog.shape[1], exog.shape[1]))
    for at, drawn in enumerate(coefficients):
        eta = exog @ (center + drawn)
        endog = family.clip_response(np.asarray(family.mean(eta), dtype=np.float64))
        weights = family.derivatives(eta, endog).curvature
        information[at] = (exog * weights[:, None]).T @ exog / len(exog)
    return MadeUp(coefficients, information)


def predict_objective(made_up: MadeUp, rows: float, curvature: Vector, covariance: Matrix) -> Prediction:
    """Of the minimiser of losses + theta'M theta / 2 + b'theta, b of the given covariance.

    Parameters
    ----------
    made_up : MadeUp
    rows : float
    curvature : ndarray, shape (p,)
        The diagonal of M.
    covariance : ndarray, shape (p, p)
    """

    def costs(hessian: Matrix, coefficients: Vector) -> tuple[Matrix, Matrix]:
        inverse = np.linalg.inv(hessian + np.diag(curvature))
        bias = inverse @ (curvature * coefficients)
        return inverse @ covariance @ inverse, np.outer(bias, bias)

    return made_up.mean(costs, rows)


def predict_output(made_up: MadeUp, rows: float, curvature: Vector, variances: Vector) -> Prediction:
    """Of the minimiser without b, plus independent noise of variances of shape (p,)."""

    def costs(hessian: Matrix, coefficients: Vector) -> tuple[Matrix, Matrix]:
        bias = np.linalg.solve(hessian + np.diag(curvature), curvature * coefficients)
        return np.diag(variances), np.outer(bias, bias)

    return made_up.mean(costs, rows)


def predict_posterior(made_up: MadeUp, rows: float, curvature: Vector, temperature: float) -> Prediction:
    """Of a draw from exp(-c (losses + theta'M theta / 2)), c the temperature."""

    def costs(hessian: Matrix, coefficients: Vector) -> tuple[Matrix, Matrix]:
        inverse = np.asarray(np.linalg.inv(hessian + np.diag(curvature)), dtype=np.float64)
        bias = inverse @ (curvature * coefficients)
        return inverse / temperature, np.outer(bias, bias)

    return made_up.mean(costs, rows)


def predict_moments(
    made_up: MadeUp, rows: float, axes: Matrix, variance: Callable[[float], float], ridge: float
) -> Prediction:
    """Of coefficients from noisy normal equations, stabilised eigenvalue by eigenvalue (docs/proofs/statistics, 4).

    Parameters
    ----------
    made_up : MadeUp
    rows : float
    axes : ndarray, shape (p, p)
        K with x = K z, the noise of the equations being alike in all directions of z.
    variance : callable
        From the norm of the coefficients of z to the variance of that noise in any direction.
    ridge : float
        m: the eigenvalue l of the equations becomes l / 2 + sqrt(l^2 / 4 + m^2).
    """

    def costs(hessian: Matrix, coefficients: Vector) -> tuple[Matrix, Matrix]:
        inner = np.linalg.solve(axes, np.linalg.solve(axes, hessian).T)
        values, vectors = np.linalg.eigh((inner + inner.T) / 2)
        values = np.maximum(values, 0.0)
        steady = values / 2 + np.sqrt(values**2 / 4 + ridge**2)
        turned = axes.T @ coefficients
        # Coefficients u of z are K' theta.
        back = np.linalg.solve(axes.T, vectors)
        bias = back @ ((1 - values / steady) * (vectors.T @ turned))
        spread = variance(float(np.linalg.norm(turned))) / steady**2
        return (back * spread) @ back.T, np.outer(bias, bias)

    return made_up.mean(costs, rows)
