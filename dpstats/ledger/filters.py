"""What a charge costs and when the books are full: basic composition and zCDP as filters.

A filter lets each budget be chosen after seeing earlier results. Both are proved in docs/proofs/composition,
sections 2 and 4, and partitions in section 5.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from fractions import Fraction
from typing import Literal, NamedTuple

from dpstats.arguments import safe_repr
from dpstats.errors import ArgumentError
from dpstats.privacy.accounting import DELTA_UNIT, EPS_UNIT, RHO_UNIT, exact, float_down, zcdp_budget, zcdp_cost
from dpstats.privacy.guarantee import Guarantee

HOLDOUT = "\x1fholdout "
"""How the rule of a holdout starts; no column's name may start so."""

LedgerAccountant = Literal["basic", "zcdp"]


class Amount(NamedTuple):
    """Budget on the ledger's integer grid. Basic composition has rho = 0 throughout, zCDP has eps = 0."""

    eps: int
    delta: int
    rho: int

    def plus(self, other: Amount) -> Amount:
        """The sum."""
        return Amount(*(a + b for a, b in zip(self, other, strict=True)))

    def minus(self, other: Amount) -> Amount:
        """The difference."""
        return Amount(*(a - b for a, b in zip(self, other, strict=True)))

    def least(self, other: Amount) -> Amount:
        """The lesser of each component."""
        return Amount(*map(min, self, other))

    def within(self, limit: Amount) -> bool:
        """True if no component exceeds that of `limit`."""
        return all(a <= b for a, b in zip(self, limit, strict=True))


class Account(NamedTuple):
    """A row of the account table: the whole data set (no parent) or one part of a partition."""

    id: int
    parent: int | None
    rule: str | None
    part: str | None
    spent: Amount


class Books:
    """The tree of accounts: an account's partitions, each partition's parts, and what they have spent."""

    def __init__(self, accounts: Iterable[Account]) -> None:
        self._accounts = {account.id: account for account in accounts}
        self._partitions: dict[int, dict[str, list[int]]] = {}
        for account in self._accounts.values():
            if account.parent is not None and account.rule is not None:
                self._partitions.setdefault(account.parent, {}).setdefault(account.rule, []).append(account.id)

    def accounts(self) -> tuple[Account, ...]:
        """All of them, by number."""
        return tuple(self._accounts[number] for number in sorted(self._accounts))

    def parts(self, account: int, rule: str) -> list[Account]:
        """The parts of one partition of `account`, in the order in which they were declared."""
        return [self._accounts[part] for part in sorted(self._partitions.get(account, {}).get(rule, []))]

    def below(self, account: int) -> list[int]:
        """`account` and all the parts under it."""
        found = [account]
        for parts in self._partitions.get(account, {}).values():
            for part in parts:
                found += self.below(part)
        return found

    def total(self, account: int) -> Amount:
        """What `account` has spent: its own entries, and of each of its partitions the worst part."""
        spent = self._accounts[account].spent
        for parts in self._partitions.get(account, {}).values():
            spent = spent.plus(self._worst(parts))
        return spent

    def charged(self, account: int, price: Amount) -> Books:
        """The same books after one more charge to `account`."""
        row = self._accounts[account]
        return Books({**self._accounts, account: row._replace(spent=row.spent.plus(price))}.values())

    def slack(self, account: int) -> Amount:
        """What `account` can spend before it overtakes its worst siblings, at every level: free for the whole."""
        row = self._accounts[account]
        if row.parent is None or row.rule is None:
            return Amount(0, 0, 0)
        here = self._worst(self._partitions[row.parent][row.rule]).minus(self.total(account))
        return here.plus(self.slack(row.parent))

    def path(self, account: int) -> str:
        """The part in words, such as ``region='north'``; empty for the whole data set."""
        row = self._accounts[account]
        if row.parent is None or row.part is None:
            return ""
        above = self.path(row.parent)
        rule = HOLDOUT.strip() if (row.rule or "").startswith(HOLDOUT) else row.rule
        return f"{above}, {rule}={json.loads(row.part)!r}" if above else f"{rule}={json.loads(row.part)!r}"

    def holdout(self, account: int) -> str | None:
        """The rule by which `account` is divided into training and test rows, if it is."""
        return next((rule for rule in self._partitions.get(account, {}) if rule.startswith(HOLDOUT)), None)

    def _worst(self, parts: list[int]) -> Amount:
        return Amount(*(max(column) for column in zip(*map(self.total, parts), strict=True)))


def limits(accountant: LedgerAccountant, eps: float, delta: float) -> Amount:
    """What a ledger of total (eps, delta) can hold, rounded down.

    Under zCDP half of delta pays for the conversion of rho, the other half for the deltas of the entries; ArgumentError
    without a delta, or if `eps` is beyond the grid.
    """
    if eps > 1e6:
        raise ArgumentError(f"eps must be at most 1e6 for a ledger, got {safe_repr(eps)}")
    if accountant == "basic":
        return Amount(exact(eps) // EPS_UNIT, exact(delta) // DELTA_UNIT, 0)
    if delta <= 0:
        raise ArgumentError('delta must be positive with accountant="zcdp"; give delta, or use accountant="basic"')
    # Beyond 1e3 the grid of rho would not fit 64 bits; such a total promises nothing anyway.
    rho = min(zcdp_budget(eps, delta / 2), 1e3)
    return Amount(0, exact(delta) / 2 // DELTA_UNIT, exact(rho) // RHO_UNIT)


def cost(accountant: LedgerAccountant, guarantee: Guarantee) -> Amount:
    """What a guarantee, already under the ledger's adjacency, takes from the budget, rounded up."""
    if accountant == "basic":
        return Amount(_up(exact(guarantee.eps), EPS_UNIT), _up(exact(guarantee.delta), DELTA_UNIT), 0)
    rho, delta = zcdp_cost(guarantee)
    return Amount(0, _up(delta, DELTA_UNIT), _up(rho, RHO_UNIT))


def largest(accountant: LedgerAccountant, left: Amount) -> tuple[float, float]:
    """The greatest eps that one more pure charge may have, and the delta left beside it."""
    if accountant == "basic":
        eps = left.eps * EPS_UNIT
    else:
        eps = exact(math.sqrt(2 * left.rho * RHO_UNIT) * (1 - 1e-12)) // EPS_UNIT * EPS_UNIT
    return float_down(eps), float_down(left.delta * DELTA_UNIT)


def _up(value: Fraction, unit: Fraction) -> int:
    """The least number of units that is at least `value`."""
    return -(-value // unit)
