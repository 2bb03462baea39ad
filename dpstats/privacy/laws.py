"""Stored laws of noise, of either kind."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dpstats.privacy.bodies import BodyNoise
from dpstats.privacy.noise import Noise


def law_from_dict(stored: Mapping[str, Any]) -> Noise | BodyNoise:
    """The law whose `to_dict` gave `stored`."""
    return BodyNoise.from_dict(stored) if stored["norm"] == "design" else Noise(**stored)
