"""The spool: what was kept on disk arrives once, whatever ended the process, and never grows beyond its bound."""

from __future__ import annotations

import random
import signal
import time
import zlib
from pathlib import Path

import pytest
import trainfare
from trainfare import runs
from trainfare.sender import EVENTS_WAITING
from trainfare.spool import Spool

from tests.sdk.endpoint import FakeEndpoint
from tests.sdk.scripts import ran, started

URL = "http://127.0.0.1:9"


def opened(folder: Path, url: str = URL, spool_bytes: int = 10_000) -> Spool:
    spool = Spool(folder, url, spool_bytes)
    spool.open()
    return spool


def files(folder: Path) -> list[Path]:
    return sorted(folder.glob("*.spool"))


def test_events_come_back_in_order_until_they_are_done(tmp_path: Path) -> None:
    spool = opened(tmp_path)
    for number in range(5):
        assert spool.append(b"%d" % number, is_dispensable=False)
    assert spool.take(2) == spool.take(2) == [b"0", b"1"]
    spool.taken_is_done()
    assert spool.append(b"5", is_dispensable=False)
    assert spool.take(9) == [b"2", b"3", b"4", b"5"]
    spool.taken_is_done()
    assert not spool.has_any()
    assert files(tmp_path)[0].stat().st_size == 0
    spool.close()
    assert files(tmp_path) == []


def test_what_is_left_is_the_next_process_s(tmp_path: Path) -> None:
    for number in range(2):
        spool = opened(tmp_path)
        assert spool.append(b"%d" % number, is_dispensable=False)
        if not number:
            assert spool.take(1) == [b"0"]  # and killed before an answer
        spool.close()
    last = opened(tmp_path)
    found = []
    while events := last.take(9):
        found += events
        last.taken_is_done()
    assert found == [b"0", b"1"]
    last.close()
    assert files(tmp_path) == []


def test_a_living_process_keeps_its_own(tmp_path: Path) -> None:
    one, other = opened(tmp_path), opened(tmp_path)
    assert one.append(b"1", is_dispensable=False)
    third = opened(tmp_path)
    assert (other.take(9), third.take(9), one.take(9)) == ([], [], [b"1"])


def test_events_of_another_endpoint_are_left_alone(tmp_path: Path) -> None:
    spool = opened(tmp_path, "http://staging")
    spool.append(b"1", is_dispensable=False)
    spool.close()
    assert opened(tmp_path).take(9) == []
    assert opened(tmp_path, "http://staging").take(9) == [b"1"]


def test_it_is_bounded_and_keeps_room_for_what_cannot_be_repeated(tmp_path: Path) -> None:
    spool = opened(tmp_path, spool_bytes=1_000)
    beats = sum(spool.append(b"x" * 90, is_dispensable=True) for _ in range(100))
    others = sum(spool.append(b"x" * 90, is_dispensable=False) for _ in range(100))
    assert (beats, others) == (8, 2)
    spool.close()
    # The next process finds the folder as full.
    following = opened(tmp_path, spool_bytes=1_000)
    assert not following.append(b"x" * 90, is_dispensable=False)
    assert sum(path.stat().st_size for path in files(tmp_path)) == 1_000


def test_torn_and_damaged_lines_are_passed_over(tmp_path: Path) -> None:
    spool = opened(tmp_path)
    for number in range(3):
        spool.append(b"event-%d" % number, is_dispensable=False)
    spool.close()
    (path,) = files(tmp_path)
    text = path.read_bytes().replace(b"event-1", b"event-X")
    forged = b"%08x %s\n" % (zlib.crc32(b"x" * 70_000), b"x" * 70_000)  # larger than any of ours
    path.write_bytes(text + b"\xff\x00junk\n" + forged + text[:12])
    following = opened(tmp_path, spool_bytes=1_000_000)
    found = []
    while events := following.take(9):
        found += events
        following.taken_is_done()
    assert (found, following.damaged) == ([b"event-0", b"event-2"], 4)
    assert not following.has_any()


def test_junk_without_a_line_is_passed_over(tmp_path: Path) -> None:
    spool = opened(tmp_path)
    spool.append(b"1", is_dispensable=False)
    spool.close()
    files(tmp_path)[0].write_bytes(b"\x00" * 3_000_000)
    assert opened(tmp_path).take(9) == []


def test_links_and_folders_of_others_are_no_spool(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_bytes(b"%08x %s\n" % (zlib.crc32(b"a"), b"a"))
    spool = opened(tmp_path / "spool")
    spool.append(b"1", is_dispensable=False)
    (path,) = files(tmp_path / "spool")
    (path.parent / path.name.replace("-0", "-1", 1)).symlink_to(secret)
    spool.close()
    assert opened(tmp_path / "spool").take(9) == [b"1"]


# -- with a run ----------------------------------------------------------------------------------------------

KILLED = """
import os, signal, sys, time, trainfare
with trainfare.run('run-7', url=sys.argv[1], spool=sys.argv[2], heartbeat_s=3600) as run:
    for step in range(int(sys.argv[3])):
        run.checkpoint(step=step)
        while len(run._sender._waiting) > 500: time.sleep(0.001)  # faster than any training: let the disk keep up
    while run._sender._waiting: time.sleep(0.001)
    if len(sys.argv) > 4: os.kill(os.getpid(), signal.SIGKILL)
    run._sender.flush(60)
"""


def test_what_a_killed_process_kept_arrives_at_the_next_start_and_once(
    endpoint: FakeEndpoint, tmp_path: Path
) -> None:
    spool = str(tmp_path / "spool")
    endpoint.status = 503
    killed = ran(tmp_path, KILLED, endpoint.url, spool, "2000", "kill")
    assert killed.returncode == -signal.SIGKILL
    assert endpoint.events == {}
    endpoint.status = 202
    assert ran(tmp_path, KILLED, endpoint.url, spool, "3").returncode == 0
    found = [(each["attempt"], each["type"]) for each in endpoint.events.values()]
    assert found == [
        (1, "started"),
        *[(1, "checkpointed")] * 2000,
        (2, "started"),
        *[(2, "checkpointed")] * 3,
        (2, "completed"),
    ]
    assert endpoint.received == len(endpoint.events)
    assert files(tmp_path / "spool") == []


def test_killed_between_an_answer_and_its_note_it_sends_again_under_the_same_ids(
    endpoint: FakeEndpoint, tmp_path: Path
) -> None:
    text = """
import os, signal, sys, time, trainfare
from trainfare.spool import Spool
stored = []
def killed(_):
    while not stored: time.sleep(0.001)
    os.kill(os.getpid(), signal.SIGKILL)
Spool.taken_is_done = killed
with trainfare.run('run-7', url=sys.argv[1], spool=sys.argv[2]) as run:
    for step in range(3): run.checkpoint(step=step)
    while run._sender._waiting: time.sleep(0.001)
    stored.append(True)
    time.sleep(60)
"""
    spool = str(tmp_path / "spool")
    assert ran(tmp_path, text, endpoint.url, spool).returncode == -signal.SIGKILL
    before = dict(endpoint.events)
    assert before
    assert ran(tmp_path, KILLED, endpoint.url, spool, "0").returncode == 0
    assert endpoint.received > len(endpoint.events)
    assert before.items() <= endpoint.events.items()
    of_first = [each["type"] for each in endpoint.events.values() if each["attempt"] == 1]
    assert of_first == ["started", *["checkpointed"] * 3]


STORED = """
import sys, time, trainfare
with trainfare.run('run-7', url=sys.argv[1], spool=sys.argv[2], heartbeat_s=3600) as run:
    for step in range(int(sys.argv[3])):
        run.checkpoint(step=step)
        while run._sender._waiting: time.sleep(0.0001)
        print(run.attempt, step, flush=True)  # it is on disk
    run._sender.flush(60)
"""


def test_killed_at_ten_places_with_an_endpoint_that_comes_and_goes_all_arrives_once(
    endpoint: FakeEndpoint, tmp_path: Path
) -> None:
    rng = random.Random(7)
    stored: set[tuple[int, float]] = set()
    for _ in range(10):
        endpoint.status = rng.choice((202, 202, 503))
        process = started(tmp_path, STORED, endpoint.url, str(tmp_path / "spool"), "100000")
        assert process.stdout is not None
        lines = [process.stdout.readline() for _ in range(rng.randrange(1, 120))]
        if rng.random() < 0.5:
            endpoint.status = 503 if endpoint.status == 202 else 202
            lines += [process.stdout.readline() for _ in range(rng.randrange(1, 120))]
        process.kill()
        lines += process.communicate(timeout=60)[0].splitlines()
        stored |= {(int(line.split()[0]), float(line.split()[1])) for line in lines if len(line.split()) == 2}
    endpoint.status = 202
    assert ran(tmp_path, STORED, endpoint.url, str(tmp_path / "spool"), "1").returncode == 0
    arrived = [
        (each["attempt"], each["progress"]["step"])
        for each in endpoint.events.values()
        if each["type"] == "checkpointed"
    ]
    assert len(stored) > 100
    assert stored <= set(arrived)
    assert len(arrived) == len(set(arrived))  # events are known by their ids here: none came under two
    assert [each["attempt"] for each in endpoint.events.values() if each["type"] == "started"] == [
        *range(1, 12)
    ]
    assert files(tmp_path / "spool") == []


def test_a_run_that_ends_while_the_endpoint_is_away_leaves_its_end_on_disk(
    endpoint: FakeEndpoint, tmp_path: Path
) -> None:
    with trainfare.run("run-7", url=URL, spool=tmp_path / "spool") as found:
        found.checkpoint()
    assert found.dropped == 0
    assert len(files(tmp_path / "spool")) == 1
    assert files(tmp_path / "spool")[0].stat().st_mode & 0o777 == 0o600
    assert (tmp_path / "spool").stat().st_mode & 0o777 == 0o700


def test_while_a_slow_endpoint_answers_events_go_to_the_disk(
    endpoint: FakeEndpoint, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runs, "CLOSE_WITHIN_S", 0.3)
    endpoint.delay_s = 60.0
    with trainfare.run("run-7", url=endpoint.url, spool=tmp_path / "spool") as found:
        while not endpoint.requests:
            time.sleep(0.01)
        found.checkpoint()
    assert found.dropped == 0
    text = files(tmp_path / "spool")[0].read_bytes()
    assert [kind for kind in (b"started", b"checkpointed", b"completed") if kind in text] == [
        b"started",
        b"checkpointed",
        b"completed",
    ]


def test_a_long_outage_is_kept_beyond_what_waits_in_memory(endpoint: FakeEndpoint, tmp_path: Path) -> None:
    endpoint.status = 503
    with trainfare.run("run-7", url=endpoint.url, spool=tmp_path / "spool") as found:
        assert found._sender is not None
        for step in range(3 * EVENTS_WAITING):
            found.checkpoint(step=step)
            while len(found._sender._waiting) > EVENTS_WAITING // 2:
                time.sleep(0.001)
        endpoint.status = 202
        assert found._sender.flush(60)
    assert found.dropped == 0
    assert endpoint.types() == ["started", *["checkpointed"] * 3 * EVENTS_WAITING, "completed"]


def test_a_token_that_is_refused_leaves_events_for_one_that_is_not(
    endpoint: FakeEndpoint, tmp_path: Path
) -> None:
    endpoint.status = 401
    with trainfare.run("run-7", url=endpoint.url, spool=tmp_path / "spool") as found:
        pass
    assert (found.fault, found.dropped, found.refused) == ("answered 401", 0, 0)
    endpoint.status = 202
    with trainfare.run("run-7", url=endpoint.url, spool=tmp_path / "spool"):
        pass
    assert [(each["attempt"], each["type"]) for each in endpoint.events.values()] == [
        (1, "started"),
        (1, "completed"),
        (2, "started"),
        (2, "completed"),
    ]


def test_one_damaged_event_does_not_take_others_with_it(endpoint: FakeEndpoint, tmp_path: Path) -> None:
    spool = opened(tmp_path, endpoint.url)
    for event in (b'{"topic":"jobs","value":{"source":"a","id":"1"}}', b"7", b'"x"'):
        spool.append(event, is_dispensable=False)
    spool.close()
    with trainfare.run("run-7", url=endpoint.url, spool=tmp_path) as found:
        pass
    assert endpoint.types() == ["started", "completed"]
    assert found.refused == 3


# -- a full disk ---------------------------------------------------------------------------------------------

FULL = """
import os, resource, sys, time, trainfare
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[3]), int(sys.argv[3])))
with trainfare.run('run-7', url=sys.argv[1], spool=sys.argv[2]) as run:
    for step in range(100):
        run.checkpoint(step=step)
print(run.attempt, run.dropped)
"""


@pytest.mark.parametrize("file_bytes", [0, 5_000])
def test_on_a_full_disk_events_are_sent_from_memory(
    endpoint: FakeEndpoint, tmp_path: Path, file_bytes: int
) -> None:
    found = ran(tmp_path, FULL, endpoint.url, str(tmp_path / "spool"), str(file_bytes))
    assert (found.returncode, found.stdout, found.stderr) == (0, "1 0\n", "")
    assert sorted(endpoint.types()) == sorted(["started", *["checkpointed"] * 100, "completed"])
    assert files(tmp_path / "spool") == []


def test_a_full_disk_and_no_endpoint_cost_events_and_nothing_else(tmp_path: Path) -> None:
    found = ran(tmp_path, FULL, URL, str(tmp_path / "spool"), "5000")
    assert (found.returncode, found.stderr) == (0, "")
    attempt, dropped = map(int, found.stdout.split())
    assert (attempt, 50 < dropped < 102) == (1, True)
    # What had room is whole.
    spool = opened(tmp_path / "spool")
    kept = spool.take(200)
    assert len(kept) + dropped == 102
    assert spool.damaged == 0


def test_a_full_disk_does_not_count_an_attempt_twice(endpoint: FakeEndpoint, tmp_path: Path) -> None:
    spool = str(tmp_path / "spool")
    assert ran(tmp_path, FULL, endpoint.url, spool, "100000").stdout == "1 0\n"
    assert ran(tmp_path, FULL, endpoint.url, spool, "0").stdout == "2 0\n"


def test_a_spool_that_cannot_be_made_is_none(endpoint: FakeEndpoint, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with trainfare.run("run-7", url=endpoint.url, spool=tmp_path / "file" / "spool") as found:
        found.checkpoint()
    assert endpoint.types() == ["started", "checkpointed", "completed"]
    assert found.dropped == 0


def test_a_child_of_a_fork_does_not_hold_the_lock(endpoint: FakeEndpoint, tmp_path: Path) -> None:
    text = """
import os, signal, sys, time, trainfare
with trainfare.run('run-7', url=sys.argv[1], spool=sys.argv[2]) as run:
    while run._sender._waiting: time.sleep(0.001)
    if not os.fork():
        os.close(1); os.close(2)
        time.sleep(10)
    os.kill(os.getpid(), signal.SIGKILL)
"""
    endpoint.status = 503
    process = started(tmp_path, text, endpoint.url, str(tmp_path / "spool"))
    assert process.wait(30) == -signal.SIGKILL
    endpoint.status = 202
    with trainfare.run("run-7", url=endpoint.url, spool=tmp_path / "spool"):
        pass
    assert [each["attempt"] for each in endpoint.events.values()] == [1, 2, 2]
