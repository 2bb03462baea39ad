"""Statistics of streams, released again at every tick under one charge."""

from dpstats.streaming import sums

__all__ = ["sums"]
