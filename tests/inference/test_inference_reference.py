"""The published reference values, closed forms with one column, and what must not change the answer."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.inference.entry_noise import EntryNoise, wishart_difference
from dpstats.errors import ArgumentError
from dpstats.inference import (
    Estimates,
    Inference,
    ModelSpread,
    NormalLaw,
    ReleasedLaw,
    RobustSpread,
    Spread,
    mean_response,
)
from dpstats.inference.delta_method import GUARD, SecondOrder
from dpstats.privacy.noise import Noise

B = [[200, 30, 0], [30, 90, -15], [0, -15, 25]]


def normal(
    information: list[list[float]],
    coef: list[float],
    curvature: float,
    variances: list[float],
    scale: float,
    shape: list[float],
    spread: Spread | None = None,
) -> Estimates:
    """Estimates with normal noise in the objective."""
    law = NormalLaw(np.diag(np.array(variances, dtype=float)))
    noise = wishart_difference(scale, np.array(shape, dtype=float))
    matrix = curvature * np.eye(len(coef))
    return Estimates(
        np.array(coef), np.array(information, dtype=float), matrix, law, noise, spread or ModelSpread(1.0, 0.0)
    )


CASE_ONE = normal([[10]], [1.0], 2, [4], 2.0, [1])
CASE_A = normal([[60, 10], [10, 40]], [0.5, -0.3], 4, [9, 9], 1.25, [1, 1])
CASE_B = normal(B, [0.4, -0.2, 0.6], 5, [16, 16, 4], 1.5, [1, 1, 0.5], ModelSpread(0.04, 0.01))


@pytest.mark.parametrize(
    ("estimates", "column", "expected"),
    [
        (CASE_ONE, 0, (1.18614, 0.127874, 0.0279307, 3.7988, 0.753682, 0.004233)),
        (CASE_A, 0, (0.539865, 0.0202131, 0.000540995, 25.0791, 0.279019, 0.000155888)),
        (CASE_A, 1, (-0.339795, 0.0321934, 0.00120419, 17.3063, 0.352696, 0.0589479)),
        (CASE_B, 2, (0.723115, 0.0106536, 0.00473216, 14.1333, 0.204874, 4.048e-10)),
    ],
)
def test_reference_values(estimates: Estimates, column: int, expected: tuple[float, ...]) -> None:
    """Published for intervals that take the debiasing part of the variance for known."""
    estimates = replace(estimates, debiasing_moves=False)
    found = estimates.contrasts(np.eye(estimates.size))
    values = (
        estimates.debiased,
        found.variances,
        found.information_noise,
        estimates.identified.ratios,
        found.half_width(0.05),
        found.pvalues(),
    )
    assert [value[column] for value in values] == pytest.approx(expected, rel=1e-3)


@pytest.mark.slow
@given(
    st.floats(-50, 500),
    st.floats(-3, 3),
    st.floats(0.1, 10),
    st.floats(0.1, 20),
    st.floats(0.5, 5),
    st.floats(0.01, 0.5),
)
def test_one_column_in_closed_form(
    information: float, coef: float, curvature: float, variance: float, scale: float, alpha: float
) -> None:
    estimates = normal([[information]], [coef], curvature, [variance], scale, [1.0])
    square = 2 * scale**2  # Var E, and S(a) = Var(E) a
    root = (information + math.sqrt(information**2 + 4 * square)) / 2
    inverse = 1 / root
    # (a - b) as 4 c / (a + b), where the information is negative.
    if information < 0:
        root = 2 * square / (math.sqrt(information**2 + 4 * square) - information)
        inverse = 1 / root
    ratio = inverse / (inverse**2 * math.sqrt(square))
    assert estimates.identified.ratios[0] == pytest.approx(ratio, rel=1e-6)
    found = estimates.contrasts(np.eye(1))
    if ratio < 2:
        assert not found.identified[0]
        assert found.conf_int(alpha).tolist() == [[-math.inf, math.inf]]
        assert found.pvalues()[0] == 1.0
        assert estimates.debiased[0] == coef
        return
    noise = variance * inverse**2
    shift = inverse * curvature * coef
    debiasing = inverse**2 * square * shift**2 / (1 + 4 * square * inverse**2)
    total = inverse + noise / (1 + square * inverse**2) + debiasing
    moved = inverse * (noise + inverse / 2) + 2 * inverse * debiasing
    # In deviations of the noise: the error's linear and square parts, A's relative ones.
    first, second = (power * shift * math.sqrt(square / total) for power in (inverse, inverse**2 * math.sqrt(square)))
    change, bend = 2 * moved * math.sqrt(square) / total, square * inverse**2 * (inverse + 3 * noise + 10 * debiasing)
    beta = attuned(first, second, change, bend / total)
    assert found.variances[0] == pytest.approx(total, rel=1e-8)
    assert found.information_noise[0] == pytest.approx(beta, rel=1e-8)
    quantile = found.laws.quantile(alpha)[0]
    room = 1 - (quantile**2 + 1) * beta
    # Two deviations less, the information bounds the effect by its score or by the typical size, shrunken.
    left = max(1 - (2 + 1 / ratio) / ratio, 0.0)
    typical = 1.5 * math.sqrt(max(information * inverse, 1.0)) * curvature / (left / inverse + curvature)
    largest = min(typical**2, (shift**2 + variance * inverse**2) / left**2) if left > 0 else typical**2
    attenuation = max(largest - shift**2, 0.0) / ratio**2
    assert found.attenuation[0] == pytest.approx(attenuation, rel=1e-6, abs=1e-12)
    half = quantile * math.sqrt(total / room + attenuation) if room > 0 else math.inf
    assert found.half_width(alpha)[0] == pytest.approx(half, rel=1e-6)
    if room > 1e-6:
        assert found.pvalues(coef + shift + half)[0] == pytest.approx(alpha, rel=1e-4)


def attuned(first: float, second: float, change: float, bend: float) -> float:
    """beta for an error first x + second (x^2 - 1) + ... and A^ = A (1 - change x + bend (x^2 - 1)), x normal.

    By the cumulants of the error over the root of A^, see docs/proofs/inference, 5.
    """
    square, pull, skew = 1.959963984540054**2, first * change, 2 * first**2 * second
    cross, curved = 2 * first * second * change, 2 * first**2 * bend
    third = 3 * (skew - pull)
    fourth = 48 * (first * second) ** 2 - 18 * pull * skew - 12 * cross - 6 * curved + 3 * change**2 + 18 * pull**2
    needed = change**2 + 2 * pull**2 - 2 * cross - curved
    needed += (square - 3) * (fourth / 12 - pull * third / 6) + (square**2 - 10 * square + 15) * third**2 / 36
    apart = change**2 / 4
    return min(apart, max(needed, 0.0) / (square + 1) + GUARD * (square + 1) * apart**2)


@dataclass(frozen=True, eq=False)
class Mapped:
    """The law of T'ET: another implementation of the protocol."""

    law: EntryNoise
    map: np.ndarray

    @property
    def size(self) -> int:
        return self.law.size

    def square(self, matrix: np.ndarray) -> np.ndarray:
        return self.map.T @ self.law.square(self.map @ matrix @ self.map.T) @ self.map

    def images(self, vector: np.ndarray) -> np.ndarray:
        return np.array([self.square(np.outer(unit, vector)) for unit in np.eye(self.size)])

    def bilinear(self, left: np.ndarray, right: np.ndarray) -> np.ndarray:
        return self.law.bilinear(left @ self.map.T, right @ self.map.T)

    def restrict(self, kept: np.ndarray) -> Mapped:
        assert len(kept) == self.size, "no coefficient is dropped here"
        return self


def test_linear_maps_of_the_columns_change_nothing() -> None:
    """x becomes T'x, so theta becomes T^-1 theta: every combination keeps its estimate and error.

    But for what typical sizes allow for weak coefficients, as these belong to columns.
    """
    fixed = replace(CASE_B, typical_size=1e-9)
    back = np.array([[2.0, 0.5, 0.0], [0.0, 1.0, -0.7], [0.3, 0.0, 3.0]])
    forth = np.linalg.inv(back)
    moved = Estimates(
        forth @ CASE_B.coef,
        back.T @ CASE_B.information @ back,
        back.T @ CASE_B.curvature @ back,
        NormalLaw(back.T @ CASE_B.linear.covariance @ back),
        Mapped(wishart_difference(1.5, np.array([1, 1, 0.5])), back),
        CASE_B.spread,
        1e-9,
    )
    rows = np.array([[1.0, 0, 0], [0, 0, 1], [1, -2, 0.5]])
    ours, theirs = fixed.contrasts(rows), moved.contrasts(rows @ back)
    assert theirs.estimates == pytest.approx(ours.estimates, rel=1e-9)
    assert theirs.conf_int(0.1) == pytest.approx(ours.conf_int(0.1), rel=1e-9)
    assert theirs.pvalues(0.3) == pytest.approx(ours.pvalues(0.3), rel=1e-7)


@settings(max_examples=25)
@given(st.integers(0, 2**32 - 1), st.sampled_from(["l1", "gaussian"]))
def test_units_and_order_of_columns(seed: int, law: str) -> None:
    """Scaling or permuting columns scales or permutes everything, dropped coefficients included."""
    random = np.random.default_rng(seed)
    size = 5
    factor = random.normal(size=(size, size))
    information = 12 * factor @ factor.T + 5 * np.diag(random.normal(size=size))
    noise = Noise("gaussian", "l2", 2.0) if law == "gaussian" else Noise("laplace", "l1", 2.0)
    shape, coef, curvature = random.uniform(0.5, 2, size), random.normal(size=size), random.uniform(1, 4, size)
    sizes = random.uniform(0.5, 2, size)

    def estimates(order: np.ndarray, units: np.ndarray) -> Estimates:
        inner = (information * np.outer(units, units))[np.ix_(order, order)]
        matrix = wishart_difference(1.0, (shape * units**2)[order])
        linear = ReleasedLaw(noise, (1 / units)[order])
        values = ((coef / units)[order], inner, np.diag((curvature * units**2)[order]), linear, matrix, ModelSpread())
        return Estimates(*values, typical_size=(sizes / units)[order])

    order, units = random.permutation(size), 2.0 ** random.integers(-3, 4, size)
    ours = estimates(np.arange(size), np.ones(size)).contrasts(np.eye(size))
    theirs = estimates(order, units).contrasts(np.eye(size))
    assert theirs.identified.tolist() == ours.identified[order].tolist()
    assert theirs.variances * units[order] ** 2 == pytest.approx(ours.variances[order], rel=1e-6)
    if law == "gaussian":
        assert theirs.half_width(0.05) * units[order] == pytest.approx(ours.half_width(0.05)[order], rel=1e-5)
    else:
        # Draws are not permuted with the columns, so quantiles differ by the simulation's error.
        assert theirs.laws.quantile(0.05) == pytest.approx(ours.laws.quantile(0.05)[order], rel=0.1)


def test_same_release_same_answer() -> None:
    """Nothing is drawn but from a public constant: two evaluations agree bit by bit."""
    values = []
    for _ in range(2):
        law = ReleasedLaw(Noise("laplace", "linf", 1.0), np.ones(3))
        estimates = Estimates(CASE_B.coef, CASE_B.information, CASE_B.curvature, law, CASE_B.matrix, CASE_B.spread)
        result = Inference(estimates)
        values.append(np.concatenate((result.se, result.pvalues, [result.wald_test(np.eye(3)).pvalue])))
    assert values[0].tolist() == values[1].tolist()


def test_user_units() -> None:
    """A and shift act as on the coefficients themselves."""
    transform, shift = np.array([[1.0, -0.5, 2.0], [0, 2, 0], [0, 0, 0.25]]), np.array([1.0, 0, 0])
    result, model = Inference(CASE_B, transform, shift), CASE_B.contrasts(transform)
    assert result.coef == pytest.approx(transform @ CASE_B.debiased + shift)
    assert result.conf_int(0.1) == pytest.approx(model.conf_int(0.1) + shift[:, None])
    assert result.pvalues == pytest.approx(model.pvalues(-shift))
    tested = result.t_test(np.eye(3), null=[0.2, 0, 0])
    assert tested.pvalues[1:] == pytest.approx(result.pvalues[1:])
    assert tested.effect == pytest.approx(result.coef)
    assert result.t_test([1, 0, 0], null=result.coef[0]).pvalues == pytest.approx(1)
    assert np.diag(result.cov_params()) == pytest.approx(result.se**2)
    assert np.all(np.linalg.eigvalsh(result.cov_params()) > 0)
    assert result.shares.sum(axis=1) == pytest.approx(1)
    assert np.all(result.shares >= 0)
    assert result.tvalues == pytest.approx(result.coef / result.se)


def test_mean_response() -> None:
    rows = np.array([[1.0, 0.2, -0.3], [1, 0, 0]])
    found = mean_response(CASE_B, rows, np.exp, offset=np.array([0.5, 0]), alpha=0.1)
    expected = CASE_B.contrasts(rows).conf_int(0.1) + np.array([[0.5], [0]])
    assert found.linear_interval == pytest.approx(expected)
    assert found.mean_interval == pytest.approx(np.exp(expected))
    assert found.mean == pytest.approx(np.exp(rows @ CASE_B.debiased + [0.5, 0]))


def test_unidentified_coefficients() -> None:
    """What is dropped is bounded by nothing, and what else depends on it is wider for it."""
    information = [[60.0, 3, 5], [3, 0.4, 0], [5, 0, 40]]
    estimates = normal(information, [0.5, 0.7, -0.3], 4, [9, 9, 9], 1.25, [1, 1, 1])
    result = Inference(estimates)
    assert result.identified.tolist() == [True, False, True]
    assert result.conf_int()[1].tolist() == [-math.inf, math.inf]
    assert result.coef[1] == 0.7
    assert np.isnan([result.pvalues[1], result.tvalues[1]]).all()
    assert result.shares[1].tolist() == [0, 0, 1]
    covariance = result.cov_params()
    assert covariance[1, 1] == math.inf
    assert np.isnan(covariance[0, 1])
    tested = result.t_test([[1, 1, 0], [1, 0, -1]])
    assert tested.se[0] == math.inf
    assert np.isfinite(tested.se[1])
    joint = result.wald_test(np.eye(3))
    assert (joint.df, joint.untested) == (2, 1)
    assert result.wald_test([0, 1, 0]).pvalue == 1
    wider = Estimates(
        estimates.coef,
        estimates.information,
        estimates.curvature,
        estimates.linear,
        estimates.matrix,
        estimates.spread,
        typical_size=np.array([1.0, 3.0, 1.0]),
    )
    assert Inference(wider).se[0] > result.se[0]
    assert mean_response(estimates, np.array([[1.0, 1, 0]]), np.tanh).mean_interval.tolist() == [[-1, 1]]


def movement(estimates: Estimates, rows: np.ndarray) -> SecondOrder:
    """How the errors of some combinations move."""
    found = estimates.identified
    shift = estimates.correction[found.active]
    covariance = estimates.linear.covariance[np.ix_(found.active, found.active)]
    images = np.array([found.law.square(np.outer(unit, shift)) for unit in np.eye(len(shift))])
    return SecondOrder(estimates.parts(rows), found, shift, images, covariance, estimates.is_model)


def test_cumulants_by_differences() -> None:
    """Errors and A along each independent entry of the noise, and along pairs of them."""
    estimates, step = CASE_B, 1e-3
    parts, law = estimates.parts(np.eye(3)), estimates.matrix
    assert isinstance(law, EntryNoise)
    start, pulled = estimates.identified.inverse, estimates.curvature @ estimates.coef
    phi, size = estimates.spread.value, 6  # type: ignore[union-attr]
    entries = []
    for row, column in zip(*np.triu_indices(3), strict=True):
        entry = np.zeros((3, 3))
        entry[row, column] = entry[column, row] = math.sqrt(law.variances[row, column])
        entries.append(entry)

    def at(noise: np.ndarray) -> np.ndarray:
        """The error, and A, where G is moved by a multiple of the noise, to second order."""
        inverse = start - start @ noise @ start + start @ noise @ start @ noise @ start
        shift = inverse @ pulled
        debiasing = np.diag(inverse @ law.square(np.outer(shift, shift)) @ inverse)
        plain = np.diag(phi * inverse + inverse @ estimates.linear.covariance @ inverse)
        return np.array([shift, plain + parts.debiasing_left * debiasing])

    slopes = np.array([at(step * one) - at(-step * one) for one in entries]) / (2 * step)
    middle, bends = at(np.zeros((3, 3))), np.empty((size, size, 2, 3))
    for i, one in enumerate(entries):
        for j, other in enumerate(entries):
            plus, minus = at(step * (one + other)), at(step * (one - other))
            bends[i, j] = (plus + at(-step * (one + other)) - minus - at(-step * (one - other))) / (8 * step**2)
    assert middle[1] == pytest.approx(
        np.diag(phi * start + start @ estimates.linear.covariance @ start) + parts.debiasing, rel=1e-9
    )
    error, change = slopes[:, 0], slopes[:, 1]
    curve, bend = bends[:, :, 0], bends[:, :, 1]
    pull, skew, length, cross, curved = movement(estimates, np.eye(3))._cumulants()
    # R's slope is -change's: where G falls A falls, and so does the error.
    turned = np.einsum("ik,ijk->jk", error, curve)
    assert pull == pytest.approx(np.sum(error * change, axis=0), rel=1e-4)
    assert skew == pytest.approx(2 * np.einsum("ik,ijk,jk->k", error, curve, error), rel=1e-4)
    assert length == pytest.approx(4 * np.sum(turned**2, axis=0), rel=1e-4)
    assert cross == pytest.approx(2 * np.sum(turned * change, axis=0), rel=1e-4)
    assert curved == pytest.approx(2 * np.einsum("ik,ijk,jk->k", error, bend, error), rel=1e-4)


def test_noise_moves_every_part_of_the_variance() -> None:
    """Var(dA) / 4 A^2 by differences along each independent entry of the noise, G^-1 moved by it.

    The divisor of the debiasing part stays, which is on the safe side.
    """
    estimates, step = CASE_B, 1e-5
    start, law = estimates.identified.inverse, estimates.matrix
    assert isinstance(law, EntryNoise)
    phi, pulled = estimates.spread.value, estimates.curvature @ estimates.coef  # type: ignore[union-attr]
    left = estimates.parts(np.eye(3)).debiasing_left
    assert np.all((left > 0.8) & (left < 1))

    def variances(inverse: np.ndarray) -> np.ndarray:
        shift = inverse @ pulled
        debiasing = np.diag(inverse @ law.square(np.outer(shift, shift)) @ inverse)
        return np.diag(phi * inverse + inverse @ estimates.linear.covariance @ inverse) + left * debiasing

    total = np.zeros(3)
    for row, column in zip(*np.triu_indices(3), strict=True):
        entry = np.zeros((3, 3))
        entry[row, column] = entry[column, row] = step
        ends = [variances(np.linalg.inv(np.linalg.inv(start) + sign * entry)) for sign in (1, -1)]
        total += law.variances[row, column] * ((ends[0] - ends[1]) / (2 * step)) ** 2
    found = movement(estimates, np.eye(3))
    assert found.variance == pytest.approx(total / 4, rel=1e-5)
    assert np.all(found.information_noise <= found.variance / found.parts.total**2)


def test_robust_spread() -> None:
    """Released variances of coefficients are used as they are; those of combinations are bounded."""
    inverse = CASE_A.identified.inverse
    spread = RobustSpread(np.diag(inverse), np.array([0.001, 0.002]))
    robust = normal([[60, 10], [10, 40]], [0.5, -0.3], 4, [9, 9], 1.25, [1, 1], spread)
    known = replace(robust, debiasing_moves=False).contrasts(np.eye(2))
    ours, model = robust.contrasts(np.eye(2)), CASE_A.contrasts(np.eye(2))
    assert ours.sampling == pytest.approx(model.sampling)
    assert ours.spread_noise == pytest.approx(np.array([0.001, 0.002]) ** 2 / 4 / ours.variances)
    # beta with C = g m' + m g', m = n + phi g.
    direction = inverse[:1]
    noise = direction @ np.diag([9.0, 9]) @ inverse
    expected = robust.matrix.bilinear(direction, noise + direction)[0] / known.variances[0] ** 2
    assert known.information_noise[0] == pytest.approx(expected)
    assert movement(robust, np.eye(2)).variance[0] / ours.variances[0] ** 2 > expected
    both = robust.contrasts([[2.0, 0], [1, -1]]).sampling
    roots = np.sqrt(np.diag(inverse))
    assert both == pytest.approx([4 * inverse[0, 0], roots.sum() ** 2])
    # A ceiling bounds combinations, in inverse informations, and leaves what was released as it is.
    below = replace(robust, spread=replace(spread, ceiling=0.5)).contrasts([[2.0, 0], [1, -1], [1, 1]]).sampling
    assert below == pytest.approx([4 * inverse[0, 0], *(0.5 * (c @ inverse @ c) for c in np.array([[1, -1], [1, 1]]))])
    high = replace(robust, spread=replace(spread, ceiling=99.0)).contrasts([[2.0, 0], [1, -1]])
    assert high.sampling == pytest.approx(both)
    assert high.spread_noise[1] > 0
    bought = RobustSpread(np.array([0.05]), np.array([0.01]), np.array([[1.0, -1]]))
    other = normal([[60, 10], [10, 40]], [0.5, -0.3], 4, [9, 9], 1.25, [1, 1], bought).contrasts([[-2.0, 2], [1, 0]])
    assert other.sampling[0] == pytest.approx(0.2)
    assert other.identified.tolist() == [True, False]
    assert np.isfinite(Inference(robust).wald_test(np.eye(2)).statistic)


def test_spread_below_its_noise() -> None:
    """A negative estimate says only that the spread is within its noise."""
    assert ModelSpread(-0.2, 0.5).value == 0.5
    low, zero = (normal(B, [0.4, -0.2, 0.6], 5, [16] * 3, 1.5, [1] * 3, ModelSpread(v, 0.05)) for v in (-1.0, 0.0))
    assert low.contrasts(np.eye(3)).se == pytest.approx(zero.contrasts(np.eye(3)).se)
    with pytest.raises(ArgumentError):
        ModelSpread(-1.0, 0.0)


def test_bad_arguments() -> None:
    with pytest.raises(ArgumentError):
        CASE_A.contrasts(np.eye(3))
    with pytest.raises(ArgumentError):
        CASE_A.contrasts(np.eye(2)).conf_int(1.0)
    with pytest.raises(ArgumentError):
        CASE_A.contrasts(np.eye(2)).pvalues(np.nan)
    with pytest.raises(ArgumentError):
        Inference(CASE_A, np.eye(2), np.zeros(3))
    with pytest.raises(ArgumentError):
        normal([[60, 10], [20, 40]], [0.5, -0.3], 4, [9, 9], 1.25, [1, 1]).contrasts(np.eye(2))


@pytest.mark.slow
def test_a_hundred_columns_in_a_second() -> None:
    """Least of three runs: other processes share the machine."""
    random = np.random.default_rng(3)
    exog = random.normal(size=(3000, 100))
    error = random.normal(size=(100, 100))
    information = 0.2 * exog.T @ exog + 30 * (error + error.T)
    times = []
    for _ in range(3):
        start = time.perf_counter()
        law = ReleasedLaw(Noise("laplace", "l1", 5.0), np.ones(100))
        noise = wishart_difference(6.0, np.ones(100))
        result = Inference(Estimates(random.normal(size=100), information, 30 * np.eye(100), law, noise, ModelSpread()))
        result.conf_int()
        _ = result.pvalues
        times.append(time.perf_counter() - start)
    assert min(times) < 5.0
