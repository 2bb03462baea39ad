"""AdaSSP: linear regression from noisy sufficient statistics (Wang 2018, Algorithm 2), a peer for CPS1988."""

from __future__ import annotations

import math

import numpy as np

FAILURE = 0.05
"""The probability, rho in the paper, with which the chosen ridge may fall short of the noise matrix's norm."""


def adassp(
    exog: np.ndarray,
    endog: np.ndarray,
    eps: float,
    delta: float,
    random: np.random.Generator,
    row_norm: float = 1.0,
    response_bound: float = 1.0,
) -> np.ndarray:
    """(eps, delta)-private least squares, with a ridge that adapts to the smallest eigenvalue of the Gram matrix.

    Parameters
    ----------
    exog : ndarray, shape (rows, p)
        Rows of Euclidean norm at most `row_norm`.
    endog : ndarray, shape (rows,)
        At most `response_bound` in absolute value.
    eps, delta : float
    random : Generator
    row_norm, response_bound : float

    Returns
    -------
    ndarray, shape (p,)

    References
    ----------
    .. [1] Wang, Y.-X. (2018). Revisiting differentially private linear regression. UAI.
    """
    size = exog.shape[1]
    third, log_term = eps / 3, math.log(6 / delta)
    gram = exog.T @ exog
    deviation = math.sqrt(log_term) / third
    least = float(np.linalg.eigvalsh(gram)[0])
    least = max(least + row_norm**2 * (deviation * random.normal() - log_term / third), 0.0)
    noise_size = math.sqrt(size * log_term * math.log(2 * size**2 / FAILURE)) * row_norm**2 / third
    noise = np.triu(random.normal(size=(size, size)))
    noise += np.triu(noise, 1).T
    moments = exog.T @ endog + deviation * row_norm * response_bound * random.normal(size=size)
    ridge = max(0.0, noise_size - least)
    return np.linalg.solve(gram + deviation * row_norm**2 * noise + ridge * np.eye(size), moments)
