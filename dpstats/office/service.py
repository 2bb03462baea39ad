"""The office itself: what analysts and the keeper may do, and all that they are shown."""

from __future__ import annotations

import contextlib
import functools
import hmac
import json
import math
import pickle
import secrets
import sqlite3
import threading
import time
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

import dpstats as dp
from dpstats.arguments import is_whole, near_miss, safe_repr
from dpstats.call import RowKeywords, split_kwargs
from dpstats.domain import Domain, Range
from dpstats.errors import ArgumentError, BudgetExceeded, DomainError, DPStatsError, LedgerError
from dpstats.ledger import Ledger
from dpstats.models.sources import FormulaSource, model_formula
from dpstats.office.bounded import TooMuch, bounded
from dpstats.office.config import ANALYST, DataSet, Office
from dpstats.office.jobs import FAILED, Pool, first_deadline, job_of
from dpstats.office.request import JSON, MOST_ROWS, Job, Request, call_arguments
from dpstats.office.source import check_source
from dpstats.office.store import FACTS, OPEN, Store, TooManyRequests, Unavailable, hash_of, insert, new_token
from dpstats.privacy.guarantee import Guarantee

__all__ = ["Job", "Request", "Service", "Unavailable"]

REHEARSAL = 60  # made-up rows on which a call without a plan is rehearsed, so that it is refused before it is taken
PATIENCE = 5.0  # seconds to wait for a ledger that another program has locked, in the server; a worker waits longer
MOST_WAITING = 1000  # jobs of one analyst that may wait for the keeper
MOST_WORKING = 3
"""Jobs of one analyst that may be shown as "working": many together would hold up others, and time the machine."""

MOST_SHARES = 20  # so often one release is shared and taken back, as each time is an entry of the audit log


class Service:
    """An office: `start` begins to work on what was taken, `stop` ends that."""

    def __init__(self, office: Office) -> None:
        self.office = office
        self._store = Store(office.folder)
        self._ledgers = {name: dataset.open_ledger(PATIENCE) for name, dataset in office.datasets.items()}
        self._pool = Pool(office, self._store)
        # What was worked out of a request, by analyst, so that its time tells nobody what others have asked.
        self._plans = functools.lru_cache(maxsize=256)(lambda analyst, dataset, arguments: dict[str, Any]())
        self._paying = {name: threading.Lock() for name in office.datasets}
        for dataset in office.datasets.values():
            self._set_quotas(dataset)

    def start(self) -> None:
        """Give work to workers from now on; jobs that a crash has left are taken up again.

        ArgumentError, to the keeper, if rows cannot be opened or their types do not suit the codebook.
        """
        for dataset in self.office.datasets.values():
            check_source(dataset)
        self._pool.start()

    def stop(self) -> None:
        """Start no more workers; those at work store what they release by themselves."""
        self._pool.stop()

    def analyst_of(self, token: str, role: str = "analyst") -> str | None:
        """Whose token it is; None if it is nobody's or was revoked."""
        given, analyst = hash_of(token), None
        # All are compared, whichever it is.
        for row in self._store.rows("SELECT name, token FROM person WHERE role = ? AND revoked IS NULL", (role,)):
            if hmac.compare_digest(row["token"], given):
                analyst = row["name"]
        return analyst

    def is_keeper(self, token: str) -> bool:
        return self.analyst_of(token, "keeper") is not None

    def datasets(self, analyst: str) -> list[dict[str, JSON]]:
        """The public facts of each data set, and what is left for this analyst."""
        return [self._facts(dataset, analyst) for dataset in self.office.datasets.values() if _may(analyst, dataset)]

    def plan(self, analyst: str, request: Request, *, forecast: bool = False) -> dict[str, JSON]:
        """What a request would release and cost, from public facts alone, or the error that refuses it.

        With `forecast` also a forecast of the standard errors at the declared number of rows, or why there are none.
        """
        dataset = self._dataset(analyst, request)
        checked = self._checked(analyst, request, shown=True, forecast=forecast)
        left, costs = self._left(dataset, analyst), checked.told["costs"]
        before = self._known(analyst, request, request.digest)  # which is not paid for again
        return {
            **{"html": "", "notes": [], "forecast": None, "no_forecast": None, "digest": request.digest},
            **{**checked.told, "left": left},
            "affordable": costs["eps"] <= left["eps"] and costs["delta"] <= left["delta"],
            "before": None if before is None else before.id,
            **{"rows": dataset.rows, "python": request.python, "approve": dataset.approve},
        }

    def made_up(self, analyst: str, request: Request, rows: int) -> str:
        """Rows made up from public facts alone, as CSV, to write code against."""
        dataset = self._dataset(analyst, request)
        plan = self._checked(analyst, request).plan
        if not is_whole(rows) or not 1 <= rows <= MOST_ROWS:
            raise ArgumentError(f"rows must be a whole number from 1 to {MOST_ROWS:,}, got {safe_repr(rows)}")
        return bounded(analyst, _made_up, plan, dataset.domain, rows)

    def submit(self, analyst: str, request: Request, key: str | None = None) -> Job:
        """Take a request, once for each key of an analyst; nothing is taken that its plan or the ledger refuses.

        Without a key the same request is the same release; its label tells it from another one.
        """
        if key is None:
            request.check()
            key = request.digest
        if not isinstance(key, str) or not 1 <= len(key) <= 200 or not key.isprintable():
            raise ArgumentError("key must be a text on one line, of at most 200 letters, drawn anew for each request")
        dataset = self._dataset(analyst, request)
        if (known := self._known(analyst, request, key)) is not None:
            return known
        checked = self._checked(analyst, request)
        identity, now = secrets.token_hex(16), time.time()
        facts: dict[str, Any] = {"id": identity, "analyst": analyst, "verb": request.verb, "key": key}
        facts |= {"arguments": json.dumps(dict(request.arguments)), "label": request.label, "digest": request.digest}
        facts |= {"dataset": dataset.name, "taken": now}
        times = {"deadline": first_deadline(self.office.deadline, dataset.rows, checked.columns)}
        state = {"state": "waiting"} if dataset.approve else {"state": "paying", "begun": now}
        with self._paying[dataset.name]:
            self._check_budget(dataset, analyst, checked)
            try:
                with self._store.writing() as connection:
                    self._check_open(analyst, now, "waiting" if dataset.approve else "working")
                    insert(connection, "job", **facts, **times, **state)
                    _log(connection, analyst, "request", identity)
            except sqlite3.IntegrityError:  # the same key has just come by another way
                known = self._known(analyst, request, key)
                assert known is not None, "one key of an analyst is one job"
                return known
            if not dataset.approve:
                self._pay(dataset, analyst, request, identity, checked)
        return self.job(analyst, identity)

    def job(self, analyst: str, id: str) -> Job:
        """One's own job, or one that is shared."""
        row = self._store.row("SELECT * FROM job WHERE id = ?", (id,)) if isinstance(id, str) else None
        if row is None or not self._may_see(analyst, job := _job(row)):
            raise ArgumentError("id: there is no such release")
        return job

    def jobs(self, analyst: str) -> list[Job]:
        """One's own jobs and the releases that are shared, the latest first."""
        rows = self._store.rows(f"SELECT {FACTS} FROM job WHERE analyst = ? OR shared ORDER BY taken DESC", (analyst,))
        return [job for job in (_job(row, result=False) for row in rows) if self._may_see(analyst, job)]

    def share(self, analyst: str, id: str, shared: bool) -> Job:
        """Show a release of one's own to all analysts of its data set, or no longer."""
        job = self.job(analyst, id)
        if job.analyst != analyst or job.state != "released":
            raise ArgumentError("id: only a release of one's own can be shared")
        with self._store.writing() as connection:
            change = "UPDATE job SET shared = :to WHERE id = :id AND shared != :to"
            if connection.execute(change, {"to": int(shared), "id": id}).rowcount:
                acts = "SELECT count(*) FROM audit WHERE subject = ? AND act IN ('share', 'unshare')"
                if connection.execute(acts, (id,)).fetchone()[0] >= MOST_SHARES:
                    raise ArgumentError(f"id: this release was shared and taken back {MOST_SHARES} times, the most")
                _log(connection, analyst, "share" if shared else "unshare", id)
        return self.job(analyst, id)

    def waiting(self) -> list[Job]:
        return [_job(row) for row in self._store.rows("SELECT * FROM job WHERE state = 'waiting' ORDER BY taken")]

    def approve(self, id: str) -> Job:
        """Let a request be carried out; BudgetExceeded if it can no longer be paid for."""
        job = self._waiting(id)
        # The file may have changed since.
        dataset, checked = self._dataset(job.analyst, job.request), self._checked(job.analyst, job.request)
        with self._paying[dataset.name]:
            self._check_budget(dataset, job.analyst, checked)
            self._advance(id, "paying", "approve", begun=time.time())
            self._pay(dataset, job.analyst, job.request, id, checked)
        return self.job(job.analyst, id)

    def refuse(self, id: str) -> Job:
        """Refuse a request; nothing is charged."""
        job = self._waiting(id)
        self._advance(id, "refused", "refuse", ended=time.time(), message="refused by the keeper")
        return self.job(job.analyst, id)

    def analysts(self) -> list[dict[str, JSON]]:
        rows = self._store.rows("SELECT name, since, revoked FROM person WHERE role = 'analyst' ORDER BY name, since")
        return [dict(row) for row in rows]

    def add_analyst(self, name: str) -> str:
        """A token for an analyst, which is not stored and cannot be shown again; an earlier one is revoked."""
        if not isinstance(name, str) or not ANALYST.fullmatch(name):
            raise ArgumentError("name must have at most 64 letters, digits, blanks and any of . @ _ -")
        for row in self._store.rows("SELECT DISTINCT name FROM person WHERE role = 'analyst'"):
            if row["name"] != name and row["name"].casefold() == name.casefold():
                raise ArgumentError(f"name: {name!r} differs only in case from {row['name']!r}; use one spelling")
        return self._new_token(name, "analyst")

    def revoke(self, name: str) -> None:
        """Make an analyst's token useless; their releases stay."""
        with self._store.writing() as connection:
            if not _revoked(connection, name, "analyst"):
                raise ArgumentError("name: no analyst of this name has a token")
            _log(connection, "keeper", "revoke", name)

    def new_keeper_token(self) -> str:
        """A token for the keeper's page; the one before is revoked."""
        return self._new_token("keeper", "keeper")

    def budgets(self) -> list[dict[str, JSON]]:
        """What was spent of each data set, by analyst and over time."""
        budgets = []
        for name, dataset in self.office.datasets.items():
            with self._ledger(name) as ledger:
                spending, history = (_records(one.reset_index()) for one in (ledger.spending(), ledger.history()))
                total, left = ledger.total._asdict(), ledger.remaining._asdict()
            if dataset.accountant == "basic":  # a quota for those without one is not the data set's
                spent = history[-1] if history else {"eps": 0.0, "delta": 0.0}
                left = {key: max(0.0, total[key] - spent[key]) for key in total}
            facts = {"name": name, "title": dataset.title, "total": total, "remaining": left}
            budgets.append({**facts, "analysts": spending, "history": history})
        return budgets

    def audit(self, since: float | None = None, *, most: int = -1, about: str = "") -> list[dict[str, JSON]]:
        """Who did what and when, in order; what became of jobs is dated by when it could be seen.

        `most` keeps the latest ones alone, `about` those of one actor, act or subject.
        """
        acts = self._store.rows(
            "SELECT time, actor, act, subject FROM audit WHERE time >= ? AND (? = '' OR ? IN (actor, act, subject))"
            " ORDER BY id DESC LIMIT ?",
            (since or 0, about, about, most),
        )
        log = [dict(row) for row in acts]
        ended = self._store.rows(
            f"SELECT {FACTS} FROM job WHERE state IN ('released', 'failed') AND ended >= ?"
            " AND (? IN ('', 'office', state, id)) ORDER BY ended DESC LIMIT ?",
            (since or 0, about, most),
        )
        for job in (_job(row, result=False) for row in ended):
            if job.state in ("released", "failed"):
                log.append({"time": job.ready, "actor": "office", "act": job.state, "subject": job.id})
        latest = sorted(log, key=lambda act: act["time"])
        return latest if most < 0 else latest[-most:]

    def named(self, ids: Iterable[str]) -> dict[str, Job]:
        """The jobs among `ids`, without their results: what the audit log is about."""
        rows = self._store.rows(
            f"SELECT {FACTS} FROM job WHERE id IN (SELECT value FROM json_each(?))", (json.dumps(list(ids)),)
        )
        return {job.id: job for job in (_job(row, result=False) for row in rows)}

    def report(self, dataset: str) -> str:
        if dataset not in self._ledgers:
            raise ArgumentError("dataset: there is no such data set")
        with self._ledger(dataset) as ledger:
            return ledger.to_html()

    def _dataset(self, analyst: str, request: Request) -> DataSet:
        """The data set of a request that has the form of one and is allowed to this analyst."""
        offered = [dataset.name for dataset in self.office.datasets.values() if _may(analyst, dataset)]
        if not isinstance(request.dataset, str) or request.dataset not in offered:
            hint = near_miss(request.dataset, offered) if isinstance(request.dataset, str) else None
            suggestion = f"; did you mean {hint!r}?" if hint else f"; choose among {', '.join(offered) or 'none'}"
            raise ArgumentError(f"dataset {safe_repr(request.dataset)} is not known{suggestion}")
        dataset = self.office.datasets[request.dataset]
        request.check()
        if request.verb not in dataset.verbs:
            raise ArgumentError(
                f"verb: {request.verb} is not offered for {dataset.name}; choose among {', '.join(dataset.verbs)}"
            )
        if request.eps > dataset.most_eps:
            raise ArgumentError(
                f"eps must be at most {dataset.most_eps:g}, the most that one release of {dataset.name} may cost; got "
                f"{safe_repr(request.eps)}"
            )
        return dataset

    def _checked(self, analyst: str, request: Request, *, shown: bool = False, forecast: bool = False) -> _Checked:
        """The plan of a request; a call without one is rehearsed on made-up rows. Raises what refuses it.

        With `shown` also the account of the plan, as far as it is not too much, and with `forecast` its forecast.
        """
        dataset = self.office.datasets[request.dataset]
        given = call_arguments(request, dataset, lambda id: self._result(analyst, id, dataset))
        if request.verb != "glm":
            guarantee = bounded(analyst, _rehearsed, request.verb, given, dataset.domain, dataset.unit)
            entry = {"label": f"{request.verb} of {dataset.name}", "formula": given.get("formula")}
            answer: dict[str, JSON] = {"costs": {"eps": guarantee.eps, "delta": guarantee.delta}}
            answer |= {"summary": f"{entry['label']}: eps={guarantee.eps:g}, delta={guarantee.delta:g}"}
            return _Checked(None, (guarantee,), ({**entry, "method": request.verb},), len(dataset.domain), answer)
        made = self._plans(analyst, dataset.name, json.dumps(dict(request.arguments), sort_keys=True))
        wanted = {"checked", *(["account"] if shown else []), *(["forecast"] if forecast else [])}
        if not wanted <= made.keys():
            plan = made["checked"].plan if "checked" in made else None
            parts = (dataset.name, dataset.domain, dataset.rows, given, plan, wanted - made.keys())
            try:
                bounded(analyst, _worked_out, *parts, take=lambda part: made.update([part]))
            except TooMuch:
                if "checked" not in made:
                    raise
        checked: _Checked = made["checked"]
        answer = {name: value for part in wanted - {"checked"} for name, value in made.get(part, {}).items()}
        entries = tuple({**entry, "domain": given["domain"]} for entry in checked.entries)
        return checked._replace(entries=entries, told={**checked.told, **answer})

    @contextlib.contextmanager
    def _ledger(self, name: str) -> Iterator[Ledger]:
        """The ledger, whose refusals name its data set in the place of its path; Unavailable if it cannot be used."""
        ledger = self._ledgers[name]
        try:
            yield ledger
        except BudgetExceeded:
            raise
        except LedgerError as error:
            text = str(error).replace(f"ledger {ledger.path}", f"the ledger of {ledger.dataset}")
            if text.startswith(("guarantee:", "domain:")) and str(ledger.path) not in text:
                raise ArgumentError(text) from None
            raise Unavailable from error

    def _check_budget(self, dataset: DataSet, analyst: str, checked: _Checked) -> None:
        with self._ledger(dataset.name) as ledger:
            ledger.signed(analyst).check_charges(checked.charges)

    def _check_open(self, analyst: str, now: float, state: str) -> None:
        """Raise if too many jobs of an analyst wait, or work as far as is shown: what has ended unseen counts too."""
        rows = self._store.rows(
            f"SELECT {FACTS} FROM job WHERE analyst = ? AND (state IN {OPEN}"
            " OR (state IN ('released', 'failed') AND begun + 2 * max(deadline, ended - begun) > ?))",
            (analyst, now),
        )
        # Jobs of a data set that the file has no longer rest until it is back.
        shown = [job_of(row, dict, now).state for row in rows if row["dataset"] in self.office.datasets].count(state)
        if shown >= (most := MOST_WAITING if state == "waiting" else MOST_WORKING):
            words = "requests of yours wait" if state == "waiting" else "of yours are at work"
            raise TooManyRequests(f"{most} {words} already; wait until one of them has ended")

    def _pay(self, dataset: DataSet, analyst: str, request: Request, id: str, checked: _Checked) -> None:
        """Charge a job under its key, by the very charges that its worker will ask for, and give it to the workers.

        So a charge tells nothing of when a worker came to it. A crash before the end leaves the rest to the worker,
        and so does a ledger or a disk that cannot be used now: the job was taken, and is worked on later.
        """
        charged = False
        try:
            with self._ledger(dataset.name) as ledger:
                signed = ledger.signed(analyst, label=request.label, key=id)
                for guarantee, entry in zip(checked.charges, checked.entries, strict=True):
                    signed.charge(guarantee, **entry)
                    charged = True
        except (BudgetExceeded, ArgumentError) as error:
            if charged:  # another program has spent what was left after the first of several charges
                self._advance(id, "failed", ended=time.time(), message=FAILED)
                return
            self._advance(id, "refused", ended=time.time(), message=str(error))
            raise
        except Unavailable:
            return
        with contextlib.suppress(Unavailable):
            self._advance(id, "taken")
            self._pool.wake()

    def _advance(self, id: str, state: str, act: str | None = None, **changes: Any) -> None:
        """Move on a job that was being paid for, or, by an act of the keeper, one that waits."""
        changes = {"state": state, **changes, "was": "waiting" if act else "paying", "id": id}
        names = ", ".join(f"{name} = :{name}" for name in [*changes][:-2])
        with self._store.writing() as connection:
            changed = connection.execute(f"UPDATE job SET {names} WHERE id = :id AND state = :was", changes)
            if act and not changed.rowcount:
                raise ArgumentError("id: no such request waits")
            if act:
                _log(connection, "keeper", act, id)

    def _left(self, dataset: DataSet, analyst: str) -> dict[str, float]:
        with self._ledger(dataset.name) as ledger:
            return ledger.signed(analyst).remaining._asdict()

    def _facts(self, dataset: DataSet, analyst: str) -> dict[str, JSON]:
        guarantee = {name: getattr(dataset, name) for name in ("eps", "delta", "adjacency", "unit", "accountant")}
        return {
            **{name: getattr(dataset, name) for name in ("name", "title", "most_eps", "approve", "rows")},
            "verbs": list(dataset.verbs),
            "guarantee": guarantee,
            "left": self._left(dataset, analyst),
            "columns": [_column(name, dataset) for name in dataset.domain],
            "domain": dataset.domain.to_dict(),
        }

    def _known(self, analyst: str, request: Request, key: str) -> Job | None:
        """The job of a key, if there is one; ArgumentError if it is of another request."""
        row = self._store.row("SELECT * FROM job WHERE analyst = ? AND key = ?", (analyst, key))
        if row is not None and _job(row, result=False).request.digest != request.digest:
            raise ArgumentError("key was used for another request; draw a new key for each")
        return None if row is None else _job(row)

    def _may_see(self, analyst: str, job: Job) -> bool:
        dataset = self.office.datasets.get(job.request.dataset)
        shared = job.shared and job.state == "released" and dataset is not None and _may(analyst, dataset)
        return job.analyst == analyst or shared

    def _result(self, analyst: str, id: str, dataset: DataSet) -> Mapping[str, JSON]:
        """A release that a request of a data set rests on; one of another data set has another codebook."""
        job = self.job(analyst, id)
        if job.request.dataset != dataset.name:
            raise ArgumentError(f"id: that release is not of {dataset.name}; give one of the same data set")
        if job.result is None:
            raise ArgumentError("id: there is no such release")
        return job.result

    def _waiting(self, id: str) -> Job:
        row = self._store.row("SELECT * FROM job WHERE id = ? AND state = 'waiting'", (id,))
        if row is None:
            raise ArgumentError("id: no such request waits")
        return _job(row)

    def _new_token(self, name: str, role: str) -> str:
        token = new_token()
        with self._store.writing() as connection:
            _revoked(connection, name, role)
            insert(connection, "person", name=name, role=role, token=hash_of(token), since=time.time())
            _log(connection, "keeper", "token", name)
        return token

    def _set_quotas(self, dataset: DataSet) -> None:
        """Put the quotas of the file in force, where they are not yet."""
        wanted = json.dumps({name: [quota.eps, quota.delta] for name, quota in sorted(dataset.quotas.items())})
        row = self._store.row("SELECT value FROM setting WHERE name = ?", (f"quotas {dataset.name}",))
        if (row["value"] if row else "{}") == wanted:
            return
        for name, quota in dataset.quotas.items():
            self._ledgers[dataset.name].set_quota(None if name == "*" else name, quota.eps, quota.delta)
        with self._store.writing() as connection:
            connection.execute("INSERT OR REPLACE INTO setting VALUES (?, ?)", (f"quotas {dataset.name}", wanted))


class _Checked(NamedTuple):
    """A request that public facts do not refuse: its plan if it has one, what it charges, by which entries."""

    plan: bytes | None  # pickled, as the server needs no more of it than what stands here
    charges: tuple[Guarantee, ...]
    entries: tuple[dict[str, Any], ...]
    columns: int  # of the design
    told: dict[str, JSON]


def rehearsal_rows(domain: Domain, rows: int) -> pd.DataFrame:
    """Rows that fill the declared ranges and levels."""
    return pd.DataFrame(
        {
            name: np.linspace(column.low, column.high, rows)
            if isinstance(column, Range)
            else [column.values[at % len(column.values)] for at in range(rows)]
            for name, column in domain.items()
        }
    )


def _worked_out(
    dataset: str, codebook: Domain, rows: int, given: dict[str, Any], pickled: bytes | None, wanted: set[str]
) -> Iterator[tuple[str, Any]]:
    """The plan of a request and what is wanted of it, one after the other."""
    if pickled is None:
        row_terms, _ = split_kwargs(given, RowKeywords)
        formula = model_formula(given["formula"], given.get("family", "gaussian"), **row_terms)
        for name in FormulaSource(formula, None, given["domain"]).columns:
            if name not in codebook:  # an office buys no range of a column that it does not know
                hint = near_miss(name, codebook)
                suggestion = f"; did you mean {hint!r}?" if hint else f"; it has {', '.join(codebook)}"
                raise DomainError(f"column {name!r} is not in the codebook of {dataset}{suggestion}")
    plan: Any = dp.plan(**given) if pickled is None else pickle.loads(pickled)
    if "checked" in wanted:
        digest, whole = plan.digest(), plan.guarantee
        facts = {"formula": plan.formula, "plan_hash": digest, "columns": plan.design.columns}
        entries = tuple({**words, **facts} for words in plan.entries)
        answer = {"digest": digest, "costs": {"eps": whole.eps, "delta": whole.delta}}
        answer |= {"summary": f"{plan.description}\n\nThis plan has too many columns to be shown whole."}
        yield "checked", _Checked(pickle.dumps(plan), plan.charges, entries, len(plan.names), answer)
    if "account" in wanted:
        summary = plan.summary()
        yield "account", {"summary": summary.as_text(), "html": summary.as_html(), "notes": list(plan.advice)}
    if "forecast" in wanted:
        try:
            errors = plan.standard_errors(rows).rename_axis("term").reset_index()
        except DPStatsError as error:  # a plan without standard errors, or without a forecast of them
            yield "forecast", {"no_forecast": str(error).removeprefix("plan: ")}
        else:
            yield "forecast", {"forecast": _records(errors)}


def _rehearsed(verb: str, given: Mapping[str, Any], domain: Domain, unit: str | None) -> Guarantee:
    """What a call without a plan costs, on made-up rows of one each; it raises what refuses it."""
    rows = rehearsal_rows(domain, REHEARSAL)
    if unit is not None:
        rows[unit] = range(REHEARSAL)
    guarantee: Guarantee = getattr(dp, verb)(**given, data=rows).guarantee
    return guarantee


def _made_up(pickled: bytes | None, domain: Domain, rows: int) -> str:
    """Rows of a plan; columns that have nothing to do with each other where it has no model of the response."""
    plan = None if pickled is None else pickle.loads(pickled)
    if plan is not None:
        with contextlib.suppress(ArgumentError):  # a response such as log(y)
            return plan.made_up(rows).to_csv(index=False)
    table, random = rehearsal_rows(domain, rows), np.random.default_rng(0)
    names = [name for name in domain if plan is None or name in plan.design.columns]
    return pd.DataFrame({name: random.permutation(table[name]) for name in names}).to_csv(index=False)


def _may(analyst: str, dataset: DataSet) -> bool:
    return dataset.analysts is None or analyst in dataset.analysts


def _column(name: str, dataset: DataSet) -> dict[str, JSON]:
    column, more = dataset.domain[name], dataset.columns.get(name, {})
    facts: dict[str, JSON] = {"name": name, "description": more.get("description", ""), "unit": more.get("unit", "")}
    if isinstance(column, Range):
        return {**facts, "kind": "number", "low": column.low, "high": column.high}
    return {**facts, "kind": "levels", "levels": list(column.values)}


def to_json(value: Any) -> Any:
    """Released and public values as JSON; nan is null, infinity a text that R and Python read as a number."""
    if isinstance(value, pd.DataFrame):
        return to_json(value.to_dict("list"))
    if isinstance(value, Mapping):
        return {str(name): to_json(part) for name, part in value.items()}
    if isinstance(value, (list, tuple, np.ndarray, pd.Series)):
        return [to_json(part) for part in value]
    if isinstance(value, pd.Timestamp):
        return value.timestamp()
    if isinstance(value, np.generic):
        return to_json(value.item())
    if isinstance(value, float) and not math.isfinite(value):
        return None if math.isnan(value) else ("Infinity" if value > 0 else "-Infinity")
    return None if value is pd.NA or value is pd.NaT else value


def _records(table: pd.DataFrame) -> list[dict[str, JSON]]:
    """The rows of a table as JSON, without numbers that it has not."""
    plain = table.astype(object).where(table.notna() & ~table.isin([math.inf, -math.inf]), None)
    return to_json(plain.to_dict("records"))


def _job(row: sqlite3.Row, *, result: bool = True) -> Job:
    return job_of(row, lambda: json.loads(row["result"]) if result else None, time.time())


def _revoked(connection: sqlite3.Connection, name: str, role: str) -> int:
    """Revoke the token of a person; how many there were."""
    change = "UPDATE person SET revoked = ? WHERE name = ? AND role = ? AND revoked IS NULL"
    return connection.execute(change, (time.time(), name, role)).rowcount


def _log(connection: sqlite3.Connection, actor: str, act: str, subject: str) -> None:
    insert(connection, "audit", time=time.time(), actor=actor, act=act, subject=subject)
