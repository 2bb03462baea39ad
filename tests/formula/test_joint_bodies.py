"""Ellipsoids of columns that move together: they hold every row, and their noise is private and smaller.

Points and rows are fixed and ratios are exact, so nothing here fails by chance.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest

import dpstats as dp
from dpstats.families import get_family
from dpstats.formula.design import DesignSpec, design_spec
from dpstats.formula.joint_bodies import JointBody, joint_images
from dpstats.formula.submodels import uniform_exog
from dpstats.inference.noise_laws import ReleasedLaw
from dpstats.mechanisms.design import SubDesign
from dpstats.privacy.k_norm import KNormNoise, k_norm_noise

DOMAIN: dict[str, Any] = {"x": (0, 50), "z": (-1, 1), "t": (1990, 2020), "g": ["a", "b", "c"], "y": (0, 1)}
SQUARE, CUBE, PRODUCT = "x + I(x ** 2)", "x + I(x ** 2) + I(x ** 3)", "x * t"


def spec_of(right: str) -> DesignSpec:
    return design_spec(f"y ~ {right}", dp.Domain(DOMAIN), family=get_family("gaussian"))


def places(rows: np.ndarray, body: JointBody) -> np.ndarray:
    """The coordinates of rows in a body's ellipsoid, shape (n, k)."""
    part = rows[:, list(body.columns)] - np.array(body.centre)
    return np.asarray(np.linalg.solve(np.array(body.root).T, part.T).T)


@pytest.mark.parametrize(
    ("right", "sizes"),
    [
        (SQUARE, [2]),
        (CUBE, [3]),
        ("z + I(z ** 2)", []),  # centred: they fill their rectangle
        ("t + I(t ** 2) + g + x", [2]),
        ("I(x ** 2) + g + x", [2]),  # with columns of levels between them
        ("g * x", []),
        ("bs(x, df=4) + x", []),
        ("0 + x + I(x ** 2)", []),
        ("x + z + g", []),
    ],
)
def test_which_columns_have_a_body_together(right: str, sizes: list[int]) -> None:
    assert [len(body.columns) for body in spec_of(right).joint] == sizes


@pytest.mark.parametrize("right", [SQUARE, CUBE, PRODUCT, "I(x ** 2) + g + x", "t + I(t ** 2)", "np.log1p(x) + x"])
def test_every_row_lies_in_its_body_whatever_the_cells(right: str) -> None:
    spec = spec_of(right)
    (body,) = spec.joint
    rows = uniform_exog(spec, 20_000)
    inside = np.linalg.norm(places(rows, body), axis=1)
    assert 0.98 < inside.max() <= 1 - 1e-10
    # Rows that no cell makes are moved in: a fit's guarantee rests on no bound of an expression.
    random = np.random.default_rng(0)
    far = random.normal(size=(5_000, len(body.columns))) * 10.0 ** random.uniform(-3, 6, (5_000, 1))
    alone = far[17:18].copy()
    body.shorten(far)
    body.shorten(alone)
    assert np.array_equal(far[17:18], alone)
    whole = np.zeros((len(far), len(spec.names)))
    whole[:, list(body.columns)] = far
    assert np.linalg.norm(places(whole, body), axis=1).max() <= 1 - 1e-10
    again = far.copy()
    body.shorten(again)
    assert np.array_equal(far, again)


def test_a_row_without_a_number_keeps_none() -> None:
    (body,) = spec_of(SQUARE).joint
    part = np.array([[np.nan, 0.1], [0.1, np.nan], [np.inf, 0.0]])
    with np.errstate(invalid="ignore"):
        body.shorten(part)
    assert not np.isfinite(part).all(axis=1).any()


def noise_of(spec: DesignSpec) -> KNormNoise:
    return k_norm_noise(joint_images(spec.images, spec.joint))


def worst(noise: KNormNoise, rows: np.ndarray) -> float:
    """The greatest change of the log density by t times a row, over |t| / s."""
    random = np.random.default_rng(3)
    x = rows[random.integers(0, len(rows), 4_000)]
    v = random.multivariate_normal(np.zeros(noise.size), noise.covariance(), 4_000)
    v *= 10.0 ** random.uniform(-3, 0.5, (4_000, 1))
    t = random.choice([-1.0, 1.0], 4_000) * 10.0 ** random.uniform(-2, 1, 4_000)
    change = noise.log_density(v + t[:, None] * x) - noise.log_density(v)
    return float((np.abs(change) * noise.scale / np.abs(t)).max())


def test_the_exact_density_moves_by_no_more_than_a_row_may() -> None:
    spec = spec_of("x + I(x ** 2) + z")
    noise, rows = noise_of(spec), uniform_exog(spec)
    assert 0.9 < worst(noise, rows) <= 1 + 1e-9


def test_planted_errors_are_caught() -> None:
    """An ellipsoid that rows leave, and an intercept that does not carry the centre."""
    spec = spec_of("x + I(x ** 2) + z")
    (body,), rows = spec.joint, uniform_exog(spec)
    small = replace(body, root=tuple(tuple(0.8 * entry for entry in row) for row in body.root))
    assert worst(k_norm_noise(joint_images(spec.images, (small,))), rows) > 1.05
    central = replace(body, centre=(0.0, 0.0))
    assert worst(k_norm_noise(joint_images(spec.images, (central,))), rows) > 1.05


def test_noise_is_smaller_where_columns_hardly_differ() -> None:
    """In the user's units, for least squares on numbers spread evenly: what the coefficients' noise is."""
    spec = spec_of(f"{SQUARE} + g")
    rows = uniform_exog(spec)
    inverse = np.linalg.inv(rows.T @ rows / len(rows))
    wide, joint = (
        np.sqrt(np.diag(inverse @ k_norm_noise(images).covariance() @ inverse))
        for images in (spec.images, joint_images(spec.images, spec.joint))
    )
    of_x = [spec.names.index(name) for name in ("x", "I(x ** 2)")]
    assert np.all(joint[of_x] < 0.5 * wide[of_x])
    assert np.all(joint < 1.05 * wide)


def test_a_plan_charges_the_noise_of_the_joint_body_and_its_rows_are_kept_in_it() -> None:
    plan = dp.plan(f"y ~ {SQUARE} + z", DOMAIN, 1.0)
    (body,) = plan.design.joint
    noise = plan.stages[-1].plan.noise
    (image,) = (one for one in noise.images if one.columns == body.columns)
    np.testing.assert_array_equal(image.matrix, np.array(body.root))
    (constant,) = (one for one in noise.images if one.block.kind == "intercept")
    centres = dict(zip(constant.columns, constant.matrix[0], strict=True))
    assert [centres.get(column, 0.0) for column in body.columns] == list(body.centre)
    random = np.random.default_rng(1)
    frame = pd.DataFrame({"x": random.uniform(-10, 70, 500), "z": random.uniform(-3, 3, 500)}).assign(y=0.5)
    rows = np.vstack([block[0] for block in plan.design.blocks(frame)])
    assert np.linalg.norm(places(rows, body), axis=1).max() <= 1


def test_what_is_stored_is_what_rows_were_kept_in() -> None:
    spec = spec_of(SQUARE)
    stored = spec.to_dict()
    assert DesignSpec.from_dict(stored).joint == spec.joint
    before = {key: value for key, value in stored.items() if key != "joint"}
    assert DesignSpec.from_dict(before).joint == ()
    assert DesignSpec.from_dict(spec.with_working(0.2, 0.4).to_dict()).joint == spec.joint


def test_of_some_columns_bodies_are_those_that_are_whole() -> None:
    spec = spec_of(f"{SQUARE} + z")
    kept, broken = SubDesign(spec, np.array([0, 1, 2])), SubDesign(spec, np.array([0, 2, 3]))
    assert [body.columns for body in kept.joint] == [(1, 2)]
    assert broken.joint == ()
    constant = SubDesign(spec, np.array([1, 2]))
    assert joint_images(constant.images, constant.joint) == constant.images


@pytest.mark.slow
def test_intervals_of_a_number_and_its_square_are_narrower_and_cover() -> None:
    """60 fits, chance of a false alarm about 1e-3 (fewer than 107 of 120 at .95)."""
    random, widths, covered = np.random.default_rng(5), [], 0
    for seed in range(60):
        x = random.uniform(0, 50, 8_000)
        y = np.clip(0.2 + 0.02 * x - 0.0003 * x**2 + random.normal(0, 0.1, 8_000), 0, 1)
        fit = dp.ols(f"y ~ {SQUARE}", {"x": x, "y": y}, 1.0, domain=DOMAIN, residual_cap=0.5, inference=True, seed=seed)
        interval = fit.conf_int().to_numpy()[1:]
        covered += int(np.sum((interval[:, 0] <= [0.02, -0.0003]) & (interval[:, 1] >= [0.02, -0.0003])))
        widths.append(interval[1, 1] - interval[1, 0])
    assert covered >= 107
    assert np.median(widths) < 1.5e-4


@pytest.mark.slow
def test_thresholds_of_the_columns_of_an_ellipsoid_hold() -> None:
    """By 400,000 draws: exact for a column of the ball alone, cautious where the intercept's noise is added.

    Three standard deviations of a share of .02: a false alarm in about one of 300 seeds, which is fixed.
    """
    noise = noise_of(spec_of(f"{SQUARE} + g"))
    places, level = [3, 4], 0.04  # x and its square
    bounds = noise.thresholds(level, places)[places]
    draws = ReleasedLaw(noise, np.ones(noise.size)).draws(400_000, np.random.default_rng(7))[:, places]
    beyond = np.mean(np.abs(draws) > bounds, axis=0)
    assert beyond[0] == pytest.approx(level / 2, abs=7e-4)
    assert 0.2 * level / 2 < beyond[1] < level / 2
    assert noise.thresholds(level, places)[0] == np.inf


CURVED: dict[str, dict[str, Any]] = {
    "np.log(w) + I(np.log(w) ** 2)": {"w": (1, 1e5)},
    "np.log(w) * v + I(np.log(w) ** 2)": {"w": (1, 1e4), "v": (-1, 1)},
    "I(1 / w) + np.log(w)": {"w": (0.1, 100)},
    "np.log1p(w) + w + np.sqrt(w)": {"w": (0, 50)},
}


@pytest.mark.parametrize("right", CURVED)
@pytest.mark.parametrize("spread", ["even", "by logarithms"])
def test_hardly_any_row_of_curved_terms_is_moved(right: str, spread: str) -> None:
    random, count, domain = np.random.default_rng(4), 20_000, CURVED[right]
    spec = design_spec(f"y ~ {right}", dp.Domain({**domain, "y": (0, 1)}), family=get_family("gaussian"))
    rows = {name: random.uniform(*ends, count) for name, ends in domain.items()}
    if spread == "by logarithms":
        low, high = domain["w"]
        rows["w"] = np.exp(random.uniform(np.log(max(low, 1e-3)), np.log(high), count))
    exog, _ = replace(spec, joint=()).exog(rows)
    assert spec.joint
    for body in spec.joint:
        gauges = body.gauges(exog[:, list(body.columns)])
        assert np.mean(gauges > 1) <= 1e-3
        assert gauges.max() <= 1.01


def test_encoded_rows_are_moved_into_their_body() -> None:
    """The whole way of a row: with a body that is smaller than its columns need, rows stay in it all the same."""
    spec = spec_of(SQUARE)
    (body,) = spec.joint
    small = replace(body, root=tuple(tuple(0.5 * one for one in row) for row in body.root))
    random = np.random.default_rng(2)
    rows = {"x": random.uniform(0, 50, 500), "y": random.uniform(0, 1, 500)}

    def gauges(design: DesignSpec) -> np.ndarray:
        (block,) = design.blocks(rows)
        return small.gauges(np.asarray(block.exog)[:, list(body.columns)])

    assert gauges(replace(spec, joint=(small,))).max() <= 1
    assert np.mean(gauges(spec) > 1) > 0.3, "the planted error: they would be outside"


@pytest.mark.parametrize(
    "wrong",
    [
        {"centre": [50.0, 0.0]},
        {"columns": [0, 1]},
        {"columns": [2, 1]},
        {"root": [[1.0, 0.0], [0.5, 1.0]]},
        {"root": [[1.0, 0.0], [0.0, 0.0]]},
        {"root": [[float("nan"), 0.0], [0.0, 1.0]]},
    ],
    ids=str,
)
def test_a_stored_body_that_no_design_has_is_refused(wrong: dict[str, Any]) -> None:
    stored = spec_of(SQUARE).to_dict()
    stored["joint"] = [{**stored["joint"][0], **wrong}]
    with pytest.raises(dp.errors.DomainError, match="stored design"):
        DesignSpec.from_dict(stored)
