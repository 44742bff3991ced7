"""Readings of GPUs that no GPU can have: left out and said, not clamped to a busy GPU."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from streams.accounts.account import Account
from streams.collect.allocations import Allocation, Allocations
from streams.collect.dcgm.collector import DcgmCollector
from streams.collect.dcgm.options import Options
from streams.collect.gpu_samples import GpuReading, SampleOptions, samples_of
from tests.collect.dcgm_world import T0_MS
from tests.source_cases import source_case


class _SampleOptions(SampleOptions):
    interval_s: float = 10.0


def sampled(
    *readings: dict[str, Any], held: Sequence[Allocation] = ()
) -> tuple[list[dict[str, Any]], list[str]]:
    """Return the samples, and what is left out, of GPUs of one job; a working one by default."""
    plain = GpuReading("0", "u", "", "n1", "", "H100", "7", 0.5, 0.4, 0.1, 4096.0, 300.0)
    given = [plain._replace(gpu=str(at), **each) for at, each in enumerate(readings)]
    account = Account()
    events = samples_of(given, "h", 0, _SampleOptions(), "dcgm", Allocations(held), account)
    return [dict(event.value) for event in events], account.said


@pytest.mark.parametrize("garbage", [10.0, 2000.0, 42_949_672.95, 1.03])
def test_a_utilization_that_no_gpu_has_is_no_sample(garbage: float) -> None:
    (event,), left_out = sampled({"util_ratio": garbage}, {})
    assert (event["gpus"], event["util_ratio"]) == (["1"], [0.5])
    assert left_out == [f"n1: GPU 0: util_ratio {garbage:g} is more than any GPU has"]


def test_what_is_rounded_upwards_is_one() -> None:
    (event,), left_out = sampled({"util_ratio": 1.02, "sm_ratio": 1.01})
    assert (event["util_ratio"], event["sm_ratio"], left_out) == ([1.0], [1.0], [])


@pytest.mark.parametrize(
    ("name", "garbage"),
    [("memory_used_mib", 2_147_483_632.0), ("power_w", 1.4e14), ("sm_ratio", 20.0), ("tensor_ratio", 1.5)],
)
def test_another_value_that_no_gpu_has_is_left_out_and_the_gpu_sampled(name: str, garbage: float) -> None:
    (event,), left_out = sampled({name: garbage})
    assert name not in event
    assert event["util_ratio"] == [0.5]
    assert len(left_out) == 1


def test_a_public_report_of_corrupt_utilization() -> None:
    metrics = (source_case("02-dcgm-corrupt-util") / "metrics.txt").read_bytes()
    collector = DcgmCollector(Options(targets=["http://n1/"]), lambda _: metrics)
    batches = list(collector.poll(None, T0_MS))
    (event,) = [dict(each.value) for batch in batches for each in batch.events]
    assert (event["gpus"], event["util_ratio"]) == (["2"], [0.0])
    assert (event["memory_used_mib"], event["power_w"]) == ([4.0], [70.1])
    assert batches[-1].account.reasons == {"out_of_range": 3}
    assert len(batches[-1].account.said) == 3


@pytest.mark.parametrize(
    ("called", "pods", "nodes"),
    [
        ("dcgm-exporter-6ldbb", ["ml/a", ""], {"n1"}),  # the GPU without a pod is on that node, too
        ("n1", ["ml/a", ""], {"n1"}),
        ("", ["ml/a"], {"n1"}),
        ("dcgm-exporter-6ldbb", ["ml/a", "ml/b"], {"dcgm-exporter-6ldbb"}),  # pods of two nodes
        ("dcgm-exporter-6ldbb", ["ml/c", ""], {"dcgm-exporter-6ldbb"}),  # of a pod that is not known
    ],
)
def test_a_node_that_an_exporter_calls_by_its_own_pod_is_that_of_the_pods(
    called: str, pods: list[str], nodes: set[str]
) -> None:
    """NVIDIA/dcgm-exporter#78: without the host's network `Hostname` is the exporter's pod."""
    held = [
        Allocation("n1", "run-7", gpus=["0"], pod="ml/a", from_ms=-1),
        Allocation("n2", "run-8", gpus=["0"], pod="ml/b", from_ms=-1),
    ]
    events, _ = sampled(*({"node": called, "pod": pod} for pod in pods), held=held)
    assert {event["node"] for event in events} == nodes
