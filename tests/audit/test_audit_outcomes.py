"""What one run shows is written down completely, and runs are independent."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

from dpstats.audit.events import Outcomes, observe_pair


def observed(mechanism, runs=120, vectorized=False, seed=3):
    return observe_pair(
        mechanism,
        0,
        1,
        runs=runs,
        seed=seed,
        vectorized=vectorized,
        n_jobs=1,
        advance=lambda units: None,
    )


def label_of(mechanism):
    return observed(mechanism)[0].labels[0]


def test_numbers_are_kept_in_order_and_need_no_label():
    first, second = observed(lambda data, rng: (data, [2.0, np.array([[3.0], [4.0]])], True))
    np.testing.assert_array_equal(first.values, np.tile([0.0, 2.0, 3.0, 4.0, 1.0], (120, 1)))
    assert (second.values[:, 0] == 1).all()
    assert set(first.labels) == {""}


@pytest.mark.parametrize(
    ("released", "label"),
    [
        ("done", "says 'done'"),
        (None, "says None"),
        ({"b": 1.0, "a": "x"}, "key b; key a; says 'x'"),
        ([1.0, np.inf, np.nan], "[1] is inf, [2] is nan"),
        ({"z", "y"}, "says 'y'; says 'z'"),
        (1 + 2j, "returns a complex: (1+2j)"),
    ],
)
def test_everything_but_finite_numbers_is_put_into_words(released, label):
    assert label_of(lambda data, rng: released) == label


def test_exceptions_warnings_and_log_records_are_told_with_their_message():
    def mechanism(data, rng):
        warnings.warn("one", RuntimeWarning, stacklevel=1)
        if data:
            raise KeyError("two")
        return 1.0

    first, second = observed(mechanism)
    assert set(first.labels) == {"warns RuntimeWarning: one"}
    assert set(second.labels) == {"warns RuntimeWarning: one; raises KeyError: 'two'; 0 numbers"}
    assert np.isnan(second.values).all()


def test_rows_of_another_length_are_labelled_and_kept_out_of_the_numbers():
    first, second = observed(lambda data, rng: np.ones(3 if data or rng.random() < 0.9 else 2))
    assert second.values.shape == (120, 3)
    short = first.labels == "2 numbers"
    assert 0 < short.sum() < 40
    np.testing.assert_array_equal(np.isnan(first.values).all(axis=1), short)


@pytest.mark.parametrize("vectorized", [False, True])
def test_no_two_runs_share_their_randomness(vectorized):
    def mechanism(data, rng, *runs):
        return rng.random(*runs)

    first, second = observed(mechanism, runs=50_000 if vectorized else 500, vectorized=vectorized)
    values = np.concatenate([first.values, second.values])
    assert len(np.unique(values)) == len(values)


def test_an_interrupt_is_not_an_outcome():
    def mechanism(data, rng):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        observed(mechanism)


def test_parts_are_disjoint_and_complete():
    outcomes = Outcomes(np.arange(103.0)[:, None], np.full(103, "", dtype=object))
    learn, choose, count = outcomes.parts()
    np.testing.assert_array_equal(np.concatenate([learn.values, choose.values, count.values]), outcomes.values)
    assert [len(part.labels) for part in (learn, choose, count)] == [25, 25, 53]
