"""The black-box auditor: its bounds hold, it sees every kind of output, and it says what it cannot do."""

from __future__ import annotations

import logging
import warnings
from dataclasses import replace

import numpy as np
import pytest
from planted import noisy_sum, warned_sum
from scipy.stats import beta, binom

from dpstats.audit import audit
from dpstats.audit.events import clopper_pearson, lower_bounds
from dpstats.errors import ArgumentError


def laplace(scale):
    return lambda data, rng, runs: sum(data) + rng.laplace(0, scale, runs)


def counted(mechanism, runs=4000, eps=1.0, **options):
    """An audit of a mechanism of (neighbour: bool, rng)."""
    return audit(mechanism, False, True, eps=eps, runs=runs, seed=1, **options)


# --- Bounds ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("count", [0, 1, 7, 50, 99, 100])
def test_clopper_pearson_is_the_beta_quantile(count):
    low, high = clopper_pearson(np.array([count]), 100, 0.01)
    assert low[0] == pytest.approx(0 if count == 0 else beta.ppf(0.01, count, 101 - count))
    assert high[0] == pytest.approx(1 if count == 100 else beta.ppf(0.99, count + 1, 100 - count))


def test_clopper_pearson_covers_every_proportion():
    """Exact: sums the binomial law over the counts whose bound fails. Too tight by a hundredth would show."""
    for proportion in (0.001, 0.01, 0.3, 0.9):
        counts = np.arange(201)
        low, high = clopper_pearson(counts, 200, 0.05)
        law = binom.pmf(counts, 200, proportion)
        assert law[low > proportion].sum() <= 0.05
        assert law[high < proportion].sum() <= 0.05


def test_an_event_seen_on_one_side_only_shows_as_much_eps_as_the_runs_allow():
    bounds = lower_bounds(np.array([50_000]), np.array([0]), 50_000, eps=1, delta=0, alpha=1e-3 / 8)
    assert bounds.eps[0] == pytest.approx(np.log(50_000 / -np.log(1e-3 / 8)), abs=2e-3)


def test_delta_is_taken_from_the_likely_side():
    with_delta = lower_bounds(np.array([100]), np.array([0]), 1000, eps=1, delta=0.2, alpha=0.01)
    assert with_delta.eps[0] == 0


def test_the_bounds_reported_share_the_probability_of_error_among_eight():
    result = audit(laplace(0.5), [], [1.0], eps=1, runs=4000, confidence=0.99, seed=1, vectorized=True)
    found = result.findings[0]
    again = lower_bounds(np.array(found.hits), np.array(found.other), 2000, eps=1, delta=0, alpha=0.01 / 8)
    assert result.eps_lower == found.eps == pytest.approx(float(again.eps))
    assert found.divergence == pytest.approx(float(again.divergence))


# --- Validity --------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_tight_mechanism_is_refuted_no_more_often_than_stated():
    """Laplace noise spends exactly eps. 150 audits at confidence 0.9: more than 30 refuted has probability 1e-4."""
    refuted = sum(
        not audit(laplace(1.0), [], [1.0], eps=1, runs=1000, confidence=0.9, seed=seed, vectorized=True).passed
        for seed in range(150)
    )
    assert refuted <= binom.isf(1e-4, 150, 0.1)


@pytest.mark.slow
def test_the_bound_comes_close_to_the_truth():
    result = audit(laplace(0.5), [], [1.0], eps=2, runs=200_000, seed=1, vectorized=True)
    assert 1.8 < result.eps_lower <= 2
    assert result.passed


@pytest.mark.slow
def test_the_hockey_stick_estimate_is_near_the_exact_divergence():
    """Laplace scale 0.5, sensitivity 1, at eps = 1: 1 - exp(-(2 - 1) / 2). Standard error .003 on 100,000 runs."""
    stick = audit(laplace(0.5), [], [1.0], eps=1, runs=200_000, seed=2, vectorized=True).hockey_stick
    assert stick.estimate == pytest.approx(1 - np.exp(-0.5), abs=0.012)
    assert stick.lower < 1 - np.exp(-0.5)


@pytest.mark.slow
def test_both_directions_are_searched():
    """An atom under one data set only is seen whichever of the two is named first."""
    halves = {"with": [0.0, 1.0], "without": [0.0]}
    for first, second in (("with", "without"), ("without", "with")):
        result = audit(
            lambda data, rng, runs: rng.choice(data, runs),
            halves[first],
            halves[second],
            eps=1,
            seed=1,
            vectorized=True,
        )
        assert result.eps_lower > 7
        assert result.findings[0].likely == ("data" if first == "with" else "neighbour")


# --- Everything that leaves is an output ------------------------------------------------------------------------------


def raising(neighbour, rng):
    if neighbour:
        raise ValueError("unknown level")
    return rng.normal()


def logging_mechanism(neighbour, rng):
    if neighbour:
        logging.getLogger("some.library").warning("dropped a row")
    return rng.normal()


@pytest.mark.slow
@pytest.mark.parametrize(
    "mechanism",
    [
        raising,
        logging_mechanism,
        lambda neighbour, rng: warnings.warn("odd", stacklevel=1) if neighbour else None,
        lambda neighbour, rng: "converged" if neighbour else "stopped",
        lambda neighbour, rng: rng.normal(size=2 + neighbour),
        lambda neighbour, rng: [rng.normal(), np.nan if neighbour else 0.0],
        lambda neighbour, rng: {"x": rng.normal(), "c" if neighbour else "b": rng.normal()},
        lambda neighbour, rng: rng.normal(size=3) * [1, 1, 1 - neighbour],
        lambda neighbour, rng: (rng.normal(), {"a", "b"} if neighbour else {"a"}),
        lambda neighbour, rng: 1 / 3 if neighbour else rng.normal(),
    ],
    ids=["exception", "log", "warning", "word", "shape", "nan", "key", "support", "set", "exact value"],
)
def test_any_difference_that_leaves_is_seen(mechanism):
    result = counted(mechanism)
    assert result.eps_lower > 5
    assert not result.passed
    assert counted(lambda neighbour, rng: mechanism(False, rng)).passed


def test_two_messages_of_one_exception_are_told_apart():
    def mechanism(neighbour, rng):
        raise ValueError(f"{3 + neighbour} rows")

    assert counted(mechanism).eps_lower > 5


@pytest.mark.slow
def test_a_rare_failure_is_weighed_by_its_frequency():
    def mechanism(neighbour, rng):
        if rng.random() < (0.2 if neighbour else 0.1):
            raise ValueError
        return 0.0

    assert 0.3 < counted(mechanism, runs=20_000).eps_lower <= np.log(2)


def test_warnings_are_heard_though_the_caller_turns_them_into_errors():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        result = audit(lambda data, rng: warned_sum(data, rng, True), [0.5], [3.0], eps=1, runs=1000, seed=1)
    assert "label" in result.event


# --- Events of several numbers ----------------------------------------------------------------------------------------


@pytest.mark.slow
def test_an_event_that_is_no_half_line_is_found():
    """Under the neighbour a gap opens in the middle: an event of probability .1 against 0."""

    def mechanism(neighbour, rng, runs):
        draws = rng.uniform(-1, 1, runs)
        return np.where(np.abs(draws) < 0.1, draws + 0.2, draws) if neighbour else draws

    result = audit(mechanism, False, True, eps=1, seed=1, vectorized=True)
    assert result.eps_lower > 5


def test_noise_shared_by_two_outputs_is_found():
    def mechanism(neighbour, rng, runs):
        return np.add(rng.laplace(0, 1, (runs, 1)), [0.0, neighbour])

    assert audit(mechanism, 0, 1, eps=1, runs=20_000, seed=1, vectorized=True).eps_lower > 6


@pytest.mark.slow
def test_a_combination_free_of_noise_is_found():
    """The sixth output is the sum of the other five, plus one under the neighbour."""

    def mechanism(neighbour, rng, runs):
        draws = rng.laplace(0, 1, (runs, 5))
        return np.column_stack([draws, draws.sum(axis=1) + neighbour])

    result = audit(mechanism, 0, 1, eps=1, runs=20_000, seed=1, vectorized=True)
    assert result.eps_lower > 5
    assert "difference of means" in result.event


@pytest.mark.slow
def test_one_telling_coordinate_among_forty_is_found():
    """Under the neighbour the 32nd is near 1 or -1: neither its mean nor the norm of all forty tells."""

    def mechanism(neighbour, rng, runs):
        draws = rng.normal(size=(runs, 40))
        if neighbour:
            draws[:, 31] = np.sign(draws[:, 31]) * rng.uniform(0.9, 1.1, runs)
        return draws

    result = audit(mechanism, 0, 1, eps=1, runs=20_000, seed=1, vectorized=True)
    assert result.eps_lower > 5
    assert "[31]" in result.event or "regression" in result.event


@pytest.mark.slow
def test_a_pattern_of_zeros_that_no_single_coordinate_betrays_is_found():
    """An odd number of the six coordinates is zero under the neighbour, else an even one; each is, half the time."""

    def mechanism(neighbour, rng, runs):
        zero = rng.integers(0, 2, (runs, 6))
        zero[:, 5] = (zero[:, :5].sum(axis=1) + neighbour) % 2
        return np.where(zero == 1, 0.0, rng.normal(size=(runs, 6)))

    result = audit(mechanism, 0, 1, eps=1, runs=20_000, seed=1, vectorized=True)
    assert result.eps_lower > 5
    assert "support" in result.event


@pytest.mark.slow
def test_exact_values_that_no_single_coordinate_betrays_are_found():
    def mechanism(neighbour, rng, runs):
        bits = rng.integers(0, 2, (runs, 6)) + 1.0
        bits[:, 5] = (bits[:, :5].sum(axis=1) + neighbour) % 2 + 1
        return bits

    result = audit(mechanism, 0, 1, eps=1, runs=20_000, seed=1, vectorized=True)
    assert result.eps_lower > 5
    assert "exact value" in result.event


# --- Running it ------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_the_seed_fixes_the_result_whoever_runs_it():
    options = {"eps": 1, "runs": 500, "seed": 4}
    alone = audit(noisy_one, [], [1.0], **options)
    again = audit(noisy_one, [], [1.0], **options)
    shared = audit(noisy_one, [], [1.0], n_jobs=2, **options)
    assert alone.findings == again.findings == shared.findings
    assert audit(noisy_one, [], [1.0], eps=1, runs=500, seed=5).findings != alone.findings


def noisy_one(data, rng):
    return noisy_sum(data, rng, 1, scale=1.0)


@pytest.mark.parametrize(
    "options", [{"runs": 99}, {"runs": 1e5}, {"runs": True}, {"confidence": 1.0}, {"confidence": 0.2}, {"n_jobs": 0}]
)
def test_arguments_out_of_range_are_refused(options):
    with pytest.raises(ArgumentError, match=next(iter(options))):
        audit(laplace(1.0), [], [1.0], eps=1, vectorized=True, **options)


@pytest.mark.parametrize("claim", [{"eps": 0.0}, {"eps": 1.0, "delta": 1.0}])
def test_a_claim_out_of_range_is_refused(claim):
    with pytest.raises(ArgumentError):
        audit(laplace(1.0), [], [1.0], vectorized=True, **claim)


def test_a_mechanism_that_always_raises_is_not_passed():
    with pytest.raises(ArgumentError, match="TypeError in every run"):
        audit(lambda data: 0.0, [], [1.0], eps=1, runs=200)


def test_a_vectorised_mechanism_must_return_a_row_per_run():
    with pytest.raises(ArgumentError, match="rows"):
        audit(lambda data, rng, runs: rng.normal(size=3), [], [1.0], eps=1, vectorized=True)


def test_a_vectorised_mechanism_must_not_warn():
    def mechanism(data, rng, runs):
        warnings.warn("one for all runs", stacklevel=2)
        return rng.normal(size=runs)

    with pytest.raises(ArgumentError, match="use vectorized=False"):
        audit(mechanism, [], [1.0], eps=1, vectorized=True)


def test_a_constant_mechanism_passes():
    result = counted(lambda neighbour, rng: "thank you")
    assert result.passed
    assert result.eps_lower == 0


def test_progress_stays_off_where_nobody_watches(capsys):
    audit(laplace(1.0), [], [1.0], eps=1, runs=1000, seed=1, vectorized=True)
    captured = capsys.readouterr()
    assert (captured.out, captured.err) == ("", "")


# --- Tables and plot --------------------------------------------------------------------------------------------------


def test_the_summary_fits_a_terminal_and_states_the_verdict():
    caught = audit(laplace(0.4), [], [1.0], eps=1, runs=20_000, seed=1, vectorized=True)
    text = caught.summary().as_text()
    assert max(map(len, text.splitlines())) <= 80
    assert "REFUTED" in text
    assert str(caught) == text
    assert f"{caught.eps_lower:.4g}" in text
    assert "not refuted" in str(audit(laplace(1.0), [], [1.0], eps=1, runs=2000, seed=1, vectorized=True))


def test_an_event_in_many_words_is_cut_short_in_the_summary():
    def mechanism(neighbour, rng, runs):
        return rng.normal(size=(runs, 2)) * [[1 + 2 * neighbour, 1]]

    result = audit(mechanism, 0, 1, eps=1, runs=4000, seed=1, vectorized=True)
    longest = replace(result.findings[0], event="a union of intervals of " * 9)
    text = replace(result, findings=(longest,)).summary().as_text()
    assert max(map(len, text.splitlines())) <= 80


@pytest.mark.parametrize("mechanism", [lambda neighbour, rng: rng.normal() + neighbour, raising])
def test_the_plot_shows_bounds_and_both_distributions(mechanism):
    result = counted(mechanism, runs=1000)
    assert result.plot().get_ylabel() == "eps, at least"
    assert [text.get_text() for text in result.plot("scores").get_legend().get_texts()] == ["data", "neighbour"]
