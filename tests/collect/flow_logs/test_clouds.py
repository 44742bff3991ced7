"""What each cloud's flow logs become: whose bytes, which way, when; and what is counted and belongs to nobody."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from streams.collect.allocations import Allocation
from streams.collect.collector import Collector
from streams.collect.flow_logs.aws.collector import open_collector as open_aws
from streams.collect.flow_logs.aws.options import Options as AwsOptions
from streams.collect.flow_logs.azure.collector import open_collector as open_azure
from streams.collect.flow_logs.azure.options import Options as AzureOptions
from streams.collect.flow_logs.gcp.collector import open_collector as open_gcp
from streams.collect.flow_logs.gcp.options import Options as GcpOptions
from tests.collect.flow_logs.polling import Polled, polled
from tests.collect.flow_logs.world import HELD, RECORDED, common

_V2 = "version account-id interface-id srcaddr dstaddr srcport dstport protocol packets bytes start end action log-status"


def amounts(found: Polled) -> list[tuple[Any, ...]]:
    """Job, direction, path, regions, bytes, and the minutes since 2026-06-01 08:00 UTC in which they moved."""
    first = 1_780_300_800_000
    return sorted(
        (
            event["job_id"],
            event["direction"],
            event["path"],
            event.get("region", ""),
            event.get("dst_region", ""),
            event["bytes"],
            (event["time_ms"] - event["interval_ms"] - first) // 60_000,
            (event["time_ms"] - first) // 60_000,
        )
        for event in found.events
    )


def aws(tmp_path: Path, text: str, held: tuple[Allocation, ...] = HELD, **others: Any) -> Polled:
    path = tmp_path / "flows.log"
    path.write_text(text)
    return polled(open_aws(AwsOptions(**{**common(tmp_path, [str(path)], held), **others})))


def v2(source: str, destination: str, count: int = 100, interface: str = "eni-1") -> str:
    return f"2 1 {interface} {source} {destination} 1 2 6 9 {count} 1780300800 1780300860 ACCEPT OK\n"


def test_aws_version_5(tmp_path: Path) -> None:
    found = aws(tmp_path, (RECORDED / "aws-v5.txt").read_text())
    assert amounts(found) == [
        ("train-a", "egress", "cross_zone", "us-east-1", "us-east-1", 800_000_000, 0, 2),
        ("train-a", "egress", "internet", "us-east-1", "", 2_000_000, 0, 1),
        ("train-a", "egress", "same_zone", "us-east-1", "us-east-1", 1_500_000_000, 0, 1),
        ("train-a", "ingress", "internet", "", "us-east-1", 700_000, 0, 1),
        ("train-b", "egress", "cross_region", "us-east-1", "eu-west-1", 60_000_000, 2, 3),
        ("train-b", "ingress", "cross_zone", "us-east-1", "us-east-1", 800_000_000, 0, 2),
    ]
    assert {event["attempt"] for event in found.events if event["job_id"] == "train-a"} == {2}
    assert found.account.reasons == {"rejected": 1, "no_node": 1, "no_traffic": 1, "skipped_data": 1}
    assert found.unattributed_bytes == {"no_node": 99_000}
    assert found.account.said == ["flows.log line 11: AWS left out flows of eni-0bbb3333cccc4444d (SKIPDATA)"]


def test_aws_recorded_examples_of_version_2(tmp_path: Path) -> None:
    held = (Allocation("a", "job"),)
    text = (RECORDED / "aws-v2.txt").read_text()
    found = aws(tmp_path, text, held, node_aliases={"172.31.16.139": "a"}, networks=())
    assert [
        (e["bytes"], e["path"], e["direction"], e["time_ms"], e["interval_ms"]) for e in found.events
    ] == [(4249, "unclassified", "egress", 1_418_530_080_000, 120_000)]
    assert found.account.reasons == {"rejected": 1, "no_traffic": 1}


def test_a_header_gives_the_order(tmp_path: Path) -> None:
    text = "end start bytes dstaddr srcaddr\n1780300860 1780300800 77 8.8.8.8 10.0.1.5\n"
    assert [event["bytes"] for event in aws(tmp_path, text).events] == [77]


def test_an_option_gives_the_order_where_there_is_no_header(tmp_path: Path) -> None:
    text = "1780300860 1780300800 77 8.8.8.8 10.0.1.5\n"
    form = "${end} ${start} ${bytes} ${dstaddr} ${srcaddr}"
    assert [event["bytes"] for event in aws(tmp_path, text, format=form).events] == [77]


def test_the_time_that_cloudwatch_puts_before_a_record_is_passed_over(tmp_path: Path) -> None:
    text = f"2026-06-01T08:01:00.000Z {v2('10.0.1.5', '8.8.8.8')}"
    assert [event["bytes"] for event in aws(tmp_path, text).events] == [100]


def test_a_header_without_bytes_is_a_fault_that_says_so(tmp_path: Path) -> None:
    found = aws(tmp_path, "version srcaddr dstaddr start end\n5 10.0.1.5 8.8.8.8 1780300800 1780300860\n")
    assert not found.events
    assert found.account.said == ["flows.log: the header: the log has no bytes; add it to the log's format"]


def test_equal_flows_of_a_minute_are_one_amount(tmp_path: Path) -> None:
    assert [e["bytes"] for e in aws(tmp_path, v2("10.0.1.5", "8.8.8.8") * 3).events] == [300]


@pytest.mark.parametrize(
    ("source", "destination", "interface", "wanted"),
    [
        ("10.0.1.5", "8.8.8.8", "eni-1", [("train-a", "egress")]),
        ("8.8.8.8", "10.0.1.5", "eni-1", [("train-a", "ingress")]),
        # Both ends are known and report it: whose record it is says the interface alone.
        ("10.0.1.5", "10.1.0.5", "eni-1", "no_direction"),
        ("10.0.1.5", "10.1.0.5", "eni-a", [("train-a", "egress")]),
        ("10.0.1.5", "10.1.0.5", "eni-b", [("train-b", "ingress")]),
        # A second address of an interface that is known.
        ("10.0.9.9", "10.1.0.5", "eni-a", [("train-a", "egress")]),
        ("10.1.0.5", "10.0.9.9", "eni-a", [("train-a", "ingress")]),
        ("10.0.9.9", "8.8.8.8", "eni-a", "no_direction"),
        ("10.0.9.9", "8.8.8.8", "eni-1", "no_node"),
    ],
)
def test_the_reporter_of_a_flow_without_a_direction(
    tmp_path: Path, source: str, destination: str, interface: str, wanted: Any
) -> None:
    nodes = {"10.0.1.5": "gpu-01", "10.1.0.5": "gpu-02", "eni-a": "gpu-01", "eni-b": "gpu-02"}
    found = aws(tmp_path, v2(source, destination, interface=interface), node_aliases=nodes)
    if isinstance(wanted, str):
        assert (found.events, found.account.reasons, found.unattributed_bytes) == (
            [],
            {wanted: 1},
            {wanted: 100},
        )
    else:
        assert [(event["job_id"], event["direction"]) for event in found.events] == wanted


def test_a_node_named_by_its_address_needs_no_map(tmp_path: Path) -> None:
    held = (Allocation("ip-10-0-1-5.ec2.internal", "job"),)
    assert [e["job_id"] for e in aws(tmp_path, v2("10.0.1.5", "8.8.8.8"), held, node_aliases={}).events] == [
        "job"
    ]


@pytest.mark.parametrize(
    ("held", "reason"),
    [
        ((Allocation("gpu-01", "a", from_ms=1_780_300_860_000),), "no_job"),
        ((Allocation("gpu-01", "a", until_ms=1_780_300_800_000),), "no_job"),
        (
            (
                Allocation("gpu-01", "a", until_ms=1_780_300_830_000),
                Allocation("gpu-01", "b", from_ms=1_780_300_830_000),
            ),
            "several_jobs",
        ),
        ((Allocation("gpu-01", "a", gpus=("0",)), Allocation("gpu-01", "b", gpus=("1",))), "several_jobs"),
        ((Allocation("gpu-01", "a", gpus=("0",)), Allocation("gpu-01", "a", gpus=("1",))), ""),
    ],
)
def test_whose_a_node_was(tmp_path: Path, held: tuple[Allocation, ...], reason: str) -> None:
    found = aws(tmp_path, v2("10.0.1.5", "8.8.8.8"), held)
    assert found.account.reasons == ({reason: 1} if reason else {})
    assert [event["job_id"] for event in found.events] == ([] if reason else ["a"])


def test_pods_with_addresses_of_their_own_share_a_node(tmp_path: Path) -> None:
    held = (
        Allocation("gpu-01", "a", pod="n/a", addresses=("10.0.1.70",)),
        Allocation("gpu-01", "b", pod="n/b", addresses=("10.0.1.71",)),
    )
    header = f"{_V2} pkt-srcaddr pkt-dstaddr\n"
    # The node's address stands for the pod's, whose packets it carried.
    lines = [
        f"{v2('10.0.1.5', '8.8.8.8', count).strip()} {pod} 8.8.8.8\n"
        for pod, count in (("10.0.1.70", 7), ("10.0.1.71", 8), ("10.0.1.5", 9))
    ]
    found = aws(tmp_path, header + "".join(lines), held)
    assert [(event["job_id"], event["bytes"]) for event in found.events] == [("a", 7), ("b", 8)]
    assert found.unattributed_bytes == {"no_job": 9}


def gcp(tmp_path: Path, text: str, **others: Any) -> Polled:
    path = tmp_path / "entries.json"
    path.write_text(text)
    collector: Collector = open_gcp(GcpOptions(**common(tmp_path, [str(path)]), **others))
    return polled(collector)


def test_gcp_entries(tmp_path: Path) -> None:
    found = gcp(tmp_path, (RECORDED / "gcp.jsonl").read_text())
    assert amounts(found) == [
        ("train-a", "egress", "cross_zone", "us-central1", "us-central1", 500_000_000, 120, 121),
        ("train-a", "egress", "internet", "us-central1", "", 3_000_000, 120, 121),
        ("train-b", "egress", "cross_region", "us-central1", "europe-west1", 70_000, 121, 122),
        ("train-b", "ingress", "cross_zone", "us-central1", "us-central1", 500_000_000, 120, 121),
        ("train-c", "egress", "unclassified", "us-central1", "", 9_000, 121, 122),
    ]
    assert found.account.reasons == {"gateway": 1}


def test_gcp_entries_in_one_array_and_sampled(tmp_path: Path) -> None:
    entries = msgspec.json.encode(
        [msgspec.Raw(line) for line in (RECORDED / "gcp.jsonl").read_bytes().splitlines()]
    )
    found = gcp(tmp_path, entries.decode(), sample_ratio=0.5)
    assert sum(event["bytes"] for event in found.events) == 2 * 1_003_079_000


def azure(tmp_path: Path, text: str) -> Polled:
    path = tmp_path / "PT1H.json"
    path.write_text(text)
    options = AzureOptions(**common(tmp_path, [str(path)]), region="eastus")
    return polled(open_azure(options))


def test_azure_virtual_networks(tmp_path: Path) -> None:
    found = azure(tmp_path, (RECORDED / "azure-vnet.json").read_text())
    # 10.1.0.0/24 is in eu-west-1 to the map of networks, and the reporting interface's own address is in it.
    assert amounts(found) == [
        ("train-a", "egress", "internet", "eu-west-1", "", 60_000, 119, 121),
        ("train-a", "egress", "unclassified", "eu-west-1", "eu-west-1", 400_000, 119, 121),
        ("train-a", "ingress", "internet", "", "eu-west-1", 900_000, 119, 121),
        ("train-a", "ingress", "unclassified", "eu-west-1", "eu-west-1", 5_000, 119, 121),
        ("train-b", "egress", "unclassified", "eu-west-1", "eu-west-1", 5_000, 120, 122),
        ("train-b", "ingress", "unclassified", "eu-west-1", "eu-west-1", 400_000, 120, 122),
    ]
    assert found.account.reasons == {"rejected": 1, "no_traffic": 1}


def test_azure_security_groups(tmp_path: Path) -> None:
    found = azure(tmp_path, (RECORDED / "azure-nsg.json").read_text())
    assert [row[:3] + row[5:6] for row in amounts(found)] == [
        ("train-a", "egress", "internet", 16_000),
        ("train-a", "ingress", "internet", 17_000),
    ]
    assert found.account.reasons == {"rejected": 1, "no_traffic": 1}


def test_azure_tuples_of_version_1_have_no_bytes(tmp_path: Path) -> None:
    text = (
        '{"records":[{"properties":{"flows":[{"flows":[{"flowTuples":'
        '["1780308010,10.1.0.4,8.8.8.8,44321,443,T,O,A"]}]}]}}]}'
    )
    assert azure(tmp_path, text).account.reasons == {"no_bytes": 1}
