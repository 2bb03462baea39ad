"""What several releases promise together: group rule, zCDP, composition, and fair shares of a budget.

Every function rounds against the spender (docs/proofs/composition).
"""

from __future__ import annotations

import importlib
import math
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any, Literal, get_args

from scipy.optimize import minimize_scalar

from dpstats.arguments import check_choice
from dpstats.errors import ArgumentError
from dpstats.privacy.guarantee import Guarantee, check_budget
from dpstats.wording import phrase


def exact(value: float) -> Fraction:
    """The decimal that `value` prints as (its shortest representation), exactly: 0.1 is one tenth."""
    return Fraction(repr(float(value)))


def float_up(value: Fraction) -> float:
    """The least float whose printed decimal is at least `value`; infinite beyond the greatest."""
    try:
        nearest = float(value)
    except OverflowError:
        return math.inf
    while exact(nearest) < value:
        nearest = math.nextafter(nearest, math.inf)
    return nearest


def float_down(value: Fraction) -> float:
    """The greatest float whose printed decimal is at most `value`."""
    nearest = float(value)
    while exact(nearest) > value:
        nearest = math.nextafter(nearest, -math.inf)
    return nearest


Accountant = Literal["basic", "zcdp", "pld"]
PROOF = "docs/proofs/composition"

EPS_UNIT = Fraction(1, 10**12)
DELTA_UNIT = Fraction(1, 10**18)
RHO_UNIT = Fraction(1, 10**15)

# Relative allowance for rounding in exp, log and the minimiser's objective: far above their errors of a few ulps.
_ROUNDING = 1e-9
# Below this the convolutions of a privacy loss distribution are no longer accurate enough to be trusted.
_LEAST_PLD_DELTA = 1e-10


def group_rule(guarantee: Guarantee) -> Guarantee:
    """What an add_remove guarantee promises under replace_one: a replacement is one removal and one addition.

    (eps, delta) becomes (2 eps, (1 + exp(eps)) delta), rho becomes 4 rho and mu becomes 2 mu (docs/proofs/composition,
    section 3). ArgumentError for a replace_one guarantee, or if delta would reach 1.
    """
    if guarantee.adjacency != "add_remove":
        other = phrase('adjacency="add_remove"', shell="--adjacency add_remove")
        raise ArgumentError(
            f"guarantee is under replace_one, which guarantees nothing under add_remove; make the release with {other}"
        )
    delta = Fraction(0)
    if guarantee.delta > 0:
        if guarantee.eps < 700:  # beyond, exp would overflow, and no delta is small enough
            delta = exact(guarantee.delta) * (1 + exact(math.exp(guarantee.eps) * (1 + _ROUNDING)))
        if not 0 < delta < 1:
            other = phrase('adjacency="replace_one"', shell="--adjacency replace_one")
            raise ArgumentError(
                f"guarantee with eps={guarantee.eps:g}, delta={guarantee.delta:g} guarantees nothing under "
                f"replace_one; lower its eps or delta, or make the release with {other}"
            )
    return replace(
        guarantee,
        eps=float_up(2 * exact(guarantee.eps)),
        delta=float_up(delta),
        adjacency="replace_one",
        rho=None if guarantee.rho is None else float_up(4 * exact(guarantee.rho)),
        mu=None if guarantee.mu is None else float_up(2 * exact(guarantee.mu)),
    )


def zcdp_cost(guarantee: Guarantee) -> tuple[Fraction, Fraction]:
    """The least (rho, delta) for which `guarantee` is shown to be delta-approximate rho-zCDP.

    A stated rho or mu costs no delta; an (eps, delta) guarantee costs rho = eps^2/2 and its delta
    (docs/proofs/composition, section 4).
    """
    rhos = [] if guarantee.rho is None else [exact(guarantee.rho)]
    if guarantee.mu is not None:
        rhos.append(exact(guarantee.mu) ** 2 / 2)
    if guarantee.delta == 0 or not rhos:
        rhos.append(exact(guarantee.eps) ** 2 / 2)
        return min(rhos), exact(guarantee.delta)
    return min(rhos), Fraction(0)


def zcdp_delta(rho: float, eps: float) -> float:
    """The delta at which rho-zCDP gives (eps, delta)-DP, rounded up.

    The infimum over orders a > 1 of exp((a - 1)(a rho - eps)) (1 - 1/a)^a / (a - 1): Canonne, Kamath & Steinke
    2020, Corollary 13. Any order gives a valid bound, so the minimiser need not be exact.
    """

    def log_delta(log_excess: float) -> float:
        excess = math.exp(log_excess)
        order = 1.0 + excess
        return excess * (order * rho - eps) - math.log(excess) + order * math.log1p(-1.0 / order)

    best = minimize_scalar(log_delta, bounds=(-20.0, 30.0), method="bounded", options={"xatol": 1e-10})
    return min(1.0, math.nextafter(math.exp(min(0.0, float(best.fun))) * (1 + _ROUNDING), 1.0))


def zcdp_eps(rho: float, delta: float) -> float:
    """The least eps (up to rounding upwards) at which rho-zCDP gives (eps, delta)-DP by `zcdp_delta`."""
    low, high = 0.0, rho + 2 * math.sqrt(rho * math.log(1 / delta)) + 1e-12
    if zcdp_delta(rho, high) > delta:
        raise ArgumentError(f"delta={delta!r} is too small to convert rho={rho!r}; raise delta")
    return _least(lambda eps: zcdp_delta(rho, eps) <= delta, low, high)


def zcdp_budget(eps: float, delta: float) -> float:
    """The greatest rho (up to rounding downwards) for which rho-zCDP gives (eps, delta)-DP by `zcdp_delta`."""
    return -_least(lambda negative: zcdp_delta(-negative, eps) <= delta, -eps, -1e-300)


def compose(
    guarantees: Sequence[Guarantee | Any], *, delta: float | None = None, accountant: Accountant = "basic"
) -> Guarantee:
    """The guarantee of several releases on the same data; each may depend on the ones before.

    The guarantees themselves must be fixed beforehand; budgets that depend on earlier results need a `Ledger`, which is
    a privacy filter. Uncertified parts make the whole uncertified, with their reasons. Under mixed adjacencies the
    add_remove parts are converted to replace_one by `group_rule`.

    Parameters
    ----------
    guarantees : sequence of Guarantee, or of results
        At least one; the `guarantee` of a result counts.
    delta : float, optional
        The delta of the total, in (0, 1), at which "zcdp" and "pld" report eps; by default the sum of the deltas of the
        parts.
    accountant : {"basic", "zcdp", "pld"}
        "basic" adds eps and delta. "zcdp" adds rho. "pld" convolves privacy loss distributions with Google's
        dp-accounting: Gaussian for a part with `mu`, else the worst one with the part's (eps, delta). The last two
        return the basic sum wherever they would be looser.

    Returns
    -------
    Guarantee
        It has `rho` and `mu` if every part has them (a pure part has rho = eps^2/2).

    Raises
    ------
    ArgumentError
        If `guarantees` is empty, an argument is out of range, delta sums to 1 or more, `delta` cannot be reached,
        or dp-accounting is needed and not installed.

    Examples
    --------
    >>> import dpstats as dp
    >>> print(dp.compose([dp.Guarantee(0.5), dp.Guarantee(0.25)]))
    eps=0.75, add_remove, certified
    """
    parts = _one_adjacency(guarantees)
    check_choice("accountant", accountant, get_args(Accountant))
    if accountant == "basic" and delta is not None:
        raise ArgumentError('delta applies to accountant="zcdp" or "pld" only; leave it out')
    if len(parts) == 1 and delta is None:
        return parts[0]
    total_delta = sum((exact(part.delta) for part in parts), Fraction(0))
    target = float_up(total_delta) if delta is None else check_budget(1.0, delta)[1]
    if target >= 1:
        raise ArgumentError("guarantees: their deltas sum to 1 or more, which guarantees nothing")
    candidates = []
    if exact(target) >= total_delta:
        basic_delta = float_up(total_delta)
        candidates.append((float_up(sum((exact(part.eps) for part in parts), Fraction(0))), basic_delta))
    if accountant != "basic" and target > 0:
        try:
            tighter = (_zcdp_total if accountant == "zcdp" else _pld_total)(parts, target)
        except OverflowError:  # of exp(eps), where eps is in the hundreds
            tighter = math.inf
        if math.isfinite(tighter):
            candidates.append((max(tighter, float(EPS_UNIT)), target))
    if not candidates:
        raise ArgumentError(f"delta={delta!r} is below the smallest delta of these guarantees together; raise it")
    eps, reached = min(candidates)
    return _summarise(parts, eps, reached)


def split_budget(eps: float, delta: float, weights: Sequence[float]) -> list[tuple[float, float]]:
    """Shares of (eps, delta) in proportion to `weights`, whose sum in a ledger never exceeds the total.

    Each is rounded down to the ledger's grid, 1e-12 for eps and 1e-18 for delta; ArgumentError if one rounds to
    nothing.
    """
    eps, delta = check_budget(eps, delta)
    if not weights or not all(isinstance(w, (int, float)) and 0 < w < math.inf for w in weights):
        raise ArgumentError("weights must be a non-empty sequence of finite positive numbers")
    total = sum((exact(weight) for weight in weights), Fraction(0))
    shares = []
    for weight in weights:
        share = exact(weight) / total
        eps_share = float_down(exact(eps) * share // EPS_UNIT * EPS_UNIT)
        delta_share = float_down(exact(delta) * share // DELTA_UNIT * DELTA_UNIT)
        if eps_share <= 0 or (delta > 0 and delta_share <= 0):
            raise ArgumentError("weights leave a share below the ledger's grid; raise the budget or that weight")
        shares.append((eps_share, delta_share))
    return shares


def _least(holds: Callable[[float], bool], low: float, high: float) -> float:
    """Bisect for the least point of (low, high] where the monotone `holds` is true; it is true at what is returned."""
    for _ in range(200):
        middle = (low + high) / 2
        if not low < middle < high:
            break
        low, high = (low, middle) if holds(middle) else (middle, high)
    return high


def _one_adjacency(guarantees: Sequence[Any]) -> list[Guarantee]:
    """The parts under one adjacency; add_remove parts are converted when replace_one ones are present."""
    parts = [getattr(part, "guarantee", part) for part in guarantees] if isinstance(guarantees, Iterable) else []
    if not parts or not all(isinstance(part, Guarantee) for part in parts):
        raise ArgumentError("guarantees must be a non-empty sequence of Guarantee objects, or of results that have one")
    units = {part.unit for part in parts}
    if len(units) > 1:
        # Neither follows from the other at the same eps (docs/proofs/persons, section 6).
        raise ArgumentError("guarantees are for different units: compose those of rows, and of one unit, by themselves")
    if len({part.adjacency for part in parts}) == 1:
        return parts
    return [part if part.adjacency == "replace_one" else group_rule(part) for part in parts]


def _summarise(parts: list[Guarantee], eps: float, delta: float) -> Guarantee:
    """A Guarantee with the total figures and whatever else holds of every part."""
    costs = [zcdp_cost(part) for part in parts]
    total = float_up(sum((rho for rho, _ in costs), Fraction(0)))
    rho = None if any(spent > 0 for _, spent in costs) or math.isinf(total) else total
    mu = None
    if all(part.mu is not None for part in parts):
        squares = sum((exact(part.mu or 0.0) ** 2 for part in parts), Fraction(0))
        mu = math.sqrt(float_up(squares)) * (1 + _ROUNDING)
    reasons = dict.fromkeys(part.reason for part in parts if part.reason is not None)
    return Guarantee(
        eps=eps,
        delta=delta,
        adjacency=parts[0].adjacency,
        certified=not reasons,
        basis=PROOF,
        reason="; ".join(reasons) or None,
        rho=rho,
        mu=mu,
        unit=parts[0].unit,
    )


def _zcdp_total(parts: list[Guarantee], delta: float) -> float:
    """Eps of the whole at `delta` by adding rho; infinite if the parts' own deltas leave nothing to convert with."""
    costs = [zcdp_cost(part) for part in parts]
    remaining = float_down(exact(delta) - sum((spent for _, spent in costs), Fraction(0)))
    if remaining <= 0:
        return math.inf
    return zcdp_eps(float_up(sum((rho for rho, _ in costs), Fraction(0))), remaining)


def _pld_total(parts: list[Guarantee], delta: float) -> float:
    """Eps of the whole at `delta` by convolving pessimistic privacy loss distributions."""
    try:
        pld = importlib.import_module("dp_accounting.pld.privacy_loss_distribution")
        common = importlib.import_module("dp_accounting.pld.common")
    except ImportError as error:
        raise ArgumentError('accountant="pld" needs the package dp-accounting: pip install dp-accounting') from error
    if delta < _LEAST_PLD_DELTA:
        return math.inf
    # The rounding of each loss to the grid must not drown the least eps, nor the grid outgrow memory.
    finest = min(part.eps for part in parts) / 100
    grid = max(min(1e-4, finest), sum(part.eps for part in parts) / 1e6)
    total: Any = None
    for (eps, part_delta, mu), count in Counter((p.eps, p.delta, p.mu) for p in parts).items():
        if mu is None:
            pair = common.DifferentialPrivacyParameters(eps, part_delta)
            single = pld.from_privacy_parameters(pair, value_discretization_interval=grid)
        else:
            single = pld.from_gaussian_mechanism(1.0 / mu, value_discretization_interval=grid)
        many = single.self_compose(count) if count > 1 else single
        total = many if total is None else total.compose(many)
    # The convolutions truncate and round by less than a thousandth of the least delta admitted above.
    return float(total.get_epsilon_for_delta(delta * 0.999)) * (1 + _ROUNDING)
