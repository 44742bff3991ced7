"""Lines of files are of a bounded length, and memory is, whatever a file unpacks to."""

from __future__ import annotations

import gzip
import io
import json
import subprocess
import sys
from pathlib import Path

import pytest
import zstandard

from schemas.decode import RECORD_MAX_BYTES
from streams.cli.files import numbered_lines, read_bounded
from streams.cli.publish import outgoing
from streams.engine.shard.dead_letters import SAMPLE_RAW_BYTES
from streams.engine.shard.job_tables import DeadLetter
from streams.errors import TrainfareError, WrongUseError
from streams.packed import HEAD_BYTES, LINE_MAX_BYTES, bounded_lines
from streams.replay.files import read_lines
from streams.replay.lines import LineReader, Sendable
from tests.cli.command import ROOT
from tests.price_records import price_records

MOST = LINE_MAX_BYTES
BOMB_MIB = 200
GROWTH_MIB = 24


def found(content: bytes) -> list[tuple[int, int, bool]]:
    """Number, length and whether it is whole, of each line."""
    return [(line.number, len(line.data), line.is_whole) for line in bounded_lines(io.BytesIO(content))]


def test_limits_agree() -> None:
    assert (LINE_MAX_BYTES, HEAD_BYTES) == (RECORD_MAX_BYTES, SAMPLE_RAW_BYTES)


@pytest.mark.parametrize("end", [b"\n", b"\r\n", b""])
def test_a_line_of_the_limit_is_whole_and_one_byte_more_is_a_head(end: bytes) -> None:
    behind = b"x\n" if end else b""
    last = [(2, 2, True)] if end else []
    assert found(b"a" * MOST + end + behind) == [(1, MOST + len(end), True), *last]
    for more in (1, 2, 3, 5, 70_000, MOST, 3 * MOST + 1):
        assert found(b"a" * (MOST + more) + end + behind) == [(1, HEAD_BYTES, False), *last]


def test_blank_lines_of_any_length_are_nothing_but_count() -> None:
    content = b"\n  \n" + b" " * (3 * MOST) + b"\nx\n" + b" " * (2 * MOST) + b"y\n\n" + b"\t" * (2 * MOST)
    assert found(content) == [(4, 2, True), (5, HEAD_BYTES, False)]


def reader() -> LineReader:
    return LineReader("trainfare.", 4, 2**50)


def test_a_line_that_is_too_long_is_one_dead_letter_and_the_next_line_goes_on(tmp_path: Path) -> None:
    event = json.dumps({"topic": "jobs", "value": {"x": "y" * MOST}}).encode()
    path = tmp_path / "log.jsonl.gz"
    path.write_bytes(
        gzip.compress(b'{"topic":"jobs","value":{}}\n' + event + b'\n{"topic":"gpu","value":{}}\n')
    )
    first, refused, last = reader().records(read_lines([path]))
    assert isinstance(first, Sendable)
    assert isinstance(last, Sendable)
    assert isinstance(refused, DeadLetter)
    assert (refused.reason, refused.topic, refused.offset) == ("oversize", "replay", 2)
    assert refused.detail == "line: got more bytes, expected at most 1048576"
    assert refused.raw == event[:HEAD_BYTES]


def test_a_bom_is_no_part_of_the_first_line(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    path.write_bytes(b"\xef\xbb\xbf\n\xef\xbb\xbfx\n")
    assert [(line.number, line.data) for line in read_lines([path])] == [(2, b"\xef\xbb\xbfx\n")]


def test_publish_and_prices_refuse_the_file_and_name_the_line(tmp_path: Path) -> None:
    path = tmp_path / "e.jsonl"
    path.write_bytes(b'{"topic":"jobs","value":{}}\n' + b'{"topic":"jobs","value":"' + b"x" * MOST + b'"}\n')
    for read in (
        lambda: list(outgoing(path, "")),
        lambda: price_records(path, 0),
        lambda: read_bounded(path),
    ):
        with pytest.raises(WrongUseError, match="line 2: longer than 1048576 bytes"):
            read()


def test_a_price_file_of_many_short_lines_is_bounded_too(tmp_path: Path) -> None:
    path = tmp_path / "p.jsonl.gz"
    path.write_bytes(gzip.compress(b"{}\n" * (65 * 2**20 // 3), 1))
    with pytest.raises(WrongUseError, match="more than 67108864 bytes unpacked"):
        read_bounded(path)


def test_lines_of_a_price_file_may_be_as_long_as_any(tmp_path: Path) -> None:
    path = tmp_path / "p.jsonl"
    fits = b"\n" + b"x" * MOST + b"\n" + b"y" * MOST
    path.write_bytes(fits)
    assert read_bounded(path) == fits
    path.write_bytes(b"x\n" * 600_000 + b"x" * (MOST + 1) + b"\nx")
    with pytest.raises(WrongUseError, match="line 600001: longer than"):
        read_bounded(path)


def test_a_key_that_is_too_long_does_not_end_a_replay(tmp_path: Path) -> None:
    """Key and record together would be more than the broker takes."""
    path = tmp_path / "e.jsonl"
    line = json.dumps({"topic": "jobs", "value": {"job_id": "j" * 1_000_000}}).encode()
    path.write_bytes(line + b"\n")
    (sent,) = reader().records(read_lines([path]))
    assert isinstance(sent, Sendable)
    assert len(sent.key) == 512
    (published,) = outgoing(path, "")
    assert len(published.key) == 512


def test_a_price_with_the_longest_sku_needs_no_id(tmp_path: Path) -> None:
    price = {"sku": "s" * 256, "component": "gpu", "usd": "1", "per": "gpu_hour", "effective_ms": 0}
    path = tmp_path / "p.jsonl"
    path.write_text(json.dumps(price))
    (record,) = price_records(path, 1_800_000_000_000)
    assert len(json.loads(record.value)["id"]) == 64
    path.write_text(json.dumps({**price, "sku": "s" * 257}))
    with pytest.raises(WrongUseError, match="field `sku`"):
        price_records(path, 1_800_000_000_000)


def test_a_frame_that_asks_for_much_memory_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "wide.jsonl.zst"
    parameters = zstandard.ZstdCompressionParameters.from_level(1, window_log=27)
    writer = zstandard.ZstdCompressor(compression_params=parameters).compressobj()
    path.write_bytes(writer.compress(b'{"topic":"jobs"}\n') + writer.flush())
    with pytest.raises(TrainfareError, match=r"cannot be read to its end: .*memory"):
        list(read_lines([path]))
    with pytest.raises(WrongUseError, match=r"cannot be read: .*memory"):
        list(numbered_lines(path))


_READ = """
import resource, sys
from pathlib import Path
from streams.cli.files import numbered_lines
from streams.replay.files import read_lines
from streams.errors import WrongUseError
small, bomb, way = Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3]
def read(path):
    if way == "replay":
        return [(len(line.data), line.is_whole) for line in read_lines([path])]
    try:
        return len(list(numbered_lines(path)))
    except WrongUseError as fault:
        return str(fault)
read(small)
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
print(read(bomb), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before, sep="|")
"""


@pytest.fixture(scope="module")
def bombs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """One line of 200 MiB, packed, and a small file of each kind."""
    root = tmp_path_factory.mktemp("bombs")
    block = b"x" * 2**20
    with gzip.open(root / "bomb.gz", "wb", 1) as packed:
        for _ in range(BOMB_MIB):
            packed.write(block)
    with (root / "bomb.zst").open("wb") as raw, zstandard.ZstdCompressor(level=3).stream_writer(raw) as zst:
        for _ in range(BOMB_MIB):
            zst.write(block)
    (root / "small.gz").write_bytes(gzip.compress(b"x\n"))
    (root / "small.zst").write_bytes(zstandard.compress(b"x\n"))
    return {path.name: path for path in root.iterdir()}


@pytest.mark.parametrize("ending", ["gz", "zst"])
@pytest.mark.parametrize("way", ["replay", "publish"])
def test_one_line_of_200_mib_takes_no_memory_to_speak_of(
    ending: str, way: str, bombs: dict[str, Path]
) -> None:
    assert bombs[f"bomb.{ending}"].stat().st_size < 2 * 2**20
    done = subprocess.run(
        [sys.executable, "-c", _READ, bombs[f"small.{ending}"], bombs[f"bomb.{ending}"], way],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    said, grown_kib = done.stdout.rsplit("|", 1)
    assert said == str([(HEAD_BYTES, False)]) if way == "replay" else "line 1: longer than" in said
    assert int(grown_kib) < GROWTH_MIB * 1024
