"""Each line of each file is read once, however files grow, are renamed, replaced, packed or damaged."""

from __future__ import annotations

import gzip
import os
from pathlib import Path
from typing import Any

import msgspec
import pytest

from streams.collect.collector import SourceUnavailableError
from streams.errors import TrainfareError
from tests.collect.files.plain import collector
from tests.collect.flow_logs.polling import NOW_MS, Polled, polled

DAY_MS = 86_400_000


def written(path: Path, text: str | bytes, changed_ms: int = NOW_MS - 3_600_000) -> Path:
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    os.utime(path, (changed_ms / 1000, changed_ms / 1000))
    return path


def said(found: Polled) -> list[str]:
    return [event["line"] for event in found.events]


def test_lines_are_read_once(tmp_path: Path) -> None:
    path = written(tmp_path / "a.log", "1\n2\n\n3\n4\n5\n6\n7\n")
    first = polled(collector(path))
    assert said(first) == list("1234567")
    assert said(polled(collector(path), first.position)) == []


def test_each_position_is_one_to_go_on_from(tmp_path: Path) -> None:
    files = [written(tmp_path / f"{name}.log", "".join(f"{name}{n}\n" for n in range(9))) for name in "abc"]
    batches = list(collector(*files).poll(None, NOW_MS))
    assert len(batches) > 4
    whole = [event.value["line"] for batch in batches for event in batch.events]
    seen: list[str] = []
    for batch in batches:
        seen += [event.value["line"] for event in batch.events]
        stored = msgspec.json.decode(msgspec.json.encode(batch.position))
        assert seen + said(polled(collector(*files), stored)) == whole


def test_a_file_that_grew_is_read_on(tmp_path: Path) -> None:
    path = written(tmp_path / "a.log", "#h\n1\n2\n")
    first = polled(collector(path))
    written(path, "#h\n1\n2\n3\n4\n", NOW_MS - 1_800_000)
    later = polled(collector(path), first.position)
    assert said(later) == ["3", "4"]
    assert {event["header"] for event in later.events} == {"#h"}


def test_a_file_that_is_another_one_is_read_from_its_beginning(tmp_path: Path) -> None:
    path = written(tmp_path / "a.log", "1\n2\n")
    first = polled(collector(path))
    written(path, "x\ny\nz\n", NOW_MS - 1_800_000)
    assert said(polled(collector(path), first.position)) == ["x", "y", "z"]


def test_a_file_that_became_shorter_is_read_from_its_beginning(tmp_path: Path) -> None:
    path = written(tmp_path / "a.log", "1\n2\n3\n")
    first = polled(collector(path))
    written(path, "1\n", NOW_MS - 1_800_000)
    assert said(polled(collector(path), first.position)) == ["1"]


def test_a_renamed_file_is_not_read_again(tmp_path: Path) -> None:
    path = written(tmp_path / "a.log", "1\n2\n")
    first = polled(collector(tmp_path / "*"))
    path.rename(tmp_path / "a.log.1")
    written(path, "3\n")
    assert said(polled(collector(tmp_path / "*"), first.position)) == ["3"]


def test_ids_follow_from_the_content_wherever_it_is(tmp_path: Path) -> None:
    text = "#h\n1\n2\n3\n4\n"
    plain = polled(collector(written(tmp_path / "a.log", text)))
    packed = polled(collector(written(tmp_path / "b.bin", gzip.compress(text.encode()))))
    assert plain.events == packed.events
    other = polled(collector(written(tmp_path / "c.log", text.replace("#h", "#i"))))
    assert {e["id"] for e in other.events}.isdisjoint(e["id"] for e in plain.events)


def test_a_file_is_read_once_it_has_settled(tmp_path: Path) -> None:
    path = written(tmp_path / "a.log", "1\n", NOW_MS)
    first = polled(collector(path))
    assert said(first) == []
    assert said(polled(collector(path), first.position, NOW_MS + 60_000)) == ["1"]


def test_files_come_by_the_time_of_their_last_change(tmp_path: Path) -> None:
    written(tmp_path / "a.log", "late\n", NOW_MS - 100_000)
    written(tmp_path / "b.log", "early\n", NOW_MS - 200_000)
    assert said(polled(collector(tmp_path / "*.log"))) == ["early", "late"]


def test_a_folder_means_all_files_below_it(tmp_path: Path) -> None:
    (tmp_path / "[x]" / "y").mkdir(parents=True)
    written(tmp_path / "[x]" / "y" / "a.log", "1\n")
    assert said(polled(collector(tmp_path / "[x]"))) == ["1"]


def test_what_is_no_file_is_passed_over(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "nowhere").symlink_to(tmp_path / "gone")
    assert said(polled(collector(tmp_path / "*"))) == []


def test_a_fault_stops_nothing_and_is_said_with_its_place(tmp_path: Path) -> None:
    path = written(tmp_path / "a\x1b.log", "#h\n1\n2\n3\nbad\n4\n")
    found = polled(collector(path))
    assert said(found) == ["1", "2", "3", "4"]
    assert found.account.said == ["a\\x1b.log line 5: a bad line"]
    assert found.account.reasons == {"malformed": 1}


@pytest.mark.parametrize("cut", [1, 5, 30])
def test_of_a_file_that_is_cut_short_the_whole_lines_are_read(tmp_path: Path, cut: int) -> None:
    text = "".join(f"{n:032x}\n" for n in os.urandom(400))
    packed = gzip.compress(text.encode(), mtime=0)
    path = written(tmp_path / "a.gz", packed[:-cut])
    first = polled(collector(path))
    lines = text.split()
    assert said(first) == lines[: len(first.events)]
    assert first.account.reasons == {"unreadable": 1}
    assert "a.gz: the compressed file is cut short or damaged" in first.account.said[0]
    # It is tried again only once it changed, and then from there on.
    assert polled(collector(path), first.position).account.reasons == {}
    written(path, packed, NOW_MS - 1_800_000)
    assert said(first) + said(polled(collector(path), first.position)) == lines


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (gzip.compress(b"1\n" * 600_000), "oversize"),  # 1.2 MB, allowed is 1 MiB
        (b"1\n" + b"x" * (2**20 + 1), "oversize"),
        (b"\x1f\x8bnothing", "unreadable"),
    ],
)
def test_what_is_too_large_or_no_gzip_ends_the_file(tmp_path: Path, text: bytes, reason: str) -> None:
    path = written(tmp_path / "a", text)
    found = polled(collector(path, lines_per_part=100_000, max_file_mib=1))
    assert found.account.reasons == {reason: 1}
    assert len(found.events) <= 2**19


def test_a_file_that_cannot_be_opened_now_is_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = written(tmp_path / "a.log", "1\n")

    def refused(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied")

    with monkeypatch.context() as patch:
        patch.setattr(Path, "open", refused)
        first = polled(collector(path))
    assert (first.account.reasons, first.account.said) == ({"unreadable": 1}, ["a.log: Permission denied"])
    assert said(polled(collector(path), first.position)) == ["1"]


def test_a_missing_file_or_folder_is_the_source_away(tmp_path: Path) -> None:
    for wanted, words in ((tmp_path / "a.log", "no such file"), (tmp_path / "x" / "*.log", "no such folder")):
        with pytest.raises(SourceUnavailableError, match=words):
            polled(collector(wanted))


def test_too_many_files_are_refused(tmp_path: Path) -> None:
    for number in range(4):
        written(tmp_path / f"{number}.log", "1\n")
    with pytest.raises(SourceUnavailableError, match="more than 3 files"):
        polled(collector(tmp_path / "*", max_files=3))
    assert len(polled(collector(tmp_path / "*", str(tmp_path / "[0-3].log"), max_files=4)).events) == 4


def test_a_file_that_is_gone_for_long_is_forgotten(tmp_path: Path) -> None:
    path = written(tmp_path / "a.log", "1\n")
    first = polled(collector(tmp_path / "*"))
    path.unlink()
    kept = polled(collector(tmp_path / "*"), first.position, NOW_MS + 39 * DAY_MS)
    assert list(kept.position["files"]) == [str(path)]
    assert polled(collector(tmp_path / "*"), kept.position, NOW_MS + 41 * DAY_MS).position == {"files": {}}


@pytest.mark.parametrize("position", [{}, {"files": 3}, {"files": {"a": {}}}])
def test_a_position_of_something_else_is_refused(tmp_path: Path, position: dict[str, Any]) -> None:
    with pytest.raises(TrainfareError, match="names no files; remove the file"):
        polled(collector(tmp_path / "*"), position)
