"""Composition, conversion and splitting of budgets, against closed forms and Google's dp-accounting."""

from __future__ import annotations

import importlib
import math
from fractions import Fraction

import pytest
from dp_accounting import dp_event
from dp_accounting.pld import privacy_loss_distribution
from dp_accounting.rdp import rdp_privacy_accountant
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binom, norm

from dpstats.errors import ArgumentError
from dpstats.privacy.accounting import (
    compose,
    exact,
    float_down,
    float_up,
    group_rule,
    split_budget,
    zcdp_budget,
    zcdp_cost,
    zcdp_delta,
    zcdp_eps,
)
from dpstats.privacy.guarantee import Guarantee


def gaussian_eps(mu: float, delta: float) -> float:
    """The exact eps of a mu-GDP mechanism (Balle & Wang 2018, Theorem 8), by bisection."""
    low, high = 0.0, 100.0
    for _ in range(200):
        eps = (low + high) / 2
        exact_delta = norm.cdf(mu / 2 - eps / mu) - math.exp(eps) * norm.cdf(-mu / 2 - eps / mu)
        low, high = (eps, high) if exact_delta > delta else (low, eps)
    return high


def test_a_float_is_the_decimal_it_prints_as() -> None:
    assert exact(0.1) == Fraction(1, 10)
    assert float_up(Fraction(1, 10)) == float_down(Fraction(1, 10)) == 0.1


@given(st.fractions(min_value=0, max_value=1000))
def test_rounding_brackets_every_number(value: Fraction) -> None:
    below, above = float_down(value), float_up(value)
    assert exact(below) <= value <= exact(above)
    assert above <= math.nextafter(math.nextafter(below, math.inf), math.inf)


def test_ten_tenths_are_one_and_not_a_bit_more() -> None:
    total = compose([Guarantee(0.1, 1e-7)] * 10)
    assert (total.eps, total.delta) == (1.0, 1e-6)
    assert (total.adjacency, total.certified, total.basis) == ("add_remove", True, "docs/proofs/composition")


@given(st.lists(st.floats(1e-9, 10), min_size=2, max_size=20))
def test_the_basic_sum_is_never_below_the_exact_one(parts: list[float]) -> None:
    assert exact(compose([Guarantee(eps) for eps in parts]).eps) >= sum(exact(eps) for eps in parts)


def test_the_group_rule_is_two_steps() -> None:
    converted = group_rule(Guarantee(0.5, 1e-6, rho=0.1, mu=0.2))
    assert (converted.eps, converted.rho, converted.mu, converted.adjacency) == (1.0, 0.4, 0.4, "replace_one")
    assert converted.delta == pytest.approx(1e-6 * (1 + math.exp(0.5)), rel=1e-8)
    assert converted.delta >= 1e-6 * (1 + math.exp(0.5))
    assert group_rule(Guarantee(3.0)).delta == 0


@pytest.mark.parametrize("eps", [1.0, 800.0])
def test_the_group_rule_refuses_a_delta_of_one(eps: float) -> None:
    with pytest.raises(ArgumentError, match="lower its eps or delta"):
        group_rule(Guarantee(eps, 0.5))


def test_the_group_rule_has_no_way_back() -> None:
    with pytest.raises(ArgumentError, match="add_remove"):
        group_rule(Guarantee(1.0, adjacency="replace_one"))


def test_mixed_adjacencies_meet_under_replace_one() -> None:
    total = compose([Guarantee(0.5), Guarantee(0.25, adjacency="replace_one")])
    assert (total.eps, total.adjacency) == (1.25, "replace_one")


def test_one_uncertified_part_spoils_the_whole() -> None:
    spoilt = Guarantee(0.5).uncertified("seeded")
    total = compose([Guarantee(0.5), spoilt, spoilt, Guarantee(0.1).uncertified("paper mode")])
    assert not total.certified
    assert total.reason == "seeded; paper mode"


def test_the_cost_in_zcdp() -> None:
    assert zcdp_cost(Guarantee(0.2)) == (Fraction(2, 100), 0)
    assert zcdp_cost(Guarantee(0.2, 1e-6)) == (Fraction(2, 100), exact(1e-6))
    assert zcdp_cost(Guarantee(0.2, 1e-6, rho=0.5)) == (Fraction(1, 2), 0)
    assert zcdp_cost(Guarantee(0.2, 1e-6, mu=0.2)) == (Fraction(2, 100), 0)
    assert zcdp_cost(Guarantee(0.2, rho=0.5)) == (Fraction(2, 100), 0)


@pytest.mark.parametrize("mu", [0.01, 0.3, 2.0])
@pytest.mark.parametrize("delta", [1e-9, 1e-5, 0.01])
def test_the_zcdp_conversion_is_sound_and_nearly_as_tight_as_renyi(mu: float, delta: float) -> None:
    eps = zcdp_eps(mu**2 / 2, delta)
    accountant = rdp_privacy_accountant.RdpAccountant()
    accountant.compose(dp_event.GaussianDpEvent(1 / mu))
    assert eps >= gaussian_eps(mu, delta) - 1e-12
    assert eps <= accountant.get_epsilon(delta) + 1e-9  # theirs takes the best of a list of orders, ours of all
    assert zcdp_delta(mu**2 / 2, eps) <= delta


@pytest.mark.parametrize(("eps", "delta"), [(0.01, 1e-9), (1.0, 1e-5), (20.0, 0.001)])
def test_the_zcdp_budget_is_the_greatest_that_converts(eps: float, delta: float) -> None:
    rho = zcdp_budget(eps, delta)
    assert zcdp_delta(rho, eps) <= delta < zcdp_delta(rho * (1 + 1e-6), eps)


def test_gaussian_parts_compose_as_one_gaussian() -> None:
    parts = [Guarantee(gaussian_eps(0.1, 1e-6), 1e-6, mu=0.1)] * 25
    exact_eps = gaussian_eps(0.5, 1e-5)
    total = compose(parts, delta=1e-5, accountant="pld")
    assert exact_eps <= total.eps <= exact_eps * 1.002
    assert total.mu == pytest.approx(0.5)
    assert total.rho == pytest.approx(0.125)
    zcdp = compose(parts, delta=1e-5, accountant="zcdp")
    assert total.eps < zcdp.eps < compose(parts).eps


def test_pure_parts_compose_better_at_a_delta() -> None:
    parts = [Guarantee(0.1)] * 100
    total = compose(parts, delta=1e-5, accountant="pld")
    exact_eps = randomised_response_eps(0.1, 100, 1e-5)
    assert exact_eps <= total.eps <= exact_eps * 1.01
    assert total.delta == 1e-5


def randomised_response_eps(eps: float, count: int, delta: float) -> float:
    """The eps of `count` randomised responses at `delta`: the worst pure parts (Kairouz et al. 2015)."""
    truthful = binom.pmf(range(count + 1), count, 1 / (1 + math.exp(-eps)))
    losses = [(2 * j - count) * eps for j in range(count + 1)]
    low, high = 0.0, count * eps
    for _ in range(100):
        middle = (low + high) / 2
        reached = sum(p * -math.expm1(min(0.0, middle - loss)) for p, loss in zip(truthful, losses, strict=True))
        low, high = (middle, high) if reached > delta else (low, middle)
    return high


@settings(max_examples=10)
@given(st.lists(st.tuples(st.floats(0.01, 2), st.sampled_from([0.0, 1e-7, 1e-5])), min_size=1, max_size=4))
def test_no_accountant_is_looser_than_basic(parts: list[tuple[float, float]]) -> None:
    guarantees = [Guarantee(*part) for part in parts]
    basic = compose(guarantees)
    for accountant in ("zcdp", "pld"):
        total = compose(guarantees, accountant=accountant)  # type: ignore[arg-type]
        assert (total.eps, total.delta) <= (basic.eps, basic.delta)
        total = compose(guarantees, delta=1e-4, accountant=accountant)  # type: ignore[arg-type]
        assert total.eps <= basic.eps
        assert total.delta <= 1e-4


def test_mixed_parts_agree_with_dp_accounting() -> None:
    parts = [Guarantee(0.5), Guarantee(2.0, 1e-6, mu=0.3)]
    laplace_like = privacy_loss_distribution.from_randomized_response(2 / (1 + math.exp(0.5)), 2)
    gauss = privacy_loss_distribution.from_gaussian_mechanism(1 / 0.3)
    expected = laplace_like.compose(gauss).get_epsilon_for_delta(1e-6)
    assert compose(parts, accountant="pld").eps == pytest.approx(expected, rel=1e-3)


def test_a_delta_out_of_reach_is_refused() -> None:
    with pytest.raises(ArgumentError, match="raise it"):
        compose([Guarantee(1.0, 1e-5)] * 2, delta=1e-6, accountant="zcdp")
    with pytest.raises(ArgumentError, match="sum to 1"):
        compose([Guarantee(1.0, 0.6)] * 2)


def test_without_dp_accounting_the_fix_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> None:
        raise ImportError(name)

    monkeypatch.setattr(importlib, "import_module", missing)
    with pytest.raises(ArgumentError, match="pip install dp-accounting"):
        compose([Guarantee(0.1)] * 2, delta=1e-5, accountant="pld")


@pytest.mark.parametrize(
    ("guarantees", "options", "words"),
    [
        ([], {}, "non-empty"),
        ([0.5], {}, "Guarantee objects"),
        ([Guarantee(1.0)], {"accountant": "rdp"}, "accountant"),
        ([Guarantee(1.0)], {"delta": 0.1}, "leave it out"),
        ([Guarantee(1.0)], {"delta": 2.0, "accountant": "pld"}, "delta"),
    ],
)
def test_invalid_arguments_are_named(guarantees: list[Guarantee], options: dict[str, object], words: str) -> None:
    with pytest.raises(ArgumentError, match=words):
        compose(guarantees, **options)  # type: ignore[arg-type]


@given(
    st.floats(1e-6, 100),
    st.one_of(st.just(0.0), st.floats(1e-12, 0.1)),
    st.lists(st.floats(0.01, 100), min_size=1, max_size=8),
)
def test_shares_never_exceed_the_total_even_on_the_ledgers_grid(eps: float, delta: float, weights: list[float]) -> None:
    shares = split_budget(eps, delta, weights)
    unit, delta_unit = Fraction(1, 10**12), Fraction(1, 10**18)
    assert sum(-(-exact(e) // unit) * unit for e, _ in shares) <= exact(eps)
    assert sum(-(-exact(d) // delta_unit) * delta_unit for _, d in shares) <= exact(delta)
    assert sum(exact(e) for e, _ in shares) >= exact(eps) - 2 * len(shares) * unit


def test_shares_follow_the_weights() -> None:
    assert split_budget(0.3, 1e-6, [1, 2]) == [(0.1, 3.33333333333e-07), (0.2, 6.66666666666e-07)]


@pytest.mark.parametrize("weights", [[], [1, 0], [1, -1], [math.inf], ["a"], [1e30, 1]])
def test_bad_weights_are_refused(weights: list[float]) -> None:
    with pytest.raises(ArgumentError, match="weights"):
        split_budget(1.0, 0.0, weights)
