"""Answers of Slurm's commands that were saved are tried without Slurm, as docs/sources/slurm.md says."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from streams.collect.collector import SourceUnavailableError
from streams.collect.slurm import records
from streams.collect.slurm.collector import SlurmCollector
from streams.collect.slurm.nodes import listed_nodes
from streams.collect.slurm.options import Options
from streams.collect.slurm.records import accounted_jobs, queued_jobs
from streams.estimate.request import PURCHASES
from tests.cli.command import ROOT, trainfare

T_S = 1_795_622_400  # 2026-11-25T16:00:00Z


def job(number: int, partition: str) -> dict[str, Any]:
    times = {"submission": T_S, "start": T_S, "end": T_S + 3600}
    tres = {"allocated": [{"type": "gres", "name": "gpu", "count": 2}], "requested": []}
    state = {"current": "COMPLETED"}
    return {"job_id": number, "state": state, "time": times, "tres": tres, "partition": partition}


def section(heading: str) -> str:
    """Return a section of the page."""
    text = (ROOT / "docs/sources/slurm.md").read_text()
    return text.partition(f"## {heading}\n")[2].partition("\n## ")[0]


def toml_of(heading: str) -> str:
    """Return the configuration that a section gives."""
    return section(heading).partition("```toml\n")[2].partition("```")[0]


def test_the_page_has_the_commands_as_they_are_run_and_the_fields_that_are_read() -> None:
    asked: list[str] = []

    def ask(command: Sequence[str]) -> bytes:
        asked.append(re.sub(r"uts\d+", "utsN", " ".join(command)))
        # The record does not count restarts: which attempt it is only the question for its job tells.
        return json.dumps({"jobs": [] if command[0] == "squeue" else [job(7, "gpu")]}).encode()

    options = Options(since=datetime.fromtimestamp(T_S, UTC))
    list(SlurmCollector(options, ask).poll(None, (T_S + 7200) * 1000))
    page = section("What Slurm is asked")
    commands = page.partition("```\n")[2].partition("```")[0].splitlines()
    assert [each.replace("7", "JOB,JOB") if "--jobs" in each else each for each in asked] == commands
    for command, record in (("squeue", records._QueuedJob), ("sacct", records._AccountedJob)):
        line = next(line for line in page.splitlines() if line.startswith(f"| `{command}` |"))
        assert set(re.findall(r"`(\w+)`", line.split("|")[2])) == {*record.__struct_fields__}


def test_the_page_has_the_purchases() -> None:
    assert f"one of {', '.join(f'`{each}`' for each in PURCHASES)}" in section("Price fields")


def test_they_make_events_and_an_option_of_no_use_is_said(tmp_path: Path) -> None:
    (tmp_path / "sacct.json").write_text(json.dumps({"jobs": [job(7, "gpu"), job(8, "batch")]}))
    text = toml_of("Saved answers").replace("on-prem-gpu", "gpu")
    text += 'partition_price_fields.gqu = { purchase = "spot" }\n'
    (tmp_path / "saved.toml").write_text(text)
    done = trainfare("collect", "slurm", "--config", "saved.toml", "--dry-run", cwd=tmp_path)
    assert done.err == (
        "read 2: 2 metered, 0 free, 0 not understood\n"
        "unused: saved.toml [slurm] partition_price_fields.gqu: no job or node is in that partition; partitions: batch, gpu\n"
    )
    events = [json.loads(line)["value"] for line in done.out.splitlines()]
    starts = {event["job_id"]: event.get("purchase") for event in events if event["type"] == "started"}
    assert starts == {"7": "on_prem", "8": None}


@pytest.mark.parametrize("read", [queued_jobs, accounted_jobs, listed_nodes])
def test_text_is_refused_with_what_is_read(read: Any) -> None:
    with pytest.raises(
        SourceUnavailableError, match=r"no JSON of Slurm \(.*\); \w+ is to answer JSON, .* --json: "
    ):
        read(b"JobID|State\n17|COMPLETED\n")
