"""What a run sends: its lifecycle, progress, checkpoints, and how it ends."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import trainfare
from trainfare import runs

from tests.sdk.endpoint import FakeEndpoint
from tests.sdk.scripts import ran


def run(endpoint: FakeEndpoint, job_id: str | None = "run-7", **fields: Any) -> trainfare.Run:
    return trainfare.run(job_id, url=endpoint.url, token="t", **fields)


def test_a_run_is_started_makes_progress_and_completes(endpoint: FakeEndpoint) -> None:
    with run(endpoint, owner="ada", team="vision", gpus=8, gpu_type="H100", heartbeat_s=0.02) as found:
        found.progress(step=1, tokens=100, quality={"loss": 2.5})
        beaten = threading.Event()
        while not beaten.wait(0.01) and "heartbeat" not in endpoint.types():
            pass
        found.checkpoint(step=2)
    # Heartbeats go on, of which one may come between any two others.
    started, checkpointed, completed = (
        event for event in endpoint.events.values() if event["type"] != "heartbeat"
    )
    assert (started["type"], started["gpu_count"], started["owner"]) == ("started", 8, "ada")
    assert (started["team"], started["gpu_type"], started["attempt"]) == ("vision", "H100", 1)
    assert checkpointed["type"] == "checkpointed"
    assert checkpointed["progress"] == {"step": 2.0, "tokens": 100.0}
    assert completed["type"] == "completed"
    assert completed["quality"] == {"loss": 2.5}
    assert endpoint.tokens == {"Bearer t"}
    assert (found.dropped, found.refused, found.fault) == (0, 0, "")


class AcceleratorError(RuntimeError):
    """As PyTorch calls errors of CUDA, of a kernel or of the device."""


class OutOfMemoryError(RuntimeError):
    """As PyTorch's."""


class SIGTERMException(SystemExit):
    """As Lightning's."""


@pytest.mark.parametrize(
    ("fault", "end", "reason", "name"),
    [
        (ValueError("x"), "failed", "user_error", "ValueError"),
        (MemoryError(), "failed", "out_of_memory", "MemoryError"),
        (OutOfMemoryError(), "failed", "out_of_memory", f"{__name__}.OutOfMemoryError"),
        (AcceleratorError(), "failed", "unknown", f"{__name__}.AcceleratorError"),
        (KeyboardInterrupt(), "cancelled", None, None),
        (SystemExit(), "completed", None, None),
        (SystemExit(0), "completed", None, None),
        (SystemExit(3), "failed", "user_error", "SystemExit"),
        (SystemExit("no data"), "failed", "user_error", "SystemExit"),
        (SIGTERMException(), "preempted", "unknown", None),
    ],
    ids=repr,
)
def test_an_exception_ends_the_attempt_and_goes_on(
    endpoint: FakeEndpoint, fault: BaseException, end: str, reason: str | None, name: str | None
) -> None:
    with pytest.raises(type(fault)), run(endpoint):
        raise fault
    last = list(endpoint.events.values())[-1]
    assert (last["type"], last.get("reason"), last.get("exception")) == (end, reason, name)


def test_the_text_of_an_exception_is_not_sent(endpoint: FakeEndpoint) -> None:
    with pytest.raises(ValueError, match="hunter2"), run(endpoint):
        raise ValueError("password hunter2")
    assert "hunter2" not in str(endpoint.events)


def test_a_run_may_be_started_and_ended_without_a_block(endpoint: FakeEndpoint) -> None:
    for kind, reason, wanted in [
        ("completed", None, ("completed", None)),
        ("preempted", "spot_reclaim", ("preempted", "spot_reclaim")),
        ("exploded", "because", ("failed", None)),
    ]:
        found = run(endpoint).start()
        found.end(kind, reason)
        found.end("cancelled")  # the first end counts
        last = list(endpoint.events.values())[-1]
        assert (last["type"], last.get("reason")) == wanted


def test_scaled_and_numbers_of_numpy(endpoint: FakeEndpoint) -> None:
    numpy = pytest.importorskip("numpy")
    with run(endpoint, gpus=numpy.int64(8)) as found:
        found.scaled(numpy.float32(4.5), nodes={"a": 4.5})
        found.progress(step=numpy.int64(3), quality={"loss": numpy.float32(0.5)})
    started, scaled, completed = endpoint.events.values()
    assert (started["gpu_count"], scaled["gpu_count"], scaled["nodes"]) == (8, 4.5, {"a": 4.5})
    assert (completed["progress"], completed["quality"]) == ({"step": 3.0}, {"loss": 0.5})


def test_a_tensor_is_kept_without_what_it_was_computed_from(endpoint: FakeEndpoint) -> None:
    class Tensor:
        def __init__(self, has_graph: bool) -> None:
            self.has_graph = has_graph

        def detach(self) -> Tensor:
            return Tensor(False)

        def __float__(self) -> float:
            return 0.25

    with run(endpoint) as found:
        found.progress(quality={"loss": Tensor(True)})
        assert [each.has_graph for each in found._quality.values()] == [False]
    assert list(endpoint.events.values())[-1]["quality"] == {"loss": 0.25}


def test_names_of_progress_do_not_pile_up(endpoint: FakeEndpoint) -> None:
    with run(endpoint) as found:
        for step in range(1000):
            found.progress(quality={f"loss_{step}": 1.0}, **{f"step_{step}": step})
        found.checkpoint()  # as a heartbeat does
        assert len(found._progress) <= 64
        assert len(found._quality) <= 64
    assert endpoint.types() == ["started", "checkpointed", "completed"]
    assert len(list(endpoint.events.values())[-1]["progress"]) == 64


def test_a_run_of_an_unknown_number_of_gpus_says_that_none_is_charged(
    endpoint: FakeEndpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    with run(endpoint) as found:
        pass
    assert "gpu_count" not in next(iter(endpoint.events.values()))
    assert "pass gpus=" in found.fault
    with run(endpoint) as found:
        found.scaled(8)
    assert found.fault == ""
    known: tuple[dict[str, Any], ...] = (
        {"gpus": 0},
        {"nodes": {"a": 8}},
        {"instance_count": 1},
        {"lifecycle": False},
        {"is_main_process": False},
    )
    for fields in known:
        with run(endpoint, **fields) as found:
            pass
        assert (found.fault, found.refused) == ("", 0)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0,1")
    with run(endpoint, samples=False) as found:
        pass
    assert found.fault == ""


def test_where_a_collector_has_the_lifecycle_only_the_rest_is_sent(endpoint: FakeEndpoint) -> None:
    with run(endpoint, lifecycle=False) as found:
        found.scaled(3)
        found.checkpoint(step=1)
        found.progress(step=2)
    assert endpoint.types() == ["checkpointed", "heartbeat"]
    assert {each["attempt"] for each in endpoint.events.values()} == {1}


def test_restarts_within_a_job_are_no_attempts_of_the_collector_s(
    endpoint: FakeEndpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TORCHELASTIC_RESTART_COUNT", "3")
    assert run(endpoint, lifecycle=False).attempt == 1
    monkeypatch.setenv("SLURM_RESTART_COUNT", "1")
    assert run(endpoint, lifecycle=False).attempt == 2
    assert run(endpoint).attempt == 4


# -- the decorator -------------------------------------------------------------------------------------------


def test_a_decorated_function_is_a_run_at_each_call(endpoint: FakeEndpoint) -> None:
    @trainfare.metered(job_id="run-7", url=endpoint.url)
    def train(steps: int, run: trainfare.Run) -> int:
        """Train."""
        run.progress(step=steps)
        return steps + 1

    assert (train.__name__, train.__doc__) == ("train", "Train.")
    assert [train(1), train(steps=2)] == [2, 3]
    assert endpoint.types() == ["started", "completed"] * 2
    assert [each["attempt"] for each in endpoint.events.values()] == [1, 1, 2, 2]


def test_a_decorator_without_brackets_and_of_a_coroutine(
    endpoint: FakeEndpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRAINFARE_URL", endpoint.url)
    monkeypatch.setenv("TRAINFARE_JOB_ID", "run-7")

    @trainfare.metered
    async def train() -> int:
        await asyncio.sleep(0)
        raise ValueError("x")

    with pytest.raises(ValueError, match="x"):
        asyncio.run(train())
    assert endpoint.types() == ["started", "failed"]


# -- the end of the process ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("tail", "end", "reason"),
    [
        ("", "completed", None),
        ("raise RuntimeError('x')", "failed", "user_error"),
        ("raise KeyboardInterrupt", "cancelled", None),
    ],
)
def test_what_is_not_ended_ends_with_the_script(
    endpoint: FakeEndpoint, tmp_path: Path, tail: str, end: str, reason: str | None
) -> None:
    ran(tmp_path, f"import trainfare\ntrainfare.run('run-7', url='{endpoint.url}').start()\n{tail}\n")
    last = list(endpoint.events.values())[-1]
    assert (last["type"], last.get("reason")) == (end, reason)


def test_a_checkpoint_says_how_long_it_took(endpoint: FakeEndpoint, monkeypatch: pytest.MonkeyPatch) -> None:
    instants_ns = iter([0, 4_200_400_000])
    monkeypatch.setattr(runs, "time", SimpleNamespace(monotonic_ns=lambda: next(instants_ns)))
    with run(endpoint, gpus=8) as found:
        with found.saving(step=7):
            pass
        for took_ms in (1500.4, -1, 86_400_001, float("nan"), "long"):
            found.checkpoint(duration_ms=took_ms)  # type: ignore[arg-type]  # training may pass anything
    saves = [event for event in endpoint.events.values() if event["type"] == "checkpointed"]
    assert [save.get("duration_ms") for save in saves] == [4200, 1500, None, None, None, None]
    assert saves[0]["progress"] == {"step": 7.0}
    assert (found.refused, found.fault) == (0, "")


def test_a_save_that_fails_is_no_checkpoint(endpoint: FakeEndpoint) -> None:
    with pytest.raises(OSError, match="full"), run(endpoint, gpus=8) as found, found.saving():
        raise OSError("the disk is full")
    assert endpoint.types() == ["started", "failed"]
