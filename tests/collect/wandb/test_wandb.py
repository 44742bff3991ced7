"""The collector on files that W&B wrote, whole, cut anywhere and damaged."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from schemas.protobuf import ProtobufError, fields_of, signed
from streams.collect.collector import EventBatch, SourceUnavailableError
from streams.collect.mlflow.records import TrackedRun
from streams.collect.wandb.collector import open_collector
from streams.collect.wandb.log_file import RunFileError, records_of
from streams.collect.wandb.options import Options
from streams.collect.wandb.records import run_of
from tests.collect.recordings import EVIL
from tests.collect.wandb.world import WandbWorld, recorded
from tests.collect.world import Log, watched


@pytest.fixture
def world(tmp_path: Path) -> Iterator[WandbWorld]:
    found = WandbWorld(tmp_path)
    yield found
    found.close()


@pytest.fixture
def log(world: WandbWorld) -> Log:
    """The events of a collector that sees all states."""
    return watched(world, world.collector(), range(world.states))


def content(word: str) -> bytes:
    """The last recorded file whose name has a word."""
    return next(base64.b64decode(text) for name, text in recorded()[-1]["files"].items() if word in name)


def read(data: bytes) -> TrackedRun | None:
    return run_of(records_of(data))


def test_each_folder_of_a_run_is_an_attempt_with_its_own_start_and_end(log: Log) -> None:
    life = [each for each in log.of("my-run-7") if each["type"] not in {"heartbeat", "updated"}]
    assert [(each["type"], each["attempt"]) for each in life] == [
        ("started", 1),
        ("failed", 1),
        ("started", 2),
        ("completed", 2),
    ]
    started, failed, resumed, completed = (each["time_ms"] for each in life)
    assert 1000 <= failed - started <= 60_000
    assert failed < resumed < completed
    first = life[0]
    assert first == first | {
        "gpu_count": 2,
        "gpu_type": "H100",
        "owner": "ada",
        "team": "vision",
        "experiment": "lr-sweep",
        "labels": {"wandb_run": "my-run-7", "wandb_run_name": "first"},
    }
    assert "hunter2" not in str(log.events)


def test_a_run_whose_end_is_written_late_has_one(world: WandbWorld) -> None:
    """W&B writes blocks: it ended before `since`, was seen as running after that, and then with its end."""
    world.turn(world.states - 1)
    path, *others = sorted(world.folder.glob("*/*my-run-7.wandb")) + list(
        world.folder.glob("*/*killed*.wandb")
    )
    for other in others:
        other.unlink()
    data = path.read_bytes()
    ended = read(data)
    assert ended is not None
    assert not ended.is_live
    sizes = [size for size in range(7, len(data), 61) if (run := read(data[:size])) and run.is_live]
    since = datetime.fromtimestamp(ended.end_ms // 1000 + 2, UTC)
    since_ms = round(since.timestamp() * 1000)
    collector, log, position = world.collector(since=since), Log(), None
    for seconds, size in ((1, sizes[-1]), (2, len(data))):
        path.write_bytes(data[:size])
        for batch in collector.poll(position, since_ms + 1_000 * seconds):
            log.publish(batch.events)
            position = batch.position
    life = [(each["type"], each["time_ms"]) for each in log.of("my-run-7") if each["type"] != "heartbeat"]
    assert [each for each in life if each[0] in {"started", "failed", "completed"}] == [
        ("started", since_ms),
        ("failed", since_ms),
    ]


def test_metrics_are_quality_and_progress(log: Log) -> None:
    beats = [each for each in log.of("my-run-7") if "progress" in each]
    assert [(each["attempt"], each["quality"], each["progress"]) for each in beats] == [
        (1, {"loss": 0.5}, {"epoch": 1.0, "step": 20}),
        (2, {"loss": 0.3}, {"step": 30}),
    ]
    (attached,) = log.of("17_3")
    assert (attached["type"], attached["attempt"], attached["quality"]) == (
        "updated",
        1,
        {"accuracy": 0.7475},
    )


def test_a_run_that_was_killed_is_still_open(log: Log) -> None:
    """W&B writes whole blocks of 32 KiB until the end: what the last one said is lost."""
    killed = log.of("killed")
    assert [each["type"] for each in killed] == ["started", "heartbeat"]
    assert killed[0]["gpu_count"] == 0.5
    assert 0 < killed[1]["progress"]["step"] < 299


def test_a_name_that_means_harm_is_a_name(tmp_path: Path) -> None:
    run = read(content("attached"))
    assert run is not None
    assert run.name == EVIL


@pytest.mark.parametrize("word", ["my-run-7", "attached"])
def test_a_file_that_is_cut_anywhere_gives_what_is_whole(word: str) -> None:
    data = content(word)
    whole = list(records_of(data))
    assert len(data) > 0
    for size in range(7, len(data), 61):
        found = list(records_of(data[:size]))
        assert found == whole[: len(found)]
        run_of(found)


def test_a_damaged_file_is_said_to_be_and_the_others_are_read(world: WandbWorld) -> None:
    now_ms = world.turn(world.states - 1)
    (path,) = (path for path in world.folder.glob("*/*.wandb") if "killed" in path.name)
    data = bytearray(path.read_bytes())
    data[100] ^= 1
    path.write_bytes(data)
    odd = world.folder / "offline-run-20260101_000000-x"
    odd.mkdir()
    (odd / "run-x.wandb").write_bytes(b"something else, of more than a few bytes")
    (batch,) = world.collector().poll(None, now_ms)
    assert {value["job_id"] for _, value in batch.events} == {"my-run-7", "17_3"}
    assert sorted(fault.rpartition(": ")[2] for fault in batch.account.said) == [
        "damaged at byte " + str(_record_with(content("killed"), 100)),
        "no file of W&B's format 0",
    ]


def _record_with(data: bytes, place: int) -> int:
    """Where the record begins that has a byte."""
    at = 7
    while True:
        after = at + 7 + int.from_bytes(data[at + 4 : at + 6], "little")
        if place < after:
            return at
        at = after


def test_a_file_that_is_too_large_is_left_out(world: WandbWorld) -> None:
    now_ms = world.turn(world.states - 1)
    (large,) = (path for path in world.folder.glob("*/*.wandb") if "attached" in path.name)
    with large.open("ab") as file:
        file.truncate(2**20 + 1)
    (batch,) = world.collector(max_file_mib=1).poll(None, now_ms)
    assert [fault.rpartition(": ")[2] for fault in batch.account.said] == [
        "more than 1048576 bytes; see max_file_mib"
    ]


def test_a_file_is_read_again_only_if_it_changes(world: WandbWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    reads: list[bytes] = []

    def counted(data: bytes) -> Iterator[bytes]:
        reads.append(data)
        return records_of(data)

    monkeypatch.setattr("streams.collect.wandb.collector.records_of", counted)
    collector, now_ms = world.collector(), world.turn(world.states - 1)
    files = len(recorded()[-1]["files"])
    first: list[EventBatch] = list(collector.poll(None, now_ms))
    assert len(reads) == files
    assert not [
        event for batch in collector.poll(first[-1].position, now_ms + 1000) for event in batch.events
    ]
    assert len(reads) == files


def test_folders_that_are_not_there_are_named(tmp_path: Path) -> None:
    collector = open_collector(Options(folders=[tmp_path / "absent"]))
    with pytest.raises(SourceUnavailableError, match="absent: No such file or directory; name the folders"):
        list(collector.poll(None, 1_800_000_000_000))


@pytest.mark.parametrize(
    "message",
    [
        b"\x0a",  # a length is missing
        b"\x0a\x05ab",  # cut
        b"\x0b\x0c",  # a group
        b"\x00\x01",  # field 0
        b"\x08" + b"\xff" * 11,  # a number of more than 64 bits
        b"\x08" + b"\xff" * 9 + b"\x7f",
        b"\x09\x00",  # fixed, cut
    ],
)
def test_what_is_no_message_is_refused(message: bytes) -> None:
    with pytest.raises(ProtobufError):
        list(fields_of(message))


def test_numbers_and_texts_of_a_message() -> None:
    message = (
        b"\x08\x96\x01"
        b"\x12\x02hi"
        b"\x19\x01" + bytes(7) + b"\x25\x02\x00\x00\x00" + b"\x28" + b"\xff" * 9 + b"\x01"
    )
    found = list(fields_of(message))
    assert found == [(1, 150), (2, b"hi"), (3, 1), (4, 2), (5, 2**64 - 1)]
    assert signed(2**64 - 1) == -1


def test_a_record_that_is_no_message_is_damage() -> None:
    with pytest.raises(RunFileError):
        run_of([b"\x8a\x01\x05ab"])
    assert run_of([]) is None
    with pytest.raises(RunFileError, match="no start"):
        run_of([b"\x8a\x01\x03\x0a\x01x"])
