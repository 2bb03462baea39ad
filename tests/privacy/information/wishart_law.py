"""Log density of the difference of two Wisharts up to a constant, p = 1, 2, 3, by quadrature.

With V Wishart, p + 1 degrees of freedom, matrix (s / 4) I, the integral over the cones is a probability:
f(E) / f(0) = exp(-tr E / s) P(V + E >= 0). Let E = diag(-m, e), e > 0 (else f(E) = f(-E)). In Bartlett's factors of V
the Schur complement's own part is exponential with mean s / 2, whatever p, and integrates in closed form.
"""

from __future__ import annotations

from functools import cache

import numpy as np
from scipy import special

NODES = 48


def log_density(noise: np.ndarray, scale: float = 1.0) -> float:
    """log f(E) - log f(0), E of shape (p, p)."""
    values = np.linalg.eigvalsh(noise)
    if (values < 0).sum() > len(values) / 2:
        values = -values[::-1]
    if (values < 0).sum() == 0:
        return -values.sum() / scale
    kept = values[values >= 0]
    assert len(kept) == len(values) - 1, "one negative eigenvalue at most remains for p <= 3"
    if len(kept) == 0:
        return values[0] / scale
    low, rest = -values[0] / scale, kept / scale
    share = _two(low, rest[0]) if len(rest) == 1 else _three(low, rest)
    return float(-values.sum() / scale + np.log(share))


@cache
def _gamma_rule(shape: float) -> tuple[np.ndarray, np.ndarray]:
    nodes, weights = special.roots_genlaguerre(NODES, shape - 1)
    return nodes, weights / weights.sum()


def _two(low: float, high: float) -> float:
    """P(V + diag(-low, high) >= 0) for p = 2 in units of s: the cross vector is one normal z."""
    # V_22 = t^2 / 4, t the length of three normals, on a fine grid.
    t, step = np.linspace(1e-9, 14.0, 40001, retstep=True)
    weight = t**2 * np.exp(-(t**2) / 2) * np.sqrt(2 / np.pi) * step
    ratio = high / (t**2 / 4 + high)
    if high == 0:
        ratio = np.zeros_like(t)
    # E exp(-2 (low - ratio z^2 / 4)_+), z standard normal
    edge = np.sqrt(4 * low / np.maximum(ratio, 1e-300))
    beyond = special.erfc(edge / np.sqrt(2))
    slack = np.maximum(1 - ratio, 1e-300)
    within = np.exp(-2 * low) / np.sqrt(slack) * special.erf(np.sqrt(slack / 2) * edge)
    return float(weight @ (beyond + within))


def _three(low: float, high: np.ndarray) -> float:
    """The same for p = 3: V_22 is 2 x 2, the cross vector is two normals, in polar coordinates."""
    first, weight_first = _gamma_rule(2.0)
    second, weight_second = _gamma_rule(1.5)
    cross, weight_cross = np.polynomial.hermite_e.hermegauss(NODES)
    a, b, c = np.meshgrid(2 * first, 2 * second, cross, indexing="ij")
    weights = np.einsum("i,j,k->ijk", weight_first, weight_second, weight_cross / weight_cross.sum()).ravel()
    # V_22 = L L' / 4, L = [[sqrt a, 0], [c, sqrt b]]
    v11, v12, v22 = (a / 4).ravel(), (c * np.sqrt(a) / 4).ravel(), ((c**2 + b) / 4).ravel()
    s11, s22 = v11 + high[0], v22 + high[1]
    determinant = s11 * s22 - v12**2
    # R = (V + E)^-1 E in a suitable basis: its eigenvalues
    trace = (s22 * high[0] + s11 * high[1]) / determinant
    product = high[0] * high[1] / determinant
    spread = np.sqrt(np.maximum(trace**2 / 4 - product, 0.0))
    angles = (np.arange(16) + 0.5) / 16 * np.pi / 2
    total = 0.0
    for angle in angles:
        k = np.clip(trace / 2 + spread * np.cos(2 * angle), 1e-14, 1 - 1e-12)
        # E over w exponential of exp(-2 (low - k w / 2)_+), z'Rz = 2 w k
        edge = 2 * low / k
        inside = np.exp(-2 * low) * -np.expm1(-(1 - k) * edge) / (1 - k)
        total += float(weights @ (inside + np.exp(-edge))) / len(angles)
    return total


def log_ratio(noise: np.ndarray, added: np.ndarray, scale: float = 1.0) -> float:
    """log f(E) - log f(E - A)."""
    return log_density(noise, scale) - log_density(noise - added, scale)
