"""Replays: the same result however they are cut, killed and resumed, and words for what cannot be."""

from __future__ import annotations

import codecs
import gzip
import shutil
from pathlib import Path
from typing import Any

import pytest
import zstandard

from tests.replay.logs import write_log
from tests.replay.replay_process import killed, refused, replay


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_log(tmp_path_factory.mktemp("log") / "log.jsonl", jobs=20, minutes=12)


@pytest.fixture(scope="module")
def metered(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory of `whole`; nobody writes into it."""
    return tmp_path_factory.mktemp("whole") / "data"


@pytest.fixture(scope="module")
def whole(log: Path, metered: Path) -> dict[str, Any]:
    """What an uninterrupted replay stores."""
    return replay([log], metered)


@pytest.fixture
def data(metered: Path, whole: dict[str, Any], tmp_path: Path) -> Path:
    """A directory into which the log was replayed."""
    return Path(shutil.copytree(metered, tmp_path / "data", symlinks=True))


@pytest.fixture(scope="module")
def long_log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Long enough to be killed in several times."""
    return write_log(tmp_path_factory.mktemp("long") / "log.jsonl", jobs=30, minutes=20)


@pytest.fixture(scope="module")
def long_whole(long_log: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What an uninterrupted replay of the long log stores."""
    return replay([long_log], tmp_path_factory.mktemp("whole") / "data")


def test_every_line_is_in_the_books(log: Path, whole: dict[str, Any]) -> None:
    lines = len(log.read_text().splitlines())
    assert whole["balanced"]
    assert whole["result"]["records_in"] == whole["result"]["applied"] == lines
    assert whole["result"]["jobs"] == 20
    assert len(whole["tables"]["prices"]) == 3


@pytest.mark.parametrize("options", [{"partitions": 1}, {"raw_batches": False}])
def test_neither_the_number_of_shards_nor_the_way_of_reading_changes_anything(
    log: Path, whole: dict[str, Any], tmp_path: Path, options: dict[str, Any]
) -> None:
    other = replay([log], tmp_path / "data", **options)
    assert other["tables"] == whole["tables"]


@pytest.mark.parametrize("after_lines", [[1_000], [1_000, 2_000, 3_000]])
def test_a_killed_replay_resumes_to_the_same_rows(
    long_log: Path, long_whole: dict[str, Any], tmp_path: Path, after_lines: list[int]
) -> None:
    for count in after_lines:
        killed([long_log], tmp_path / "data", count)
    resumed = replay([long_log], tmp_path / "data")
    assert resumed["tables"] == long_whole["tables"]
    assert _books(resumed) == _books(long_whole)


def test_the_same_files_again_change_nothing(log: Path, whole: dict[str, Any], data: Path) -> None:
    again = replay([log], data)
    assert again["tables"] == whole["tables"]
    assert again["result"]["rows"] == 0
    assert _books(again) == _books(whole)


def test_the_meters_clock_cuts_unfinished_jobs(log: Path, whole: dict[str, Any], tmp_path: Path) -> None:
    early = replay([log], tmp_path / "data", as_of=1_704_000_600_000)
    assert float(early["result"]["gpu_hours"]) < float(whole["result"]["gpu_hours"])
    late = replay([log], tmp_path / "data")
    assert late["tables"] == whole["tables"]


def test_a_run_with_another_clock_that_is_killed_leaves_the_first_command_something_to_do(
    log: Path, whole: dict[str, Any], data: Path
) -> None:
    killed([log], data, 1_000, as_of=1_704_000_600_000)
    assert replay([log], data)["tables"] == whole["tables"]


def test_the_last_lines_may_be_prices(log: Path, whole: dict[str, Any], tmp_path: Path) -> None:
    lines = log.read_text().splitlines(keepends=True)
    prices = [line for line in lines if '"topic":"prices"' in line]
    late = tmp_path / "late.jsonl"
    late.write_text("".join([x for x in lines if x not in prices] + prices))
    assert replay([late], tmp_path / "data")["tables"]["job_minutes"] == whole["tables"]["job_minutes"]


def test_a_file_named_twice_is_refused(log: Path, tmp_path: Path) -> None:
    assert "named twice" in refused([log, log], tmp_path / "data")


def test_a_byte_order_mark_is_no_part_of_the_first_line(
    log: Path, whole: dict[str, Any], tmp_path: Path
) -> None:
    marked = tmp_path / "marked.jsonl"
    marked.write_bytes(codecs.BOM_UTF8 + log.read_bytes())
    assert replay([marked], tmp_path / "data")["tables"] == whole["tables"]


def test_appended_files_go_on_where_the_log_ended(log: Path, data: Path, tmp_path: Path) -> None:
    more = write_log(tmp_path / "more.jsonl", jobs=5, minutes=3, seed=2, first_job=100, prices=False)
    together = replay([log, more], tmp_path / "together")
    appended = replay([more], data, append=True)
    assert appended["tables"] == together["tables"]
    assert _books(appended) == _books(together)
    assert replay([more], data, append=True)["result"]["rows"] == 0
    assert replay([log], data)["result"]["rows"] == 0


def test_an_append_that_was_killed_resumes(log: Path, data: Path, tmp_path: Path) -> None:
    more = write_log(tmp_path / "more.jsonl", jobs=20, minutes=12, seed=2, prices=False)
    together = replay([log, more], tmp_path / "together")
    killed([more], data, 1_000, append=True)
    appended = replay([more], data, append=True)
    assert appended["tables"] == together["tables"]
    assert _books(appended) == _books(together)


def test_other_files_need_to_be_asked_for_and_the_earlier_ones_to_be_done(log: Path, tmp_path: Path) -> None:
    more = write_log(tmp_path / "more.jsonl", jobs=1, minutes=1, seed=2)
    killed([log], tmp_path / "data", 1_000)
    assert "--append" in refused([more], tmp_path / "data")
    assert "did not end" in refused([more], tmp_path / "data", append=True)
    replay([log], tmp_path / "data")
    copy = tmp_path / "copy.jsonl"
    copy.write_bytes(log.read_bytes())
    assert f"already replayed into {tmp_path / 'data'}: {copy}" in refused(
        [more, copy], tmp_path / "data", append=True
    )


def test_lines_that_are_no_events_become_dead_letters_and_stop_nothing(tmp_path: Path) -> None:
    good = write_log(tmp_path / "good.jsonl", jobs=1, minutes=1)
    bad = tmp_path / "bad.jsonl"
    huge = '{"topic":"jobs","value":{"x":"' + "y" * 2_000_000 + '"}}'
    bad.write_text(
        "\n".join(  # noqa: FLY002 - one line of the file each
            [
                "no json",
                "",
                '{"topic":"nowhere","value":{}}',
                '{"value":{}}',
                "[]",
                '{"topic":"jobs","value":7}',
                '{"topic":"jobs","value":null}',
                '{"topic":"jobs","value":{},"headers":{"a":1}}',
                huge,
                '{"topic":"prices","value":{}}',
                '{"topic":"trainfare.jobs","value":{"type":"started"}}',
            ]
        )
    )
    found = replay([good, bad], tmp_path / "data")
    assert found["balanced"]
    assert found["result"]["dead_lettered"] == 10
    letters = found["tables"]["dead_letters"]
    lines = {row["offset"]: row["reason"] for row in letters if row["topic"] == "replay"}
    assert lines == {
        1: "malformed_json",
        3: "unknown_topic",
        4: "bad_envelope",
        5: "bad_envelope",
        8: "bad_envelope",
        9: "oversize",
    }
    assert all(row["partition"] == 1 for row in letters if row["topic"] == "replay")
    reasons = sorted(row["reason"] for row in letters if row["topic"] != "replay")
    assert reasons == ["missing_field", "missing_field", "not_an_object", "not_an_object"]


def test_compressed_files_are_the_same_log(log: Path, whole: dict[str, Any], tmp_path: Path) -> None:
    lines = log.read_bytes().splitlines(keepends=True)
    half = len(lines) // 2
    first, second = tmp_path / "1.jsonl.gz", tmp_path / "2.jsonl.zst"
    first.write_bytes(gzip.compress(b"".join(lines[:half])))
    second.write_bytes(zstandard.ZstdCompressor().compress(b"".join(lines[half:])))
    assert replay([first, second], tmp_path / "data")["tables"] == whole["tables"]


def test_a_file_that_ends_too_soon_is_named(tmp_path: Path) -> None:
    path = tmp_path / "cut.jsonl.gz"
    path.write_bytes(gzip.compress(b'{"topic":"jobs","value":{}}\n' * 1000)[:-20])
    assert str(path) in refused([path], tmp_path / "data")


def _books(found: dict[str, Any]) -> dict[str, Any]:
    names = (
        "records_in",
        "applied",
        "unattributed",
        "duplicate",
        "too_late",
        "dead_lettered",
        "jobs",
        "gpu_hours",
        "usd",
    )
    return {name: found["result"][name] for name in names}
