"""What one weighted row can move: every sum that is bought besides the fit, for both adjacencies, and planted bugs.

Integers are compared with their stated sensitivities over many random rows; nothing is drawn from noise.
"""

from __future__ import annotations

import numpy as np
import pytest

import dpstats as dp
from dpstats.data import Block as RowBlock
from dpstats.evaluation.histograms import WEIGHTED_STEPS, Histogram, residual_grid
from dpstats.evaluation.model_quality import _weighted, plan_evaluation
from dpstats.evaluation.row_sums import RowSums
from dpstats.families import Binomial, BinomialCounts, Family, Gaussian, Poisson
from dpstats.mechanisms.design import ArrayDesign
from dpstats.mechanisms.screening import STEPS as SCORE_STEPS
from dpstats.mechanisms.screening import NullResidual, split_terms, term_scores
from dpstats.models.sources import AuxiliaryArrays
from dpstats.privacy.ranges import MEAN_UNITS, rate_parts, weighted_mean_parts

FAMILIES = [Binomial(), BinomialCounts(9.0), Gaussian(0.5), Poisson(3.0, 6.0)]
WEIGHTS = [1.0, 0.9999999, 0.5, 0.2500001, 1e-3, 1e-9]


def rows(count: int, seed: int, family: Family = Binomial()) -> RowBlock:  # noqa: B008
    """Rows of two columns within the unit ball, weights within [0, 1] and offsets far out."""
    random = np.random.default_rng(seed)
    exog = random.choice([-1.0, 1.0, 0.3, 0.77], (count, 2)) / np.sqrt(2)
    endog = family.clip_response(random.choice([0.0, 1.0, 0.3, 6.0], count))
    return RowBlock(exog, endog, random.choice(WEIGHTS, count), random.choice([-40.0, 0.0, 0.1, 3.0, 40.0], count))


def joined(*blocks: RowBlock) -> RowBlock:
    given = zip(RowBlock._fields, zip(*blocks, strict=True), strict=True)
    return RowBlock(**{name: np.concatenate(parts) for name, parts in given if parts[0] is not None})


class TestPurchases:
    def test_mean(self) -> None:
        """A row adds one unit at most to both sums together, and a replaced row moves them by two."""
        random = np.random.default_rng(1)
        found = []
        for _ in range(2000):
            values, weights = random.uniform(-2, 12, (2, 1)), random.choice(WEIGHTS, (2, 1))
            one, other = (weighted_mean_parts(9.0, [(values[i], weights[i])]) for i in (0, 1))
            assert one.min() >= 0
            assert one.sum() <= MEAN_UNITS
            found.append(np.abs(one - other).sum())
        assert 1.9 * MEAN_UNITS < max(found) <= 2 * MEAN_UNITS

    def test_rate(self) -> None:
        """Each sum moves by one unit at most, whether a row is added or replaced."""
        random = np.random.default_rng(2)
        found = []
        for _ in range(2000):
            draws = [(random.uniform(-2, 12, 1), random.choice(WEIGHTS, 1), random.uniform(0, 2, 1)) for _ in range(2)]
            one, other = (rate_parts(9.0, [draw]) for draw in draws)
            assert one.max() <= MEAN_UNITS
            assert np.abs(one - other).max() <= MEAN_UNITS
            found.append(np.abs(one - other).sum())
        assert max(found) > 1.6 * MEAN_UNITS

    def test_weights_beyond_their_scale_are_held(self) -> None:
        parts = rate_parts(9.0, [(np.array([9.0]), np.array([4.0]), np.array([1.0]))])
        assert parts.max() == MEAN_UNITS


class TestHistograms:
    @pytest.mark.parametrize("place", [0.0, 0.3, 1.0])
    def test_one_row_in_two_groups(self, place: float) -> None:
        """Successes and failures of one row of trials: their parts are truncated, not rounded."""
        block = Histogram(residual_grid(4.0), groups=2, place=place, steps=WEIGHTED_STEPS)
        random = np.random.default_rng(3)
        vectors = []
        for _ in range(3000):
            weight, share, value = random.choice(WEIGHTS), random.uniform(), random.uniform(-5, 5)
            parts = np.array([weight * share, weight * (1 - share)])
            vectors.append(block.count(np.array([1, 0]), np.full(2, value), parts))
        sizes = np.array(vectors, dtype=np.float64)
        assert np.abs(sizes).sum(axis=1).max() <= block.largest
        assert (sizes**2).sum(axis=1).max() <= block.square
        distances = ((sizes[1:] - sizes[:-1]) ** 2).sum(axis=1)
        assert distances.max() <= 2 * block.square

    def test_planted_outcomes_that_count_as_rows(self) -> None:
        """Successes and failures of a row without their shares: two rows' worth of one."""
        block = Histogram(residual_grid(4.0), groups=2, steps=WEIGHTED_STEPS)
        assert block.count(np.array([1, 0]), np.zeros(2), np.ones(2)).sum() > block.largest
        assert block.count(np.array([1, 0]), np.zeros(2), np.array([0.3, 0.7])).sum() <= block.largest

    @pytest.mark.parametrize("adjacency", ["add_remove", "replace_one"])
    @pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.name)
    def test_evaluations(self, family: Family, adjacency: str) -> None:
        """The whole vector that `dp.evaluate` releases, of weighted rows with offsets."""
        many = rows(60, 4, family)
        model = dp.GLM(
            many.endog, many.exog, family, weights=many.weights, offset=many.offset, offset_bound=40.0, row_norm=1.0
        )  # fmt: skip
        fit = model.fit(5.0, seed=1)
        evaluated = plan_evaluation(fit, None, 5)
        blocks = _weighted(evaluated.blocks(), fit.plan, AuxiliaryArrays())
        largest = sum(block.largest for block in blocks)
        square = sum(block.square for block in blocks)
        sums = RowSums(evaluated, blocks, fit.scaled_params, 0)  # no row is left out
        for seed in range(40):
            one, other = rows(1, 100 + seed, family), rows(1, 900 + seed, family)
            first = sums.of_complete([joined(many, one)])
            second = many if adjacency == "add_remove" else joined(many, other)
            moved = (first - sums.of_complete([second])).astype(np.float64)
            times = 1 if adjacency == "add_remove" else 2
            assert np.abs(moved).sum() <= times * largest
            assert (moved**2).sum() <= times * square


class TestScores:
    @pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.name)
    @pytest.mark.parametrize("offset", [False, True])
    def test_one_row_moves_no_score_by_more_than_its_steps(self, family: Family, offset: bool) -> None:
        design = ArrayDesign(("a", "b"), {"l2": 1.0})
        _, candidates = split_terms(design, np.ones(2))
        residual = NullResidual.at(family, 0.4, offset=offset)
        found = []
        for seed in range(60):
            many, one = rows(40, seed, family), rows(1, 500 + seed, family)
            if not offset:
                many, one = many._replace(offset=None), one._replace(offset=None)
            both = RowBlock(*(None if a is None else np.concatenate([a, b]) for a, b in zip(many, one, strict=True)))  # type: ignore[arg-type]
            scores = [term_scores(candidates, residual, [block], centred=False) for block in (many, both)]
            found.append(max(abs(a - b) for a, b in zip(*scores, strict=True)))
        assert max(found) <= SCORE_STEPS
        assert max(found) > 0.3 * SCORE_STEPS

    def test_weights_scale_what_a_row_adds(self) -> None:
        design = ArrayDesign(("a", "b"), {"l2": 1.0})
        _, candidates = split_terms(design, np.ones(2))
        residual = NullResidual.at(Binomial(), 0.0)
        block = RowBlock(np.array([[0.6, 0.8]]), np.array([1.0]), np.array([0.25]))
        whole = term_scores(candidates, residual, [block._replace(weights=None)], centred=False)
        quarter = term_scores(candidates, residual, [block], centred=False)
        np.testing.assert_allclose(quarter, np.array(whole) / 4, atol=1)

    def test_a_row_does_not_depend_on_its_place(self) -> None:
        """Exponentials of offsets see whole vectors."""
        residual = NullResidual.at(Poisson(3.0, 6.0), 0.4, offset=True)
        many = rows(997, 5, Poisson(3.0, 6.0))
        alone = [residual.of(many.part(slice(i, i + 1))) for i in range(0, 997, 83)]
        assert np.concatenate(alone).tolist() == residual.of(many)[::83].tolist()
