"""One coefficient in focus: sensitivity row by row and exactly, noise, and coverage (docs/proofs/focus)."""

from __future__ import annotations

import itertools
from functools import cache
from typing import Any

import numpy as np
import pandas as pd
import pytest

import dpstats as dp
from dpstats.data import Block
from dpstats.errors import ArgumentError, NotReleasedError
from dpstats.mechanisms import focus as mechanism
from dpstats.mechanisms.fit_statistics import Lattice
from dpstats.mechanisms.focus import ArmSums, arm_lattices, exact_arm_sums
from dpstats.privacy.k_norm import focused_noise, k_norm_noise
from dpstats.results.focus import treatment_effect

DOMAIN: dict[str, Any] = {"x": (-1, 1), "g": ["a", "b", "c"], "arm": ["old", "new"]}
RESPONSES: dict[str, Any] = {"binomial": (0, 1), "gaussian": (-4, 4)}
EFFECT = 0.5


def frame(family: str, rows: int, seed: int) -> pd.DataFrame:
    random = np.random.default_rng(seed)
    data = pd.DataFrame({"x": random.uniform(-1, 1, rows), "g": random.choice(list("abc"), rows)})
    data["arm"] = np.where(random.random(rows) < 0.4, "new", "old")
    eta = -0.3 + EFFECT * (data["arm"] == "new") + 0.8 * data["x"]
    noise = random.logistic(size=rows)
    data["y"] = (eta + noise > 0).astype(int) if family == "binomial" else eta + 0.4 * noise
    return data


@cache
def fitted(family: str, rows: int = 4_000, eps: float = 1.0, seed: int = 1, **options: Any) -> dp.GLMResults:
    domain = {**DOMAIN, "y": RESPONSES[family]}
    settings: dict[str, Any] = {"focus": "arm", "check_share": 0, "seed": seed, **options}
    return dp.glm("y ~ arm + x + g", frame(family, rows, seed), eps, family=family, domain=domain, **settings)


def vectors(family: str) -> np.ndarray:
    """What rows at and beyond every end add, shape (rows, 4)."""
    fit = fitted(family)
    grid = pd.DataFrame(
        [(x, g, arm, 0.0) for x, g, arm in itertools.product((-1, 0, 1), "abc", ("old", "new"))],
        columns=["x", "g", "arm", "y"],
    )
    exog = fit.plan.design.exog(grid)[0]  # type: ignore[attr-defined]
    exog = np.vstack([exog, exog * np.random.default_rng(0).uniform(-30, 30, exog.shape)])
    ends = [0.0, 1.0] if family == "binomial" else [-50.0, -1.0, 0.0, 1.0, 50.0]
    exog, endog = np.repeat(exog, len(ends), axis=0), np.tile(ends, len(exog))
    column = list(fit.plan.names).index("arm[T.new]")
    params = fit.scaled_params
    return np.array([
        exact_arm_sums(fit.plan.family, params, column, [Block(exog[[at]], endog[[at]])]) for at in range(len(endog))
    ])  # fmt: skip


def farthest(rows: np.ndarray, adjacency: str) -> int:
    if adjacency == "add_remove":
        return int(np.abs(rows).sum(axis=1).max())
    return int(max(np.abs(rows - one).sum(axis=1).max() for one in rows))


CASES = list(itertools.product(RESPONSES, ("add_remove", "replace_one")))


@pytest.mark.parametrize(("family", "adjacency"), CASES)
class TestSensitivity:
    def bound(self, family: str, adjacency: str) -> int:
        return sum(one.sensitivity(adjacency) for one in arm_lattices(fitted(family).plan.family))  # type: ignore[arg-type]

    def test_no_row_moves_the_sums_by_more(self, family: str, adjacency: str) -> None:
        found = farthest(vectors(family), adjacency)
        assert 0.5 * self.bound(family, adjacency) < found <= self.bound(family, adjacency)

    def test_planted_bugs_are_caught(self, family: str, adjacency: str, monkeypatch: pytest.MonkeyPatch) -> None:
        if adjacency == "replace_one":  # the sums of one arm taken for those of both
            lattices = [one._replace(groups=1) for one in arm_lattices(fitted(family).plan.family)]
            assert farthest(vectors(family), adjacency) > sum(one.sensitivity("replace_one") for one in lattices)
        bound = self.bound(family, adjacency)
        small = tuple(one._replace(high=one.high / 3) for one in arm_lattices(fitted(family).plan.family))
        monkeypatch.setattr(mechanism, "arm_lattices", lambda family: small)
        monkeypatch.setattr(
            Lattice, "whole", lambda one, values: np.nan_to_num(np.rint(values / one.high * one.steps)).astype(np.int64)
        )  # fmt: skip
        assert farthest(vectors(family), adjacency) > bound  # a bound too small, and rows that are not clipped to it


@pytest.mark.parametrize("family", RESPONSES)
def test_a_row_is_of_one_arm_and_adds_the_same_among_others(family: str) -> None:
    rows = vectors(family)
    assert not np.any((rows[:, [0, 2]] > 0).any(axis=1) & (rows[:, [1, 3]] > 0).any(axis=1))
    fit, data = fitted(family), frame(family, 300, 3)
    exog = fit.plan.design.exog(data)[0]  # type: ignore[attr-defined]
    endog = np.asarray(data["y"], dtype=float) / (1 if family == "binomial" else 4)
    column = list(fit.plan.names).index("arm[T.new]")

    def total(size: int) -> list[int]:
        blocks = [Block(exog[at : at + size], endog[at : at + size]) for at in range(0, len(endog), size)]
        return exact_arm_sums(fit.plan.family, fit.scaled_params, column, blocks)

    assert total(300) == total(1) == total(7)


@pytest.mark.parametrize("adjacency", ["add_remove", "replace_one"])
def test_the_noise_is_for_the_sensitivity_and_the_eps(adjacency: str, monkeypatch: pytest.MonkeyPatch) -> None:
    drawn: list[tuple[int, float]] = []
    noisy = mechanism.noisy_integers

    def watched(values: Any, sensitivity: int, eps: float, random: Any) -> Any:
        drawn.append((sensitivity, eps))
        return noisy(values, sensitivity, eps, random)

    monkeypatch.setattr(mechanism, "noisy_integers", watched)
    fit = fitted("binomial", eps=0.8, adjacency=adjacency)
    assert drawn == [(2 * mechanism.STEPS * (2 if adjacency == "replace_one" else 1), pytest.approx(0.15 * 0.8))]
    assert fit.arm_sums is not None
    assert fit.arm_sums.weight_sd == pytest.approx(np.sqrt(2) * drawn[0][0] / drawn[0][1] * 0.25 / mechanism.STEPS)
    budget = fit.budget["eps"]
    assert budget.drop("total").sum() == pytest.approx(budget["total"]) == pytest.approx(0.8)
    assert budget["focus"] == pytest.approx(0.12)


@pytest.mark.parametrize("numbers", [1, 15])
def test_the_noise_of_the_fit_is_small_where_the_focus_is(numbers: int) -> None:
    names = [f"x{number}" for number in range(numbers)]
    domain = {**DOMAIN, **dict.fromkeys(names, (-1, 1)), "y": (0, 1)}
    images = dp.plan(f"y ~ arm + g + {' + '.join(names)}", domain, 1.0, family="binomial").design.images
    column = next(image.columns[0] for image in images if image.block.kind == "simplex" and image.block.size == 1)
    focused, plain = focused_noise(images, column, 0.3), k_norm_noise(images)
    direction = np.zeros(focused.size)
    direction[column], direction[0] = 1.0, -0.5
    along = [float(direction @ law.covariance() @ direction) for law in (focused, plain)]
    assert along[0] < along[1] / 3 if numbers == 15 else along[0] == along[1]
    assert sum(focused.shares) == pytest.approx(1)
    assert sorted(at for group in focused.groups for at in group) == list(range(len(images)))


def test_the_share_of_the_focus_is_that_of_the_page() -> None:
    names = [f"x{number}" for number in range(15)]
    domain = {**DOMAIN, **dict.fromkeys(names, (-1, 1)), "y": (0, 1)}
    plan = dp.plan(f"y ~ arm + g + {' + '.join(names)}", domain, 1.0, family="binomial", focus="arm")
    images, law = plan.design.images, plan.noise
    column = next(image.columns[0] for image in images if image.block.kind == "simplex" and image.block.size == 1)
    assert sorted(law.shares) == pytest.approx(sorted(focused_noise(images, column, 0.3).shares))


def test_much_budget_gives_what_the_sums_are() -> None:
    for family in RESPONSES:
        fit, data = fitted(family, eps=500.0), frame(family, 4_000, 1)
        line = fit.focus().iloc[0]
        assert line["low"] < line["coef"] < line["high"]
        plain = dp.glm(
            "y ~ arm + x + g", data, 500.0, family=family, domain={**DOMAIN, "y": RESPONSES[family]},
            inference="robust", check_share=0, fitstats=None, seed=1,
        )  # fmt: skip
        assert line["coef"] == pytest.approx(plain.debiased["arm[T.new]"], abs=0.2 * line["std_error"])
        assert line["std_error"] == pytest.approx(plain.bse["arm[T.new]"], rel=0.05)


def test_arms_that_the_noise_hides_have_no_interval() -> None:
    line = fitted("binomial", rows=100, eps=0.2).focus().iloc[0]
    assert (line["std_error"], line["low"]) == (np.inf, -np.inf)
    assert np.isnan([line["z"], line["p_value"]]).all()
    assert "do not stand out" in fitted("binomial", rows=100, eps=0.2).summary().as_text()


def test_the_interval_ends_at_nil_at_the_p_value() -> None:
    fit = fitted("binomial", rows=600)
    line = fit.focus(alpha=float(fit.focus()["p_value"].iloc[0])).iloc[0]
    assert min(abs(line["low"]), abs(line["high"])) == pytest.approx(0, abs=1e-6)


def test_saved_loaded_and_printed(tmp_path: Any) -> None:
    fit = fitted("gaussian")
    fit.save(tmp_path / "fit.json")
    loaded = dp.GLMResults.load(tmp_path / "fit.json")
    assert loaded.focus().equals(fit.focus())
    assert isinstance(loaded.arm_sums, ArmSums)
    assert loaded.plan.digest() == fit.plan.digest()
    assert "in focus: arm[T.new]" in fit.summary().as_text()
    assert "fit.focus()" in fit.summary().as_text()
    assert "two sums of each arm of arm" in " ".join(fit.plan.summary().as_text().split())
    with pytest.raises(NotReleasedError):
        fit.bse  # noqa: B018
    with pytest.raises(NotReleasedError, match="focus="):
        fitted("gaussian", focus=None).focus()


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"focus": "x"}, "factor of two levels"),
        ({"focus": "g"}, "factor of two levels"),
        ({"focus": "nothing"}, "focus must name"),
        ({"focus": 3}, "focus must be the name"),
        ({"inference": True}, "replaces the standard errors"),
        ({"penalty": "ridge", "alpha": 1.0}, "for a single fit"),
        ({"screen": 1}, "for a single fit"),
        ({"weights": "w"}, "rows of equal weight"),
        ({"unit": "person"}, "rows of equal weight"),
        ({"method": "output"}, "napp"),
        ({"fitstats": 0.05}, "releases no standard errors"),
        ({"family": "poisson"}, "families"),
    ],
)
def test_refused_by_name(options: dict[str, Any], match: str) -> None:
    domain = {**DOMAIN, "w": (0, 1), "person": ["p", "q"], "y": (0, 1)}
    with pytest.raises(ArgumentError, match=match):
        dp.plan("y ~ arm + x + g", domain, 1.0, **{"family": "binomial", "focus": "arm", **options})


def test_a_treatment_beside_an_interaction_is_refused() -> None:
    with pytest.raises(ArgumentError, match="focus must name"):
        dp.plan("y ~ arm * x + g", {**DOMAIN, "y": (0, 1)}, 1.0, family="binomial", focus="arm")


@pytest.mark.slow
@pytest.mark.parametrize("family", RESPONSES)
def test_intervals_cover(family: str) -> None:
    runs = 80
    lines = [fitted(family, rows=2_000, eps=0.5, seed=seed).focus().iloc[0] for seed in range(runs)]
    truth = EFFECT
    covered = [line["low"] <= truth <= line["high"] for line in lines]
    # Below .87 three times in a thousand at .95.
    assert np.mean(covered) > 0.87
    assert all(np.isfinite(line["std_error"]) for line in lines)


def test_parts_of_the_error_add_up() -> None:
    fit = fitted("binomial")
    assert fit.arm_sums is not None
    effect = treatment_effect(fit.plan, fit.scaled_params, fit.arm_sums)
    assert effect.variance == effect.sampling + effect.noise + effect.shift
    assert effect.tail(0.0) == pytest.approx(1.0)
    assert effect.half_width(0.05) >= 1.9 * np.sqrt(effect.variance)
