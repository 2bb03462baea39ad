"""A row of a CSV file is a line: whatever one line holds, it changes no other row."""

from __future__ import annotations

import io
import random
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import dpstats as dp
from dpstats.data import Table, as_table
from dpstats.data.columns import token_of
from dpstats.domain.declarations import as_number, canonical
from dpstats.errors import DomainError, MismatchError

pa = pytest.importorskip("pyarrow")
lines = pytest.importorskip("dpstats.data.csv")

DIALECT = lines.Dialect(("a", "b"), ",")
Rows = list[tuple[bytes | None, ...]]
Read = Callable[[bytes], Iterator[Table]]


def read_lines(text: bytes) -> Iterator[Table]:
    return lines.batches_of_lines(io.BytesIO(text), DIALECT, ["a", "b"])


def rows(text: bytes, read: Read = read_lines) -> Rows:
    """All rows, missing ones after the others of their block."""
    found: Rows = []
    for batch in read(text):
        cells = [
            [cell for chunk in batch.column(name).values.chunks for cell in chunk.cast(pa.large_binary()).to_pylist()]  # type: ignore[attr-defined]
            for name in "ab"
        ]
        assert batch.rows == len(cells[0]) == len(batch.column("a"))
        found += list(zip(*cells, strict=True))
    return found


@pytest.mark.parametrize(
    ("line", "cells"),
    [
        (b"1,2", (b"1", b"2")),
        (b"1,2\r", (b"1", b"2")),
        (b'"x,""y""",3', (b'x,"y"', b"3")),
        (b'"",""', (b"", b"")),
        (b'"""",2', (b'"', b"2")),
        (b'"a\tb", c ', (b"a\tb", b" c ")),
        (b"\xff\x00,\xe9", (b"\xff\x00", b"\xe9")),
        (b"", None),
        (b"1", None),
        (b"1,2,3", None),
        (b'"1,2', None),
        (b'a"b,"c', None),
        (b'"a"b,2', None),
        (b'1, "2"', None),
        (b"1\r2,3", None),
        (b"\xef\xbb\xbf1,2", None),
        (b"\xef\xbb,2", (b"\xef\xbb", b"2")),
        (b"1,2\r\r", None),
        (b'"1\r",3', None),
        (b"x" * 2**18 + b",1", None),
    ],
    ids=lambda value: repr(value)[:20],
)
def test_what_one_line_holds(line: bytes, cells: tuple[bytes, ...] | None) -> None:
    here = [cells or (None, None)]
    assert rows(line) == here[: len(line)]  # no line follows the last line end
    assert rows(line + b"\n") == here
    around = rows(b"5,6\n" + line + b"\n7,8\n")
    assert Counter(around) == Counter([(b"5", b"6"), *here, (b"7", b"8")])


def random_lines(chance: random.Random) -> list[bytes]:
    """Lines of what moves a parser."""
    return [
        bytes(chance.choice(b'a1,"\r \x00\xff') for _ in range(chance.randrange(9))) for _ in range(chance.randrange(6))
    ]


def differing(read: Read, cases: int) -> int:
    """How often some lines together are other rows than each line by itself."""
    chance = random.Random(0)
    found = 0
    for _ in range(cases):
        some = random_lines(chance)
        try:
            together = Counter(rows(b"".join(line + b"\n" for line in some), read))
            found += together != sum((Counter(rows(line + b"\n", read)) for line in some), Counter[Any]())
        except pa.ArrowInvalid:
            found += 1
    return found


@pytest.mark.slow
def test_every_line_is_a_row_as_if_it_were_alone() -> None:
    assert differing(read_lines, 3000) == 0


PLANTED: dict[str, tuple[str, Any]] = {
    "quotation marks": ("_misplaced", lambda *_: np.empty(0, dtype=np.intp)),
    "line ends": ("RETURN", 7),
    "delimiters within quotation marks": ("_outside", lambda delimiters, *_: delimiters),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", PLANTED)
def test_a_parser_whose_state_runs_on_is_caught(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """pyarrow's parser by itself takes the lines after a stray mark for a cell, or fails by what a line holds."""
    monkeypatch.setattr(lines, *PLANTED[name])
    assert differing(read_lines, 500) > 0


@pytest.mark.slow
@pytest.mark.parametrize("size", [1, 2, 3, 7, 64, 10**6])
def test_blocks_of_reading_alter_no_row(size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    chance = random.Random(1)
    monkeypatch.setattr(lines, "LONGEST", 7)
    texts = [b"\n".join(random_lines(chance)) for _ in range(300)]
    expected = [Counter(rows(text)) for text in texts]
    monkeypatch.setattr(lines, "READ_BYTES", size)
    assert [Counter(rows(text)) for text in texts] == expected


def test_long_lines_do_not_fill_the_memory() -> None:
    class Endless(io.RawIOBase):
        left = 200

        def read(self, size: int = -1) -> bytes:
            self.left -= 1
            return b"x" * size if self.left > 0 else b"\n1,2\n" if self.left == 0 else b""

    kept = [len(text) for text, _ in lines.whole_lines(Endless())]
    assert kept == [4]


Write = Callable[[Path, Sequence[bytes]], Path]


def csv(folder: Path, data: Sequence[bytes]) -> Path:
    (folder / "rows.csv").write_bytes(b"y,x,g\n" + b"".join(line + b"\n" for line in data))
    return folder / "rows.csv"


DOMAIN = {"y": (0, 4), "x": (0, 10), "g": ["u", "v"]}
GOOD = [f'{at % 5},{at / 30},"{"uv"[at % 2]}"'.encode() for at in range(300)]
ODD = [b"", b'"', b'1,2,"u', b"1,2,u,3", b"1,2,\xff", b"1\r2,3,u", b"canary,1,u", b"1,nan,u", b"1,2,u" * 10**5]


def counts(path: Path) -> tuple[int, ...]:
    model = dp.check("y ~ x + g", path, DOMAIN, 1e6, seed=1)
    return tuple(np.rint(model.counts).astype(int))


@pytest.mark.parametrize("odd", ODD, ids=lambda line: repr(line[:20]))
def test_one_record_changes_one_row(odd: bytes, tmp_path: Path) -> None:
    """The sum over rows of a release moves by the one row that was replaced, and the number of rows not at all."""
    before = counts(csv(tmp_path, GOOD))
    after = counts(csv(tmp_path, [*GOOD[:99], odd, *GOOD[100:]]))
    assert after[0] == before[0] - 1
    assert abs(sum(after) - sum(before)) <= 1
    fit = dp.ols("y ~ x + g", tmp_path / "rows.csv", 1.0, domain=DOMAIN, adjacency="replace_one")
    assert fit.nobs == 300


def test_cells_are_read_as_the_domain_asks(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    path.write_text('y,x,g,odd name\n1,007,1,0\n2, 1e1 ,"1.0",1\n3,1_0,2,1\n4,,x,1\n5,0x1,1,1\n')
    table = as_table(path)
    assert table.labels == ("y", "x", "g", "odd name")
    (batch,) = table.batches(["x", "g"]).collect()
    np.testing.assert_array_equal(batch.column("x").numbers(), [7, 10, np.nan, np.nan, np.nan])
    assert batch.column("g").codes({1.0: 0, "x": 1}).tolist() == [0, 0, -1, 1, 0]


def test_truth_values_are_one_and_zero(tmp_path: Path) -> None:
    """As in a frame: pandas writes them as words, and all rows would be lost to a Domain that declares bool."""
    frame = pd.DataFrame({"y": [0.1, 0.9, 0.4, 0.8] * 50, "smoker": [True, False, False, True] * 50})
    frame.to_csv(tmp_path / "rows.csv", index=False)
    for smoker in (bool, (0, 1), [False, True], [0, 1]):
        fits = [
            dp.ols("y ~ smoker", data, 1.0, domain={"y": (0, 1), "smoker": smoker}, seed=1).params
            for data in (frame, tmp_path / "rows.csv")
        ]
        pd.testing.assert_series_equal(*fits)
    batches = [as_table(data).batches(["smoker"]).collect() for data in (frame, tmp_path / "rows.csv")]
    assert np.array_equal(*(part[0].column("smoker").tokens() for part in batches))


def test_truth_values_that_are_levels_of_text_stay_text(tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_text("g\nTRUE\nfalse\nTrue\n1\nyes\n")
    (batch,) = as_table(tmp_path / "rows.csv").batches(["g"]).collect()
    column = batch.column("g")
    assert column.codes({"TRUE": 0, "yes": 1}).tolist() == [0, -1, -1, -1, 1]
    assert column.codes({1.0: 0, 0.0: 1}).tolist() == [0, 1, 0, 0, -1]
    assert column.select(slice(1, 4)).codes({1.0: 0, 0.0: 1}).tolist() == [1, 0, 0]
    np.testing.assert_array_equal(column.numbers(), [1, 0, 1, 1, np.nan])


def test_a_column_left_out_of_the_domain_holds_numbers(tmp_path: Path) -> None:
    """No cell is looked at to find out: text in it is missing, and its range is bought as any other."""
    some = [line.replace(b'"u"', b"1").replace(b'"v"', b"CANARY") for line in GOOD]
    with dp.Ledger(tmp_path / "ledger.db", dataset="d", eps=400.0) as ledger:
        with pytest.raises(
            MismatchError, match=r"lost to `g`: missing, or not a number\. If the column holds text, list its levels"
        ):
            dp.ols("y ~ x + g", csv(tmp_path, some), 90.0, domain={"y": (0, 4)}, ledger=ledger)
        more = {"ledger": ledger, "check_share": 0}
        fit = dp.ols("y ~ x + g", csv(tmp_path, some), 300.0, domain={"y": (0, 4)}, **more)
        assert len(ledger.entries()) == 2
    assert "CANARY" not in fit.summary().as_text()
    with pytest.raises(DomainError):
        dp.ols("y ~ x + g", pd.DataFrame({"y": [1.0], "x": [1.0], "g": ["u"]}), 300.0, domain={"y": (0, 4)})


def test_a_mark_of_utf8_and_repeated_names(tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_bytes(b"\xef\xbb\xbfy,x,x\r\n1,2,3\r\n")
    table = as_table(tmp_path / "rows.csv")
    (batch,) = table.batches(["y"]).collect()
    assert batch.column("y").numbers().tolist() == [1]
    with pytest.raises(dp.errors.DataError, match="more than one column 'x'"):
        table.column("x")


def test_truth_values_are_one_person_with_their_numbers(tmp_path: Path) -> None:
    """Else one person would weigh as much as several, and have the budget of several spent on it."""
    cells = [b"True", b"1", b"true", b"1.0", b" TRUE", b"0", b"False", b"yes", b"", b'"false"']
    (tmp_path / "rows.csv").write_bytes(b"p,x\n" + b"".join(cell + b",1\n" for cell in cells))
    (batch,) = as_table(tmp_path / "rows.csv").batches(["p"]).collect()
    found = batch.column("p").identities()
    plain = as_table({"p": np.array([1.0, 0.0])}).column("p").identities()
    np.testing.assert_array_equal(found[:5], np.repeat(plain[:1], 5, axis=0))
    np.testing.assert_array_equal(found[[5, 6, 9]], np.repeat(plain[1:], 3, axis=0))
    assert len({tuple(one) for one in found.tolist()}) == 4
    assert found[8].tolist() == [2**64 - 1] * 2


def test_tokens_of_texts_are_those_of_their_values(tmp_path: Path) -> None:
    """By which a row's side of a holdout is drawn: numbers are read in one go, and as one cell after the other is."""
    texts = ["1", "1.0", "-0", "0", " 1", "+1", "1_0", "1e2", "1e400", ".5", "5.", "0.1", "123456789012345678", "abc"]
    texts += ["", "nan", "TRUE", "true", "0x10", "١", "9007199254740993", "-1.5E-07", "1e99", "NA", "1,5"]
    (tmp_path / "rows.csv").write_text("g\n" + "".join(f'"{text}"\n' for text in texts), encoding="utf-8")
    (batch,) = as_table(tmp_path / "rows.csv").batches(["g"]).collect()
    cells = [{"TRUE": 1.0, "true": 1.0}.get(text, text) for text in texts]
    assert batch.column("g").tokens().tolist() == [token_of(canonical(cell)) for cell in cells]
    np.testing.assert_array_equal(batch.column("g").numbers(), [as_number(cell) for cell in cells])
