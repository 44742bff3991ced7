"""Samples of this process's GPUs, against a library made from C with the driver's own signatures and structures."""

from __future__ import annotations

import os
import shutil
import subprocess
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import pytest
import trainfare
from trainfare import attempts, heartbeats, nvml
from trainfare.gpus import Gpus, parent_of
from trainfare.nvml import Nvml

from tests.sdk.endpoint import FakeEndpoint

PID = 4_242
pytestmark = pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler")


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("nvml") / "libnvidia-ml.so.1"
    source = Path(__file__).with_name("fake_nvml.c")
    subprocess.run(["cc", "-shared", "-fPIC", "-Wall", "-Werror", "-o", str(path), str(source)], check=True)
    return str(path)


@pytest.fixture
def drive(tmp_path: Path) -> Callable[..., None]:
    """Set what GPU 0 does. The C library reads the environment of the process, not Python's copy of it."""
    path = tmp_path / "gpu-0"
    os.environ["FAKE_NVML"] = str(path)

    def write(
        busy: int = 40, power_w: int = 300, memory_mib: int = 1_024, pid: int = PID, now_us: int = 0
    ) -> None:
        path.write_text(f"{busy} {power_w} {memory_mib} {pid} {now_us}")

    write()
    return write


def gpus(library: str, parents: dict[int, int] | None = None, **environ: str) -> Gpus:
    return Gpus(Nvml(library), environ, PID, lambda pid: (parents or {}).get(pid, 0))


def looked(found: Gpus) -> dict[str, list[Any]]:
    """The second look: the first begins the interval."""
    found.look()
    return found.look()


def test_a_look_is_the_mean_since_the_last_one(library: str, drive: Callable[..., None]) -> None:
    found = gpus(library, CUDA_VISIBLE_DEVICES="0")
    found.look()
    drive(busy=80, power_w=650, memory_mib=70_000)
    assert found.look() == {
        "gpus": ["0"],
        "util_ratio": [0.8],
        "memory_used_mib": [70_000.0],
        "power_w": [650.0],
    }


def test_readings_that_the_driver_forgets_until_the_look_are_gathered(
    library: str, drive: Callable[..., None]
) -> None:
    found = gpus(library, CUDA_VISIBLE_DEVICES="0,2")
    found.look()
    drive(busy=80)
    found.gather()
    drive(busy=20)
    assert found.look()["util_ratio"] == [0.5, 0.0]
    assert found.look()["util_ratio"] == [0.2, 0.0]


@pytest.mark.parametrize(
    ("uses", "environ", "ratio"),
    [
        (f"{PID}:30,9:10", {}, 0.3),
        (f"{PID}:15,7:15,9:10", {}, 0.3),
        ("9:10", {}, 0.0),
        (f"{PID}:30", {}, 0.4),
        ("", {}, 0.4),
        (f"{PID}:4294967295,9:10", {}, 0.0),
        (f"{PID}:30,9:10", {"NVIDIA_VISIBLE_DEVICES": "all"}, 0.4),
    ],
)
def test_of_a_gpu_that_others_share_this_process_used_its_part(
    library: str,
    drive: Callable[..., None],
    monkeypatch: pytest.MonkeyPatch,
    uses: str,
    environ: dict[str, str],
    ratio: float,
) -> None:
    if uses:
        monkeypatch.setenv("FAKE_NVML_USES", uses)
    found = gpus(library, {7: PID}, CUDA_VISIBLE_DEVICES="0", **environ)
    assert looked(found)["util_ratio"] == [ratio]


def test_a_gpu_that_keeps_more_readings_than_another_is_asked_how_many(
    library: str, drive: Callable[..., None]
) -> None:
    found = gpus(library, CUDA_VISIBLE_DEVICES="0")
    found.look()
    os.environ["FAKE_NVML_KEEPS"] = "200"
    try:
        assert found.look()["util_ratio"] == [0.4]
    finally:
        del os.environ["FAKE_NVML_KEEPS"]


def test_memory_that_an_old_driver_reserves_is_not_told_apart(
    library: str, drive: Callable[..., None]
) -> None:
    found = gpus(library, CUDA_VISIBLE_DEVICES="0")
    assert found.look()["memory_used_mib"] == [1_024.0]
    os.environ["FAKE_NVML_OLD"] = "1"
    try:
        assert found.look()["memory_used_mib"] == [1_639.0]
    finally:
        del os.environ["FAKE_NVML_OLD"]


def test_a_gpu_that_the_process_took_since_the_last_look_has_its_use_since_then(
    library: str, drive: Callable[..., None]
) -> None:
    nows_us = iter([100_000_000, 115_000_000, 130_000_000, 145_000_000])
    found = Gpus(Nvml(library), {}, PID, lambda _: 0, lambda: next(nows_us))
    drive(pid=1, now_us=100_000_000)
    assert found.look() == {}
    drive(busy=40, now_us=115_000_000)
    assert found.look()["util_ratio"] == [0.4]
    drive(busy=90, pid=1, now_us=130_000_000)  # another process has it for a while
    assert found.look() == {}
    drive(busy=20, now_us=145_000_000)
    assert found.look()["util_ratio"] == [0.2]


def test_where_the_driver_keeps_no_readings_the_last_one_counts(
    library: str, drive: Callable[..., None]
) -> None:
    assert looked(gpus(library, CUDA_VISIBLE_DEVICES="2")) == {
        "gpus": ["2"],
        "util_ratio": [0.0],
        "memory_used_mib": [0.0],
        "power_w": [60.5],
    }


def test_readings_that_no_gpu_has_are_none(library: str, drive: Callable[..., None]) -> None:
    driver = Nvml(library)
    device = next(device for index, device in nvml.indexes(driver) if index == 0)
    drive(busy=40)
    assert set(driver.readings_since(device, 0)[0]) == {0.3, 0.5}
    drive(busy=184_320)
    assert driver.readings_since(device, 0)[0] == []


@pytest.mark.parametrize(
    ("visible", "names"),
    [
        ("0", ["0"]),
        ("2,0", ["2", "0"]),
        (" 2 , 0 ", ["2", "0"]),
        ("", []),
        ("-1", []),
        ("NoDevFiles", []),
        ("0,-1,2", ["0"]),  # as CUDA does: nothing after what is none
        ("0,9,2", ["0"]),
        ("0,3,2", ["0"]),  # a GPU of another user
        ("0,0", ["0"]),
        ("GPU-aaaa2222-0000-0000-0000-000000000000", ["2"]),
        ("GPU-aaaa2", ["2"]),
        ("GPU-aaaa", []),  # of two GPUs
        ("1", ["1.1"]),  # the first MIG device
        ("MIG-22222222-0000-0000-0000-000000000000", ["1.2"]),
        ("MIG-33333333-0000-0000-0000-000000000000", []),
    ],
)
def test_only_visible_gpus_are_sampled(
    library: str, drive: Callable[..., None], visible: str, names: list[str]
) -> None:
    assert looked(gpus(library, CUDA_VISIBLE_DEVICES=visible)).get("gpus", []) == names


def test_mig_instances_have_their_own_utilization(library: str, drive: Callable[..., None]) -> None:
    visible = "MIG-11111111-0000-0000-0000-000000000000,MIG-22222222-0000-0000-0000-000000000000"
    found = gpus(library, CUDA_VISIBLE_DEVICES=visible)
    for _ in range(3):
        columns = looked(found)
        # Their power is not known, and so that of the whole event is left out.
        assert columns == {
            "gpus": ["1.1", "1.2"],
            "util_ratio": [0.25, 0.5],
            "memory_used_mib": [512.0, 512.0],
        }


def test_mig_instances_of_a_gpu_without_such_counters_are_not_sampled(
    library: str, drive: Callable[..., None]
) -> None:
    os.environ["FAKE_NVML_OLD"] = "1"
    try:
        assert looked(gpus(library, CUDA_VISIBLE_DEVICES="0,1"))["gpus"] == ["0"]
    finally:
        del os.environ["FAKE_NVML_OLD"]


def test_without_a_list_gpus_on_which_this_process_or_a_child_computes(
    library: str, drive: Callable[..., None]
) -> None:
    found = gpus(library, {7: 5, 5: PID, PID: 1, 8: 1})
    for pid, names in [(PID, ["0"]), (7, ["0"]), (8, []), (1, []), (0, [])]:
        drive(pid=pid)
        assert found.look().get("gpus", []) == names


def test_in_a_container_all_that_it_sees(library: str, drive: Callable[..., None]) -> None:
    drive(pid=1)
    assert looked(gpus(library, NVIDIA_VISIBLE_DEVICES="all"))["gpus"] == ["0", "1.1", "1.2", "2"]
    assert looked(gpus(library, NVIDIA_VISIBLE_DEVICES="void")) == {}


def test_the_parent_of_this_process_is_known() -> None:
    assert parent_of(os.getpid()) == os.getppid()
    assert parent_of(2**22 + 1) == 0


@pytest.mark.parametrize("name", ["libnothing.so.1", "libc.so.6"])
def test_without_the_library_or_a_driver_there_are_no_gpus(
    monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setattr(nvml.Nvml.__init__, "__defaults__", (name,))
    assert heartbeats.gpus_of_this_process() is None


def test_a_library_of_which_half_is_missing_samples_nothing(tmp_path: Path) -> None:
    source, path = tmp_path / "old.c", tmp_path / "libnvidia-ml.so.1"
    source.write_text(
        "int nvmlInit_v2(void) { return 0; }\nint nvmlDeviceGetCount_v2(unsigned *n) { *n = 1; return 0; }\n"
    )
    subprocess.run(["cc", "-shared", "-fPIC", "-o", str(path), str(source)], check=True)
    for environ in ({}, {"CUDA_VISIBLE_DEVICES": "0"}, {"CUDA_VISIBLE_DEVICES": "MIG-1,GPU-1"}):
        assert looked(gpus(str(path), None, **environ)) == {}


# -- with a run ----------------------------------------------------------------------------------------------


@pytest.fixture
def one_gpu(library: str, drive: Callable[..., None], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nvml.Nvml.__init__, "__defaults__", (library,))
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0")


def samples(endpoint: FakeEndpoint) -> list[dict[str, Any]]:
    return [each for each in list(endpoint.events.values()) if "type" not in each]


@pytest.mark.usefixtures("one_gpu")
def test_a_run_sends_samples_that_follow_each_other(
    endpoint: FakeEndpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRAINFARE_NODE", "gpu-01")
    with trainfare.run("run-7", url=endpoint.url, heartbeat_s=0.05):
        while len(samples(endpoint)) < 3:
            pass
    found = samples(endpoint)
    assert {(each["job_id"], each["attempt"], each["node"]) for each in found} == {("run-7", 1, "gpu-01")}
    assert {(*each["gpus"], *each["util_ratio"]) for each in found} == {("0", 0.4)}
    edges = [(each["time_ms"] - each["interval_ms"], each["time_ms"]) for each in found]
    assert [begin for begin, _ in edges[1:]] == [end for _, end in edges[:-1]]
    assert endpoint.topics == {"jobs", "gpu"}


@pytest.mark.parametrize(
    ("interval_s", "gather_s", "gathers"),
    [(0.03, 0.01, 2), (0.03, 0.012, 2), (0.01, 0.01, 0), (0.01, 10.0, 0)],
)
def test_readings_are_gathered_within_an_interval(interval_s: float, gather_s: float, gathers: int) -> None:
    calls: list[str] = []
    enough = threading.Event()

    class Recorded:
        def gather(self) -> None:
            calls.append("gather")

        def look(self) -> dict[str, list[Any]]:
            calls.append("look")
            if calls.count("look") == 4:
                enough.set()
            return {}

    thread = heartbeats.Heartbeats(
        interval_s, lambda: 0, None, lambda _: None, lambda: cast("Gpus", Recorded()), gather_s
    )
    thread.start()
    assert enough.wait(30)
    thread.stop(30)
    assert calls[: 1 + 3 * (gathers + 1)] == ["look", *(["gather"] * gathers + ["look"]) * 3]


@pytest.mark.filterwarnings("error::pytest.PytestUnhandledThreadExceptionWarning")
@pytest.mark.parametrize("heartbeat_s", [float("inf"), float("nan"), 0.0, -1.0, 1e12])
def test_any_interval_of_heartbeats_leaves_the_run_alone(endpoint: FakeEndpoint, heartbeat_s: float) -> None:
    with trainfare.run("run-7", url=endpoint.url, heartbeat_s=heartbeat_s):
        pass
    types = endpoint.types()
    assert (types[0], types[-1]) == ("started", "completed")


@pytest.mark.usefixtures("one_gpu")
def test_a_short_run_has_its_last_sample(endpoint: FakeEndpoint) -> None:
    with trainfare.run("run-7", url=endpoint.url) as found:
        while not found._heartbeats._looked_ms:
            pass
        while found._now_ms() <= found._heartbeats._looked_ms:
            pass
    (sample,) = samples(endpoint)
    assert sample["gpus"] == ["0"]


@pytest.mark.usefixtures("one_gpu")
def test_another_rank_sends_the_samples_of_its_gpus_and_nothing_else(
    endpoint: FakeEndpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    with trainfare.run("run-7", url=endpoint.url, samples=False):
        pass
    with trainfare.run("run-7", url=endpoint.url, samples=False):
        monkeypatch.setenv("RANK", "8")
        with trainfare.run("run-7", url=endpoint.url, heartbeat_s=0.05) as other:
            other.checkpoint()
            while not samples(endpoint):
                pass
    assert {each["attempt"] for each in samples(endpoint)} == {2}
    assert endpoint.types() == ["started", "completed"] * 2


@pytest.mark.usefixtures("one_gpu")
@pytest.mark.parametrize(
    ("options", "environ", "attempt"),
    [
        ({"attempt": 1}, {}, 1),
        ({}, {"TRAINFARE_ATTEMPT": "1"}, 1),
        ({"lifecycle": False}, {}, 1),
        ({"lifecycle": False}, {"SLURM_RESTART_COUNT": "1", "TORCHELASTIC_RESTART_COUNT": "3"}, 2),
        ({}, {}, 2),
    ],
)
def test_samples_of_another_rank_have_the_attempt_of_the_main_process(
    endpoint: FakeEndpoint,
    monkeypatch: pytest.MonkeyPatch,
    options: dict[str, Any],
    environ: dict[str, str],
    attempt: int,
) -> None:
    for _ in range(2):
        attempts.next_attempt("run-7")  # earlier runs of the job have been counted
    for name, value in environ.items():
        monkeypatch.setenv(name, value)
    with trainfare.run("run-7", url=endpoint.url, heartbeat_s=0.05, is_main_process=False, **options):
        while not samples(endpoint):
            pass
    assert {each["attempt"] for each in samples(endpoint)} == {attempt}


@pytest.mark.usefixtures("one_gpu")
def test_samples_may_be_off(endpoint: FakeEndpoint, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRAINFARE_SAMPLES", "0")
    with trainfare.run("run-7", url=endpoint.url, heartbeat_s=0.01):
        endpoint.wait_for("heartbeat")
    assert samples(endpoint) == []
