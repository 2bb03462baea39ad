"""Coverage with one column, by quadrature, for choices of `GUARD`: ``python -m benchmarks.defaults.guard``.

The information's noise is normal, and so are sampling and the noise of the fit: given the former coverage is known in
closed form, so that there is no simulation error. Least coverage over shares of the variance that are debiasing, noise
of the fit and sampling, by the information's t-ratio r; unbounded intervals cover.
"""

from __future__ import annotations

import math
from unittest import mock

import numpy as np
import pandas as pd
from scipy import special

from benchmarks.inference.entry_noise import symmetric_normal
from dpstats.inference import Estimates, ModelSpread, NormalLaw, delta_method

GUARDS = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, math.inf)
RATIOS = (2.5, 3.0, 4.0, 5.0, 6.0, 8.0, 12.0, 20.0)
SHARES = ((0.1, 0.8), (0.3, 0.65), (0.4, 0.4), (0.5, 0.1), (0.7, 0.2), (0.9, 0.05))
"""Of debiasing and of the fit's noise."""

POINTS = 401


def coverage(ratio: float, debiasing: float, noise: float, points: int = POINTS) -> float:
    """Of the 95 % interval where the true information is 1, and that of its noise 1 / ratio."""
    grid = np.linspace(-6, 6, points)
    chances = np.exp(-(grid**2) / 2)
    law, linear = symmetric_normal(1 / ratio, np.ones(1)), NormalLaw(np.array([[noise]]))
    pulled, phi = math.sqrt(debiasing) * ratio, 1 - debiasing - noise
    covered = []
    for value in grid:
        released = np.array([[1 + value / ratio]])
        ours = Estimates(np.array([pulled]), released, np.eye(1), linear, law, ModelSpread(phi))
        half = float(ours.contrasts(np.eye(1)).half_width(0.05)[0])
        error, spread = float(ours.correction[0]) - pulled, math.sqrt(phi + noise)
        covered.append(special.ndtr((half - error) / spread) - special.ndtr((-half - error) / spread))
    return float(np.average(covered, weights=chances))


def main() -> None:
    """Print the table."""
    rows = []
    for guard in GUARDS:
        with mock.patch.object(delta_method, "GUARD", guard):
            least = {f"r={ratio:g}": min(coverage(ratio, *shares) for shares in SHARES) for ratio in RATIOS}
        rows.append({"guard": guard, **least})
    print(pd.DataFrame(rows).round(4).to_string(index=False))


if __name__ == "__main__":
    main()
