"""Flow logs of each cloud in files that come one after the other, and the allocations of a scheduler."""

from __future__ import annotations

import gzip
import json
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final

import msgspec

from streams.collect.allocations import Allocation
from streams.collect.collector import Collector
from streams.collect.flow_logs.aws.collector import open_collector as open_aws
from streams.collect.flow_logs.aws.options import Options as AwsOptions
from streams.collect.flow_logs.azure.collector import open_collector as open_azure
from streams.collect.flow_logs.azure.options import Options as AzureOptions
from streams.collect.flow_logs.gcp.collector import open_collector as open_gcp
from streams.collect.flow_logs.gcp.options import Options as GcpOptions
from streams.collect.flow_logs.options import Network
from tests.collect.files_world import FilesWorld, lines_of

RECORDED: Final = Path(__file__).parent / "recorded"
FROM_MS: Final = 1_780_301_100_000
T0_MS: Final = 1_780_300_000_000
#: gpu-01 was another job's until then.
CHANGED_MS: Final = 1_780_300_500_000
HELD: Final = (
    Allocation("gpu-01", "before", until_ms=CHANGED_MS),
    Allocation("gpu-01", "train-a", attempt=2, gpus=("0", "1"), from_ms=CHANGED_MS),
    Allocation("gpu-02", "train-b", from_ms=T0_MS),
    Allocation("gke-train-a", "train-c", pod="research/run-9-worker-0", from_ms=T0_MS),
)
NODES: Final = {
    "10.0.1.5": "gpu-01",
    "i-0bbb33334444cccc5": "gpu-02",
    "0022482B1A01": "gpu-01",
    "10.1.0.5": "gpu-02",
}
NETWORKS: Final = (
    Network(cidr="10.0.1.0/24", region="us-east-1", zone="use1-az1"),
    Network(cidr="10.0.2.0/24", region="us-east-1", zone="use1-az2"),
    Network(cidr="10.1.0.0/24", region="eu-west-1"),
)


def content(name: str) -> bytes:
    """Return a file of `recorded`."""
    return (RECORDED / name).read_bytes()


def common(directory: Path, files: Sequence[str], held: Sequence[Allocation] = HELD) -> dict[str, Any]:
    """Return the options that all clouds have."""
    path = directory / "allocations.json"
    path.write_bytes(msgspec.json.encode({"allocations": held}))
    return {"files": files, "allocations_file": path, "node_aliases": NODES, "networks": NETWORKS}


def _aws(directory: Path, files: list[str]) -> Collector:
    return open_aws(AwsOptions(**common(directory, files)))


def _gcp(directory: Path, files: list[str]) -> Collector:
    return open_gcp(GcpOptions(**common(directory, files)))


def _azure(directory: Path, files: list[str]) -> Collector:
    return open_azure(AzureOptions(**common(directory, files), region="eastus"))


def _cut(text: bytes, parts: int, header: bytes = b"") -> list[bytes]:
    """Return some lines each, under the header."""
    lines = text.splitlines(keepends=True)
    step = -(-len(lines) // parts)
    return [header + b"".join(lines[at : at + step]) for at in range(0, len(lines), step)]


def aws_world(directory: Path) -> FilesWorld:
    """Compressed files, as in a bucket."""
    header, _, rest = content("aws-v5.txt").partition(b"\n")
    files = [
        (f"{at}.log.gz", gzip.compress(each, mtime=0))
        for at, each in enumerate(_cut(rest, 5, header + b"\n"))
    ]
    return FilesWorld(
        directory, files, partial(_aws, directory), FROM_MS, lambda each: lines_of(gzip.decompress(each)) - 1
    )


def gcp_world(directory: Path) -> FilesWorld:
    """Files of entries."""
    files = [(f"{at}.json", each) for at, each in enumerate(_cut(content("gcp.jsonl"), 6))]
    return FilesWorld(directory, files, partial(_gcp, directory), FROM_MS + 7_200_000)


def _flows(content: bytes) -> int:
    """Return how many flows a file of Azure has: of each of `flowTuples`, wherever they are, the directions with bytes, or none."""

    def count(found: Any) -> int:
        if isinstance(found, dict):
            of_tuples = sum(map(_directions, found.get("flowTuples", ())))
            return of_tuples + sum(count(each) for name, each in found.items() if name != "flowTuples")
        return sum(map(count, found)) if isinstance(found, list) else 0

    return count(json.loads(content))


def _directions(flow: str) -> int:
    *_, sent, _, received = flow.split(",")
    return max(sum(each not in ("", "0") for each in (sent, received)), 1)


def azure_world(directory: Path) -> FilesWorld:
    """The file of an hour that grows, another beside it."""
    whole = content("azure-vnet.json")
    first, *_, last = whole.splitlines(keepends=True)
    short = first + whole.splitlines()[1].rstrip(b",") + b"\n" + last
    files = [("PT1H.json", short), ("nsg.json", content("azure-nsg.json")), ("PT1H.json", whole)]
    return FilesWorld(directory, files, partial(_azure, directory), FROM_MS + 7_200_000, _flows)
