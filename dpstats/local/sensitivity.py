"""How far one record moves the statistics, and the noise that the two schemes need (docs/proofs/local).

A record gives q with ||q||^2 <= `square` and p = y q with ||p|| <= `linear`; q q' is sent as its upper triangle with
the entries off the diagonal times sqrt(2), so that Euclidean norms of the triangle are Frobenius norms of the matrix.
"""

from __future__ import annotations

import math

from scipy import optimize

from dpstats.errors import ArgumentError


def joint_sensitivity(linear: float, square: float, sigma_b: float, tau: float) -> float:
    """The greatest distance between the statistics of two records, p divided by sigma_b and q q' by tau.

    Source: docs/proofs/local, Lemma 1: the square is the maximum over the cosine c in [0, 1] between the two p of
    2 a^2 B^2 (1 + c) + 2 b^2 lambda^2 (1 - c^2), a = 1/sigma_b, b = 1/tau. Separate maxima would add up to more.
    """
    gradient, matrix = (linear / sigma_b) ** 2, (square / tau) ** 2
    cosine = min(1.0, gradient / (2 * matrix))
    return math.sqrt(2 * gradient * (1 + cosine) + 2 * matrix * (1 - cosine**2))


def null_sensitivity(linear: float, square: float, sigma_b: float, tau: float) -> float:
    """The same between a record and the null report, whose statistics are zero; never above `joint_sensitivity`."""
    return math.hypot(linear / sigma_b, square / tau)


def best_ratio(linear: float, square: float, radius: float) -> float:
    """sigma_b / tau with the least noise sigma_b^2 + tau^2 radius^2 / 2 in the gradient's coordinates, at equal mu."""

    def noise(log_ratio: float) -> float:
        ratio = math.exp(log_ratio)
        tau = joint_sensitivity(linear, square, ratio, 1.0)
        return tau**2 * (ratio**2 + radius**2 / 2)

    middle = math.log(max(linear, 1e-9) / square)
    found = optimize.minimize_scalar(noise, bounds=(middle - 8, middle + 8), method="bounded", options={"xatol": 1e-6})
    return math.exp(float(found.x))


def printed_noise(eps: float, delta: float, n: int, size: int, linear: float, square: float) -> tuple[float, float]:
    """sigma_u and sigma_b of the paper's Algorithm 1 as printed, delta halved between its two events.

    Source: Fukuchi, Tran and Sakuma 2017, Algorithm 1, with zeta = `linear`, lambda = `square`, d = `size`. Its central
    guarantee is unproven (docs/proofs/local, 6).

    Raises
    ------
    ArgumentError
        If `n` is too small for the formula to be defined.
    """
    half = delta / 2
    slack = math.sqrt(math.log(2 / half) / n)
    if 2 * slack >= 1:
        least = math.floor(4 * math.log(2 / half)) + 1
        raise ArgumentError(f"n must be at least {least} for scheme='features' with this delta, got {n}")
    sigma_b = linear * math.sqrt(8 * math.log(2 / half) + 4 * eps) / eps
    cross = math.sqrt(2 * size) * slack * square
    sigma_u = (cross + math.sqrt(cross**2 + 2 * square / eps * (1 - 2 * slack))) / (1 - 2 * slack)
    return sigma_u, sigma_b


def best_features(mu: float, n: int, size: int, linear: float, square: float, radius: float) -> tuple[float, float]:
    """sigma_u and sigma_b with the least noise in a debiased gradient, where one report has this mu.

    The debiased matrix has noise of variance about 2 sigma_u^2 square/size + sigma_u^4/n in an entry.
    """

    def pair(log_share: float) -> tuple[float, float]:
        share, unit = math.exp(log_share), 2 * math.sqrt(n) / mu
        return unit * math.sqrt(square / share), unit * linear / math.sqrt(1 - share)

    def noise(log_share: float) -> float:
        sigma_u, sigma_b = pair(log_share)
        return sigma_b**2 + radius**2 * (2 * sigma_u**2 * square / size + sigma_u**4 / n)

    found = optimize.minimize_scalar(noise, bounds=(-12.0, -1e-6), method="bounded", options={"xatol": 1e-6})
    return pair(float(found.x))


def features_sensitivity(linear: float, square: float, sigma_b: float, sigma_u: float) -> float:
    """The greatest distance between (p / sigma_b, q / sigma_u) of two records, by separate maxima."""
    return 2 * math.sqrt(square / sigma_u**2 + (linear / sigma_b) ** 2)
