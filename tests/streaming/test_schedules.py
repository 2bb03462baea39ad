"""When to fit anew, and what each fit may cost."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import dpstats as dp
from dpstats.errors import ArgumentError
from dpstats.privacy.accounting import compose
from dpstats.privacy.guarantee import Guarantee
from dpstats.streaming.refits import Schedule, share


def test_geometric_times_are_few_and_never_stale() -> None:
    for horizon in (1, 2, 60, 120, 1000, 10**6):
        for ratio in (1.1, 1.6, 2.0, 3.0):
            schedule = Schedule.geometric(horizon, ratio)
            assert len(schedule.times) <= 2 + math.log(horizon) / math.log(ratio)
            for tick in {1, 2, 3, 7, horizon // 3 + 1, horizon} - {0}:
                if tick <= horizon:
                    unseen = tick - schedule.latest(tick)
                    assert unseen <= (1 - 1 / ratio) * tick + 1
    assert Schedule.geometric(60).times == (1, 2, 3, 5, 7, 11, 17, 27, 43)


def test_periods_are_multiples() -> None:
    assert Schedule.every(5, 23).times == (5, 10, 15, 20)
    schedule = Schedule.every(5, 23)
    assert [schedule.latest(tick) for tick in (1, 4, 5, 9, 23)] == [0, 0, 5, 5, 20]
    assert schedule.staleness == pytest.approx(1 - 5 / 9)
    assert Schedule.from_dict(json.loads(json.dumps(schedule.to_dict()))) == schedule


@pytest.mark.parametrize("fits", [1, 2, 9, 100])
@pytest.mark.parametrize("delta", [0.0, 1e-5])
def test_shares_compose_to_the_budget_and_not_to_much_less(fits: int, delta: float) -> None:
    each_eps, each_delta, total = share(1.0, delta, fits, Guarantee)
    assert total.eps <= 1.0
    assert total.delta <= delta
    assert total.eps >= 0.99
    again = compose(
        [Guarantee(each_eps, each_delta)] * fits,
        **({"delta": delta, "accountant": "pld"} if delta and fits > 1 else {}),
    )
    assert again.eps <= 1.0
    if delta == 0:
        assert each_eps == pytest.approx(1 / fits, rel=1e-9)
    if fits == 100 and delta:
        assert each_eps > 2 / fits


@pytest.mark.parametrize("fits", range(1, 13))
def test_delta_is_spent_only_if_it_buys_something(fits: int) -> None:
    """Of a few pure fits the losses compose to their sum, and to a hair less by rounding, for which delta was paid."""
    each_eps, _, total = share(2.0, 1e-6, fits, lambda eps, delta: Guarantee(eps))
    assert total.delta == 0
    assert total.eps <= 2.0
    assert each_eps == pytest.approx(2 / fits, rel=1e-9)
    many_eps, _, many = share(2.0, 1e-6, 60, lambda eps, delta: Guarantee(eps))
    assert many.delta == 1e-6
    assert many_eps > 1.7 * 2 / 60


@pytest.mark.parametrize(("eps", "fits", "spent"), [(1.0, 14, False), (2.0, 16, True)])
def test_delta_is_kept_for_less_than_a_hundredth_more_eps(eps: float, fits: int, spent: bool) -> None:
    """Of the two shares that composition buys, of .9 % and 1.2 % more, the second is worth the delta."""
    each_eps, _, total = share(eps, 1e-6, fits, lambda eps, delta: Guarantee(eps))
    assert (total.delta > 0) == (each_eps > 1.01 * eps / fits) == spent


def exact_delta(eps: float, each_eps: float, each_delta: float, fits: int) -> float:
    """The optimal composition of equal mechanisms (Kairouz, Oh and Viswanath 2015, Theorem 3.3)."""
    from scipy.special import gammaln

    losses = np.arange(fits + 1)
    logs = gammaln(fits + 1) - gammaln(losses + 1) - gammaln(fits - losses + 1)
    weights = np.exp(logs + (fits - losses) * each_eps - fits * np.log1p(np.exp(each_eps)))
    left = -np.expm1(np.minimum(eps - (fits - 2 * losses) * each_eps, 0))
    return float(1 - (1 - each_delta) ** fits * (1 - np.sum(weights * left)))


@pytest.mark.slow
@pytest.mark.parametrize("fits", [2, 9, 100])
def test_shares_against_the_optimal_composition(fits: int) -> None:
    """The total is a guarantee: the exact delta at its eps is at most its delta, and a share 3 % larger is too much."""
    each_eps, each_delta, total = share(1.0, 1e-5, fits, Guarantee)
    assert exact_delta(total.eps, each_eps, each_delta, fits) <= 1e-5
    assert exact_delta(1.0, 1.03 * each_eps, each_delta, fits) > 1e-5


def printed_share(eps: float, delta: float, fits: int) -> float:
    """eps' of Mechanism 1."""
    return eps / (2 * math.sqrt(2 * fits * math.log(2 / delta)))


@pytest.mark.slow
def test_the_printed_share_is_not_used() -> None:
    """Planted: it wastes budget at a usual eps, and spends more than there is where its proof does not hold."""
    assert share(1.0, 1e-5, 1121, Guarantee)[0] > 1.5 * printed_share(1.0, 1e-5, 1121)
    eps, fits = 600.0, 1000
    assert exact_delta(eps, printed_share(eps, 1e-5, fits), 1e-5 / (2 * fits), fits) > 1e-2
    each_eps, each_delta, _ = share(eps, 1e-5, fits, Guarantee)
    assert exact_delta(eps, each_eps, each_delta, fits) <= 1e-5


def test_the_guarantee_of_a_plan_is_what_is_composed() -> None:
    """A fit that turns out to be pure leaves all of delta to the composition."""
    domain = dp.Domain(x=(-1, 1), y=(0, 1))
    found: list[Guarantee] = []

    def of_plan(eps: float, delta: float) -> Guarantee:
        found.append(dp.plan("y ~ x", domain, eps, delta=delta, family="binomial").guarantee)
        return found[-1]

    each_eps, _, total = share(1.0, 1e-5, 9, of_plan)
    assert total.certified
    assert total.eps <= 1.0
    assert each_eps >= 1 / 9 - 1e-9
    assert found[-1].adjacency == "add_remove"


@pytest.mark.parametrize(
    "call",
    [
        lambda: Schedule((), 10),
        lambda: Schedule((2, 2), 10),
        lambda: Schedule((2, 11), 10),
        lambda: Schedule((0, 3), 10),
        lambda: Schedule("12", 10),  # type: ignore[arg-type]
        lambda: Schedule((1,), 10**7),
        lambda: Schedule.every(11, 10),
        lambda: Schedule.geometric(10, 1.0),
        lambda: Schedule.geometric(10, first=11),
    ],
)
def test_bad_arguments_are_named(call: Callable[[], Any]) -> None:
    with pytest.raises(ArgumentError):
        call()
