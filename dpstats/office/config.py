"""The file of an office: its data sets with what is public about them, where it listens, where it keeps its state."""

from __future__ import annotations

import ipaddress
import re
import shlex
import tomllib
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from dpstats.arguments import near_miss, safe_repr
from dpstats.domain import Domain
from dpstats.errors import ArgumentError, DPStatsError, LedgerError
from dpstats.ledger import Ledger
from dpstats.ledger.ledger import is_url
from dpstats.office.request import VERBS

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")  # of a data set, as it stands in addresses
HOST = re.compile(r"[a-z0-9_.-]+|\[[0-9a-f:.]+\]")  # a host of an address, without its port
ANALYST = re.compile(r"\w([\w .@-]{0,62}[.\w])?")  # a name of an analyst
_NEEDED: Any = object()


class Table:
    """A table of the file whose keys are taken one by one; what is not taken at the end is a fault."""

    def __init__(self, where: str, values: Mapping[str, Any]) -> None:
        self.where, self.values, self._taken = where, values, set[str]()

    def fault(self, key: str, what: str) -> ArgumentError:
        return ArgumentError(f"{self.where}: {key} {what}")

    def take(self, key: str, default: Any = _NEEDED) -> Any:
        self._taken.add(key)
        if key not in self.values and default is _NEEDED:
            raise self.fault(key, f"is missing; add a line {key} = ...")
        return self.values.get(key, default)

    def table(self, key: str, default: Any = _NEEDED) -> Table:
        value = self.take(key, default)
        if not isinstance(value, dict):
            raise self.fault(key, "must be a table")
        return Table(f"{self.where} [{key}]" if "[" not in self.where else f"{self.where[:-1]}.{key}]", value)

    def text(self, key: str, default: Any = _NEEDED, among: Collection[str] = ()) -> Any:
        """A text without line breaks, one of some words where these are given."""
        value = self.take(key, default)
        if among and value not in among:
            raise self.fault(key, f"must be one of {', '.join(among)}")
        if value is not default and not (isinstance(value, str) and value.strip() and value.isprintable()):
            raise self.fault(key, 'must be a text on one line: "..."')
        return value

    def texts(self, key: str, default: Collection[str] | None = None) -> Any:
        value = self.take(key, default)
        if value is default:
            return default
        if not (isinstance(value, list) and value and all(isinstance(one, str) and one for one in value)):
            raise self.fault(key, 'must be a list of texts: ["...", "..."]')
        return tuple(value)

    def flag(self, key: str) -> bool:
        value = self.take(key, False)
        if not isinstance(value, bool):
            raise self.fault(key, "must be true or false")
        return value

    def number(
        self, key: str, default: Any = _NEEDED, *, least: float = 0.0, most: float = 1e6, above: bool = False
    ) -> float:
        """A number between two ends; greater than the lower one with `above`."""
        value = self.take(key, default)
        wrong = isinstance(value, bool) or not isinstance(value, (int, float)) or not least <= value <= most
        if wrong or (above and value == least):
            raise self.fault(key, f"must be a number {'above' if above else 'from'} {least:g} to {most:g}")
        return value

    def whole(self, key: str, default: Any = _NEEDED, *, most: float) -> int:
        value = self.take(key, default)
        if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= most:
            raise self.fault(key, f"must be a whole number from 1 to {most:g}")
        return value

    def address(self, key: str, default: str) -> tuple[str, int]:
        host, _, port = self.text(key, default).rpartition(":")
        if not host or not port.isdecimal() or not 0 < int(port) < 65536:
            raise self.fault(key, f'must be an address and a port: {key} = "{default}"')
        return host.strip("[]"), int(port)

    def all_of(self, kind: Any) -> dict[str, Any]:
        """The fields of a class that say how they are read."""
        return {one.name: one.metadata["read"](self, one.name) for one in fields(kind) if one.metadata}

    def end(self) -> None:
        for key in self.values:
            if key not in self._taken:
                hint = near_miss(key, sorted(self._taken))
                raise self.fault(repr(key), "is not known" + (f"; did you mean {hint}?" if hint else "; delete it"))


def _read(method: Any, *default: Any, **more: Any) -> Any:
    """A field that is read by a method of Table; needed unless there is a default."""
    return field(metadata={"read": lambda table, name: method(table, name, *default, **more)})


@dataclass(frozen=True)
class Quota:
    eps: float = _read(Table.number)
    delta: float = _read(Table.number, 0.0, most=1.0)


@dataclass(frozen=True)
class DataSet:
    """A data set: its public facts, and where its rows and its ledger are, which is told to nobody."""

    name: str
    title: str
    source: str | Mapping[str, str]  # a path or pattern of files, or a database and a query
    domain: Domain
    ledger: str  # a path, or the URL of a database
    quotas: Mapping[str, Quota]  # by analyst; "*" for each analyst without one
    most_eps: float  # of one release
    verbs: tuple[str, ...]
    columns: Mapping[str, Mapping[str, str]]  # description and unit of measurement, where the file has them
    eps: float = _read(Table.number, above=True)
    delta: float = _read(Table.number, 0.0, most=1.0)
    adjacency: str = _read(Table.text, "add_remove", ("add_remove", "replace_one"))
    accountant: str = _read(Table.text, "basic", ("basic", "zcdp"))
    unit: str | None = _read(Table.text, None)
    rows: int = _read(Table.whole, most=1e12)  # a public number, for forecasts and deadlines
    approve: bool = _read(Table.flag)  # whether releases wait for the keeper
    analysts: tuple[str, ...] | None = _read(Table.texts)  # who may ask; everyone if None
    cluster: str | None = _read(Table.text, None)  # the address of a Dask scheduler

    def open_ledger(self, timeout: float = 60.0) -> Ledger:
        """The ledger, which is there already: one that is missing is never taken for one with nothing spent."""
        if is_url(self.ledger):
            Ledger.open(self.ledger).close()
        elif not Path(self.ledger).exists():
            facts = {name: getattr(self, name) for name in ("eps", "delta", "adjacency", "unit", "accountant")}
            given = " ".join(f"--{name} {value}" for name, value in facts.items() if value)
            raise LedgerError(
                f"[data.{self.name}]: ledger {self.ledger} is missing. Restore it if these rows were asked before; for "
                f"new rows type: dpstats ledger init {shlex.quote(self.ledger)} --dataset {self.name} {given}"
            )
        return self.make_ledger(timeout)

    def make_ledger(self, timeout: float = 60.0) -> Ledger:
        """The ledger, made if there is none; `timeout` is the seconds that it waits for other programs."""
        names = ("eps", "delta", "adjacency", "unit", "accountant", "domain")
        facts = {name: getattr(self, name) for name in names}
        return Ledger(self.ledger, dataset=self.name, **facts, timeout=timeout)


@dataclass(frozen=True)
class Office:
    path: Path
    folder: Path
    tls: tuple[Path, Path] | None
    hosts: tuple[str, ...]  # as browsers name them, beside the addresses where it listens
    datasets: Mapping[str, DataSet]
    title: str = _read(Table.text, "Office")
    listen: tuple[str, int] = _read(Table.address, "127.0.0.1:8470")
    keeper_listen: tuple[str, int] = _read(Table.address, "127.0.0.1:8471")
    behind_tls: bool = _read(Table.flag)
    workers: int = _read(Table.whole, 2, most=1000)
    deadline: float = _read(Table.number, 2.0, least=0.01)  # seconds after which the first answers are shown, at least

    @classmethod
    def load(cls, path: str | Path) -> Office:
        """The office of a file; ArgumentError names the key that cannot be used, and what to type."""
        place = Path(path)
        try:
            text = place.read_bytes().decode()
        except (OSError, UnicodeDecodeError) as error:
            raise ArgumentError(f"{place} cannot be read; write it with: dpstats office init {place}") from error
        try:
            root = Table(str(place), tomllib.loads(text))
        except tomllib.TOMLDecodeError as error:
            raise ArgumentError(f"{place} is not TOML: {error}") from error
        table, data, folder = root.table("office", {}), root.table("data"), place.resolve().parent
        datasets = {name: _dataset(folder, name, data.table(name)) for name in data.values}
        if not datasets:
            raise ArgumentError(f"{data.where}: the office has no data set; add a table [data.NAME]")
        tls, hosts = table.texts("tls"), tuple(host.lower() for host in table.texts("hosts", ()))
        if tls is not None and len(tls) != 2:
            raise table.fault("tls", 'must be two files: tls = ["certificate.pem", "key.pem"]')
        office = cls(
            path=place.resolve(),
            folder=folder / table.text("folder", "office"),
            tls=None if tls is None else (folder / tls[0], folder / tls[1]),
            hosts=hosts,
            datasets=datasets,
            **table.all_of(cls),
        )
        table.end()
        root.end()
        for name, (host, _) in (("listen", office.listen), ("keeper_listen", office.keeper_listen)):
            if not (is_loopback(host) or office.tls is not None or office.behind_tls):
                raise table.fault(
                    name,
                    f"{host} can be reached from elsewhere, and tokens would cross the network in the clear: set tls = "
                    '["certificate.pem", "key.pem"], or behind_tls = true if a proxy in front of it speaks TLS',
                )
        if not hosts and (office.behind_tls or {office.listen[0], office.keeper_listen[0]} & {"0.0.0.0", "::"}):
            raise table.fault("hosts", 'is missing; add the names in its addresses: hosts = ["office.example.org"]')
        if wrong := [host for host in hosts if not HOST.fullmatch(host)]:
            raise table.fault("hosts", f'must be names without port: hosts = ["office.example.org"], got {wrong[0]!r}')
        if office.listen == office.keeper_listen:
            raise table.fault("keeper_listen", "must differ from listen; type another port")
        _check_apart(datasets)
        return office


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach an address."""
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _check_apart(datasets: Mapping[str, DataSet]) -> None:
    """Raise ArgumentError if two data sets are of one source: each ledger would spend the whole guarantee of its rows.

    A ledger is of one data set, so these would have two.
    """
    owners: dict[str, str] = {}
    for name, dataset in datasets.items():
        source = dataset.source
        facts = str(Path(source).resolve()) if isinstance(source, str) else repr(sorted(source.items()))
        if (other := owners.setdefault(facts, name)) != name:
            raise ArgumentError(
                f"[data.{name}]: source is that of [data.{other}] too, and what two ledgers allow adds up for the same "
                "rows. Use one ledger for both: one data set, whose codebook has the columns of both"
            )


def _dataset(folder: Path, name: str, table: Table) -> DataSet:
    if not NAME.fullmatch(name):
        raise ArgumentError(f"{table.where}: the name of a data set has letters, digits, '_', '.' and '-' only")
    given, ledger, domain = table.all_of(DataSet), table.text("ledger", f"{name}.ledger"), _codebook(folder, table)
    # Statistics have no form for persons with several rows.
    offered = tuple(verb for verb in VERBS if given["unit"] is None or verb != "release_statistics")
    verbs = table.texts("verbs", offered)
    if unknown := [verb for verb in verbs if verb not in offered]:
        raise table.fault("verbs", f"{unknown[0]!r} is not offered; choose among {', '.join(offered)}")
    quotas, about, columns = table.table("quotas", {}), table.table("columns", {}), {}
    for column in about.values:
        row = about.table(column)
        columns[column] = {key: row.text(key, "") for key in ("description", "unit")}
        row.end()
        if column not in domain:
            raise ArgumentError(f"{table.where} columns: {column!r} is not in the codebook; correct the name")
    dataset = DataSet(
        name=name,
        title=table.text("title", name),
        source=_source(folder, table),
        domain=domain,
        ledger=ledger if is_url(ledger) else str(folder / ledger),
        quotas={analyst: _quota(quotas, analyst) for analyst in quotas.values},
        most_eps=table.number("most_eps", given["eps"], most=given["eps"], above=True),
        verbs=verbs,
        columns=columns,
        **given,
    )
    table.end()
    return dataset


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
    path = folder / table.text("domain")
    readers: dict[str, Any] = {".json": lambda path: Domain.from_json(path.read_text()), ".csv": Domain.from_csv}
    readers |= {".yaml": Domain.from_yaml, ".yml": Domain.from_yaml}
    if path.suffix not in readers:
        raise table.fault("domain", 'must be a codebook: domain = "survey.csv" (or .json, .yaml)')
    try:
        domain: Domain = readers[path.suffix](path)
    except (OSError, ValueError, DPStatsError) as error:
        raise table.fault("domain", f"{path} cannot be read as a codebook: {error}") from error
    if not domain:
        raise table.fault("domain", f"{path} declares no column; fill it in")
    return domain


def _quota(table: Table, name: str) -> Quota:
    """A quota by analyst: an eps, or a table with a delta too."""
    if name != "*" and not ANALYST.fullmatch(name):
        raise ArgumentError(f"{table.where}: {safe_repr(name)} is not a name of an analyst, nor '*' for all others")
    if not isinstance(table.values[name], dict):
        return Quota(table.number(name), 0.0)
    row = table.table(name)
    quota = Quota(**row.all_of(Quota))
    row.end()
    return quota
