"""Reports: encoding, noise, transport, and that contributors need neither pandas nor statsmodels."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest

import dpstats as dp
from benchmarks.audits import damaged_reports
from dpstats.families import get_family
from dpstats.formula.design import design_spec
from dpstats.local import contributor, transport
from dpstats.local.contributor import noisy_report, on_lattice, statistics

pq = pytest.importorskip("pyarrow.parquet")

DOMAIN = {"y": (0, 10), "x": (0, 1), "z": (-3, 5), "g": ["a", "b", "c"], "h": [1, 2], "b": (0, 1)}
FORMULAS = (
    "y ~ x + g",
    "y ~ 0 + g + x:g",
    "np.log(y + 1) ~ np.sqrt(x) * C(g, Sum) + I(z > 1):x",
    "y ~ bs(x, df=5) + C(h, Treatment(2)) + poly(z, 3)",
    "y ~ C(g, levels=['c', 'a', 'b']):C(h) + z",
    "y ~ 1",
)


def records(count: int, seed: int = 0) -> list[dict[str, Any]]:
    random = np.random.default_rng(seed)
    return [
        {
            "y": random.uniform(-1, 12),
            "x": random.uniform(-0.2, 1.2),
            "z": random.uniform(-4, 6),
            "g": str(random.choice(["a", "b", "c"])),
            "h": int(random.integers(1, 3)),
            "b": float(random.integers(0, 2)),
        }
        for _ in range(count)
    ]


def make(formula: str = "y ~ x + g", **changes: Any) -> dp.local.Spec:
    return dp.local.Spec(DOMAIN, formula, **{"eps": 1.0, "delta": 1e-5, "n": 50, **changes})


@pytest.mark.parametrize("formula", FORMULAS)
def test_a_record_is_encoded_as_a_row_of_a_table(formula: str) -> None:
    spec, rows = make(formula), records(60)
    exog, endog, *_ = design_spec(formula, DOMAIN, family=get_family("gaussian")).blocks(pd.DataFrame(rows))[0]
    encoded = [dp.local.Spec.from_json(spec.to_json()).program.encode(rows[0])]
    encoded += [spec.program.encode(row) for row in rows[1:]]
    assert np.allclose([row for row, _ in encoded], exog, atol=1e-9)  # type: ignore[misc]
    assert np.allclose([value for _, value in encoded], endog, atol=1e-12)  # type: ignore[misc]
    assert max(np.linalg.norm(row) for row, _ in encoded) <= 1  # type: ignore[misc]


def test_a_binary_response() -> None:
    spec = make("b ~ x", family="binomial")
    for value, coded in ((1, 1.0), ("0", 0.0), (True, 1.0), (2, None), (0.5, None)):
        encoded = spec.program.encode({"b": value, "x": 0.5})
        assert (None if encoded is None else encoded[1]) == coded


class Loud:
    """A cell that shouts whenever anyone asks it anything."""

    def __float__(self) -> float:
        raise ValueError("a cell")

    __str__ = __repr__ = __hash__ = __float__  # type: ignore[assignment]


@pytest.mark.parametrize("cell", [None, float("nan"), float("inf"), "?", [1], Loud(), 10**400])
def test_unusable_cells_make_the_null_report(cell: Any) -> None:
    """Values of the null report are noise alone: within 12 standard deviations, at a false-alarm rate below 1e-30."""
    spec = make(eps=400.0)
    report = dp.local.randomize({"y": cell, "x": 0.2, "g": "a"}, spec)
    assert np.abs(report.values).max() < 12 * spec.lattice.scale
    assert np.abs(dp.local.randomize(None, spec).values).max() < 12 * spec.lattice.scale
    full = dp.local.randomize({"y": 10, "x": 1, "g": "a"}, spec)
    assert np.abs(full.values).max() > 12 * spec.lattice.scale


@pytest.mark.parametrize(
    ("field", "cell", "words"),
    [
        ("g", "A", "none of its declared levels ('a', 'b', 'c'), and the report is a null one"),
        ("g", True, "none of its declared levels"),
        ("x", "abc", "not a number, and the report is a null one"),
        ("y", 3217, "outside of its declared range (0, 10), and was moved to its nearer end"),
        ("y", None, None),
        ("y", float("nan"), None),
        ("g", " b ", None),
    ],
)
def test_a_contributor_is_told_of_a_cell_of_no_use_once(
    field: str, cell: Any, words: str | None, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(contributor, "_warned", set())
    spec, record = make(), {"x": 0.5, "g": "a", "y": 3.0, field: cell}
    dp.local.randomize(record, spec)
    assert len(caplog.messages) == (words is not None)
    dp.local.randomize(record, spec)
    assert len(caplog.messages) == (words is not None)
    assert words is None or f"the record's {field!r} is {words}" in caplog.text
    assert "3217" not in caplog.text
    assert "abc" not in caplog.text


def test_noise_has_the_stated_scale() -> None:
    """Chi-square of 400 reports of 14 integers; both bounds are beyond six standard deviations: 1e-8."""
    spec = make()
    values = np.array([dp.local.randomize(None, spec).values for _ in range(400)]) / spec.lattice.scale
    assert abs((values**2).mean() - 1) < 6 * np.sqrt(2 / values.size)
    assert abs(values.mean()) < 6 / np.sqrt(values.size)


def test_statistics_are_unbiased_on_the_lattice() -> None:
    spec, row = make(), records(1)[0]
    encoded = spec.program.encode(row)
    assert encoded is not None
    exog, endog = encoded
    values = on_lattice(statistics(exog[None], np.array([endog]), spec)[0], spec)
    gradient, unit = spec.units
    assert np.allclose(values[:4] * gradient, endog * exog, atol=gradient)
    triangle = np.outer(exog, exog)[np.triu_indices(4)] * np.where(np.eye(4)[np.triu_indices(4)] > 0, 1, np.sqrt(2))
    assert np.allclose(values[4:] * unit, triangle, atol=unit)


@pytest.mark.parametrize("record", [[1, 2], "y", {"y": 1.0, "x": 1.0}])
def test_records_of_another_shape(record: Any) -> None:
    with pytest.raises(dp.errors.DataError, match="record"):
        dp.local.randomize(record, make())
    with pytest.raises(dp.errors.ArgumentError, match="spec"):
        dp.local.randomize({}, "y ~ x")  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def sent() -> tuple[dp.local.Spec, list[dp.local.Report]]:
    spec = make()
    return spec, [noisy_report(row, spec, np.random.default_rng(i)) for i, row in enumerate(records(50))]


@pytest.mark.parametrize("name", ["reports.jsonl", "reports.parquet"])
def test_files_keep_every_integer(sent: Any, name: str, tmp_path: Path) -> None:
    spec, reports = sent
    dp.local.write(reports, tmp_path / name)
    back = list(dp.local.read(tmp_path / name))
    assert [report.spec for report in back] == [spec.hash] * 50
    assert np.array_equal([report.values for report in back], [report.values for report in reports])
    for source in (tmp_path / name, reports, iter(reports)):
        found = dp.local.total(source, spec)
        assert found.count == 50
        assert np.array_equal(found.values, np.sum([report.values for report in reports], axis=0))


def test_sums_modulo_a_power_of_two(sent: Any) -> None:
    spec, reports = sent
    whole = dp.local.total(reports, spec)
    modulus = 2**40
    folded = sum(report.values.astype(object) for report in reports) % modulus
    lifted = dp.local.Total.from_modular(folded, modulus, 50, spec)
    assert np.array_equal(lifted.values, whole.values)
    halves = dp.local.total(reports[:20], spec) + dp.local.total(reports[20:], spec)
    assert np.array_equal(halves.values, whole.values)
    with pytest.raises(dp.errors.ArgumentError, match="modulus"):
        dp.local.Total.from_modular(folded, 2**16, 50, spec)


@pytest.mark.parametrize("name", ["reports.jsonl", "reports.parquet"])
def test_reports_to_another_specification(sent: Any, name: str, tmp_path: Path) -> None:
    """Planted: one report among fifty."""
    spec, reports = sent
    mixed = [*reports[:-1], dp.local.randomize(records(1)[0], make(n=51))]
    dp.local.write(mixed, tmp_path / name)
    for source in (mixed, tmp_path / name, dp.local.total(mixed[-1:], make(n=51))):
        with pytest.raises(dp.errors.ArgumentError, match="another specification"):
            dp.local.total(source, spec)


LINES = ("", "7", "{}", "[1]", '{"spec": 1, "values": []}', '{"spec": "HASH", "values": [1.5, 2]}')
LINES += ('{"spec": "HASH", "values": [1]}', '{"spec": "HASH", "values": [[1]]}', '{"spec": "HASH", "values": ["a"]}')
LINES += ('{"spec": "HASH", "values": [99999999999999999999]}', '{"spec": "HASH", "values": null}')


@pytest.mark.parametrize("line", LINES)
def test_lines_that_are_no_reports(line: str, tmp_path: Path) -> None:
    spec = make()
    (tmp_path / "r.jsonl").write_text(line.replace("HASH", spec.hash) + "\n")
    with pytest.raises(dp.errors.DataError):
        dp.local.total(tmp_path / "r.jsonl", spec)


def test_poisoned_integers_are_refused() -> None:
    spec = make()
    for value in (2**50, -(2**63)):
        report = dp.local.Report(spec.hash, np.full(spec.size, value, dtype=np.int64))
        with pytest.raises(dp.errors.DataError, match="not made by"):
            dp.local.total([report], spec)


def test_other_files(tmp_path: Path) -> None:
    with pytest.raises(dp.errors.ArgumentError, match="jsonl"):
        dp.local.write([], tmp_path / "reports.csv")
    with pytest.raises(dp.errors.DataError, match="no file"):
        dp.local.total(tmp_path / "none.jsonl", make())
    (tmp_path / "broken.parquet").write_text("no")
    with pytest.raises(dp.errors.DataError, match="Parquet"):
        dp.local.total(tmp_path / "broken.parquet", make())
    pd.DataFrame({"a": [1]}).to_parquet(tmp_path / "other.parquet")
    with pytest.raises(dp.errors.DataError, match="Parquet"):
        dp.local.total(tmp_path / "other.parquet", make())


class TestDamage:
    """3,000 files by `python -m benchmarks.audits.damaged_reports`; pyarrow said OSError and UnicodeDecodeError."""

    def test_a_damaged_file_is_refused_or_read_whole(self) -> None:
        found = damaged_reports.main(60)
        assert set(found) == {(call, ended) for call in ("total", "read") for ended in ("DataError", "whole")}
        assert found["total", "DataError"] > 40

    def test_files_without_checksums_are_read(self, sent: Any, tmp_path: Path) -> None:
        """As written before there were any: no damage but ours to what they hold."""
        spec, reports = sent
        dp.local.write(reports, tmp_path / "new.parquet")
        table = pq.read_table(tmp_path / "new.parquet")
        pq.write_table(table, tmp_path / "old.parquet", write_page_checksum=False)
        whole = (tmp_path / "old.parquet").read_bytes()
        assert dp.local.total(tmp_path / "old.parquet", spec).count == 50
        for seed in range(60):
            (tmp_path / "old.parquet").write_bytes(damaged_reports.damaged(whole, seed))
            with contextlib.suppress(dp.errors.DataError, dp.errors.ArgumentError):
                dp.local.total(tmp_path / "old.parquet", spec)
            with contextlib.suppress(dp.errors.DataError):
                list(dp.local.read(tmp_path / "old.parquet"))

    def test_a_changed_integer_is_found(self, sent: Any, tmp_path: Path) -> None:
        spec, reports = sent
        dp.local.write(reports, tmp_path / "r.parquet")
        whole = bytearray((tmp_path / "r.parquet").read_bytes())
        place = pq.read_metadata(tmp_path / "r.parquet").row_group(0).column(1)
        whole[place.data_page_offset + place.total_compressed_size - 9] ^= 1
        (tmp_path / "r.parquet").write_bytes(whole)
        with pytest.raises(dp.errors.DataError, match="damaged"):
            dp.local.total(tmp_path / "r.parquet", spec)

    def test_without_pyarrow_it_is_asked_for(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        (tmp_path / "r.parquet").touch()
        monkeypatch.setitem(sys.modules, "pyarrow", None)
        with pytest.raises(dp.errors.ArgumentError, match="pip install"):
            dp.local.total(tmp_path / "r.parquet", make())

    def test_no_file_to_read(self, tmp_path: Path) -> None:
        for name in ("r.parquet", "r.jsonl"):
            with pytest.raises(dp.errors.DataError, match="no file"):
                next(dp.local.read(tmp_path / name))


LEAN = """
import sys
for name in ("pandas", "statsmodels", "pyarrow"):
    sys.modules[name] = None
import dpstats as dp
spec = dp.local.Spec.from_json(sys.stdin.read())
report = dp.local.randomize({"y": 1.0, "x": 0.5, "z": 0.0, "g": "b", "h": 1}, spec)
print(dp.local.to_json(report))
"""


@pytest.mark.slow
@pytest.mark.parametrize("formula", FORMULAS)
def test_a_contributor_needs_neither_pandas_nor_statsmodels(formula: str) -> None:
    spec = make(formula)
    ran = subprocess.run(
        [sys.executable, "-c", LEAN], input=spec.to_json(), capture_output=True, text=True, check=False
    )
    assert ran.returncode == 0, ran.stderr
    report = dp.local.from_json(ran.stdout)
    assert report.spec == spec.hash
    assert len(report.values) == spec.size
    assert json.loads(dp.local.to_json(report)) == json.loads(ran.stdout)


@pytest.mark.parametrize("outcome", ["fails", "is of another size", "is not finite"])
def test_a_specification_that_fails_tells_nothing_of_the_record(outcome: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A collector may have written it so that some records fail: they report like all others."""
    spec = make()

    def encode(*_: Any) -> Any:
        if outcome == "fails":
            raise dp.errors.FormulaError("of this record")
        return (np.zeros(9), 1.0) if outcome == "is of another size" else (np.full(len(spec.names), np.nan), 1.0)

    monkeypatch.setattr(type(spec.program), "encode", encode)
    values = dp.local.randomize(records(1)[0], spec).values
    assert values.shape == (spec.size,)
    assert np.abs(values).max() < 12 * spec.lattice.scale


class TestCopies:
    """A copy counts towards n and has no noise: 200 of one report would be certified at eps 1, and cost 20.9."""

    @pytest.mark.parametrize("name", [None, "r.jsonl", "r.parquet"])
    @pytest.mark.parametrize("apart", [1, 30])
    def test_they_are_refused(self, sent: Any, name: str | None, apart: int, tmp_path: Path) -> None:
        spec, reports = sent
        doubled = [*reports, reports[-apart]]
        if name is not None:
            dp.local.write(doubled, tmp_path / name)
        with pytest.raises(dp.errors.DataError, match="more than once"):
            dp.local.total(doubled if name is None else tmp_path / name, spec)
        with pytest.raises(dp.errors.DataError, match="more than once"):
            dp.local.fit([reports[0]] * spec.n, spec)
        assert dp.local.total(reports, spec).count == len(reports)

    def test_they_are_found_in_other_batches(self, sent: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        spec, reports = sent
        monkeypatch.setattr(transport, "BATCH", 7)
        with pytest.raises(dp.errors.DataError, match="more than once"):
            dp.local.total([*reports, reports[0]], spec)

    def test_small_reports_that_may_well_be_alike_pass(self) -> None:
        """Two integers of some hundreds of values each: of many honest reports some are the same."""
        spec = make("y ~ 1", eps=0.01, n=10**9)
        assert spec.size == 2
        honest = [dp.local.randomize({"y": 3.0}, spec) for _ in range(3000)]
        assert len({tuple(report.values) for report in honest}) < 3000  # but once in 10^9 times: 22 are expected
        assert dp.local.total(honest, spec).count == 3000
        with pytest.raises(dp.errors.DataError, match="more than once"):
            dp.local.total([*honest, *honest[:500]], spec)

    @pytest.mark.parametrize(("expected", "refused"), [(0.8e-6, True), (1.25e-6, False)])
    def test_two_equal_reports_are_refused_where_chance_has_any_once_in_a_million_times(
        self, expected: float, refused: bool
    ) -> None:
        prints = np.arange(2000, dtype=np.uint64).reshape(1000, 2)
        prints[1] = prints[0]
        scale = 1000**2 / 2 / expected / (2 * np.sqrt(np.pi))  # of one integer: so many equal pairs are expected
        spec: Any = SimpleNamespace(size=1, lattice=SimpleNamespace(scale=scale))
        with pytest.raises(dp.errors.DataError) if refused else contextlib.nullcontext():
            transport._check_copies([prints[:400], prints[400:]], 1000, spec)

    @pytest.mark.parametrize("copies", [2, 750])
    def test_they_are_found_in_a_survey_of_one_question(self, copies: int) -> None:
        """A list that was read twice had a standard error too small by the root of two, without a word."""
        spec = dp.local.Spec({"used": bool}, "used ~ 1", local_eps=4.0, delta=1e-6, n=750)
        honest = [dp.local.randomize({"used": int(i % 10 < 3)}, spec) for i in range(750)]
        assert dp.local.total(honest, spec).count == 750
        with pytest.raises(dp.errors.DataError, match="more than once"):
            dp.local.fit([*honest, *honest[:copies]], spec)


@pytest.mark.parametrize(("modulus", "count"), [(2**80, -5), (2**80, 2.5), (2**80, True), (2.0**80, 50), (1, -5)])
def test_a_modular_sum_needs_whole_numbers(modulus: Any, count: Any) -> None:
    spec = make()
    with pytest.raises(dp.errors.ArgumentError, match=r"modulus|count"):
        dp.local.Total.from_modular([0] * spec.size, modulus, count, spec)


def test_sums_that_no_reports_have_are_refused() -> None:
    spec = make()
    with pytest.raises(dp.errors.DataError, match="no sum"):
        dp.local.Total.from_modular([2**70] * spec.size, 2**90, 50, spec)
    large = dp.local.Total(spec.hash, np.full(spec.size, 2**62), 1)
    with pytest.raises(dp.errors.ArgumentError, match="too many"):
        _ = large + large


@pytest.mark.parametrize("line", [b"\xff\xfe{}", b"[" * 100_000])
def test_odd_bytes_are_no_report(line: bytes, tmp_path: Path) -> None:
    (tmp_path / "r.jsonl").write_bytes(line + b"\n")
    with pytest.raises(dp.errors.DataError):
        dp.local.total(tmp_path / "r.jsonl", make())


def test_a_total_that_is_no_sum_of_reports_is_refused() -> None:
    """One that somebody made: of another shape, of floats, or beyond what so many reports add up to."""
    spec = dp.local.Spec({"y": (0, 1), "x": (0, 1)}, "y ~ x", eps=1.0, delta=1e-5, n=3)
    wrong: list[tuple[Any, Any]] = [
        (np.zeros(spec.size + 1, dtype=np.int64), 3),
        (np.zeros(spec.size), 3),
        (np.full(spec.size, 2**62), 3),
        (np.full(spec.size, -(2**63)), 3),
        (np.zeros(spec.size, dtype=np.int64), 3.0),
    ]
    for values, count in wrong:
        with pytest.raises(dp.errors.DataError, match="Total"):
            dp.local.fit(dp.local.Total(spec.hash, values, count), spec)


@pytest.mark.parametrize("given", [{"radius": 1e300}, {"radius": 1e-300}, {"eps": 1e300}])
def test_numbers_beyond_all_measure_are_refused(given: dict[str, float]) -> None:
    with pytest.raises(dp.errors.ArgumentError, match=next(iter(given))):
        dp.local.Spec({"y": (0, 1), "x": (0, 1)}, "y ~ x", **{"eps": 1.0, **given}, delta=1e-5, n=100)
