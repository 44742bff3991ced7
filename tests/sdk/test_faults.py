"""Nothing that goes wrong reaches the training: the meter away, slow or refusing, forks, signals, kills, odd values."""

from __future__ import annotations

import json
import os
import signal
import threading
import time
from pathlib import Path
from typing import Any

import pytest
import trainfare
from trainfare import endpoint as endpoints
from trainfare import runs
from trainfare.endpoint import Endpoint
from trainfare.sender import CHECKPOINT, EVENTS_WAITING, LIFECYCLE, REPEATED, Sender

from tests.sdk.endpoint import FakeEndpoint
from tests.sdk.scripts import ran, started

NOWHERE = "http://127.0.0.1:9"


def run(endpoint: FakeEndpoint, **fields: Any) -> trainfare.Run:
    return trainfare.run("run-7", url=endpoint.url, token="t", **fields)


# -- the endpoint --------------------------------------------------------------------------------------------


def test_a_broker_that_is_away_for_a_while_gets_everything_in_order(endpoint: FakeEndpoint) -> None:
    endpoint.status = 503
    with run(endpoint) as found:
        for step in range(5):
            found.checkpoint(step=step)
        waited = threading.Event()
        while not endpoint.requests:
            waited.wait(0.01)
        endpoint.status = 202
    assert endpoint.types() == ["started", *["checkpointed"] * 5, "completed"]


def test_a_meter_that_never_answers_costs_the_end_and_not_the_training(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("trainfare.runs.CLOSE_WITHIN_S", 0.2)
    with trainfare.run("run-7", url=NOWHERE, token="t") as found:
        for _ in range(3 * EVENTS_WAITING):
            found.checkpoint()
    assert found.dropped >= 2 * EVENTS_WAITING
    assert found.fault


@pytest.mark.parametrize("kind", ["delay_s", "drips_s"])
def test_a_slow_endpoint_holds_up_neither_the_steps_nor_the_end(
    endpoint: FakeEndpoint, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    monkeypatch.setattr(runs, "CLOSE_WITHIN_S", 0.3)
    setattr(endpoint, kind, 60.0)
    with run(endpoint) as found:
        while not endpoint.requests:
            time.sleep(0.01)
        found.checkpoint()
    # Nothing was answered, and yet this line is reached, by a request that goes on.
    assert not endpoint.released.is_set()
    assert found.dropped > 0


def test_a_request_ends_however_slowly_bytes_come(endpoint: FakeEndpoint) -> None:
    endpoint.drips_s = 0.05
    outcome = Endpoint(endpoint.url, "", request_s=0.3).post(
        [b'{"topic":"jobs","value":{"source":"a","id":"b"}}']
    )
    assert (outcome.kind, bool(outcome.fault)) == (endpoints.LATER, True)


def test_what_the_meter_refuses_is_counted_and_not_sent_again(endpoint: FakeEndpoint) -> None:
    with run(endpoint, team="x" * 10_000) as found:
        pass
    assert endpoint.types() == ["completed"]
    assert found.refused == 1
    # The end that was taken after it does not hide why.
    assert found.fault.startswith("refused events: 1; the last one: ")
    assert "team" in found.fault


@pytest.mark.parametrize("status", [301, 400, 401, 403, 413])
def test_an_answer_that_stays_the_same_ends_the_attempts(endpoint: FakeEndpoint, status: int) -> None:
    endpoint.status = status
    with run(endpoint) as found:
        pass
    assert found.fault == f"answered {status}"
    assert endpoint.requests <= 4
    assert found.dropped + found.refused == 2


@pytest.mark.parametrize(
    "url", ["", "file:///etc/passwd", "ftp://a", "http://", "http://[", "http://a:99999", "//a"]
)
def test_an_invalid_url_is_a_fault_and_no_error(url: str) -> None:
    with trainfare.run("run-7", url=url or "nothing") as found:
        found.checkpoint()
    assert "invalid URL" in found.fault


def filled(*priorities: int) -> Sender:
    """A sender that sends nothing, its queue full of events of these priorities, of the last one all that remain."""
    sender = Sender(Endpoint(NOWHERE, ""))
    for number in range(EVENTS_WAITING):
        sender.put("jobs", {"id": number}, priority=priorities[min(number, len(priorities) - 1)])
    return sender


def waiting(sender: Sender) -> list[Any]:
    return [json.loads(event)["value"]["id"] for event, _ in sender._waiting]


@pytest.mark.parametrize("priority", [REPEATED, CHECKPOINT, LIFECYCLE])
def test_a_full_queue_drops_its_oldest_heartbeat_whatever_comes(priority: int) -> None:
    sender = filled(LIFECYCLE, CHECKPOINT, REPEATED)
    for number in range(2):
        sender.put("jobs", {"id": f"new-{number}"}, priority=priority)
    assert waiting(sender) == [0, 1, *range(4, EVENTS_WAITING), "new-0", "new-1"]
    assert sender.dropped == 2


def test_without_heartbeats_the_oldest_checkpoint_is_dropped_and_the_start_kept() -> None:
    sender = filled(LIFECYCLE, CHECKPOINT)
    sender.put("jobs", {"id": "beat"}, priority=REPEATED)  # nothing of a lower priority waits
    sender.put("jobs", {"id": "checkpoint"}, priority=CHECKPOINT)
    sender.put("jobs", {"id": "end"})
    assert waiting(sender) == [0, *range(3, EVENTS_WAITING), "checkpoint", "end"]
    assert sender.dropped == 3


def test_during_an_outage_heartbeats_are_dropped_and_everything_else_arrives(
    endpoint: FakeEndpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runs, "CLOSE_WITHIN_S", 60.0)
    endpoint.status = 503
    with run(endpoint) as found:
        found.checkpoint()
        for _ in range(2 * EVENTS_WAITING):
            found._beat()
        found.checkpoint()
        endpoint.status = 202
    assert [kind for kind in endpoint.types() if kind != "heartbeat"] == [
        "started",
        "checkpointed",
        "checkpointed",
        "completed",
    ]
    assert found.dropped == EVENTS_WAITING + 4


def test_the_threads_import_nothing(endpoint: FakeEndpoint, tmp_path: Path) -> None:
    """A process forked during an import of another thread waits for that module for ever."""
    text = """
import sys, trainfare
before = set(sys.modules)
with trainfare.run('run-7', url=sys.argv[1], spool=True, heartbeat_s=0.01) as run:
    run.checkpoint()
    while run._sender.sent < 3: pass
print(sorted(set(sys.modules) - before))
"""
    assert ran(tmp_path, text, endpoint.url).stdout == "[]\n"


# -- what training passes ------------------------------------------------------------------------------------


def test_what_training_passes_never_raises(endpoint: FakeEndpoint) -> None:
    class Odd:
        def __float__(self) -> float:
            raise RuntimeError("odd")

        def __repr__(self) -> str:
            raise RuntimeError("odd")

    with run(endpoint, labels=object(), gpus=float("nan"), team="vision") as found:
        found.progress(step="x", loss=float("nan"), quality={"a": object(), "b": Odd()})
        found.progress(quality=7)  # type: ignore[arg-type]  # training may pass anything
        found.checkpoint(step=object())
        found.scaled(object())  # type: ignore[arg-type]  # training may pass anything
        found.end(object(), object())  # type: ignore[arg-type]  # training may pass anything
    assert endpoint.types() == ["started", "checkpointed", "failed"]
    assert next(iter(endpoint.events.values()))["team"] == "vision"
    with trainfare.run(job_id=7, url=3, token=object(), heartbeat_s="x"):  # type: ignore[arg-type]  # as above
        pass


def test_without_a_thread_to_be_had_the_training_goes_on(
    endpoint: FakeEndpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refused)
    with trainfare.run("run-7", url=NOWHERE) as found:
        found.checkpoint()
    assert found.fault == "not started: RuntimeError"


def test_a_run_that_cannot_be_set_up_says_so() -> None:
    with trainfare.run("run-7", url=NOWHERE, heartbeat_s="x") as found:  # type: ignore[arg-type]  # training may pass anything
        found.checkpoint()
    assert found.fault == "not set up: ValueError"


def test_no_text_shows_the_token(endpoint: FakeEndpoint, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runs, "CLOSE_WITHIN_S", 0.3)
    secret = "s3cret\nline"
    with trainfare.run("run-7", url=endpoint.url, token=secret) as found:
        assert found._sender is not None
        found.checkpoint()
    assert found.fault == "ValueError"  # a line break is no part of a header
    shown = [repr(found), str(found), repr(found._sender), repr(found._sender._endpoint), found.fault]
    assert not [text for text in shown if "s3cret" in text]


# -- processes -----------------------------------------------------------------------------------------------


def test_a_forked_process_sends_nothing_and_ends(endpoint: FakeEndpoint) -> None:
    with run(endpoint) as found:
        child = os.fork()
        if not child:
            try:
                found.checkpoint()
                found.__exit__(None, None, None)
            finally:
                os._exit(0)
        _, status = os.waitpid(child, 0)
    assert status == 0
    assert endpoint.types() == ["started", "completed"]


WORKERS = """
import multiprocessing, os, signal, sys, trainfare

def worker(number):
    found.progress(step=number)
    found.checkpoint()
    if number == 2:
        os.kill(os.getpid(), signal.SIGTERM)  # as a DataLoader ends its workers
        signal.pause()
    return number

with trainfare.run('run-7', url=sys.argv[1], heartbeat_s=0.05) as found:
    children = [multiprocessing.get_context('fork').Process(target=worker, args=(n,)) for n in range(4)]
    for child in children: child.start()
    for child in children: child.join()
    print([child.exitcode for child in children], flush=True)
    grandchild = os.fork()
    if not grandchild:
        sys.exit(0)  # leaves the block, and runs what is registered for the exit
    os.waitpid(grandchild, 0)
"""


def test_workers_of_a_data_loader_are_no_runs(endpoint: FakeEndpoint, tmp_path: Path) -> None:
    found = ran(tmp_path, WORKERS, endpoint.url)
    assert (found.returncode, found.stdout.strip(), found.stderr) == (0, f"[0, 0, {-signal.SIGTERM}, 0]", "")
    assert [kind for kind in endpoint.types() if kind != "heartbeat"] == ["started", "completed"]


def test_a_child_may_have_a_run_of_its_own(endpoint: FakeEndpoint, tmp_path: Path) -> None:
    text = """
import os, sys, trainfare
with trainfare.run('parent', url=sys.argv[1]):
    child = os.fork()
    if not child:
        with trainfare.run('child', url=sys.argv[1]) as run:
            run.checkpoint()
        os._exit(0)
    os.waitpid(child, 0)
"""
    assert ran(tmp_path, text, endpoint.url).returncode == 0
    found = {(each["job_id"], each["type"]) for each in endpoint.events.values()}
    assert found == {
        ("parent", "started"),
        ("parent", "completed"),
        ("child", "started"),
        ("child", "checkpointed"),
        ("child", "completed"),
    }


TERMINATED = """
import signal, sys, time, trainfare
if len(sys.argv) > 2:
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(7))
with trainfare.run('run-7', url=sys.argv[1]) as run:
    run.progress(step=5)
    print('ready', flush=True)
    time.sleep(60)
"""


@pytest.mark.parametrize(
    ("args", "status", "end", "reason"),
    [((), -signal.SIGTERM, "preempted", "unknown"), (("handled",), 7, "failed", "user_error")],
)
def test_sigterm_ends_the_run_and_the_process_as_it_would(
    endpoint: FakeEndpoint, tmp_path: Path, args: tuple[str, ...], status: int, end: str, reason: str
) -> None:
    process = started(tmp_path, TERMINATED, endpoint.url, *args)
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    process.terminate()
    assert process.wait(30) == status
    last = list(endpoint.events.values())[-1]
    assert (last["type"], last["reason"], last["progress"]) == (end, reason, {"step": 5.0})


CHAINED = """
import signal, sys, time, trainfare
with trainfare.run('run-7', url=sys.argv[1]) as run:
    inner = signal.getsignal(signal.SIGTERM)
    def outer(*args):
        inner(*args)  # as Lightning calls what was there before
        print('outer', flush=True)
        stopped.append(1)
    stopped = []
    signal.signal(signal.SIGTERM, outer)
    print('ready', flush=True)
    while not stopped: time.sleep(0.01)
    run.checkpoint()
"""


def test_where_another_handler_calls_ours_the_training_ends_by_itself(
    endpoint: FakeEndpoint, tmp_path: Path
) -> None:
    process = started(tmp_path, CHAINED, endpoint.url)
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    process.terminate()
    assert process.communicate(timeout=30) == ("outer\n", "")
    assert process.returncode == 0
    assert endpoint.types() == ["started", "heartbeat", "checkpointed", "completed"]


def test_the_handler_is_gone_with_the_last_run(endpoint: FakeEndpoint) -> None:
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
    with run(endpoint):
        assert signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
    with run(endpoint, handle_sigterm=False):
        assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL


def test_a_process_that_is_killed_leaves_no_end_and_the_next_one_is_the_next_attempt(
    endpoint: FakeEndpoint, tmp_path: Path
) -> None:
    text = """
import os, signal, sys, time, trainfare
with trainfare.run('run-7', url=sys.argv[1], token='t') as run:
    run.checkpoint()
    while run._sender.sent < 2: time.sleep(0.01)
    if len(sys.argv) > 2: os.kill(os.getpid(), signal.SIGKILL)
"""
    assert ran(tmp_path, text, endpoint.url, "kill").returncode == -signal.SIGKILL
    assert ran(tmp_path, text, endpoint.url).returncode == 0
    found = [(each["attempt"], each["type"]) for each in endpoint.events.values()]
    assert found == [
        (1, "started"),
        (1, "checkpointed"),
        (2, "started"),
        (2, "checkpointed"),
        (2, "completed"),
    ]
