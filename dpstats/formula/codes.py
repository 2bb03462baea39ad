"""Encoded columns: doubles, or positions among declared levels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpstats.domain import Scalar

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Codes:
    """An encoded categorical column: positions among its levels (-1 is missing), and the contrast asked for."""

    values: NDArray[np.intp]
    levels: tuple[Scalar, ...]
    contrast: Any = None


Encoded = Array | Codes
