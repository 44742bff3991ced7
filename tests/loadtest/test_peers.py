"""The peers' totals are checked group by group; a process that fails, or leaves a result out, is a fault."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from loadtest.fleet import Fleet, Shape
from loadtest.known import WINDOW_S, Known
from loadtest.peers import __main__ as peers
from loadtest.peers import ours
from loadtest.peers.catalogue import OURS, PEERS, Peer
from loadtest.peers.feeds import Feed, Size, flushing
from loadtest.peers.homes import Home, MissingError
from loadtest.peers.results import Run
from loadtest.peers.runner import runs_of, why
from loadtest.peers.task import Total, Window, rows_of, windows_of
from loadtest.peers.totals import wrong
from schemas.decode import decode
from schemas.events import GpuEvent
from streams.config.settings import KafkaSettings

BEGIN_S = 1_772_366_450
SHAPE = Shape(jobs=3, senders_per_job=2, gpus=2, seconds=20)


@pytest.fixture(scope="module")
def known() -> Known:
    fleet = Fleet(SHAPE, BEGIN_S, partitions=2)
    for _ in fleet.batches():
        pass
    return fleet.known


@pytest.fixture
def feed(known: Known) -> Feed:
    return Feed(Size("w2", SHAPE.seconds), KafkaSettings(topic_prefix="w2.20s."), SHAPE, known)


@pytest.fixture
def right(known: Known) -> dict[Window, Total]:
    return {
        (job, (BEGIN_S + window * WINDOW_S) * 1000): (
            float(known.permille[row, window]) / 1000,
            int(known.samples[row, window]),
        )
        for row, job in enumerate(known.jobs)
        for window in range(known.samples.shape[1])
    }


# -- totals ----------------------------------------------------------------------------------------------------


def test_right_totals_pass(right: dict[Window, Total], known: Known) -> None:
    assert len(right) == 6
    assert wrong(right, known) is None
    assert wrong(windows_of(json.loads(json.dumps(rows_of(right)))), known) is None


def test_sums_in_another_order_of_addition_pass(right: dict[Window, Total], known: Known) -> None:
    assert wrong({at: (total * (1 + 1e-13), count) for at, (total, count) in right.items()}, known) is None


def test_a_planted_wrong_total_is_found(right: dict[Window, Total], known: Known) -> None:
    at = next(iter(right))
    total, count = right[at]
    assert wrong({**right, at: (total + 0.001, count)}, known) == "1 groups have another sum"
    assert wrong({**right, at: (total, count - 1)}, known) == (
        "1 groups have another count; 239 samples of 240"
    )


def test_a_missing_group_is_found(right: dict[Window, Total], known: Known) -> None:
    right.pop(next(iter(right)))
    assert wrong(right, known) == "1 groups have another count; 200 samples of 240"
    assert wrong({}, known) == "6 groups have another count; 0 samples of 240"


def test_what_was_never_sent_is_found(right: dict[Window, Total], known: Known) -> None:
    job, start_ms = next(iter(right))
    for at in ((f"{job}?", start_ms), (job, start_ms + 1), (job, start_ms - WINDOW_S * 1000)):
        assert wrong({**right, at: (0.0, 0)}, known) == f"no such window was sent: {at[0]} at {at[1]} ms"


def test_a_window_that_a_flushing_message_opened_is_no_concern(
    right: dict[Window, Total], feed: Feed, known: Known
) -> None:
    value = flushing(known.jobs[0], feed)
    event = decode("gpu", value, (), (BEGIN_S + 3600) * 1000)
    assert isinstance(event, GpuEvent)
    assert event.time_ms == (BEGIN_S + SHAPE.seconds) * 1000
    assert wrong({**right, (known.jobs[0], event.time_ms): (0.0, SHAPE.gpus)}, known) is None


# -- a peer's process ------------------------------------------------------------------------------------------

HONEST = """
import json
from pathlib import Path
from loadtest.peers.task import Pass, Task
task = Task.given()
clock = Pass(task)
clock.first()
rows = json.loads(Path({rows!r}).read_text())
clock.done({{(job, start): (total, count) for job, start, total, count in rows}}, note="honest")
"""


def peer_of(tmp_path: Path, program: str, *, totals: bool = True) -> tuple[Peer, Home]:
    script = tmp_path / "peer.py"
    script.write_text(program, encoding="utf-8")
    home = Home((sys.executable,), lambda _: "1")
    return Peer("fake", lambda: home, (str(script),), "fake", "nothing", totals=totals), home


def runs(peer: tuple[Peer, Home], feed: Feed, count: int = 1) -> list[Run]:
    return list(runs_of(*peer, feed, count, 60.0))


def test_an_honest_peer_is_right(tmp_path: Path, feed: Feed, right: dict[Window, Total]) -> None:
    rows = tmp_path / "rows.json"
    rows.write_text(json.dumps(rows_of(right)), encoding="utf-8")
    found = runs(peer_of(tmp_path, HONEST.format(rows=str(rows))), feed, 2)
    assert [run.fault for run in found] == [None, None]
    assert found[0].note == "honest"
    assert found[0].messages == 120
    assert found[0].samples == 240
    assert found[0].wall_s > 0
    assert found[0].peak_rss_mib > 1
    assert found[0].start_s > 0


def test_a_peer_that_lost_a_group_is_wrong_and_not_run_again(
    tmp_path: Path, feed: Feed, right: dict[Window, Total]
) -> None:
    rows = tmp_path / "rows.json"
    rows.write_text(json.dumps(rows_of(right)[1:]), encoding="utf-8")
    found = runs(peer_of(tmp_path, HONEST.format(rows=str(rows))), feed, 3)
    assert [run.fault for run in found] == ["1 groups have another count; 200 samples of 240"]


def test_a_client_that_counted_too_few_is_wrong(tmp_path: Path, feed: Feed) -> None:
    program = "from loadtest.peers.task import Pass, Task\nPass(Task.given()).done(None, 119)\n"
    found = runs(peer_of(tmp_path, program, totals=False), feed)
    assert [run.fault for run in found] == ["119 of 120"]


def test_a_peer_that_fails_says_why(tmp_path: Path, feed: Feed) -> None:
    found = runs(peer_of(tmp_path, "raise SystemExit('no such broker')"), feed)
    assert [run.fault for run in found] == ["exit code 1; no such broker"]


SEVERAL = """
import json
from pathlib import Path
from loadtest.peers.task import Task
task = Task.given()
for number in range(task.passes - MISSING):
    found = {"first_at_s": 0.0, "wall_s": 1.0, "cpu_s": 1.0, "whole_cpu_s": 1.0, "peak_rss_mib": 1.0,
             "counted": task.messages, "note": str(number)}
    (Path(task.directory) / f"result-{number}.json").write_text(json.dumps(found))
"""


def test_passes_of_a_warm_up_are_in_one_process_and_apart(tmp_path: Path, feed: Feed) -> None:
    peer, home = peer_of(tmp_path, SEVERAL.replace("MISSING", "0"), totals=False)
    found = runs((replace(peer, warm_up=2), home), feed, 3)
    assert [(run.note, run.cold) for run in found] == [
        ("0", True), ("1", True), ("2", False), ("3", False), ("4", False),
    ]  # fmt: skip


def test_a_long_topic_warms_up_with_fewer_passes(tmp_path: Path, feed: Feed) -> None:
    peer, home = peer_of(tmp_path, SEVERAL.replace("MISSING", "0"), totals=False)
    long = replace(feed, size=replace(feed.size, most_warm_up=1))
    found = runs((replace(peer, warm_up=3), home), long, 2)
    assert [run.cold for run in found] == [True, False, False]


def test_a_pass_without_a_result_is_a_fault(tmp_path: Path, feed: Feed) -> None:
    peer, home = peer_of(tmp_path, SEVERAL.replace("MISSING", "1"), totals=False)
    found = runs((replace(peer, warm_up=1), home), feed, 2)
    assert [run.fault for run in found] == [None, None, "exit code 0; it said nothing"]


def test_the_innermost_cause_of_a_java_trace_is_shown() -> None:
    trace = "Exception in thread main\n\tat a.b\nCaused by: outer\n\tat c.d\nCaused by: inner\n\t... 5 more\n"
    assert why(trace) == "Caused by: inner"
    assert why("one\ntwo\n\n") == "two"
    assert why("") == "it said nothing"


# -- the rest --------------------------------------------------------------------------------------------------


def test_every_workload_has_a_table() -> None:
    asked = {size.workload for peer in PEERS for size in peer.sizes} | {size.workload for size in OURS}
    assert asked == set(peers.TITLES)


def test_a_peer_without_a_home_is_a_row_that_says_why() -> None:
    def nowhere() -> Home:
        raise MissingError("no `java` on the PATH")

    peer = Peer("P", nowhere, ("x",), "x", "nothing")
    assert peers.home_of(peer) == "cannot be installed here: no `java` on the PATH"


def test_peers_are_chosen_by_parts_of_their_names() -> None:
    assert [each.name for each in peers.chosen(["flink", "STREAMS"])] == [
        "Quix Streams",
        "Flink SQL",
        "Kafka Streams",
    ]
    assert len(peers.chosen([])) == len({each.name for each in peers.chosen([])}) >= 10


def test_ours_is_stored_with_the_first_flight_that_holds_everything() -> None:
    def flight(records: int, at_s: float) -> dict[str, object]:
        return {"stored": {"records": {"gpu": records}, "at_s": at_s, "cpu_s": 0.0, "folded": None}}

    lines: list[dict[str, object]] = [{"first": {}}, flight(5, 1.0), flight(9, 2.0), flight(9, 3.0)]
    found = ours.stored(lines, 9)
    assert found is not None
    assert found["at_s"] == 2.0
    assert ours.stored(lines, 10) is None
