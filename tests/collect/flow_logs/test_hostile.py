"""Whatever a file holds, a reader says what is wrong with it, and every event that it makes is one the meter takes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.decode import decode
from schemas.invalid import Invalid
from streams.collect.collector import Collector
from streams.collect.flow_logs.aws.collector import open_collector as open_aws
from streams.collect.flow_logs.aws.options import Options as AwsOptions
from streams.collect.flow_logs.azure.collector import open_collector as open_azure
from streams.collect.flow_logs.azure.options import Options as AzureOptions
from streams.collect.flow_logs.gcp.collector import open_collector as open_gcp
from streams.collect.flow_logs.gcp.options import Options as GcpOptions
from tests.collect.flow_logs.polling import Polled, polled
from tests.collect.flow_logs.world import RECORDED, common

OPEN: dict[str, tuple[Callable[[Any], Collector], Any, str]] = {
    "aws": (open_aws, AwsOptions, "aws-v5.txt"),
    "gcp": (open_gcp, GcpOptions, "gcp.jsonl"),
    "azure": (open_azure, AzureOptions, "azure-vnet.json"),
}
CELLS = (
    "-",
    "0",
    "1780300800",
    "1780300860",
    "9" * 15,
    "9" * 400,
    "-5",
    "٣",
    "10.0.1.5",
    "8.8.8.8",
    "::1",
    "\x1b[2J",
    "é",
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("hostile")


def read(cloud: str, folder: Path, text: bytes) -> Polled:
    open_collector, options, _ = OPEN[cloud]
    path = folder / f"{cloud}.log"
    path.write_bytes(text)
    found = polled(open_collector(options(**common(folder, [str(path)]))))
    for event in found.events:
        assert not isinstance(decode("network", msgspec.json.encode(event), (), 2**53), Invalid), event
    assert all("\x1b" not in line and len(line) <= 500 for line in found.account.said)
    return found


@pytest.mark.parametrize("cloud", OPEN)
@given(data=st.data())
def test_bytes_changed_at_random(cloud: str, folder: Path, data: st.DataObject) -> None:
    text = bytearray((RECORDED / OPEN[cloud][2]).read_bytes())
    for _ in range(data.draw(st.integers(1, 8))):
        at = data.draw(st.integers(0, len(text) - 1))
        text[at : at + data.draw(st.integers(0, 9))] = data.draw(st.binary(max_size=9))
    read(cloud, folder, bytes(text))


@given(lines=st.lists(st.lists(st.sampled_from(CELLS), min_size=29, max_size=29), min_size=1, max_size=5))
def test_cells_that_are_none(folder: Path, lines: list[list[str]]) -> None:
    header = (RECORDED / "aws-v5.txt").read_text().partition("\n")[0]
    read("aws", folder, "\n".join([header, *(" ".join(cells) for cells in lines)]).encode())


@pytest.mark.parametrize(
    ("cloud", "text", "reason"),
    [
        ("aws", b"2 3\n", "malformed"),
        ("aws", b"PAR1\x00\x01\n", "malformed"),
        ("gcp", b"{}\n", "malformed"),
        ("gcp", b"[" * 100_000, "malformed"),
        ("gcp", b"[1, 2]", "malformed"),
        ("azure", b"{", "malformed"),
        ("azure", b'{"records": [[]]}', "malformed"),
        ("azure", b'{"records": [' + b'{"a":' * 5_000, "malformed"),
    ],
)
def test_what_is_no_log_is_malformed(cloud: str, text: bytes, reason: str, folder: Path) -> None:
    found = read(cloud, folder, text)
    assert found.account.reasons.keys() == {reason}
    assert found.account.said


def test_a_flow_that_cannot_be_is_left_out(folder: Path) -> None:
    line = "2 1 eni-1 10.0.1.5 8.8.8.8 1 2 6 9 {} {} {} ACCEPT OK\n"
    for count, start, end in (
        (2**53 + 1, 1_780_300_800, 1_780_300_860),
        (1, 1_780_300_860, 1_780_300_800),
        (1, 5, 9),
    ):
        assert read("aws", folder, line.format(count, start, end).encode()).account.reasons == {
            "out_of_range": 1
        }
    most = line.format(2**53, 1_780_300_800, 1_780_300_860)
    found = read("aws", folder, (most + most).encode())
    assert ([event["bytes"] for event in found.events], found.account.reasons) == (
        [2**53],
        {"out_of_range": 1},
    )
