"""Files of a store that lost rows: an audit says so, whatever became of them, and a recount puts the rows back."""

from __future__ import annotations

import json
import shutil
from functools import partial
from pathlib import Path

import pytest

from streams.selfcheck.audit.facts import SampledTime
from streams.selfcheck.audit.ledger_checks import sampled
from tests.cli import command
from tests.replay.logs import write_log
from tests.selfcheck.damage import DAMAGE, byte_flipped, cut, largest_file, table_folder
from tests.sinks.stores import embedded

SPAN = ("2020-01-01", "2040-01-01")
ROWS = "SELECT * EXCEPT (version) FROM {} WHERE quantity != 0 ORDER BY ALL"

trainfare = partial(command.trainfare, function="tests.cli.variants:impatient")


@pytest.fixture(scope="module")
def metered(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store of two replays, and in `before` as it was after the first."""
    root = tmp_path_factory.mktemp("metered")
    write_log(root / "first.jsonl", jobs=3, minutes=3)
    write_log(root / "second.jsonl", jobs=3, minutes=3, seed=2, first_job=10, prices=False)
    for name in ("first", "second"):
        words = ("--partitions", "2") if name == "first" else ("--append",)
        done = trainfare("replay", root / f"{name}.jsonl", "--data", root / "data", *words)
        assert done.code == 0, done
        if name == "first":
            shutil.copytree(root / "data", root / "before", symlinks=True)
    return root


@pytest.fixture
def root(metered: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(metered, tmp_path / "copy", symlinks=True))


def rows(data: Path, table: str) -> list[dict[str, object]]:
    with embedded(data) as store:
        found: list[dict[str, object]] = store.query(ROWS.format(f"{table} FINAL")).to_pylist()
        return found


def files_of(root: Path) -> tuple[Path, ...]:
    return root / "first.jsonl", root / "second.jsonl"


def test_an_untouched_store_is_green_and_keeps_sums(root: Path) -> None:
    done = trainfare("audit", "--data", root / "data")
    assert done.code == 0, done.out
    (line,) = (line for line in done.out.splitlines() if line.startswith("ok    ledger_sums"))
    assert "4 months of shards add up to what was booked" in line


@pytest.mark.parametrize(
    ("table", "damage"), [*(("job_minutes", damage) for damage in DAMAGE), ("node_minutes", "parts missing")]
)
def test_what_became_of_the_files_is_said_and_put_back(root: Path, table: str, damage: str) -> None:
    data = root / "data"
    before = rows(data, table)
    assert before
    DAMAGE[damage](data, table, table_folder(root / "before", table))
    assert rows(data, table) != before

    audit = trainfare("audit", "--data", data, "--format", "json")
    assert audit.code == 1
    faults = {each["check"] for each in json.loads(audit.out)["findings"] if not each["ok"]}
    assert "ledger_sums" in faults, faults
    assert ("parts" in faults) == (damage in ("cut short", "a file missing"))
    assert faults <= {"ledger_sums", "job_hours", "parts", "totals"}, "without these nobody would see it"

    done = trainfare(
        "audit", "--data", data, "--recount", *SPAN, "--repair", *files_of(root), "--format", "json"
    )
    assert done.code == 0, done
    assert json.loads(done.out)["rows_put_back"] > 0
    assert rows(data, table) == before
    after = trainfare("audit", "--data", data)
    assert after.code == 0, after.out


def test_a_recount_puts_nothing_back_by_itself(root: Path) -> None:
    data = root / "data"
    before = rows(data, "job_minutes")
    DAMAGE["parts missing"](data, "job_minutes", table_folder(root / "before", "job_minutes"))
    damaged = rows(data, "job_minutes")
    assert damaged != before
    assert trainfare("audit", "--data", data, "--recount", *SPAN, *files_of(root)).code == 1
    assert rows(data, "job_minutes") == damaged


@pytest.mark.parametrize(("table", "others"), [("job_hours", {"totals"}), ("node_hours", set())])
def test_lost_hours_are_said(root: Path, table: str, others: set[str]) -> None:
    DAMAGE["parts missing"](root / "data", table, table_folder(root / "before", table))
    audit = trainfare("audit", "--data", root / "data", "--format", "json")
    assert audit.code == 1
    faults = [each for each in json.loads(audit.out)["findings"] if not each["ok"]]
    assert {each["check"] for each in faults} == {"job_hours", *others}
    hours = [each for each in faults if each["check"] == "job_hours"]
    assert all(each["found"].startswith(("$0", "0 ms")) for each in hours), faults


#: A row of an ended job again, one step newer, with a sampled second less; and the newest record accounting with it.
_LESS_SAMPLED = """
INSERT INTO job_hours SELECT * REPLACE (sampled_gpu_ms - 1000 AS sampled_gpu_ms, version + 1 AS version)
FROM job_hours AS r FINAL WHERE r.sampled_gpu_ms > 1000
    AND job_id IN (SELECT job_id FROM attempts AS a FINAL GROUP BY job_id HAVING countIf(isNull(a.ended)) = 0)
LIMIT 1"""
_BOOKS = "INSERT INTO books SELECT * REPLACE (version + 1 AS version) FROM books AS b FINAL"


def test_hour_with_other_samples_than_its_minutes_is_said(root: Path) -> None:
    with embedded(root / "data") as store:
        store._connection.call(lambda client: client.command(_LESS_SAMPLED))
        store._connection.call(lambda client: client.command(_BOOKS))
    audit = trainfare("audit", "--data", root / "data", "--format", "json")
    assert audit.code == 1
    faults = [each for each in json.loads(audit.out)["findings"] if not each["ok"]]
    assert [each["check"] for each in faults] == ["job_hours"], faults
    assert faults[0]["subject"].startswith("sampled GPU-time of shard "), faults
    assert int(faults[0]["expected"].split()[0]) - int(faults[0]["found"].split()[0]) == 1000


def test_sampled_time_is_compared_where_minutes_are_kept_and_books_have_come() -> None:
    row = SampledTime(1, 202611, 5000, 5000, 100, 100, version=7)
    lost, idle = row._replace(hours_ms=4000), row._replace(hours_productive_ms=90)
    assert [each.ok for each in sampled([row], {1: 7})] == [True]
    assert [each.ok for each in sampled([lost], {1: 7})] == [False]
    assert [each.ok for each in sampled([idle], {1: 7})] == [False]
    assert [each.ok for each in sampled([lost], {1: 6})] == [True]  # being written
    dropped = row._replace(minutes_ms=0, minutes_productive_ms=0)
    (said,) = sampled([dropped], {1: 7}, kept_from=202612)
    assert said.ok
    assert "months before 2026-12 have no minutes any more" in said.detail
    assert [each.ok for each in sampled([dropped], {1: 7}, kept_from=202611)] == [False]


def test_a_flipped_byte_is_said_by_whoever_reads_it(root: Path) -> None:
    byte_flipped(root / "data", "job_minutes", root)
    for words in (("audit",), ("sql", "SELECT count() FROM (SELECT * FROM job_minutes) WHERE NOT ignore(*)")):
        done = trainfare(*words, "--data", root / "data")
        assert done.code == 1, done
        assert "balanced" not in done.out.splitlines()


def test_a_part_of_the_span_leaves_what_was_set_aside(root: Path) -> None:
    cut(largest_file(root / "data", "job_minutes"))
    span = ("2020-01-01", "2020-01-02")
    done = trainfare("audit", "--data", root / "data", "--recount", *span, "--repair", *files_of(root))
    assert done.code == 0, done
    assert "is dropped" not in done.err
    assert trainfare("audit", "--data", root / "data").code == 1


def test_a_repair_needs_a_recount(root: Path) -> None:
    done = trainfare("audit", "--data", root / "data", "--repair")
    assert done.code == 2
    assert "--repair goes with --recount FROM TO" in done.one_line()
