"""What real H100 and H200 answer, and what the collector makes of it; `recorded/README.md` says where it is from."""

from __future__ import annotations

import json
import lzma
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from streams.collect.nvidia_smi.answers import GPU_QUERY, PROCESS_QUERY, REPORT_QUERY, read_means
from streams.collect.nvidia_smi.collector import NvidiaSmiCollector
from streams.collect.nvidia_smi.options import Options
from tests.collect.nvidia_smi.world import T0_MS
from tests.collect.world import Log

RECORDED = Path(__file__).with_name("recorded")
DRIVER = "580.159.04"
MODELS = {"h100": "NVIDIA H100 80GB HBM3", "h200": "NVIDIA H200"}


def polled(card: str, state: str, *, groups: dict[int, str]) -> tuple[Mapping[str, Any], Sequence[str]]:
    """The one event of the recorded answers, and what was skipped."""
    answers = json.loads((RECORDED / f"{card}-{DRIVER}.json").read_text())[state]
    collector = NvidiaSmiCollector(
        Options(slurm_processes=True),
        lambda arguments: answers.get(arguments[0], "").encode(),
        "gpu-01",
        lambda pid: groups.get(pid, "0::/user.slice").encode(),
    )
    (batch,) = collector.poll(None, T0_MS)
    log = Log()
    log.publish(batch.events)
    assert not log.refused()
    (event,) = batch.events
    return event.value, batch.account.said


@pytest.mark.parametrize(
    ("card", "state", "util_ratio", "memory_used_mib", "power_w"),
    [
        ("h100", "idle", 0.0, 0.0, 71.03),
        ("h100", "busy", 1.0, 1139.0, 694.32),
        ("h100", "idle_context", 0.0, 1139.0, 118.29),
        ("h100", "many", 0.31, 1139.0, 364.40),
        ("h200", "idle", 0.0, 0.0, 81.73),
        ("h200", "busy", 0.98, 1139.0, 689.08),
        ("h200", "busy_later", 0.98, 1139.0, 691.29),
        ("h200", "idle_context", 0.0, 1139.0, 129.07),
        ("h200", "many", 0.62, 5682.0, 492.99),
        ("h200", "after", 0.0, 0.0, 133.26),
    ],
)
def test_a_real_gpu_becomes_a_sample(
    card: str, state: str, util_ratio: float, memory_used_mib: float, power_w: float
) -> None:
    event, skipped = polled(card, state, groups={})
    assert event == {
        "source": "nvidia-smi", "time_ms": T0_MS, "interval_ms": 15_000, "node": "gpu-01", "gpus": ["0"],
        "gpu_type": MODELS[card], "util_ratio": [util_ratio], "memory_used_mib": [memory_used_mib],
        "power_w": [power_w],
    }  # fmt: skip
    assert skipped == []


@pytest.mark.parametrize(("card", "pid"), [("h100", 565), ("h200", 556)])
@pytest.mark.parametrize("state", ["busy", "idle_context"])
def test_a_real_process_names_the_job_of_its_gpu(card: str, pid: int, state: str) -> None:
    # The very group that the process was put into on those machines, as Slurm names it.
    groups = {pid: "0::/system.slice/slurmstepd.scope/job_4711/step_0/user/task_0\n"}
    event, _ = polled(card, state, groups=groups)
    assert (event["job_id"], event["attempt"]) == ("4711", 1)


def test_processes_of_several_jobs_on_a_real_gpu_name_none() -> None:
    scope = "0::/system.slice/slurmstepd.scope"
    groups = dict.fromkeys((714, 708, 704, 706), f"{scope}/job_1/step_0")
    assert polled("h200", "many", groups={**groups, 700: f"{scope}/job_1/step_1"})[0]["job_id"] == "1"
    assert "job_id" not in polled("h200", "many", groups={**groups, 700: f"{scope}/job_2/step_0"})[0]


@pytest.mark.parametrize("card", MODELS)
def test_what_is_recorded_is_what_the_collector_asks(card: str) -> None:
    states = json.loads((RECORDED / f"{card}-{DRIVER}.json").read_text())
    assert {tuple(answers) for answers in states.values()} == {(GPU_QUERY[0], PROCESS_QUERY[0])}
    others = json.loads(lzma.decompress((RECORDED / f"{card}-{DRIVER}.others.json.xz").read_bytes()))
    assert all(
        MODELS[card] in others[f"{state}.L"] and DRIVER in others[f"{state}.qx"] for state in ("idle", "busy")
    )


# When it was idle, another process had just ended; when busy, for a quarter of the 14 s only.
@pytest.mark.parametrize(("state", "percent"), [("idle", 1.0), ("busy", 24.0), ("many", 28.0)])
def test_the_mean_of_the_last_14_s_of_a_real_gpu(state: str, percent: float) -> None:
    others = json.loads(lzma.decompress((RECORDED / f"h100-{DRIVER}.others.json.xz").read_bytes()))
    assert read_means(others[f"{state}.q_util"].encode()) == [percent]
    assert REPORT_QUERY == ("-q", "-d", "UTILIZATION")  # recorded with POWER beside it


@pytest.mark.parametrize("card", MODELS)
@pytest.mark.parametrize(
    "refusal", ["idle.wrong_field", "idle.wrong_id", "idle.L", "idle.plain", "busy.q", "idle.qx"]
)
def test_other_answers_have_no_mean(card: str, refusal: str) -> None:
    others = json.loads(lzma.decompress((RECORDED / f"{card}-{DRIVER}.others.json.xz").read_bytes()))
    assert all(mean is None for mean in read_means(others[refusal].encode()))
