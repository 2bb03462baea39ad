"""Noise cut to the design: gauges of bodies that hold every row, and exact draws (docs/proofs/bodies)."""

from dpstats.privacy.bodies.blocks import SLACK, Block, ball, box, cross, intercept, shrink_block, simplex, slack
from dpstats.privacy.bodies.group import Group
from dpstats.privacy.bodies.grouping import Grouping, group_blocks, group_energy, make_grouping
from dpstats.privacy.bodies.image import Image, unit_images
from dpstats.privacy.bodies.law import ROUNDED, BodyNoise, body_noise

__all__ = [
    "ROUNDED",
    "SLACK",
    "Block",
    "BodyNoise",
    "Group",
    "Grouping",
    "Image",
    "ball",
    "body_noise",
    "box",
    "cross",
    "group_blocks",
    "group_energy",
    "intercept",
    "make_grouping",
    "shrink_block",
    "simplex",
    "slack",
    "unit_images",
]
