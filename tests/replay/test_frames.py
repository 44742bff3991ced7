"""A compressed file that is cut short is found out at any byte, before anything is metered."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest
import zstandard

from streams.errors import TrainfareError
from streams.frames import CutShortError, check_whole
from streams.replay.files import read_lines
from tests.cli.command import trainfare

LINES = [b'{"topic":"jobs","value":{"n":%d}}\n' % number for number in range(500)]


def frame(lines: list[bytes], *, write_checksum: bool = False) -> bytes:
    """A frame of several blocks: flushed after every hundredth line."""
    packer = zstandard.ZstdCompressor(write_checksum=write_checksum).compressobj()
    parts = []
    for number, line in enumerate(lines, 1):
        parts.append(packer.compress(line))
        if number % 100 == 0:
            parts.append(packer.flush(zstandard.COMPRESSOBJ_FLUSH_BLOCK))
    return b"".join([*parts, packer.flush()])


SKIPPABLE = (0x184D2A51).to_bytes(4, "little") + (5).to_bytes(4, "little") + b"aside"
WHOLE = {
    "one frame": frame(LINES),
    "with a checksum": frame(LINES, write_checksum=True),
    "of known size": zstandard.compress(b"".join(LINES)),
    "runs of one byte": zstandard.compress(b"\n" * 400_000 + LINES[0]),
    "two frames": frame(LINES[:250]) + zstandard.compress(b"".join(LINES[250:])),
    "a skippable frame between": frame(LINES[:250]) + SKIPPABLE + frame(LINES[250:]),
    "empty": b"",
}


@pytest.mark.parametrize("name", WHOLE)
def test_a_whole_file_passes(name: str, tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl.zst"
    path.write_bytes(WHOLE[name])
    check_whole(path)
    expected = {"empty": [], "runs of one byte": LINES[:1]}.get(name, LINES)
    assert [line.data for line in read_lines([path])] == expected


@pytest.mark.parametrize("name", [name for name in WHOLE if name != "empty"])
def test_a_file_cut_at_any_byte_within_a_frame_does_not(name: str, tmp_path: Path) -> None:
    content = WHOLE[name]
    ends = {0, len(content)}
    if name == "two frames":
        ends.add(len(frame(LINES[:250])))
    if name == "a skippable frame between":
        ends |= {len(frame(LINES[:250])), len(frame(LINES[:250]) + SKIPPABLE)}
    path = tmp_path / "log.jsonl.zst"
    for size in range(len(content)):
        path.write_bytes(content[:size])
        if size in ends:
            check_whole(path)
            continue
        with pytest.raises(CutShortError):
            check_whole(path)


def test_what_is_no_frame_is_not_called_cut_short(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl.zst"
    path.write_bytes(zstandard.compress(LINES[0]) + b"and something else that is long enough")
    with pytest.raises(zstandard.ZstdError):
        check_whole(path)


@pytest.mark.parametrize("ending", ["zst", "gz"])
def test_a_replay_of_a_file_that_is_cut_short_says_so_and_meters_nothing(ending: str, tmp_path: Path) -> None:
    """Cut between two blocks, the file unpacks to 300 of its 500 lines without an error."""
    event = {"id": "1", "source": "s", "time_ms": 1_780_308_000_000, "job_id": "j", "type": "queued"}
    lines = [
        json.dumps({"topic": "jobs", "value": {**event, "id": str(n)}}).encode() + b"\n" for n in range(500)
    ]
    content = frame(lines) if ending == "zst" else gzip.compress(b"".join(lines))
    path, data = tmp_path / f"log.jsonl.{ending}", tmp_path / "meter"
    path.write_bytes(content[: len(content) * 3 // 5])
    done = trainfare("replay", path, "--data", data, new_store="begun")
    assert done.code == 1
    assert f"log.jsonl.{ending} is cut short" in done.one_line()
    assert not data.exists()

    path.write_bytes(content)
    assert trainfare("replay", path, "--data", data, "--partitions", "1").code == 0


def test_reading_the_lines_finds_it_out_too(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl.zst"
    path.write_bytes(frame(LINES)[:-9])
    with pytest.raises(TrainfareError, match="is cut short"):
        list(read_lines([path]))
