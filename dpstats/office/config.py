"""The file of an office: its data sets with what is public about them, where it listens, where it keeps its state."""

from __future__ import annotations

import ipaddress
import math
import re
import shlex
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dpstats.arguments import near_miss, safe_repr
from dpstats.domain import Domain
from dpstats.errors import ArgumentError, DPStatsError
from dpstats.ledger import Ledger
from dpstats.ledger.ledger import is_url
from dpstats.office.request import VERBS
from dpstats.privacy.guarantee import Adjacency

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")
"""Of a data set, as it stands in addresses."""

HOST = re.compile(r"[a-z0-9_.-]+|\[[0-9a-f:.]+\]")
"""A host of an address, without its port."""

ANALYST = re.compile(r"\w([\w .@-]{0,62}[.\w])?")
"""A name of an analyst."""


@dataclass(frozen=True)
class Quota:
    """What one analyst may spend."""

    eps: float
    delta: float = 0.0


@dataclass(frozen=True)
class DataSet:
    """A data set: its public facts, and where its rows and its ledger are, which is told to nobody."""

    name: str
    title: str
    source: str | Mapping[str, str]  # a path or pattern of files, or a database and a query
    domain: Domain
    ledger: str  # a path, or the URL of a database
    eps: float
    delta: float
    adjacency: Adjacency
    accountant: str
    unit: str | None
    rows: int  # a public number, for forecasts and deadlines
    quotas: Mapping[str, Quota]  # by analyst; "*" for each analyst without one
    most_eps: float  # of one release
    verbs: tuple[str, ...]
    approve: bool  # whether releases wait for the keeper
    analysts: tuple[str, ...] | None  # who may ask; everyone if None
    cluster: str | None  # the address of a Dask scheduler
    columns: Mapping[str, Mapping[str, str]]  # description and unit of measurement, where the file has them

    def open_ledger(self, timeout: float = 60.0) -> Ledger:
        """The ledger, which is there already: one that is missing is never taken for one with nothing spent."""
        if is_url(self.ledger):
            Ledger.open(self.ledger).close()
        elif not Path(self.ledger).exists():
            facts = {name: getattr(self, name) for name in ("eps", "delta", "adjacency", "unit", "accountant")}
            given = " ".join(f"--{name} {value}" for name, value in facts.items() if value)
            raise ArgumentError(
                f"[data.{self.name}]: ledger {self.ledger} is missing. Restore it if these rows were asked before; for "
                f"new rows type: dpstats ledger init {shlex.quote(self.ledger)} --dataset {self.name} {given}"
            )
        return self.make_ledger(timeout)

    def make_ledger(self, timeout: float = 60.0) -> Ledger:
        """The ledger, made if there is none; `timeout` is the seconds that it waits for other programs."""
        return Ledger(
            self.ledger,
            dataset=self.name,
            eps=self.eps,
            delta=self.delta,
            adjacency=self.adjacency,
            unit=self.unit,
            accountant=self.accountant,  # type: ignore[arg-type]
            domain=self.domain,
            timeout=timeout,
        )


@dataclass(frozen=True)
class Office:
    """What office.toml says."""

    path: Path
    title: str
    folder: Path
    listen: tuple[str, int]
    keeper_listen: tuple[str, int]
    tls: tuple[Path, Path] | None
    behind_tls: bool
    hosts: tuple[str, ...]  # as browsers name them, beside the addresses where it listens
    workers: int
    deadline: float  # seconds after which the first answers are shown, at least
    datasets: Mapping[str, DataSet]

    @classmethod
    def load(cls, path: str | Path) -> Office:
        """The office of a file; ArgumentError names the key that cannot be used, and what to type."""
        place = Path(path)
        try:
            text = place.read_bytes().decode()
        except (OSError, UnicodeDecodeError) as error:
            raise ArgumentError(f"{place} cannot be read; write it with: dpstats office init {place}") from error
        try:
            whole = tomllib.loads(text)
        except tomllib.TOMLDecodeError as error:
            raise ArgumentError(f"{place} is not TOML: {error}") from error
        root = Table(str(place), whole)
        found = cls._read(place.resolve(), root.table("office"), root.table("data", needed=True))
        root.end()
        return found

    @classmethod
    def _read(cls, path: Path, table: Table, data: Table) -> Office:
        datasets = {name: _dataset(path.parent, name, data.table(name)) for name in data.names()}
        if not datasets:
            raise ArgumentError(f"{data.where}: the office has no data set; add a table [data.NAME]")
        _check_apart(datasets.values())
        tls = table.texts("tls", None)
        if tls is not None and len(tls) != 2:
            raise table.fault("tls", 'must be two files: tls = ["certificate.pem", "key.pem"]')
        office = cls(
            path=path,
            title=table.text("title", "Office"),
            folder=path.parent / table.text("folder", "office"),
            listen=_address(table, "listen", "127.0.0.1:8470"),
            keeper_listen=_address(table, "keeper_listen", "127.0.0.1:8471"),
            tls=None if tls is None else (path.parent / tls[0], path.parent / tls[1]),
            behind_tls=table.flag("behind_tls", False),
            hosts=tuple(host.lower() for host in table.texts("hosts", ()) or ()),
            workers=int(table.number("workers", 2, least=1, most=1000, whole=True)),
            deadline=table.number("deadline", 2.0, least=0.01, most=1e6),
            datasets=datasets,
        )
        table.end()
        for name, (host, _) in (("listen", office.listen), ("keeper_listen", office.keeper_listen)):
            if not (is_loopback(host) or office.tls is not None or office.behind_tls):
                raise table.fault(
                    name,
                    f"{host} can be reached from elsewhere, and tokens would cross the network in the clear: set tls = "
                    '["certificate.pem", "key.pem"], or behind_tls = true if a proxy in front of it speaks TLS',
                )
        if not office.hosts and (office.behind_tls or {office.listen[0], office.keeper_listen[0]} & {"0.0.0.0", "::"}):
            raise table.fault("hosts", 'is missing; add the names in its addresses: hosts = ["office.example.org"]')
        if wrong := [host for host in office.hosts if not HOST.fullmatch(host)]:
            raise table.fault("hosts", f'must be names without port: hosts = ["office.example.org"], got {wrong[0]!r}')
        if office.listen == office.keeper_listen:
            raise table.fault("keeper_listen", "must differ from listen; type another port")
        return office


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach an address."""
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _check_apart(datasets: Iterable[DataSet]) -> None:
    """Raise ArgumentError if two data sets are of one source: each ledger would spend the whole guarantee of its rows.

    A ledger is of one data set, so these would have two.
    """
    seen: dict[str, str] = {}
    for dataset in datasets:
        source = dataset.source
        facts = str(Path(source).resolve()) if isinstance(source, str) else repr(sorted(source.items()))
        if (other := seen.setdefault(facts, dataset.name)) != dataset.name:
            raise ArgumentError(
                f"[data.{dataset.name}]: source is that of [data.{other}] too, and what two ledgers allow adds up for "
                "the same rows. Use one ledger for both: one data set, whose codebook has the columns of both"
            )


def _address(table: Table, key: str, default: str) -> tuple[str, int]:
    text = table.text(key, default)
    host, _, port = text.rpartition(":")
    if not host or not port.isdecimal() or not 0 < int(port) < 65536:
        raise table.fault(key, f'must be an address and a port: {key} = "{default}"')
    return host.strip("[]"), int(port)


def _dataset(folder: Path, name: str, table: Table) -> DataSet:
    if not NAME.fullmatch(name):
        raise ArgumentError(f"{table.where}: the name of a data set has letters, digits, '_', '.' and '-' only")
    ledger = table.text("ledger", f"{name}.ledger")
    eps = table.number("eps", least=0, most=1e6, above=True)
    delta = table.number("delta", 0.0, least=0, most=1)
    unit = table.text("unit", None)
    # Statistics have no form for persons with several rows.
    offered = tuple(verb for verb in VERBS if unit is None or verb != "release_statistics")
    verbs = table.texts("verbs", offered)
    assert verbs is not None
    if unknown := [verb for verb in verbs if verb not in offered]:
        raise table.fault("verbs", f"{unknown[0]!r} is not offered; choose among {', '.join(offered)}")
    adjacency = table.choice("adjacency", "add_remove", ("add_remove", "replace_one"))
    analysts = table.texts("analysts", None)
    found = DataSet(
        name=name,
        title=table.text("title", name),
        source=_source(folder, table),
        domain=_codebook(folder, table),
        ledger=ledger if is_url(ledger) else str(folder / ledger),
        eps=eps,
        delta=delta,
        adjacency=adjacency,  # type: ignore[arg-type]
        accountant=table.choice("accountant", "basic", ("basic", "zcdp")),
        unit=unit,
        rows=int(table.number("rows", least=1, most=1e12, whole=True)),
        quotas=_quotas(table.table("quotas")),
        most_eps=table.number("most_eps", eps, least=0, most=eps, above=True),
        verbs=verbs,
        approve=table.flag("approve", False),
        analysts=analysts,
        cluster=table.text("cluster", None),
        columns=_columns(table.table("columns")),
    )
    table.end()
    if unknown := [column for column in found.columns if column not in found.domain]:
        raise ArgumentError(f"{table.where} columns: {unknown[0]!r} is not in the codebook; correct the name")
    return found


def _source(folder: Path, table: Table) -> str | dict[str, str]:
    given = table.take("source")
    if isinstance(given, str) and given:
        return str(folder / given)
    query = isinstance(given, dict) and set(given) in ({"duckdb", "query"}, {"postgresql", "query"})
    if query and all(isinstance(value, str) and value for value in given.values()):
        return {key: str(folder / value) if key == "duckdb" else value for key, value in given.items()}
    raise table.fault(
        "source",
        'must be a path or pattern of files, source = "rows/*.parquet", or a query: source = '
        '{duckdb = "rows.duckdb", query = "SELECT * FROM survey"}, or {postgresql = "postgresql://...", query = "..."}',
    )


def _codebook(folder: Path, table: Table) -> Domain:
    given = table.text("domain")
    path = folder / given
    readers = {".json": lambda: Domain.from_json(path.read_text()), ".csv": lambda: Domain.from_csv(path)}
    readers |= dict.fromkeys((".yaml", ".yml"), lambda: Domain.from_yaml(path))
    if path.suffix not in readers:
        raise table.fault("domain", 'must be a codebook: domain = "survey.csv" (or .json, .yaml)')
    try:
        domain = readers[path.suffix]()
    except (OSError, ValueError, DPStatsError) as error:
        raise table.fault("domain", f"{path} cannot be read as a codebook: {error}") from error
    if not domain:
        raise table.fault("domain", f"{path} declares no column; fill it in")
    return domain


def _quotas(table: Table) -> dict[str, Quota]:
    quotas = {}
    for name in table.names():
        if name != "*" and not ANALYST.fullmatch(name):
            raise ArgumentError(f"{table.where}: {safe_repr(name)} is not a name of an analyst, nor '*' for all others")
        if isinstance(table.values[name], dict):
            row = table.table(name)
            quotas[name] = Quota(row.number("eps", least=0, most=1e6), row.number("delta", 0.0, least=0, most=1))
            row.end()
        else:
            quotas[name] = Quota(table.number(name, least=0, most=1e6))
    return quotas


def _columns(table: Table) -> dict[str, dict[str, str]]:
    columns = {}
    for name in table.names():
        row = table.table(name)
        columns[name] = {key: row.text(key, "") for key in ("description", "unit")}
        row.end()
    return columns


_NEEDED: Any = object()


class Table:
    """A table of the file whose keys are taken one by one; what is not taken at the end is a fault."""

    def __init__(self, where: str, values: Mapping[str, Any]) -> None:
        self.where, self.values, self._taken = where, values, set[str]()

    def fault(self, key: str, what: str) -> ArgumentError:
        """The error about a key."""
        return ArgumentError(f"{self.where}: {key} {what}")

    def names(self) -> tuple[str, ...]:
        """The keys."""
        return tuple(self.values)

    def take(self, key: str, default: Any = _NEEDED) -> Any:
        """The value of a key."""
        self._taken.add(key)
        if key not in self.values and default is _NEEDED:
            raise self.fault(key, f"is missing; add a line {key} = ...")
        return self.values.get(key, default)

    def table(self, key: str, *, needed: bool = False) -> Table:
        """The table at a key, empty if there is none."""
        value = self.take(key, _NEEDED if needed else {})
        if not isinstance(value, dict):
            raise self.fault(key, "must be a table")
        return Table(f"{self.where} [{key}]" if "[" not in self.where else f"{self.where[:-1]}.{key}]", value)

    def text(self, key: str, default: Any = _NEEDED) -> Any:
        """A text without line breaks."""
        value = self.take(key, default)
        if value is not default and not (isinstance(value, str) and value.strip() and value.isprintable()):
            raise self.fault(key, 'must be a text on one line: "..."')
        return value

    def texts(self, key: str, default: tuple[str, ...] | None) -> tuple[str, ...] | None:
        """A list of texts."""
        value = self.take(key, default)
        if value is default:
            return default
        if not (isinstance(value, list) and value and all(isinstance(one, str) and one for one in value)):
            raise self.fault(key, 'must be a list of texts: ["...", "..."]')
        return tuple(value)

    def flag(self, key: str, default: bool) -> bool:
        """A truth value."""
        value = self.take(key, default)
        if not isinstance(value, bool):
            raise self.fault(key, "must be true or false")
        return value

    def choice(self, key: str, default: str, choices: tuple[str, ...]) -> str:
        """One of some words."""
        value = self.take(key, default)
        if value not in choices:
            raise self.fault(key, f"must be one of {', '.join(choices)}")
        return str(value)

    def number(
        self,
        key: str,
        default: Any = _NEEDED,
        *,
        least: float,
        most: float,
        above: bool = False,
        whole: bool = False,
    ) -> float:
        """A number between two ends; greater than the lower one with `above`."""
        value = self.take(key, default)
        if (
            isinstance(value, bool)
            or not isinstance(value, int if whole else (int, float))
            or not (math.isfinite(value) and least <= value <= most)
            or (above and value == least)
        ):
            start = f"above {least:g}" if above else f"from {least:g}"
            raise self.fault(key, f"must be a {'whole ' if whole else ''}number {start} to {most:g}")
        return value

    def end(self) -> None:
        """Raise on a key that nothing has asked for."""
        for key in self.values:
            if key not in self._taken:
                hint = near_miss(key, sorted(self._taken))
                raise self.fault(repr(key), "is not known" + (f"; did you mean {hint}?" if hint else "; delete it"))
