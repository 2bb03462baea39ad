"""The books: what charges cost, basic composition and zCDP as filters, the tree of accounts, quotas and their checks.

A filter lets each budget be chosen after seeing earlier results. Both are proved in docs/proofs/composition,
sections 2 and 4, and partitions in section 5.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from fractions import Fraction
from typing import Literal, NamedTuple

import pandas as pd

from dpstats.arguments import near_miss, safe_repr
from dpstats.domain import Domain
from dpstats.errors import ArgumentError, BudgetExceeded, LedgerError, UncertifiedError
from dpstats.frames import LogFrame, SpendingFrame
from dpstats.ledger.store import ROOT, Connection
from dpstats.privacy.accounting import (
    DELTA_UNIT,
    EPS_UNIT,
    RHO_UNIT,
    exact,
    float_down,
    group_rule,
    zcdp_budget,
    zcdp_cost,
)
from dpstats.privacy.guarantee import Adjacency, Guarantee
from dpstats.wording import argument, phrase

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
        accounts = [account]
        for parts in self._partitions.get(account, {}).values():
            for part in parts:
                accounts += self.below(part)
        return accounts

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


class Quota(NamedTuple):
    """What one analyst may spend: as it was said, and on the ledger's grid."""

    eps: float
    delta: float
    limit: Amount


def read_books(connection: Connection) -> Books:
    """The tree of accounts."""
    rows = connection.execute(
        "SELECT id, parent, rule, part, spent_eps, spent_delta, spent_rho FROM account ORDER BY id"
    )
    return Books(Account(row[0], row[1], row[2], row[3], Amount(*row[4:])) for row in rows)


def analyst_books(connection: Connection, analyst: str | None) -> Books:
    """The tree of accounts with what `analyst` has spent alone; None stands for charges without a name."""
    rows = connection.execute(
        "SELECT account.id, parent, rule, part, COALESCE(SUM(cost_eps), 0), COALESCE(SUM(cost_delta), 0), "
        "COALESCE(SUM(cost_rho), 0) FROM account LEFT JOIN entry ON entry.account = account.id "
        "AND state <> 'refunded' AND analyst IS ? GROUP BY account.id ORDER BY account.id",
        (analyst,),
    )
    return Books(Account(row[0], row[1], row[2], row[3], Amount(*row[4:])) for row in rows)


def read_quotas(connection: Connection) -> dict[str | None, Quota]:
    """The quotas in force: the latest of each analyst, and under None that of all who have none of their own."""
    rows = connection.execute(
        "SELECT analyst, eps, delta, limit_eps, limit_delta, limit_rho FROM quota ORDER BY id"
    ).fetchall()
    return {row[0]: Quota(row[1], row[2], Amount(*row[3:])) for row in rows}


def quota_changes(connection: Connection) -> pd.DataFrame:
    """Every quota that was set, in turn; see `Reader.quotas`."""
    rows = connection.execute("SELECT time, analyst, eps, delta FROM quota ORDER BY id").fetchall()
    table = pd.DataFrame(rows, columns=["time", "analyst", "eps", "delta"])
    times = pd.to_datetime(table["time"], utc=True, format="ISO8601")
    names = [analyst or "" for _, analyst, *_ in rows]
    return LogFrame(table.assign(time=times, analyst=pd.Series(names, dtype=object)))


def quota_of(quotas: dict[str | None, Quota], analyst: str | None) -> Quota | None:
    """The analyst's own quota, else that of everyone without one, else None."""
    return quotas.get(analyst, quotas.get(None))


def quota_left(connection: Connection, analyst: str | None, account: int) -> Amount | None:
    """What the analyst's quota leaves for one more charge to `account`; None without a quota."""
    quota = quota_of(read_quotas(connection), analyst)
    if quota is None:
        return None
    books = analyst_books(connection, analyst)
    remaining = quota.limit.minus(books.total(ROOT)).plus(books.slack(account))
    return Amount(*(max(amount, 0) for amount in remaining))  # a quota may be lowered below what is spent


class Budget(NamedTuple):
    """An (eps, delta)."""

    eps: float
    delta: float


class LedgerFacts(NamedTuple):
    """What was fixed when the ledger was made."""

    dataset: str
    eps: float
    delta: float
    adjacency: Adjacency
    accountant: LedgerAccountant
    limit: Amount
    unit: str | None = None


class Statement(NamedTuple):
    """What a report tells: of the whole data set or of one part (in words; empty for the whole)."""

    facts: LedgerFacts
    part: str
    spent: Amount
    left: Amount
    entries: pd.DataFrame
    analysts: pd.DataFrame
    domain: Domain | None


def convert_guarantee(guarantee: Guarantee, facts: LedgerFacts, account: int) -> Guarantee:
    """The guarantee under the ledger's adjacency.

    ArgumentError, UncertifiedError or LedgerError if it is none, is not certified, or cannot be converted.
    """
    if not isinstance(guarantee, Guarantee):
        raise ArgumentError("guarantee must be a dpstats.Guarantee")
    if not guarantee.certified:
        seeded = (guarantee.reason or "").startswith("seeded")
        cure = f"leave out {argument('seed')}" if seeded else "use a certified method"
        raise UncertifiedError(
            f"guarantee is not certified ({guarantee.reason}); no ledger accepts it: {cure}, or run without a ledger"
        )
    if guarantee.unit != facts.unit:
        stated = "it is for rows" if guarantee.unit is None else f"it is per {guarantee.unit}"
        if facts.unit is None:
            needed = "for rows; neither bounds the other, so keep another ledger, made with that unit"
        else:
            given = argument("unit", facts.unit)
            needed = f"per {facts.unit}; pass {given} to the call if it takes one, or keep another ledger"
        raise LedgerError(f"guarantee: {stated}, and the ledger is {needed}")
    if guarantee.adjacency == "replace_one" and (facts.adjacency == "add_remove" or account != ROOT):
        other = phrase('adjacency="add_remove"', shell="--adjacency add_remove")
        where = "a part of a partition" if account != ROOT else "an add_remove ledger"
        raise LedgerError(
            f"guarantee: replace_one treats the number of rows as public, but {where} does not; make the release "
            f"with {other}"
        )
    return guarantee if guarantee.adjacency == facts.adjacency else group_rule(guarantee)


def left_of(books: Books, facts: LedgerFacts, account: int) -> Amount:
    """What one more charge to `account` may take of the whole budget."""
    return facts.limit.minus(books.total(ROOT)).plus(books.slack(account))


def check_price(
    connection: Connection, books: Books, facts: LedgerFacts, account: int, price: Amount, analyst: str | None
) -> None:
    """Raise BudgetExceeded, with the most that both leave, unless the budget and a quota of the analyst cover it."""
    ledger_left, quota = left_of(books, facts, account), quota_left(connection, analyst, account)
    short = [] if books.charged(account, price).total(ROOT).within(facts.limit) else [repr(facts.dataset)]
    signature = ""
    if quota is not None and not price.within(quota):
        quotas = read_quotas(connection)
        limit = quota_of(quotas, analyst)
        assert limit is not None, "some budget is left"
        owner = "those who give no name" if analyst is None else f"analyst {analyst!r}"
        rho = f", converted at this delta to rho={float(limit.limit.rho * RHO_UNIT):.4g}" * (facts.accountant == "zcdp")
        short.append(f"the quota of {owner} (eps={limit.eps:g}, delta={limit.delta:g}{rho})")
        signature = _quota_advice(quotas, analyst)
    if short:
        remaining = ledger_left if quota is None else ledger_left.least(quota)
        what = f"what remains of {' and of '.join(short)}"
        if price.delta and not facts.delta:
            none = "the ledger has no delta: pass delta=0, or make a ledger with a delta"
            raise BudgetExceeded(f"the charge exceeds {what}: {none}")
        raise _budget_exceeded(what, remaining, facts, signature)


def _quota_advice(quotas: Mapping[str | None, Quota], analyst: str | None) -> str:
    """What to do about a charge that is under the quota of those without one of their own."""
    if analyst in quotas and analyst is not None:
        return ""
    if analyst is None:
        return f"; sign with {argument('analyst')}{phrase(' or ledger.signed(...)', shell='')} if a quota is yours"
    similar = near_miss(analyst, [name for name in quotas if name is not None])
    return f"; {analyst!r} has no quota of its own: did you mean {similar!r}?" if similar else ""


def _budget_exceeded(what: str, left: Amount, facts: LedgerFacts, signature: str) -> BudgetExceeded:
    eps, delta = largest(facts.accountant, left)
    offer = f"at most eps={eps!r} for a pure charge, delta={delta!r}; lower eps or delta"
    if not facts.delta:  # all charges are pure
        offer = f"at most eps={eps!r}; lower eps"
    if eps == 0:
        offer = "nothing is left"
    return BudgetExceeded(f"the charge exceeds {what}: {offer}{signature}")


COLUMNS = ("entries", "eps", "delta", "rho", "quota_eps", "quota_delta", "remaining_eps", "remaining_delta")


def analysts(connection: Connection, facts: LedgerFacts) -> pd.DataFrame:
    """One row an analyst, by name; see `Spender.spending`."""
    quotas, ledger_left = read_quotas(connection), left_of(read_books(connection), facts, ROOT)
    counted = dict(
        connection.execute("SELECT analyst, COUNT(*) FROM entry WHERE state <> 'refunded' GROUP BY analyst").fetchall()
    )
    rows = {}
    # Everyone who has charged or has a quota; None stands for charges without a name.
    names = connection.execute("SELECT analyst FROM entry UNION SELECT analyst FROM quota")
    for analyst in sorted((row[0] for row in names), key=lambda name: (name is None, name or "")):
        spent = analyst_books(connection, analyst).total(ROOT)
        quota, analyst_left = quota_of(quotas, analyst), quota_left(connection, analyst, ROOT)
        eps, rho = (float(spent.eps * EPS_UNIT), math.nan)
        if facts.accountant == "zcdp":
            eps, rho = math.nan, float(spent.rho * RHO_UNIT)
        limits = (math.nan, math.nan) if quota is None else (quota.eps, quota.delta)
        remaining = largest(facts.accountant, ledger_left if analyst_left is None else ledger_left.least(analyst_left))
        rows[analyst or ""] = (
            counted.get(analyst, 0),
            *(eps, float(spent.delta * DELTA_UNIT), rho),
            *(*limits, *remaining),
        )
    table = pd.DataFrame.from_dict(rows, orient="index", columns=list(COLUMNS))
    return SpendingFrame(
        table.astype({name: int if name == "entries" else float for name in COLUMNS}).rename_axis("analyst")
    )


def history(connection: Connection, facts: LedgerFacts, account: int) -> pd.DataFrame:
    """What was spent after each entry that counts; see `Spender.history`."""
    books = read_books(connection)
    below = set(books.below(account))
    rows = connection.execute(
        "SELECT id, account, analyst, time, cost_eps, cost_delta, cost_rho FROM entry WHERE state <> 'refunded' "
        "ORDER BY id"
    )
    entries = [row for row in rows if row[1] in below]
    by_analyst: dict[str, Books] = {}
    total, spent_after = _unspent(books), {}
    for number, place, analyst, time, *cost in entries:
        name, price = analyst or "", Amount(*cost)
        total = total.charged(place, price)
        by_analyst[name] = by_analyst.get(name, _unspent(books)).charged(place, price)
        spent, spent_by_analyst = total.total(account), by_analyst[name].total(account)
        zcdp = facts.accountant == "zcdp"
        counted = [math.nan, _float(spent.rho, RHO_UNIT)] if zcdp else [_float(spent.eps, EPS_UNIT), math.nan]
        personal = _float(spent_by_analyst.rho, RHO_UNIT) if zcdp else _float(spent_by_analyst.eps, EPS_UNIT)
        spent_after[number] = [time, counted[0], _float(spent.delta, DELTA_UNIT), counted[1], name, personal]
    names = ["time", "eps", "delta", "rho", "analyst", "by_analyst"]
    table = pd.DataFrame.from_dict(spent_after, orient="index", columns=names).rename_axis("entry")
    table["time"] = pd.to_datetime(table["time"], utc=True, format="ISO8601")
    return LogFrame(table.astype(dict.fromkeys(("eps", "delta", "rho", "by_analyst"), float) | {"analyst": object}))


def _unspent(books: Books) -> Books:
    """The same accounts with nothing spent."""
    return Books(one._replace(spent=Amount(0, 0, 0)) for one in books.accounts())


def _float(amount: int, unit: Fraction) -> float:
    return float(amount * unit)
