"""What a run sends, and that nothing that goes wrong reaches the training."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import trainfare
from trainfare import attempts
from trainfare.sender import EVENTS_WAITING, Sender

from tests.sdk.endpoint import Endpoint

SDK = Path(__file__).resolve().parents[2] / "sdk"


@pytest.fixture
def endpoint() -> Iterator[Endpoint]:
    with Endpoint().serving() as found:
        yield found


@pytest.fixture(autouse=True)
def alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No setting of whoever runs the tests counts."""
    for name in ("RANK", "SLURM_PROCID", "SLURM_JOB_ID", "SLURM_RESTART_COUNT", "TORCHELASTIC_RESTART_COUNT"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TRAINFARE_STATE_DIR", str(tmp_path / "state"))


def run(endpoint: Endpoint, job_id: str = "run-7", **fields: Any) -> trainfare.Run:
    return trainfare.run(job_id=job_id, url=endpoint.url, token="t", **fields)


def test_a_run_is_started_makes_progress_and_completes(endpoint: Endpoint) -> None:
    with run(endpoint, owner="ada", team="vision", gpus=8, gpu_type="H100", heartbeat_s=0.02) as found:
        found.progress(step=1, tokens=100, quality={"loss": 2.5})
        beaten = threading.Event()
        while not beaten.wait(0.01) and "heartbeat" not in endpoint.types():
            pass
        found.checkpoint(step=2)
    started, *_, checkpointed, completed = endpoint.events.values()
    assert (started["type"], started["gpu_count"], started["owner"]) == ("started", 8, "ada")
    assert (started["team"], started["gpu_type"], started["attempt"]) == ("vision", "H100", 1)
    assert checkpointed["type"] == "checkpointed"
    assert checkpointed["progress"] == {"step": 2.0, "tokens": 100.0}
    assert completed["type"] == "completed"
    assert completed["quality"] == {"loss": 2.5}
    assert endpoint.tokens == {"Bearer t"}
    assert (found.dropped, found.fault) == (0, "")


@pytest.mark.parametrize(
    ("fault", "end", "reason"),
    [
        (ValueError, "failed", "user_error"),
        (MemoryError, "failed", "out_of_memory"),
        (KeyboardInterrupt, "cancelled", None),
        (SystemExit, "failed", "user_error"),
    ],
)
def test_an_exception_ends_the_attempt_and_goes_on(
    endpoint: Endpoint, fault: type[BaseException], end: str, reason: str | None
) -> None:
    with pytest.raises(fault), run(endpoint):
        raise fault
    last = list(endpoint.events.values())[-1]
    assert (last["type"], last.get("reason")) == (end, reason)


def test_the_next_attempt_has_the_next_number(endpoint: Endpoint) -> None:
    for _ in range(2):
        with pytest.raises(ValueError, match="x"), run(endpoint):
            raise ValueError("x")
    for job_id in ("run-7", "run-8"):
        with run(endpoint, job_id):
            pass
    started = [
        (each["job_id"], each["attempt"]) for each in endpoint.events.values() if each["type"] == "started"
    ]
    assert started == [("run-7", 1), ("run-7", 2), ("run-7", 3), ("run-8", 1)]


@pytest.mark.parametrize(
    ("name", "value", "attempt"),
    [
        ("TRAINFARE_ATTEMPT", "7", 7),
        ("SLURM_RESTART_COUNT", "2", 3),
        ("TORCHELASTIC_RESTART_COUNT", "0", 1),
        ("TRAINFARE_ATTEMPT", "many", 1),
    ],
)
def test_a_launcher_knows_the_attempt(
    monkeypatch: pytest.MonkeyPatch, name: str, value: str, attempt: int
) -> None:
    monkeypatch.setenv(name, value)
    assert attempts.next_attempt("run-7") == attempt


def test_of_many_ranks_the_first_speaks(endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RANK", "3")
    with run(endpoint) as found:
        found.checkpoint()
    assert not endpoint.events


# -- faults --------------------------------------------------------------------------------------------------


def test_a_meter_that_is_away_for_a_while_gets_everything_in_order(endpoint: Endpoint) -> None:
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
    with trainfare.run(job_id="run-7", url="http://127.0.0.1:9", token="t") as found:
        for _ in range(3 * EVENTS_WAITING):
            found.checkpoint()
    assert found.dropped >= 2 * EVENTS_WAITING
    assert found.fault


def test_what_the_meter_refuses_is_counted_and_not_sent_again(endpoint: Endpoint) -> None:
    with run(endpoint, team="x" * 10_000) as found:
        pass
    assert endpoint.types() == ["completed"]
    assert found._sender is not None
    assert found._sender.refused == 1


@pytest.mark.parametrize("status", [301, 400, 401, 403, 413])
def test_an_answer_that_stays_the_same_ends_the_attempts(endpoint: Endpoint, status: int) -> None:
    endpoint.status = status
    with run(endpoint) as found:
        pass
    assert found.fault == f"answered {status}"
    assert endpoint.requests <= 2


def test_what_training_passes_never_raises(endpoint: Endpoint) -> None:
    with run(endpoint, labels=object(), gpus=float("nan")) as found:
        found.progress(step="x", loss=float("nan"), quality={"a": object()})  # type: ignore[arg-type,dict-item]  # training may pass anything
        found.progress(quality=7)  # type: ignore[arg-type]  # training may pass anything
        found.checkpoint(step=object())  # type: ignore[arg-type]  # training may pass anything
        found.scaled(object())  # type: ignore[arg-type]  # training may pass anything
    with trainfare.run(job_id=7, url=3, token=object()):  # type: ignore[arg-type]  # training may pass anything
        pass


def test_a_directory_that_cannot_be_written_means_the_first_attempt(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("TRAINFARE_STATE_DIR", str(tmp_path / "file" / "folder"))
    assert attempts.next_attempt("run-7") == 1


def test_a_forked_process_sends_nothing_and_ends(endpoint: Endpoint) -> None:
    with run(endpoint) as found:
        child = os.fork()
        if not child:
            found.checkpoint()
            found.__exit__(None, None, None)
            os._exit(0)
        _, status = os.waitpid(child, 0)
    assert status == 0
    assert endpoint.types() == ["started", "completed"]


def test_a_process_that_is_killed_leaves_no_end_and_the_next_one_is_the_next_attempt(
    endpoint: Endpoint, tmp_path: Path
) -> None:
    script = tmp_path / "train.py"
    script.write_text(
        "import os, signal, sys, time, trainfare\n"
        f"with trainfare.run(job_id='run-7', url='{endpoint.url}', token='t') as run:\n"
        "    run.checkpoint()\n"
        "    while run._sender.sent < 2: time.sleep(0.01)\n"
        "    if len(sys.argv) > 1: os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    env = {**os.environ, "PYTHONPATH": str(SDK)}
    killed = subprocess.run([sys.executable, script, "kill"], env=env)
    assert killed.returncode == -signal.SIGKILL
    assert subprocess.run([sys.executable, script], env=env).returncode == 0
    found = [(each["attempt"], each["type"]) for each in endpoint.events.values()]
    assert found == [
        (1, "started"),
        (1, "checkpointed"),
        (2, "started"),
        (2, "checkpointed"),
        (2, "completed"),
    ]


def test_heartbeats_make_room_for_what_cannot_be_repeated() -> None:
    sender = Sender("http://127.0.0.1:9", "")  # not started: nothing leaves
    for number in range(EVENTS_WAITING):
        sender.put("jobs", {"id": number})
    sender.put("jobs", {"id": "beat"}, is_dispensable=True)
    sender.put("jobs", {"id": "end"})
    ids = [event["value"]["id"] for event in sender._waiting]
    assert (len(ids), ids[0], ids[-1]) == (EVENTS_WAITING, 1, "end")
    assert sender.dropped == 2
