"""Every line that the trace command writes is one that the meter accepts."""

import gzip
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from loadtest.traces import main
from schemas.decode import decode
from schemas.invalid import Invalid
from tests.loadtest.samples import DUTY, HELIOS, OPENB

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
NOW_MS = 1_800_000_000_000  # after every trace
Write = Callable[[str, str], Path]


def _refused(log: bytes) -> list[Invalid]:
    lines = [json.loads(line) for line in log.splitlines()]
    assert lines
    decoded = [decode(line["topic"], json.dumps(line["value"]).encode(), (), NOW_MS) for line in lines]
    return [event for event in decoded if isinstance(event, Invalid)]


@pytest.mark.parametrize("name", ["helios-500.jsonl.gz", "prices.jsonl"])
def test_the_shipped_files_are_accepted(name: str) -> None:
    raw = (EXAMPLES / name).read_bytes()
    assert _refused(gzip.decompress(raw) if name.endswith(".gz") else raw) == []


@pytest.mark.parametrize("trace", ["helios", "openb", "gentd26"])
def test_each_kind_of_log_is_accepted(trace: str, trace_file: Write, tmp_path: Path) -> None:
    texts = {"helios": HELIOS, "openb": OPENB, "gentd26": DUTY}
    out = tmp_path / "o.jsonl"
    words = [trace, "--source", str(trace_file("s.csv", texts[trace])), "--out", str(out)]
    if trace == "gentd26":
        words += ["--helios", str(trace_file("h.csv", HELIOS))]
    assert main(words) == 0
    assert _refused(out.read_bytes()) == []


def test_a_line_that_is_not_accepted_would_show() -> None:
    assert len(_refused(b'{"topic":"prices","value":{"usd":-1}}\n')) == 1
