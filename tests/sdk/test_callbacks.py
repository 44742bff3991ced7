"""Callbacks, each called as its trainer calls it: the hooks, their order and arguments are those of the real packages."""

from __future__ import annotations

import copy
import pickle
import subprocess
import sys
from collections.abc import Callable
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from trainfare import callbacks, runs
from trainfare.callbacks import HuggingFaceCallback, KerasCallback, LightningCallback, base, lightning
from trainfare.callbacks.base import MeteredCallback

from tests.sdk.endpoint import FakeEndpoint
from tests.sdk.scripts import SDK


def last(endpoint: FakeEndpoint) -> dict[str, Any]:
    return list(endpoint.events.values())[-1]


# -- transformers.Trainer ------------------------------------------------------------------------------------


class HuggingFace:
    """`CallbackHandler.call_event`: everything but args, state and control by keyword."""

    def __init__(self, callback: Any, *, is_zero: bool = True) -> None:
        self.callback = callback
        self.state = SimpleNamespace(
            global_step=0, epoch=0.0, is_world_process_zero=is_zero, num_input_tokens_seen=0
        )

    def call(self, event: str, **named: Any) -> None:
        shared = {"model": object(), "optimizer": None, "lr_scheduler": None, "train_dataloader": None}
        getattr(self.callback, event)(SimpleNamespace(), self.state, SimpleNamespace(), **shared, **named)

    def train(self, steps: int, *, fault: BaseException | None = None) -> None:
        self.call("on_init_end")
        self.call("on_train_begin")
        self.call("on_epoch_begin")
        for step in range(1, steps + 1):
            self.call("on_step_begin")
            self.call("on_pre_optimizer_step")
            if fault is not None:
                raise fault
            self.state.global_step, self.state.epoch, self.state.num_input_tokens_seen = (
                step,
                step / steps,
                100 * step,
            )
            self.call("on_step_end")
            self.call(
                "on_log",
                logs={
                    "loss": 1.0 / step,
                    "grad_norm": 3.0,
                    "learning_rate": 1e-5,
                    "epoch": 0.5,
                    "num_input_tokens_seen": 512 * step,
                },
            )
            if step == 2:
                self.call("on_evaluate", metrics={"eval_loss": 0.5, "eval_runtime": 0.1})
                self.call("on_save")
        self.call("on_epoch_end")
        self.call("on_train_end")


def test_a_hugging_face_training_is_a_run(endpoint: FakeEndpoint) -> None:
    HuggingFace(HuggingFaceCallback(job_id="run-7", url=endpoint.url, gpus=8)).train(4)
    assert endpoint.types() == ["started", "checkpointed", "completed"]
    started, checkpointed, completed = endpoint.events.values()
    assert started["gpu_count"] == 8
    assert checkpointed["progress"] == {"step": 2.0, "epoch": 0.5, "tokens": 200.0}
    assert completed["progress"] == {"step": 4.0, "epoch": 1.0, "tokens": 400.0}
    assert completed["quality"] == {"loss": 0.25, "eval_loss": 0.5}


def test_other_ranks_of_a_hugging_face_training_send_nothing(endpoint: FakeEndpoint) -> None:
    HuggingFace(HuggingFaceCallback(job_id="run-7", url=endpoint.url), is_zero=False).train(4)
    assert endpoint.events == {}


def test_a_second_training_ends_the_first_as_failed(endpoint: FakeEndpoint) -> None:
    callback = HuggingFaceCallback(job_id="run-7", url=endpoint.url)
    with pytest.raises(ValueError, match="nan"):
        HuggingFace(callback).train(4, fault=ValueError("nan"))
    HuggingFace(callback).train(1)
    found = [(each["attempt"], each["type"]) for each in endpoint.events.values()]
    assert found == [(1, "started"), (1, "failed"), (2, "started"), (2, "completed")]


# -- PyTorch Lightning ---------------------------------------------------------------------------------------


class Lightning:
    """`_call_callback_hooks`: trainer and module first, the rest by place."""

    def __init__(
        self, callback: Any, *, is_zero: bool = True, now_ms: Callable[[], None] | None = None
    ) -> None:
        self.callback = callback
        self.is_global_zero = is_zero
        self.global_step = 0
        self.current_epoch = 0
        self.sanity_checking = False
        self.callback_metrics: dict[str, Any] = {}
        self._wait = now_ms or (lambda: None)

    def call(self, hook: str, *args: Any) -> None:
        getattr(self.callback, hook)(self, object(), *args)

    def fit(self, steps: int, *, fault: BaseException | None = None) -> None:
        try:
            self.callback.setup(self, object(), stage="fit")
            self.call("on_fit_start")
            self.sanity_checking = True
            self.callback_metrics = {"val_loss": 9.0}
            for hook in (
                "on_sanity_check_start",
                "on_validation_start",
                "on_validation_end",
                "on_sanity_check_end",
            ):
                self.call(hook)
            self.sanity_checking, self.callback_metrics = False, {}
            self.call("on_train_start")
            self.call("on_train_epoch_start")
            for step in range(1, steps + 1):
                self.call("on_train_batch_start", object(), step - 1)
                if fault is not None and step == 3:
                    raise fault
                self.global_step = step
                self.call("on_train_batch_end", object(), object(), step - 1)
                if step == 2:
                    assert self.callback.state_dict() == {}
                    self.call("on_save_checkpoint", {"state_dict": {}})
                    self._wait()
            self.callback_metrics = {"val_loss": 0.25, "name": "x"}
            self.call("on_validation_end")
            self.call("on_train_epoch_end")
            self.call("on_train_end")
            self.call("on_fit_end")
        except BaseException as caught:
            self.call("on_exception", caught)
            self.callback.teardown(self, object(), stage="fit")
            raise
        self.callback.teardown(self, object(), stage="fit")


def test_a_lightning_training_is_a_run(endpoint: FakeEndpoint) -> None:
    callback = LightningCallback(job_id="run-7", url=endpoint.url, gpus=8)
    Lightning(callback).fit(4)
    assert endpoint.types() == ["started", "checkpointed", "completed"]
    started, checkpointed, completed = endpoint.events.values()
    assert (started["gpu_count"], checkpointed["progress"]) == (8, {"step": 2.0})
    assert (completed["progress"], completed["quality"]) == ({"step": 4.0, "epoch": 0.0}, {"val_loss": 0.25})
    assert callback.state_key == "trainfare"


def test_a_lightning_checkpoint_has_the_time_of_what_is_in_it(
    endpoint: FakeEndpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    instants_ms = iter([1_700_000_000_123])
    monkeypatch.setattr(lightning, "time", SimpleNamespace(time_ns=lambda: next(instants_ms) * 1_000_000))
    Lightning(LightningCallback(job_id="run-7", url=endpoint.url)).fit(4)
    assert list(endpoint.events.values())[1]["time_ms"] == 1_700_000_000_123


@pytest.mark.parametrize(
    ("fault", "end"),
    [(ValueError("x"), "failed"), (KeyboardInterrupt(), "cancelled")],
    ids=["failed", "cancelled"],
)
def test_an_exception_in_lightning_ends_the_run(
    endpoint: FakeEndpoint, fault: BaseException, end: str
) -> None:
    with pytest.raises(type(fault)):
        Lightning(LightningCallback(job_id="run-7", url=endpoint.url)).fit(4, fault=fault)
    assert endpoint.types() == ["started", "checkpointed", end]


def test_other_ranks_of_a_lightning_training_send_nothing(endpoint: FakeEndpoint) -> None:
    Lightning(LightningCallback(job_id="run-7", url=endpoint.url), is_zero=False).fit(4)
    assert endpoint.events == {}


# -- Keras ---------------------------------------------------------------------------------------------------


class Keras:
    """`CallbackList`: a hook with its number and logs."""

    def __init__(self, callback: Any) -> None:
        self.callback = callback

    def fit(self, epochs: int, batches: int) -> None:
        self.callback.set_params({"verbose": 0, "epochs": epochs, "steps": batches})
        self.callback.on_train_begin(None)
        for epoch in range(epochs):
            self.callback.on_epoch_begin(epoch, None)
            for batch in range(batches):
                self.callback.on_train_batch_begin(batch, None)
                self.callback.on_train_batch_end(batch, {"loss": object()})
            self.callback.on_epoch_end(epoch, {"loss": 0.5, "val_loss": 1.0 / (epoch + 1)})
        self.callback.on_train_end({"loss": 0.5})


def test_a_keras_training_is_a_run(endpoint: FakeEndpoint) -> None:
    Keras(KerasCallback(job_id="run-7", url=endpoint.url, gpus=1, saves_each_epoch=True)).fit(2, 3)
    assert endpoint.types() == ["started", "checkpointed", "checkpointed", "completed"]
    completed = last(endpoint)
    assert completed["progress"] == {"step": 6.0, "epoch": 2.0}
    assert completed["quality"] == {"loss": 0.5, "val_loss": 0.5}


def test_keras_saves_when_it_is_told_so(endpoint: FakeEndpoint) -> None:
    Keras(KerasCallback(job_id="run-7", url=endpoint.url)).fit(2, 1)
    assert endpoint.types() == ["started", "completed"]


# -- all -----------------------------------------------------------------------------------------------------

ALL = [HuggingFaceCallback, LightningCallback, KerasCallback]


@pytest.mark.parametrize("kind", ALL)
def test_it_is_one_of_the_trainer_s_callbacks_where_the_trainer_is_loaded(
    monkeypatch: pytest.MonkeyPatch, kind: type[MeteredCallback]
) -> None:
    class Callback:
        def __init__(self) -> None:
            self.is_made = True

        def on_something(self) -> str:
            return "theirs"

    for module, name in kind.BASES:
        with monkeypatch.context() as patch:
            loaded: Any = ModuleType(module)
            setattr(loaded, name, Callback)
            patch.setitem(sys.modules, module, loaded)
            found: Any = kind(job_id="run-7")
            assert isinstance(found, Callback)
            assert isinstance(found, kind)
            assert (found.is_made, found.on_something()) == (True, "theirs")
            assert not hasattr(found, "on_init_start")  # Lightning refuses those of old versions
            again = pickle.loads(pickle.dumps(found))
            assert isinstance(again, kind)
            assert isinstance(again, Callback)
    assert not isinstance(kind(), Callback)


def test_another_rank_has_a_run_that_does_not_report(endpoint: FakeEndpoint) -> None:
    callback = HuggingFaceCallback(job_id="run-7", url=endpoint.url)
    trainer = HuggingFace(callback, is_zero=False)
    trainer.call("on_train_begin")
    assert callback.run is not None
    assert (callback.run._is_main_process, callback.run._heartbeats._beat) == (False, None)
    trainer.call("on_train_end")
    assert endpoint.events == {}


@pytest.mark.parametrize("kind", ALL)
def test_a_copy_has_the_options_and_no_run(endpoint: FakeEndpoint, kind: type[MeteredCallback]) -> None:
    options: dict[str, Any] = {"job_id": "run-7", "url": endpoint.url}
    callback = kind(**options, **({"saves_each_epoch": True} if kind is KerasCallback else {}))
    if isinstance(callback, HuggingFaceCallback):
        callback.on_train_begin(None, SimpleNamespace(is_world_process_zero=True), None)
    again = copy.deepcopy(callback)
    assert (again.run, again._options) == (None, options)
    assert again._copied() == callback._copied()
    if callback.run is not None:
        callback.run.end()
    with pytest.raises(AttributeError):
        _ = again.nothing


@pytest.mark.parametrize("kind", ALL)
def test_no_hook_raises_whatever_it_is_called_with(
    endpoint: FakeEndpoint, kind: type[MeteredCallback]
) -> None:
    callback: Any = kind(job_id="run-7", url=endpoint.url)
    hooks = [name for name in dir(kind) if name.startswith("on_") or name in ("setup", "teardown")]
    assert len(hooks) > 3
    for hook in [*hooks, "on_whatever_comes_next"]:
        getattr(callback, hook)()
        getattr(callback, hook)(None, None, None, None)
    if callback.run is not None:
        callback.run.end()


def test_importing_them_imports_no_trainer() -> None:
    assert callbacks.__all__ == sorted(kind.__name__ for kind in ALL)
    text = "import sys, trainfare.callbacks\nprint(sorted({'torch', 'lightning', 'transformers', 'keras', 'numpy'} & set(sys.modules)))"
    shown = subprocess.run(
        [sys.executable, "-c", text], env={"PYTHONPATH": str(SDK)}, capture_output=True, text=True
    )
    assert shown.stdout == "[]\n"


# -- How long checkpoints take -------------------------------------------------------------------------------


class _Clock:
    """Moves on only where a test says so."""

    def __init__(self) -> None:
        self.ms = 1_000

    def monotonic_ns(self) -> int:
        return self.ms * 1_000_000

    def write(self) -> None:
        self.ms += 4_200


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> _Clock:
    made = _Clock()
    for module in (base, runs):
        monkeypatch.setattr(module, "time", made)
    return made


def durations(endpoint: FakeEndpoint) -> list[int | None]:
    saves = (each for each in endpoint.events.values() if each["type"] == "checkpointed")
    return [each.get("duration_ms") for each in saves]


def test_a_hugging_face_save_takes_from_the_hook_before_it(endpoint: FakeEndpoint, clock: _Clock) -> None:
    class Saving(HuggingFace):
        def call(self, event: str, **named: Any) -> None:
            if event == "on_save":
                clock.write()
            super().call(event, **named)

    Saving(HuggingFaceCallback(job_id="run-7", url=endpoint.url, gpus=8)).train(4)
    assert durations(endpoint) == [4_200]


def test_a_lightning_save_takes_until_the_hook_after_it(endpoint: FakeEndpoint, clock: _Clock) -> None:
    callback = LightningCallback(job_id="run-7", url=endpoint.url, gpus=8)
    Lightning(callback, now_ms=clock.write).fit(4)
    assert durations(endpoint) == [4_200]


def test_a_keras_save_takes_from_the_validation_before_it(endpoint: FakeEndpoint, clock: _Clock) -> None:
    callback = KerasCallback(job_id="run-7", url=endpoint.url, gpus=1, saves_each_epoch=True)
    callback.on_train_begin(None)
    callback.on_train_batch_end(0, {})
    clock.ms += 60_000  # a validation
    callback.on_test_end({})
    clock.write()
    callback.on_epoch_end(0, {})
    callback.on_train_end({})
    assert durations(endpoint) == [4_200]
