"""What every mechanism for private sums must keep; each mechanism inherits all of it."""

from __future__ import annotations

import copy
import json
import math
import pickle
from typing import Any

import numpy as np
import pandas as pd
import pytest
from transcripts import mechanism_mu, responses

from dpstats.errors import ArgumentError, DataError, StreamError
from dpstats.privacy.k_norm import Image, box, k_norm_noise, simplex
from dpstats.streaming.sums import (
    Blt,
    Buffers,
    Cumulative,
    Halflife,
    Honaker,
    KNormTree,
    Mechanism,
    PrefixSums,
    SumsPlan,
    Toeplitz,
    Tree,
    Window,
    mechanism_from_dict,
    stored_plan,
)

CPS = (0, 1, 2, 3, 12, 13, 14, 15)
TICKS = 24


class SumsContract:
    """Set `mechanisms`, and `delta` = 0 for pure ones."""

    mechanisms: tuple[Mechanism, ...]
    delta = 1e-5

    @pytest.fixture
    def mechanism(self, request: pytest.FixtureRequest) -> Mechanism:
        return request.param

    def plan(self, mechanism: Mechanism, size: int = 2, **options: Any) -> SumsPlan:
        return mechanism.plan(size, eps=1.0, delta=self.delta, **options)

    @staticmethod
    def last(mechanism: Mechanism) -> int:
        return min(mechanism.workload.ticks, TICKS)

    def test_stated_noise_is_the_path_s(self, mechanism: Mechanism) -> None:
        """`std`, `std_between` and `covariance` against the responses of the path to unit draws."""
        ticks = self.last(mechanism)
        response = responses(mechanism.path(), ticks)
        unit = mechanism.sensitivity * mechanism.draw_deviation
        released = mechanism.workload.apply(response)
        expected = unit * np.linalg.norm(released, axis=1)
        np.testing.assert_allclose(mechanism.std(np.arange(1, ticks + 1)), expected, rtol=2e-8)
        assert mechanism.std(ticks) == pytest.approx(expected[-1], rel=2e-8)
        intervals = [(a, b) for a in range(ticks) for b in range(a + 1, ticks + 1)][::3]
        sums = np.vstack([np.zeros(response.shape[1]), np.cumsum(response, axis=0)])
        noises = unit * np.array([sums[b] - sums[a] for a, b in intervals])
        np.testing.assert_allclose(mechanism.covariance(intervals), noises @ noises.T, atol=1e-7)
        assert mechanism.std_between(*intervals[-1]) == pytest.approx(np.linalg.norm(noises[-1]), rel=2e-8)

    def test_noise_of_real_draws(self, mechanism: Mechanism) -> None:
        """2,000 numbers of OpenDP's noise at three ticks; false alarm below 1e-6 a figure (5 standard errors)."""
        size, ticks = 2_000, min(3, self.last(mechanism))
        plan = self.plan(mechanism, size, row_sensitivity=3.0)
        stream = plan.start(recall=ticks)
        for tick in range(1, ticks + 1):
            noise = stream.step(np.zeros(size, dtype=np.int64))
            expected = plan.noise_sd(tick)
            # The square of a normal variable has variance 2, of a Laplace variable 5, of a sum between them.
            spread = math.sqrt((2 if self.delta else 5) / size)
            assert np.mean((noise / expected) ** 2) == pytest.approx(1, abs=5 * spread)
            assert abs(np.mean(noise / expected)) < 5 / math.sqrt(size)
        change = stream.between(ticks - 1, ticks)
        variance = plan.covariance([(ticks - 1, ticks)])[0, 0]
        assert np.mean(change**2) == pytest.approx(variance, rel=5 * spread)

    def test_release_is_the_exact_sum_plus_noise_of_no_row(self, mechanism: Mechanism) -> None:
        """Two data sets, one seed: releases differ by exactly the difference of the exact sums."""
        ticks = self.last(mechanism)
        plan = self.plan(mechanism, 3)
        rng = np.random.default_rng(1)
        vectors = rng.integers(-(2**40), 2**40, (ticks, 3))
        first, second = (plan.start(seed=7, recall=ticks) for _ in range(2))
        first.step(vectors[0])
        second.step(np.zeros(3, dtype=np.int64))
        for vector in vectors[1:]:
            released = first.step(vector)
            blank = second.step(np.zeros(3, dtype=np.int64))
        exact = mechanism.workload.apply(vectors.astype(np.float64))[-1] * plan.step
        np.testing.assert_allclose(released - blank, exact, rtol=1e-9, atol=1e-3)
        interval = first.between(1, ticks) - second.between(1, ticks)
        np.testing.assert_allclose(interval, vectors[1:].sum(axis=0) * plan.step, rtol=1e-9, atol=1e-3)
        np.testing.assert_allclose(first.total - second.total, vectors.sum(axis=0) * plan.step, rtol=1e-9, atol=1e-3)
        np.testing.assert_array_equal(first.between(0, ticks), first.total)

    def test_state_goes_on_where_it_was(self, mechanism: Mechanism) -> None:
        """From a stored state the next release is the same however often, though no seed is set."""
        plan = self.plan(mechanism)
        stream, ticks = plan.start(), self.last(mechanism)
        for tick in range(ticks):
            stored = stream.to_bytes()
            vector = np.array([tick, -3 * tick])
            released = stream.step(vector)
            again = PrefixSums.from_bytes(stored, plan)
            np.testing.assert_array_equal(again.step(vector), released)
            restored = PrefixSums.from_bytes(stream.to_bytes(), stored_plan(stored))
            np.testing.assert_array_equal(restored.released, released)
            assert restored.tick == stream.tick == tick + 1
            if tick % 3 == 0:
                stream = restored

    def test_seeded_streams_go_on_and_are_not_certified(self, mechanism: Mechanism) -> None:
        plan = self.plan(mechanism)
        vector = np.array([5, 6])
        one, two = plan.start(seed=3), plan.start(seed=3)
        assert not one.guarantee.certified
        assert plan.start().guarantee == plan.guarantee
        one.step(vector), two.step(vector)
        one = PrefixSums.from_bytes(one.to_bytes(), plan)
        for _ in range(2):
            np.testing.assert_array_equal(one.step(vector), two.step(vector))

    def test_plans_and_mechanisms_are_plain_values(self, mechanism: Mechanism) -> None:
        plan = self.plan(mechanism)
        stored = json.loads(json.dumps(plan.to_dict()))
        assert stored_plan(plan.start().to_bytes()) == plan
        assert mechanism_from_dict(stored["mechanism"]) == mechanism
        assert hash(mechanism_from_dict(stored["mechanism"])) == hash(mechanism)
        assert type(mechanism).__name__ in repr(mechanism)

    def test_sizes_of_draws_follow_the_budget(self, mechanism: Mechanism) -> None:
        scales = [
            mechanism.plan(2, eps=eps, delta=self.delta, row_sensitivity=reach).noise_sd(1)[0]
            for eps, reach in ((1.0, 1.0), (0.5, 1.0), (1.0, 10.0), (1e-3, 1.0), (20.0, 1e-6), (1.0, 1e50))
        ]
        assert scales[0] < scales[1] < scales[3]
        assert scales[2] == pytest.approx(10 * scales[0], rel=1e-6)
        assert scales[5] == pytest.approx(1e50 * scales[0], rel=1e-6)
        assert 0 < scales[4] < 1e-6 * scales[0]

    def test_the_horizon_ends_the_stream(self, mechanism: Mechanism) -> None:
        stream, ticks = self.plan(mechanism).start(), mechanism.workload.ticks
        for _ in range(min(ticks, TICKS)):
            last = stream.step(np.array([1, 2]))
        if ticks > TICKS:
            stream.step(np.array([1, 2]))
            return
        stored = stream.to_bytes()
        with pytest.raises(StreamError, match="past its last tick"):
            stream.step("not even read")
        np.testing.assert_array_equal(PrefixSums.from_bytes(stored, stream.plan).released, last)

    def test_states_of_others_are_refused(self, mechanism: Mechanism) -> None:
        plan = self.plan(mechanism)
        content = plan.start().to_bytes()
        assert content.startswith(b"dpstats stream state 1: PRIVATE DATA")
        with pytest.raises(StreamError, match="another plan"):
            PrefixSums.from_bytes(content, mechanism.plan(2, eps=0.9, delta=self.delta))
        with pytest.raises(StreamError, match="damaged"):
            PrefixSums.from_bytes(content[:-9] + b"1" + content[-8:], plan)
        for broken in (b"", content.replace(b" 1:", b" 2:", 1), content[9:]):
            with pytest.raises(StreamError, match="not a stream state"):
                PrefixSums.from_bytes(broken, plan)

    def test_streams_are_not_copied(self, mechanism: Mechanism) -> None:
        stream = self.plan(mechanism).start()
        for duplicate in (copy.copy, copy.deepcopy, pickle.dumps):
            with pytest.raises(StreamError):
                duplicate(stream)

    def test_vectors_of_any_size_are_taken_alike(self, mechanism: Mechanism) -> None:
        """No value of an integer can raise or warn; messages about shape and type quote none."""
        stream = self.plan(mechanism).start()
        stream.step(np.array([2**62, -(2**63)]))
        stream.step(np.array([10**400, -(10**400)], dtype=object))
        for wrong in (
            [1.5, 7316549.0],
            [1],
            [[1, 2]],
            ["7316549", "2"],
            [True, False],
            np.array([1.5, 2], dtype=object),
        ):
            before = stream.to_bytes()
            with pytest.raises(DataError) as caught:
                stream.step(wrong)
            assert "7316549" not in str(caught.value)
            assert stream.to_bytes() == before

    def test_ticks_and_intervals_are_checked(self, mechanism: Mechanism) -> None:
        for wrong in (0, -1, mechanism.workload.ticks + 1, 1.5, [[1]]):
            with pytest.raises(ArgumentError, match="t must"):
                mechanism.std(wrong)  # type: ignore[arg-type]
        for interval in ((1, 1), (2, 1), (-1, 1)):
            with pytest.raises(ArgumentError, match="intervals"):
                mechanism.covariance([interval])
        stream = self.plan(mechanism).start(recall=1)
        for _ in range(3):
            stream.step(np.array([1, 1]))
        with pytest.raises(ArgumentError, match="ticks so far"):
            stream.between(0, 4)
        if not isinstance(mechanism.workload, Window):
            with pytest.raises(ArgumentError, match="recall"):
                stream.between(0, 3)

    def test_budgets_are_checked(self, mechanism: Mechanism) -> None:
        wrong: list[dict[str, Any]] = [
            {"size": 0},
            {"size": True},
            {"eps": 0.0},
            {"row_sensitivity": 0.0},
            {"row_sensitivity": math.nan},
            {"row_sensitivity": 1e51},
            {"row_sensitivity": 1e-51},
            {"adjacency": "other"},
            {"step": -1.0},
            {"step": 1e-30},
        ]
        for fields in wrong:
            arguments = {"size": 2, "eps": 1.0, "delta": self.delta, **fields}
            with pytest.raises(ArgumentError, match=next(iter(fields))):
                mechanism.plan(arguments.pop("size"), **arguments)
        for recall in (-1, 1.5, True):
            with pytest.raises(ArgumentError, match="recall"):
                self.plan(mechanism).start(recall=recall)  # type: ignore[arg-type]


class GaussianContract(SumsContract):
    """What Gaussian mechanisms keep besides."""

    def test_sensitivity_is_the_transcripts(self, mechanism: Mechanism) -> None:
        """The stated sensitivity against the exact distance of transcripts, for every person and sign."""
        ticks = min(mechanism.workload.ticks, 40)
        distance = mechanism_mu(mechanism, ticks)
        assert distance <= mechanism.sensitivity * (1 + 1e-9)
        if mechanism.horizon is not None and mechanism.horizon <= 40:
            assert distance == pytest.approx(mechanism.sensitivity, rel=1e-8)

    def test_a_coarse_lattice_is_refused(self, mechanism: Mechanism) -> None:
        with pytest.raises(ArgumentError, match="step must be finer"):
            self.plan(mechanism, step=0.01)

    def test_pure_budgets_need_another_mechanism(self, mechanism: Mechanism) -> None:
        with pytest.raises(ArgumentError, match="KNormTree"):
            mechanism.plan(2, eps=1.0)
        with pytest.raises(ArgumentError, match="l2"):
            self.plan(mechanism, row_sensitivity={"l1": 1.0})
        assert self.plan(mechanism, row_sensitivity={"l1": 2.0, "l2": 1.0}) == self.plan(mechanism)


def each(*mechanisms: Mechanism) -> Any:
    return pytest.mark.parametrize("mechanism", mechanisms, ids=lambda kind: repr(kind)[:60])


@each(
    Blt(horizon=TICKS),
    Blt(horizon=3, buffers=2),
    Blt(),
    Blt(halflife=4),
    Blt(window=3),
    Blt(horizon=TICKS, participation=(0, 3)),
    Blt(halflife=4, participation=(0, 1, 5)),
    Blt(window=3, participation=(0, 2)),
)
class TestBlt(GaussianContract):
    pass


@each(
    Toeplitz(horizon=TICKS),
    Toeplitz(halflife=4),
    Toeplitz(window=3),
    Toeplitz(window=3, taps=6),
    Toeplitz(horizon=TICKS, participation=(0, 1, 2, 12)),
)
class TestToeplitz(GaussianContract):
    pass


@each(Tree(horizon=TICKS), Tree(horizon=23), Tree(horizon=16, participation=(0, 1, 5)), Tree(horizon=5))
class TestTree(GaussianContract):
    pass


@each(Honaker(horizon=TICKS), Honaker(horizon=16), Honaker(horizon=13, participation=(0, 1, 5)))
class TestHonaker(GaussianContract):
    def test_sensitivity_is_the_transcripts(self, mechanism: Mechanism) -> None:
        """Releases are less than all noisy nodes, which the guarantee covers: the distance is at most the stated."""
        assert mechanism_mu(mechanism, mechanism.workload.ticks) <= mechanism.sensitivity * (1 + 1e-9)


@each(KNormTree(horizon=TICKS), KNormTree(horizon=20, arity=3), KNormTree(horizon=16, arity=2, participation=(0, 1, 5)))
class TestKNormTree(SumsContract):
    delta = 0.0

    def plan(self, mechanism: Mechanism, size: int = 2, **options: Any) -> SumsPlan:
        # Laplace noise has coordinates that do not depend on how many there are.
        reach = options.pop("row_sensitivity", 1.0)
        return mechanism.plan(size, eps=1.0, row_sensitivity={"l1": reach}, **options)

    @pytest.mark.parametrize("norm", ["l1", "l2", "linf", "body"])
    def test_noise_of_each_norm(self, mechanism: Mechanism, norm: str) -> None:
        """2,000 draws of three numbers: their covariance is the stated one (5 standard errors, false alarm 1e-5)."""
        assert isinstance(mechanism, KNormTree)
        images = [Image(box(1), (0,), np.eye(1)), Image(simplex(2), (1, 2), np.eye(2))]
        reach: Any = k_norm_noise(images, 2.0) if norm == "body" else {norm: 2.0}
        plan = mechanism.plan(3, eps=1.0, row_sensitivity=reach)
        assert plan.norm == ("design" if norm == "body" else norm)
        noise = plan.draws.draw(2000, 3, np.random.default_rng(0)).astype(np.float64)
        expected = plan.draws.covariance(3)
        spread = np.sqrt(np.outer(np.diag(expected), np.diag(expected)) * 6 / 2000)
        assert (np.abs(noise.T @ noise / 2000 - expected) < 5 * spread).all()
        assert stored_plan(plan.start().to_bytes()).to_dict() == plan.to_dict()

    def test_the_norm_of_the_least_noise_is_taken(self, mechanism: Mechanism) -> None:
        few = mechanism.plan(30, eps=1.0, row_sensitivity={"l1": 1.0, "l2": 1.0, "linf": 1.0})
        dense = mechanism.plan(30, eps=1.0, row_sensitivity={"l1": 30.0, "l2": math.sqrt(30), "linf": 1.0})
        assert (few.norm, dense.norm) == ("l1", "linf")

    def test_arguments_of_pure_noise(self, mechanism: Mechanism) -> None:
        with pytest.raises(ArgumentError, match="delta must be 0"):
            mechanism.plan(2, eps=1.0, delta=1e-5)
        for wrong in ({"l3": 1.0}, {}, {"l1": 0.0}):
            with pytest.raises(ArgumentError, match="row_sensitivity"):
                mechanism.plan(2, eps=1.0, row_sensitivity=wrong)
        with pytest.raises(ArgumentError, match="body of 1 columns"):
            mechanism.plan(2, eps=1.0, row_sensitivity=k_norm_noise([Image(box(1), (0,), np.eye(1))]))  # type: ignore[arg-type]


@pytest.mark.slow
def test_workloads_are_named_in_several_ways() -> None:
    assert Blt().horizon == 10**6
    assert Blt(workload="cumulative", horizon=9) == Blt(horizon=9) == Blt(workload=Cumulative(9))
    assert Blt(workload="halflife", halflife=4) == Blt(workload=Halflife(4)) == Blt(halflife=4)
    assert Blt(workload="window", window=4) == Blt(workload=Window(4)) == Blt(window=4)
    assert Blt(window=4).horizon is None
    assert Blt(horizon=9, participation=[12, 10]) == Blt(horizon=9, participation=(0, 2))


@pytest.mark.parametrize(
    ("fields", "word"),
    [
        ({"horizon": 0}, "horizon"),
        ({"horizon": 2.0}, "horizon"),
        ({"horizon": 2**41}, "horizon"),
        ({"window": 0}, "window"),
        ({"halflife": 0}, "halflife"),
        ({"halflife": math.nan}, "halflife"),
        ({"halflife": "x"}, "halflife"),
        ({"horizon": 3, "window": 2}, "one of"),
        ({"workload": "decay"}, "workload"),
        ({"workload": "window"}, "window="),
        ({"workload": "cumulative", "window": 3}, "horizon="),
        ({"workload": Window(3), "window": 3}, "already contains window"),
        ({"participation": ()}, "participation"),
        ({"participation": 3}, "participation"),
        ({"participation": (0, 0)}, "distinct"),
        ({"participation": (0, 1.5)}, "integers"),
        ({"participation": (0, 2**41)}, "apart"),
    ],
)
def test_invalid_workloads(fields: dict[str, Any], word: str) -> None:
    for kind in (Blt, Toeplitz, Tree, Honaker, KNormTree):
        with pytest.raises(ArgumentError, match=word):
            kind(**fields)


@pytest.mark.parametrize(
    ("make", "word"),
    [
        (lambda: Tree(halflife=3), "Blt or Toeplitz"),
        (lambda: Honaker(window=3), "Blt or Toeplitz"),
        (lambda: KNormTree(window=3), "Blt or Toeplitz"),
        (lambda: Tree(calibration="other"), "calibration"),
        (lambda: Tree(calibration="printed", participation=(0, 1)), "participation"),
        (lambda: Blt(horizon=9, buffers=6), "buffers"),
        (lambda: Blt(window=9, buffers=2), "buffers"),
        (lambda: Toeplitz(horizon=9, taps=3), "taps"),
        (lambda: Toeplitz(window=9, taps=0), "taps"),
        (lambda: Toeplitz(horizon=10**7), "Blt"),
        (lambda: KNormTree(horizon=9, arity=1), "arity"),
    ],
)
def test_invalid_options(make: Any, word: str) -> None:
    with pytest.raises(ArgumentError, match=word):
        make()


SERIES = pd.Series([1, 2])


@pytest.mark.parametrize("wrong", [SERIES, SERIES.to_numpy(), np.array(3.5), "x", [None], {"l2": None}, pd.NA, 1j])
def test_whatever_a_mechanism_is_given_is_answered_by_name(wrong: Any) -> None:
    plan = Blt(horizon=4).plan(2, eps=1.0, delta=1e-6)
    running = plan.start(seed=1, recall=2)
    for call in (
        lambda: Blt(wrong),  # type: ignore[call-arg]
        lambda: Blt(horizon=wrong),
        lambda: Blt(horizon=4, buffers=wrong),
        lambda: Blt(horizon=4, participation=[wrong]),
        lambda: Toeplitz(window=3, taps=wrong),
        lambda: KNormTree(horizon=4, arity=wrong),
        lambda: Tree(horizon=4, calibration=wrong),
        lambda: Buffers(wrong, wrong),
        lambda: plan.covariance(wrong),
        lambda: plan.mechanism.std_between(wrong, 2),
        lambda: plan.mechanism.plan(2, eps=1.0, delta=1e-6, row_sensitivity=wrong),
        lambda: running.between(0, wrong),
        lambda: stored_plan(wrong),
    ):
        with pytest.raises(ArgumentError):
            call()
