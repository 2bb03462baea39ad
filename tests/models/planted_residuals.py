"""Planted errors in the purchase of residuals that several files of tests must catch."""

from __future__ import annotations

from dataclasses import replace
from types import ModuleType
from typing import Any

import pytest

from dpstats.models import sources
from dpstats.plan import Plan
from dpstats.privacy.residuals import residual_counts


def clean_counts(patch: pytest.MonkeyPatch, module: ModuleType, name: str = "residual_tails") -> None:
    """Have `name` in a module see the counts of residuals before their noise."""
    read: list[Any] = []
    honest_purchase, honest = module.buy_residual_counts, getattr(module, name)

    def noted(values: Any, *arguments: Any, **others: Any) -> Any:
        read.append(values)
        return honest_purchase(values, *arguments, **others)

    def peeking(counts: Any, edges: Any, *arguments: Any, **others: Any) -> Any:
        return honest(residual_counts(read[-1], edges), edges, *arguments, **others)

    patch.setattr(module, "buy_residual_counts", noted)
    patch.setattr(module, name, peeking)


def dearer_residuals(patch: pytest.MonkeyPatch) -> None:
    """Have residuals cost more than what was charged for them."""
    honest = sources.bought_residuals

    def dearer(plan: Plan, *arguments: Any) -> Any:
        found, rows = honest(plan, *arguments)
        return replace(found, eps=1.5), rows

    patch.setattr(sources, "bought_residuals", dearer)
