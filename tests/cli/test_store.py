"""`trainfare store`: what a backup has is what a restore gives, and what neither may do."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from sinks.clickhouse import backup
from sinks.clickhouse.backup import place_of
from sinks.errors import SinkError
from sinks.target import Embedded, Server
from tests.cli.command import trainfare

DAY_MS = 86_400_000
T0_MS = 1_772_323_200_000  # 2026-03-01
SERVER = Server(url="http://127.0.0.1:8123")
DIRECTORY = Embedded(data_dir=Path("meter"))


def events(path: Path) -> Path:
    """Two jobs, one of March and one of September."""
    price = {"sku": "g", "component": "gpu", "usd": "3.6", "per": "gpu_hour", "effective_ms": 0}
    lines: list[tuple[str, dict[str, object]]] = [
        ("prices", {"id": "p", "source": "t", "time_ms": T0_MS, **price})
    ]
    for name, at_ms in (("spring", T0_MS), ("autumn", T0_MS + 200 * DAY_MS)):
        for type_, time_ms in (("started", at_ms), ("completed", at_ms + 3_600_000)):
            value = {
                "id": f"{name}-{type_}",
                "source": "t",
                "job_id": name,
                "type": type_,
                "time_ms": time_ms,
            }
            lines.append(("jobs", {**value, "gpu_count": 2}))
    path.write_text("".join(json.dumps({"topic": topic, "value": value}) + "\n" for topic, value in lines))
    return path


@pytest.fixture(scope="module")
def meter(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("store")
    done = trainfare("replay", events(folder / "events.jsonl"), "--data", folder / "meter")
    assert done.code == 0, done.err
    return folder


def costs(data: Path) -> str:
    done = trainfare("costs", "--by", "job", "--data", data, "--format", "json")
    assert done.code == 0, done.err
    return done.out


def test_a_restored_store_costs_what_the_former_did_and_goes_on(meter: Path, tmp_path: Path) -> None:
    place = tmp_path / "it's a <backup>"
    done = trainfare("store", "backup", place, "--data", meter / "meter")
    assert (done.code, done.err) == (0, "")
    parts = [line.split(":")[0] for line in done.out.splitlines()]
    assert parts[:2] == ["snapshots", "rows"]
    restored = trainfare("store", "restore", place, "--data", tmp_path / "again")
    assert (restored.code, restored.err) == (0, "")
    assert costs(tmp_path / "again") == costs(meter / "meter")
    assert '"spring"' in costs(tmp_path / "again")
    audited = trainfare("audit", "--data", tmp_path / "again")
    assert audited.code == 0, audited.out


def test_nothing_is_written_over(meter: Path, tmp_path: Path) -> None:
    place = tmp_path / "backup"
    assert trainfare("store", "backup", place, "--data", meter / "meter").code == 0
    again = trainfare("store", "backup", place, "--data", meter / "meter")
    assert again.code == 1
    assert "already exists" in again.one_line()
    taken = trainfare("store", "restore", place, "--data", meter / "meter")
    assert taken.code == 1
    assert "name an empty --data directory" in taken.one_line()


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system that is full after some files of a backup."""
    place = tmp_path / "small"
    place.mkdir()
    made = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=160k", "tmpfs", place], capture_output=True)
    if made.returncode:
        pytest.skip("only root may mount, and not everywhere")
    try:
        yield place
    finally:
        subprocess.run(["umount", place], check=True)


def test_a_backup_onto_a_full_disk_is_none(meter: Path, small_disk: Path) -> None:
    """The engine writes what fits and says that it is done."""
    done = trainfare("store", "backup", small_disk / "backup", "--data", meter / "meter")
    assert done.code == 1, done.out
    assert re.search(r"(is not whole: .* make room|no space is left for it)", done.one_line())


def test_a_part_of_a_backup_that_lacks_a_byte_is_not_whole(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "count.txt").write_bytes(b"12")
    backup._check_whole(tmp_path, 2)
    with pytest.raises(SinkError, match="is not whole: 2 of 3 bytes are there"):
        backup._check_whole(tmp_path, 3)


def test_a_backup_that_is_not_there_is_said(tmp_path: Path) -> None:
    done = trainfare("store", "restore", tmp_path / "nothing", "--data", tmp_path / "again")
    assert done.code == 1
    assert "nothing" in done.one_line()
    unknown = trainfare("store", "backup", tmp_path / "there", "--data", tmp_path / "unknown")
    assert unknown.code != 0
    assert "no meter's data there" in unknown.one_line()


def test_s3_that_does_not_answer_is_said_without_its_keys(meter: Path) -> None:
    env = {"AWS_ACCESS_KEY_ID": "AKIAsomebody", "AWS_SECRET_ACCESS_KEY": "sesame-open"}
    done = trainfare("store", "backup", "http://127.0.0.1:9/bucket/key", "--data", meter / "meter", env=env)
    assert done.code == 1
    assert "127.0.0.1:9" in done.one_line()
    assert "sesame" not in done.err


@pytest.mark.parametrize(
    ("text", "sql"),
    [
        ("disk:backups/2026/11-28", "Disk('backups', '2026/11-28/rows')"),
        (
            "https://s3.eu-west-1.amazonaws.com/b/k/",
            "S3('https://s3.eu-west-1.amazonaws.com/b/k/rows', 'id', 'key')",
        ),
        ("/back'ups\\x", "File('/back\\'ups\\\\x/rows')"),
    ],
)
def test_places(text: str, sql: str) -> None:
    place = place_of(text, DIRECTORY, "id", "key")
    assert place.sql("rows") == sql
    assert "key" not in repr(place)


def test_without_keys_s3_is_asked_with_those_of_the_server() -> None:
    assert place_of("https://h/b/k", SERVER).sql("rows") == "S3('https://h/b/k/rows')"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("/backups", "a server writes no backup to a directory of this machine"),
        ("disk:backups/../etc", "has no `..`"),
        ("s3://bucket/key", "is no place of a backup"),
        ("https://user:secret@h/b", "is no place of a backup"),
        ("", "is no place of a backup"),
    ],
)
def test_what_is_no_place(text: str, said: str) -> None:
    with pytest.raises(SinkError, match=said):
        place_of(text, SERVER)


def test_old_months_are_named_then_dropped(meter: Path) -> None:
    words = ("store", "retention", "--days", "90", "--data", meter / "meter")
    named = trainfare(*words, "--dry-run")
    assert (named.code, named.out) == (0, "would drop job_minutes: 2026-03\n")
    before = costs(meter / "meter")
    dropped = trainfare(*words)
    assert (dropped.code, dropped.out) == (0, "dropped job_minutes: 2026-03\n")
    assert trainfare(*words).out == "no month of minutes ended more than 90 days before the newest event\n"
    assert costs(meter / "meter") == before, "their hours stay"


def test_a_retention_that_keeps_all_has_to_be_named(meter: Path) -> None:
    env = {"TRAINFARE_METER_MINUTES_RETENTION_DAYS": "0"}
    done = trainfare("store", "retention", "--data", meter / "meter", env=env)
    assert done.code != 0
    assert "name --days" in done.one_line()
