"""What a ledger does when its file is missing, foreign, damaged, full or forbidden: it says so, and charges nothing."""

from __future__ import annotations

import datetime
import multiprocessing
import os
import resource
import shutil
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from dpstats.errors import LedgerError
from dpstats.ledger import Ledger, spender, sqlite
from dpstats.ledger.store import SCHEMA_VERSION
from dpstats.privacy.guarantee import Guarantee

SMALL = Guarantee(0.001)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "budget.db"


@pytest.fixture
def made(path: Path) -> Path:
    """A ledger with 60 entries, closed."""
    with Ledger(path, "d", 1.0) as ledger:
        for number in range(60):
            ledger.charge(SMALL, label=str(number))
    return path


def refuses(path: Path, words: str) -> None:
    with pytest.raises(LedgerError, match=words):
        Ledger(path, "d", 1.0)


@pytest.mark.parametrize("content", [b"\0" * 50, b"label,eps\n" * 100, b"SQLite format 3\0" + b"\xff" * 4000])
def test_a_foreign_file_is_refused_and_left_alone(path: Path, content: bytes) -> None:
    path.write_bytes(content)
    refuses(path, "not a ledger|damaged|another program's")
    assert path.read_bytes() == content
    assert os.listdir(path.parent) == [path.name]


def test_another_programs_database_is_refused_and_left_alone(path: Path) -> None:
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE ledger (identity TEXT)")
    connection.close()
    content = path.read_bytes()
    refuses(path, "another program's")
    assert path.read_bytes() == content


def test_an_empty_file_is_not_a_fresh_budget(path: Path) -> None:
    path.touch()
    refuses(path, "is empty")


def test_a_directory_is_not_a_ledger(path: Path) -> None:
    path.mkdir()
    refuses(path, "not a regular file")


def test_a_missing_directory_is_named(path: Path) -> None:
    refuses(path / "budget.db", "is not a regular file|cannot be made")
    refuses(path.parent / "none" / "budget.db", "cannot be made")


def test_only_an_existing_ledger_can_be_opened(path: Path) -> None:
    with pytest.raises(LedgerError, match="is missing"):
        Ledger.open(path)
    assert not path.exists()


@pytest.mark.parametrize(
    ("version", "fix"), [(0, "the dpstats version that wrote it"), (SCHEMA_VERSION + 1, "upgrade dpstats")]
)
def test_another_schema_version_is_refused(made: Path, version: int, fix: str) -> None:
    with sqlite3.connect(made) as connection:
        connection.execute(f"PRAGMA user_version = {version}")
    connection.close()
    refuses(made, fix)


@pytest.mark.parametrize("place", [0.0, 0.3, 0.6, 0.9])
def test_overwritten_pages_are_found_on_opening(made: Path, place: float) -> None:
    size = made.stat().st_size
    with made.open("r+b") as file:
        file.seek(int(place * size) // 4096 * 4096)
        file.write(b"\x5a" * 4096)
    refuses(made, "damaged|not a ledger")


@pytest.mark.parametrize("keep", [0.2, 0.5, 0.95])
def test_a_cut_off_file_is_found_on_opening(made: Path, keep: float) -> None:
    os.truncate(made, int(keep * made.stat().st_size))
    refuses(made, "damaged")


def test_damage_while_in_use_stops_the_charges(made: Path) -> None:
    ledger = Ledger(made, "d", 1.0)
    with made.open("r+b") as file:
        file.write(b"\x5a" * made.stat().st_size)
    ledger.close()
    with pytest.raises(LedgerError):
        ledger.charge(SMALL, label="a")


def test_a_file_replaced_while_in_use_is_noticed(made: Path, tmp_path: Path) -> None:
    ledger = Ledger(made, "d", 1.0)
    Ledger(tmp_path / "fresh.db", "d", 1.0).close()
    os.replace(tmp_path / "fresh.db", made)
    with pytest.raises(LedgerError, match="replaced"):
        ledger.charge(SMALL, label="a")


def test_a_file_deleted_while_in_use_is_noticed(made: Path) -> None:
    ledger = Ledger(made, "d", 1.0)
    made.unlink()
    with pytest.raises(LedgerError, match="missing"):
        ledger.charge(SMALL, label="a")


def test_the_log_of_a_deleted_ledger_is_not_replayed_into_a_new_one(made: Path) -> None:
    with Ledger(made, "d", 1.0) as ledger:
        ledger.charge(SMALL, label="a")
        made.unlink()
        refuses(made, "its log")


def test_a_second_hard_link_is_refused(made: Path, tmp_path: Path) -> None:
    os.link(made, tmp_path / "other.db")
    refuses(made, "hard link")


@pytest.fixture
def mounted(made: Path, tmp_path: Path) -> Iterator[Path]:
    """Another name of the same file, as ``docker -v file:file`` gives it."""
    if sys.platform != "linux" or os.geteuid() != 0:
        pytest.skip("root alone mounts, on Linux")
    name = tmp_path / "a folder\\" / made.name
    name.parent.mkdir()
    name.touch()
    if subprocess.run(["mount", "--bind", made, name], capture_output=True, check=False).returncode:
        pytest.skip("this system mounts no files")
    try:
        yield name
    finally:
        subprocess.run(["umount", name], check=True)


def test_a_file_mounted_by_itself_is_refused(made: Path, mounted: Path) -> None:
    """Its log would be another file: a process at each name would spend the whole budget."""
    assert os.stat(mounted).st_nlink == 1
    refuses(mounted, "mount its folder")
    with Ledger(made, "d", 1.0) as ledger:
        ledger.charge(SMALL, label="a")


MOUNTINFO = r"""22 27 0:21 / /proc rw,relatime - proc proc rw
27 1 254:0 / / rw,relatime - ext4 /dev/vda rw
31 27 254:0 /srv/l.db /data/l.db rw,relatime shared:7 master:2 - ext4 /dev/vda rw
32 27 254:0 /srv/l.db /my\040data\134\011/l.db rw,relatime - ext4 /dev/vda rw
"""


def test_a_second_name_that_comes_while_a_ledger_is_open_is_refused(made: Path, tmp_path: Path) -> None:
    """Moved, and given its old name back: whoever opens the other name meanwhile would spend the same budget."""
    with Ledger.open(made) as ledger:
        assert ledger.remaining.eps > 0.9
        made.rename(tmp_path / "other.db")
        os.link(tmp_path / "other.db", made)
        with pytest.raises(LedgerError, match="second hard link"):
            ledger.charge(SMALL, label="more")


@pytest.mark.parametrize(
    ("path", "found"),
    [
        ("/data/l.db", True),
        ("/my data\\\t/l.db", True),
        ("/srv/l.db", False),
        ("/data/l.db2", False),
        ("/data/l", False),
        ("/data", False),
    ],
)
@pytest.mark.skipif(sys.platform != "linux", reason="others have no such file")
def test_what_is_mounted_is_read_from_the_system(
    path: str, found: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "mounts").write_text(MOUNTINFO)
    monkeypatch.setattr(sqlite, "MOUNTS", str(tmp_path / "mounts"))
    assert sqlite.is_mount_point(Path(path)) is found


@pytest.mark.skipif(sys.platform != "linux", reason="others have no such file")
def test_a_system_that_does_not_say_what_is_mounted_has_no_ledger(
    made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite, "MOUNTS", str(tmp_path / "none"))
    refuses(made, "mount /proc")


def test_the_second_name_left_by_a_crash_while_making_the_ledger_is_removed(made: Path) -> None:
    os.link(made, made.with_name(f".{made.name}.draft-0123"))
    Ledger(made, "d", 1.0).close()
    assert os.listdir(made.parent) == [made.name]


def test_a_symbolic_link_leads_to_the_same_books(made: Path, tmp_path: Path) -> None:
    (tmp_path / "link.db").symlink_to(made)
    assert Ledger(tmp_path / "link.db", "d", 1.0).path == made


def test_a_locked_ledger_is_given_up_in_time(made: Path) -> None:
    ledger = Ledger(made, "d", 1.0, timeout=0.1)
    other = sqlite3.connect(made, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(LedgerError, match="raise timeout"):
        ledger.charge(SMALL, label="a")
    other.execute("ROLLBACK")
    other.close()
    ledger.charge(SMALL, label="a")
    assert len(ledger.entries()) == 61


def test_a_clock_moved_back_is_flagged(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ledger = Ledger(path, "d", 1.0)
    ledger.charge(SMALL, label="now")
    past = datetime.datetime(2001, 1, 1, tzinfo=datetime.UTC)
    clock = SimpleNamespace(UTC=datetime.UTC, datetime=SimpleNamespace(now=lambda zone: past))
    monkeypatch.setattr(spender, "datetime", clock)
    ledger.charge(SMALL, label="then")
    ledger.charge(SMALL, label="still then")
    table = ledger.entries()
    assert table["note"].tolist() == ["", *["clock behind an earlier entry"] * 2]
    assert table["time"].dt.year.tolist()[1:] == [2001, 2001]
    assert ledger.remaining.eps == 0.997


def charge_until_refused(path: Path, prepare: Callable[[Path], None], send: object) -> None:
    """In a child process: apply the limits, then charge until an error of ours; report charges made and message."""
    made = 0
    try:
        prepare(path)
        with Ledger(path, "d", 1.0) as ledger:
            for _ in range(900):
                ledger.charge(SMALL, label="x" * 1000)
                made += 1
        send.send((made, "no error"))  # type: ignore[attr-defined]
    except LedgerError as error:
        send.send((made, str(error)))  # type: ignore[attr-defined]


def stop_growth(path: Path) -> None:
    """As a full disk does, let no file grow beyond a size that the log soon reaches."""
    limit = 300_000
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))


def become_nobody(path: Path) -> None:
    """Root may write to anything."""
    if os.getuid() == 0:
        os.setuid(65534)


def in_child(path: Path, prepare: Callable[[Path], None]) -> tuple[int, str]:
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["dpstats.ledger"])
    receive, send = context.Pipe(duplex=False)
    child = context.Process(target=charge_until_refused, args=(path, prepare, send))
    child.start()
    send.close()
    result = receive.recv()
    child.join()
    receive.close()
    return result


@pytest.fixture
def shared() -> Iterator[Path]:
    """A directory that any user can enter."""
    directory = Path(tempfile.mkdtemp())
    directory.chmod(0o755)
    yield directory
    directory.chmod(0o755)
    shutil.rmtree(directory)


@pytest.mark.slow
def test_a_full_disk_stops_the_charges_and_loses_none(path: Path) -> None:
    made, message = in_child(path, stop_growth)
    assert "disk" in message
    assert "nothing was released" in message
    assert made > 10
    with Ledger(path, "d", 1.0) as ledger:
        assert len(ledger.entries()) == made
        ledger.charge(SMALL, label="with space again")


@pytest.mark.slow
@pytest.mark.parametrize("target", ["file", "directory"])
def test_a_read_only_file_or_directory_is_named(shared: Path, target: str) -> None:
    path = shared / "budget.db"
    Ledger(path, "d", 1.0).close()
    path.chmod(0o444 if target == "file" else 0o666)
    shared.chmod(0o777 if target == "file" else 0o555)
    made, message = in_child(path, become_nobody)
    assert made == 0
    assert "write permission" in message
    shared.chmod(0o755)
    assert Ledger(path, "d", 1.0).remaining.eps == 1.0
