"""Bodies of formulas: what they are, that they hold every row, and that every direction has noise."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy import optimize

from dpstats.domain import Domain
from dpstats.families import Gaussian
from dpstats.formula.bounds import restrict_images
from dpstats.formula.design import DesignSpec, design_spec
from dpstats.privacy.k_norm import k_norm_noise
from dpstats.privacy.k_norm.blocks import check_images, stack_images

DOMAIN = Domain(
    y=(0, 1), x=(-2, 6), z=(0, 10), p=(0, 1), a=["u", "v", "w"], b=["s", "t"], c=[f"c{k}" for k in range(5)], o=["only"]
)

KINDS: dict[str, list[tuple[str, int]]] = {
    "y ~ x": [("intercept", 1), ("box", 1)],
    "y ~ 0 + x": [("box", 1)],
    "y ~ a + b": [("intercept", 1), ("simplex", 2), ("simplex", 1)],
    "y ~ 0 + a": [("intercept", 1), ("simplex", 2)],
    "y ~ 0 + a + c": [("intercept", 1), ("simplex", 2), ("simplex", 4)],
    "y ~ a:b": [("intercept", 1), ("simplex", 1), ("simplex", 4)],
    "y ~ a*x": [("intercept", 1), ("simplex", 2), ("box", 1), ("cross", 2)],
    "y ~ a*p": [("intercept", 1), ("simplex", 2), ("box", 1), ("simplex", 2)],
    "y ~ bs(x, df=5)": [("intercept", 1), ("simplex", 5)],
    "y ~ bs(x, df=4):a": [("intercept", 1), ("simplex", 12)],
    "y ~ bs(x, df=4):bs(z, df=4)": [("intercept", 1), ("simplex", 16)],
    "y ~ bs(x, df=4):z": [("intercept", 1), ("simplex", 4)],
    "y ~ bs(z, df=4):x": [("intercept", 1), ("cross", 4)],
    "y ~ C(a, Sum)": [("intercept", 1), ("simplex", 2)],
    "y ~ C(c, Helmert) + C(a, Poly)": [("intercept", 1), ("simplex", 4), ("simplex", 2)],
    "y ~ 0 + C(a, Sum)": [("intercept", 1), ("simplex", 2)],
    "y ~ C(a, Sum):b": [("intercept", 1), ("simplex", 1), ("simplex", 5)],
    "y ~ o + x": [("intercept", 1), ("box", 1)],
    "y ~ x*z": [("intercept", 1), ("box", 1), ("box", 1), ("box", 1)],
    "y ~ I(0 * x) + x": [("intercept", 1), ("box", 1), ("box", 1)],
}

OTHERS = [
    *("y ~ cr(x, df=4)", "y ~ cc(x, df=4) + z", "y ~ te(bs(x, df=4), bs(z, df=4))", "y ~ poly(x, 3)*a"),
    *("y ~ a:poly(x, 2)", "y ~ C(a, Sum):x", "y ~ C(a, Sum)*C(c, Helmert)", "y ~ a*b*c", "y ~ 0 + a:x + bs(z, df=5)"),
    *("y ~ np.sin(x) + np.exp(x):a", "y ~ cr(x, df=4, constraints='center')", "y ~ C(a, [[1, 0], [0, 1], [2, 3]])"),
    "y ~ C(a, [[1, 1], [0, 1], [2, 3]]) + x",
    *("y ~ a:np.maximum(x - 9, 0) + a", "y ~ bs(x, df=4):np.maximum(z - 20, 0) + x"),
    "y ~ C(a, [[1, 1], [1, 1.0000000001], [1, 0.9999999999]]) + x",
]


def spec_of(formula: str) -> DesignSpec:
    return design_spec(formula, DOMAIN, family=Gaussian())


def rows(count: int = 300, seed: int = 0) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    data = pd.DataFrame({"y": rng.uniform(0, 1, count)})
    for name, (low, high) in {"x": (-2, 6), "z": (0, 10), "p": (0, 1)}.items():
        # Beyond the ranges too, and at their ends.
        wide = rng.uniform(low - (high - low), high + (high - low), count)
        data[name] = np.where(rng.random(count) < 0.3, rng.choice([low, high], count), wide)
    for name in "abco":
        data[name] = rng.choice(list(DOMAIN[name].values), count)  # type: ignore[union-attr]
    return data


@pytest.mark.parametrize("formula", KINDS)
def test_each_term_has_the_body_that_fits_it(formula: str) -> None:
    assert [(image.block.kind, image.block.size) for image in spec_of(formula).images] == KINDS[formula]


def inside(images: list, row: np.ndarray) -> float:
    """How far the row is from an image of points within the bodies: the residual of the least squares fit to it."""
    matrix = stack_images(images, len(row))
    lower, upper, start = np.zeros(len(matrix)), np.ones(len(matrix)), 0
    sums = []
    for image in images:
        where = slice(start, start + image.block.size)
        start += image.block.size
        if image.block.kind == "intercept":
            lower[where] = 1 - 1e-9
        elif image.block.kind in ("box", "cross", "ball"):
            lower[where] = -1
        if image.block.kind in ("simplex", "cross", "ball"):
            sums.append((where, image.block.kind))

    def residual(point: np.ndarray) -> float:
        return float(np.sum((point @ matrix - row) ** 2))

    limits = [
        {"type": "ineq", "fun": lambda point, where=where, kind=kind: 1 + 1e-9 - norm_of(point[where], kind)}
        for where, kind in sums
    ]
    found = optimize.lsq_linear(matrix.T, row, bounds=(lower, upper + 1e-9))
    if all(limit["fun"](found.x) >= -1e-9 for limit in limits):  # type: ignore[operator]
        return float(np.linalg.norm(found.x @ matrix - row))
    found = optimize.minimize(
        residual, found.x, bounds=list(zip(lower, upper, strict=True)), constraints=limits, tol=1e-14
    )
    return float(np.sqrt(found.fun))


def norm_of(part: np.ndarray, kind: str) -> float:
    return float(np.linalg.norm(part) if kind == "ball" else np.abs(part).sum())


@pytest.mark.slow
@pytest.mark.parametrize("formula", [*KINDS, *OTHERS])
def test_every_row_is_in_its_bodies(formula: str) -> None:
    """Rows of every kind, most of them beyond the declared ranges, written as images of points of the bodies."""
    spec = spec_of(formula)
    images = list(spec.images)
    assert check_images(images) == len(spec.names)
    exog = np.concatenate([block for block, *_ in spec.blocks(rows(60))])
    assert len(exog) > 40
    assert max(inside(images, row) for row in exog[:40]) < 1e-4


@pytest.mark.parametrize("formula", [*KINDS, *OTHERS])
def test_no_diagonal_body_is_left(formula: str) -> None:
    """Where rows are moved into a body, their gauge is at most 1 to the last digit."""
    spec = spec_of(formula)
    exog = np.concatenate([block for block, *_ in spec.blocks(rows(3000, seed=1))])
    for body in spec.bodies:
        if body.scales is not None:
            part = exog[:, body.columns] / body.scales
            assert body.image.block.gauge(part).max() <= 1
            assert body.image.block.kind != "simplex" or part.min() >= 0


@pytest.mark.parametrize("formula", ["y ~ a*b + bs(x, df=4) + poly(z, 2)", "y ~ C(c, Sum) + x", "y ~ 0 + a + c + x:a"])
def test_bodies_of_some_columns(formula: str) -> None:
    spec = spec_of(formula)
    exog = np.concatenate([block for block, *_ in spec.blocks(rows(30))])
    for kept in (np.arange(1, len(spec.names), 2), np.arange(len(spec.names) - 1), np.array([0])):
        images = list(restrict_images(spec.images, kept))
        assert check_images(images) == len(kept)
        assert max(inside(images, row) for row in exog[:10, kept]) < 1e-4
        assert k_norm_noise(images).expected_square() <= k_norm_noise(spec.images).expected_square() * (1 + 1e-9)


@pytest.mark.parametrize("formula", ["y ~ 0 + C(a, Sum)", "y ~ 0 + C(c, Helmert) + x", "y ~ 0 + C(c, Poly)", "y ~ a*x"])
def test_any_columns_may_be_kept(formula: str) -> None:
    """A refit keeps whatever was selected: the budget is spent by then."""
    spec = spec_of(formula)
    size = len(spec.names)
    for code in range(1, 2**size):
        kept = np.flatnonzero([code >> j & 1 for j in range(size)])
        assert check_images(list(restrict_images(spec.images, kept))) == len(kept)
