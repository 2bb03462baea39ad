"""Random Fourier features: their norms, kernels and directions, exact densities, and what they refuse."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
from objective_density import ObjectiveDensity

import dpstats as dp
from dpstats.audit.exact import audit_exact
from dpstats.errors import FormulaError
from dpstats.families import Binomial
from dpstats.formula import transforms as features_module
from dpstats.formula.design import DesignSpec, design_spec
from dpstats.formula.transforms import KERNELS, QUANTILES, Norms, rff, uniforms

DOMAIN = {"y": ["no", "yes"], "x": (0, 10), "z": (-5, 5), "g": ["a", "b"]}
ENDS = np.array([-1.0, 1.0])
SHAPES = ("pairs", "phase")


def made(**arguments):
    return rff(ENDS, ENDS, **{"gamma": 1.0, "D": 60, **arguments})


def points(count, seed=0):
    return np.random.default_rng(seed).uniform(-1, 1, (count, 2))


def design(term="rff(x, z, gamma=1.0, D=20)"):
    return design_spec(f"y ~ {term}", dp.Domain(DOMAIN), family=Binomial())


def frame(rows, seed=0):
    random = np.random.default_rng(seed)
    return pd.DataFrame(
        {
            "x": random.uniform(-5, 15, rows),
            "z": np.where(random.random(rows) < 0.05, np.nan, random.uniform(-5, 5, rows)),
            "g": random.choice(["a", "b"], rows),
            "y": random.choice(["no", "yes"], rows),
        }
    )


@pytest.mark.parametrize("kernel", KERNELS)
def test_pairs_have_norm_one_exactly_and_phases_up_to_the_root_of_two(kernel):
    rows = points(3000)
    pairs = made(kernel=kernel)(*rows.T)
    assert np.linalg.norm(pairs, axis=1) == pytest.approx(1.0, abs=1e-12)
    one = rff(ENDS, gamma=3.0, D=1, kernel=kernel, features="phase", seed=2)(np.linspace(-1, 1, 2001))
    assert 1.4 < np.abs(one).max() <= 2**0.5
    for shape in SHAPES:
        found = made(kernel=kernel, features=shape)
        values, norms = found(*rows.T), found.norms
        assert np.abs(values).max() <= norms.largest
        assert np.linalg.norm(values, axis=1).max() <= norms.l2 * (1 + 1e-12)
        assert np.abs(values).sum(axis=1).max() <= norms.l1 * (1 + 1e-12)


@pytest.mark.parametrize(("kernel", "gamma"), [("gaussian", 0.7), ("laplacian", 0.9), ("cauchy", 1.3)])
def test_directions_follow_the_law_whose_transform_is_the_kernel(kernel, gamma):
    """A million public draws; their mean cosine is within 5 standard errors, 0.0035."""
    found = QUANTILES[kernel](uniforms(f"law {kernel}", 1_000_000), gamma)
    for t in (0.3, 1.0, 2.0):
        assert np.cos(found * t).mean() == pytest.approx(KERNELS[kernel](np.array([[t]]), gamma)[0], abs=0.0036)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("kernel", KERNELS)
def test_features_approach_the_kernel(kernel, shape):
    one, two = points(200, 1), points(200, 2)
    found = made(kernel=kernel, features=shape, D=8000, gamma=0.8)
    products = (found(*one.T) * found(*two.T)).sum(axis=1)
    assert products == pytest.approx(KERNELS[kernel](one - two, 0.8), abs=0.06)  # 5 standard errors of 4,000 directions


def kernel_error(shape, seeds=60):
    one, two = points(400, 1), points(400, 2)
    exact = KERNELS["gaussian"](one - two, 1.0)
    found = [made(D=200, features=shape, seed=seed) for seed in range(seeds)]
    return float(np.mean([((each(*one.T) * each(*two.T)).sum(axis=1) - exact) ** 2 for each in found]))


def test_pairs_miss_the_gaussian_kernel_by_less_than_phases():
    """The error of pairs is (1 - k^2)^2 / D, that of phases (1 + k^4 / 2 - k^2) / D; seeds are fixed."""
    exact = KERNELS["gaussian"](points(400, 1) - points(400, 2), 1.0)
    pairs, phase = kernel_error("pairs"), kernel_error("phase")
    assert pairs < phase
    assert pairs == pytest.approx(np.mean((1 - exact**2) ** 2) / 200, rel=0.15)
    assert phase == pytest.approx(np.mean(1 + exact**4 / 2 - exact**2) / 200, rel=0.15)


def exact_audit(shape, row_norm, adjacency):
    """The exact audit of a logistic fit of two features, with the noise for this row norm at eps = 1."""
    found = rff(ENDS, gamma=4.0, D=2, features=shape, seed=2)
    grid = np.linspace(-1, 1, 401)
    rows = found(grid)
    far = rows[[int(np.argmax(np.linalg.norm(rows, axis=1)))]]
    near = rows[[int(np.argmin((rows @ far.T)[:, 0]))]]
    noise = dp.privacy.objective_noise("binomial", eps=1.0, row_norm=row_norm, curvature=50.0, adjacency=adjacency)
    m = np.full(2, 50.0)
    # A steep linear term keeps the added row's slope close to 1, where it costs most.
    steep = 400.0 * far[0] / np.linalg.norm(far)
    laws = [ObjectiveDensity(Binomial(), far, np.ones(1), m, noise, steep)]
    if adjacency == "add_remove":
        laws.append(ObjectiveDensity(Binomial(), np.zeros((0, 2)), np.zeros(0), m, noise, steep))
    else:
        laws.append(ObjectiveDensity(Binomial(), near, np.ones(1), m, noise, steep))
    box = laws[0].box(20 * noise.scale)
    return audit_exact(laws[0].log_density, laws[1].log_density, box, eps=1.0)


@pytest.mark.parametrize("adjacency", ["add_remove", "replace_one"])
@pytest.mark.parametrize(("shape", "row_norm"), [("pairs", 1.0), ("phase", 2**0.5)])
def test_the_exact_density_keeps_eps_at_the_right_norm(shape, row_norm, adjacency):
    assert exact_audit(shape, row_norm, adjacency).max_log_ratio <= 1 + 1e-9


@pytest.mark.slow
def test_norm_one_for_features_with_a_phase_is_caught():
    """Planted: the paper's norm."""
    assert exact_audit("phase", 1.0, "add_remove").max_log_ratio > 1.2


@pytest.mark.parametrize("shape", SHAPES)
def test_rows_of_a_design_keep_its_bounds(shape):
    found = design(f"rff(x, z, gamma=1.0, D=20, features='{shape}') + g")
    [block] = found.blocks(frame(2000))
    random = np.random.default_rng(1)
    assert np.isfinite(block.exog).all()
    for _ in range(20):
        weights = random.exponential(size=len(found.names))
        for which, order in (("l1", 1), ("l2", 2), ("linf", np.inf)):
            lengths = np.linalg.norm(block.exog * weights, ord=order, axis=1)
            assert lengths.max() <= found.norm_bound(which, weights) * (1 + 1e-12)


def test_a_norm_that_is_too_small_costs_accuracy_and_never_privacy(monkeypatch):
    """Planted: norm 1 for phases. Rows are moved into what was declared of them."""
    monkeypatch.setattr(features_module.Features, "norms", property(lambda _: Norms(0.4, 1.0, 5.0)))
    found = design("rff(x, z, gamma=1.5, D=22, features='phase')")
    [block] = found.blocks(frame(2000))
    assert np.linalg.norm(block.exog, axis=1).max() <= found.norm_bound("l2", np.ones(len(found.names)))


def test_gaussian_noise_of_pairs_is_less_by_the_root_of_two():
    spread = {}
    for shape in SHAPES:
        formula = f"y ~ rff(x, z, gamma=2.0, D=200, features='{shape}')"
        plan = dp.plan(formula, DOMAIN, 1.0, delta=1e-6, family="binomial", noise="gaussian", inference=None)
        assert isinstance(plan.design, DesignSpec)
        spread[shape] = float(np.sqrt(np.mean((plan.noise_sd[1:] * plan.design.scale[1:]) ** 2)))
    assert spread["phase"] / spread["pairs"] == pytest.approx(2**0.5, rel=0.01)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:newdata")  # numbers beyond the declared range
def test_saved_and_loaded_predictions_agree_bit_by_bit(tmp_path):
    data = frame(500)
    fit = dp.logit("y ~ rff(x, z, gamma=1.0, D=20, seed=3)", data, 1.0, domain=DOMAIN)
    fit.save(tmp_path / "fit.json")
    again = dp.GLMResults.load(tmp_path / "fit.json")
    pd.testing.assert_series_equal(fit.predict(data), again.predict(data), check_exact=True)
    code = (
        "import dpstats as dp, numpy as np, sys;"
        f"fit = dp.GLMResults.load({str(tmp_path / 'fit.json')!r});"
        "x = np.linspace(0, 10, 50);"
        "sys.stdout.write(fit.predict({'x': x, 'z': x - 5}).to_numpy().tobytes().hex())"
    )
    there = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    x = np.linspace(0, 10, 50)
    assert there == fit.predict({"x": x, "z": x - 5}).to_numpy().tobytes().hex()


def test_directions_are_on_a_lattice_and_follow_the_seed():
    one, other = made(seed=0), made(seed=1)
    assert np.array_equal(one.directions, np.rint(one.directions * 2**20) / 2**20)
    assert not np.array_equal(one.directions, other.directions)
    assert np.array_equal(one.directions, made(seed=0).directions)


def test_a_row_does_not_depend_on_the_others():
    rows, found = points(1000), made()
    together = found(*rows.T)
    alone = np.vstack([found(*row[:, None]) for row in rows[:50]])
    assert np.array_equal(together[:50], alone)


def test_missing_and_infinite_inputs_stay_missing():
    values = made()(np.array([np.nan, np.inf, 0.0]), np.zeros(3))
    assert np.isnan(values[:2]).all()
    assert np.isfinite(values[2]).all()


@pytest.mark.parametrize(
    ("term", "says"),
    [
        ("rff(x, gamma=1.0)", "'D'"),
        ("rff(x, D=4)", "'gamma'"),
        ("rff(x, gamma=0, D=4)", "gamma"),
        ("rff(x, gamma=1, D=5)", "even"),
        ("rff(x, gamma=1, D=0)", "D must"),
        ("rff(x, gamma=1, D=4.0)", "D must"),
        ("rff(x, gamma=1, D=20000)", "D must"),
        ("rff(x, gamma=1, D=4, kernel='rbf')", "kernel"),
        ("rff(x, gamma=1, D=4, features='both')", "features"),
        ("rff(x, gamma=1, D=4, seed=-1)", "seed"),
        ("rff(x, 2, gamma=1, D=4)", "by name"),
        ("rff(g, gamma=1, D=4)", "range"),
        ("rff(x * 0, gamma=1, D=4)", "constant"),
        ("rff(gamma=1, D=4)", "column"),
    ],
)
def test_bad_arguments_are_refused(term, says):
    with pytest.raises(FormulaError, match=says):
        dp.plan(f"y ~ {term}", DOMAIN, 1.0, family="binomial")
