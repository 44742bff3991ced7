"""Answers of Slurm's commands that were saved are tried without Slurm, as docs/sources/slurm.md says."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from streams.accounts.causes import REMEDIES
from streams.collect.collector import SourceUnavailableError
from streams.collect.slurm import records
from streams.collect.slurm.collector import SlurmCollector
from streams.collect.slurm.history import history
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


def odd(number: int, missing: str) -> dict[str, Any]:
    """A record of sacct that has no such time."""
    each = job(number, "gpu")
    del each["time"][missing]
    return each


def test_each_record_of_a_saved_answer_counts_once_and_each_odd_one_is_named(tmp_path: Path) -> None:
    jobs = [job(7, "gpu"), odd(8, "start"), odd(9, "end"), odd(9, "end"), odd(10, "start"), {"job_id": "x"}]
    (tmp_path / "sacct.json").write_text(json.dumps({"jobs": jobs}))
    (tmp_path / "saved.toml").write_text(toml_of("Saved answers"))
    done = trainfare("collect", "slurm", "--config", "saved.toml", "--dry-run", cwd=tmp_path)
    assert done.err.partition("unused: ")[0] == (
        "read 5: 1 metered, 0 free, 4 not understood\n"
        "not understood: 4 malformed; "
        "first: sacct: job 8: Object missing required field `start` - at `$.time`; "
        "second: sacct: job 9: Object missing required field `end` - at `$.time`; "
        "third: sacct: job 10: Object missing required field `start` - at `$.time`; "
        f"{REMEDIES['malformed']}\n"
    )


def test_a_history_counts_a_record_of_several_answers_once() -> None:
    refused = job(11, "gpu") | {"user": "\x00"}
    jobs = [job(7, "gpu"), odd(8, "start"), refused, job(12, "gpu")]
    answer = json.dumps({"jobs": [each | {"restart_cnt": 0} for each in jobs]}).encode()
    parts = [*history(Options(), lambda _: answer, T_S, T_S + 3 * 86_400)]
    assert [part.account.read for part in parts] == [4, 0, 0]
    assert parts[0].account.reasons == {"malformed": 1, "nul_byte": 1}


def test_the_page_has_a_record_that_is_read() -> None:
    answer = section("Saved answers").partition("```json\n")[2].partition("```")[0]
    (record,) = accounted_jobs(answer.encode()).jobs
    options = Options(since=datetime.fromtimestamp(record.submit_s, UTC), gpu_types={"h100": "H100"})

    def ask(command: Sequence[str]) -> bytes:
        return answer.encode() if command[0] == "sacct" else b'{"jobs": []}'

    batches = [*SlurmCollector(options, ask).poll(None, (record.end_s + 3600) * 1000)]
    _, start, end = [each.value for batch in batches for each in batch.events]
    assert (start["type"], start["job_id"], start["gpu_type"], start["team"]) == (
        "started", "4711", "H100", "vision",
    )  # fmt: skip
    assert (start["time_ms"], end["type"], end["time_ms"]) == (
        record.start_s * 1000,
        "completed",
        record.end_s * 1000,
    )
    assert batches[-1].account.read == 1


@pytest.mark.parametrize("read", [queued_jobs, accounted_jobs, listed_nodes])
def test_text_is_refused_with_what_is_read(read: Any) -> None:
    with pytest.raises(
        SourceUnavailableError, match=r"no JSON of Slurm \(.*\); \w+ is to answer JSON, .* --json: "
    ):
        read(b"JobID|State\n17|COMPLETED\n")
