"""Statistics of streams, released again at every tick under one charge."""

from dpstats.streaming import constraints, sums

__all__ = ["constraints", "sums"]
