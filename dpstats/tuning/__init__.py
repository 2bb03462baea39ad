"""A private choice among candidates, and the tuning of a fit."""

from dpstats.tuning.selecting import Selection, select

__all__ = ["Selection", "select"]
