"""Noise cut to the design: gauges of bodies that hold every row, and exact draws (docs/proofs/bodies)."""

from dpstats.privacy.k_norm.blocks import (
    SLACK,
    ConvexBody,
    Image,
    ball,
    box,
    cross,
    intercept,
    shrink_block,
    simplex,
    slack,
    unit_images,
)
from dpstats.privacy.k_norm.groups import Group, Grouping, group_blocks, group_energy, make_grouping
from dpstats.privacy.k_norm.noise import ROUNDED, KNormNoise, focused_noise, k_norm_noise

__all__ = [
    "ROUNDED",
    "SLACK",
    "ConvexBody",
    "Group",
    "Grouping",
    "Image",
    "KNormNoise",
    "ball",
    "box",
    "cross",
    "focused_noise",
    "group_blocks",
    "group_energy",
    "intercept",
    "k_norm_noise",
    "make_grouping",
    "shrink_block",
    "simplex",
    "slack",
    "unit_images",
]
