"""`trainfare collect`: what a user types and reads; on a real broker too."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from streams.accounts.causes import REMEDIES
from streams.collect.registry import COLLECTORS
from tests.cli.command import NOBODY, trainfare
from tests.collect.dcgm_world import DcgmWorld


@pytest.fixture
def world(tmp_path: Path) -> Iterator[DcgmWorld]:
    found = DcgmWorld(tmp_path)
    yield found
    found.close()


def config(world: DcgmWorld, directory: Path) -> Path:
    path = directory / "collect.toml"
    path.write_text(f'[dcgm]\ntargets = ["{world.address}/n1/metrics", "{world.address}/n2/metrics"]\n')
    return path


def test_a_dry_run_prints_events_and_stores_nothing(world: DcgmWorld, tmp_path: Path) -> None:
    done = trainfare("collect", "dcgm", "--config", config(world, tmp_path), "--dry-run", cwd=tmp_path)
    assert (done.code, done.err) == (0, "read 4: 4 metered, 0 free, 0 not understood\n")
    events = [json.loads(line) for line in done.out.splitlines()]
    assert {(event["topic"], event["value"]["node"]) for event in events} == {("gpu", "n1"), ("gpu", "n2")}
    assert not list(tmp_path.glob("*.position*"))


def test_list_shows_all_collectors() -> None:
    done = trainfare("collect", "list")
    assert done.code == 0
    assert [line.split()[0] for line in done.out.splitlines()] == list(COLLECTORS)


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("dcmg", "", "no such collector; did you mean dcgm?"),
        ("dcgm", None, "No such file or directory; expected a TOML file with a table [dcgm]"),
        ("dcgm", "[other]\n", "expected a table [dcgm]"),
        ("dcgm", "[dcgm\n", "(at line 1, column 6)"),
        ("dcgm", '[dcgm]\ntargets = ["gpu-01"]\n', "is no address, expected e.g. http://gpu-01:9400/metrics"),
        (
            "dcgm",
            '[dcgm]\ntargets = ["http://a/"]\ntarget = 1\n',
            "target: no such option; expected one of allocations_file, ",
        ),
        ("dcgm", "[dcgm]\n", "targets: field required"),
    ],
)
def test_wrong_use_is_explained_in_one_line(name: str, text: str | None, said: str, tmp_path: Path) -> None:
    path = tmp_path / "c.toml"
    if text is not None:
        path.write_text(text)
    done = trainfare("collect", name, "--config", path, "--dry-run", cwd=tmp_path)
    assert done.code == 2
    assert said in done.one_line()


def test_a_source_that_is_away_is_an_error_with_its_name(tmp_path: Path) -> None:
    path = tmp_path / "c.toml"
    path.write_text(f'[dcgm]\ntargets = ["http://{NOBODY}/metrics"]\n')
    done = trainfare("collect", "dcgm", "--config", path, "--dry-run", cwd=tmp_path)
    assert done.code == 1
    assert f"no exporter of 1 answers; http://{NOBODY}/metrics" in done.one_line()


def test_files_are_named_on_the_command_line_and_what_belongs_to_nobody_is_said(tmp_path: Path) -> None:
    log, config = tmp_path / "flows.log", tmp_path / "collect.toml"
    log.write_text("2 1 eni-1 10.0.1.5 8.8.8.8 1 2 6 9 100 1780300800 1780300860 ACCEPT OK\nx\n")
    command = ("collect", "aws-flow-logs", "--config", config, "--dry-run", "--files", log, log)
    done = trainfare(*command, cwd=tmp_path)
    assert (done.code, done.out) == (0, "")
    assert done.err.splitlines() == [
        "read 2: 0 metered, 0 free, 2 not understood",
        f"not understood: 1 malformed; first: flows.log line 2: 1 fields, expected 14 as the format has; {REMEDIES['malformed']}",
        f"not understood: 1 no_allocations; first: flows.log line 1: 10.0.1.5 to 8.8.8.8; {REMEDIES['no_allocations']}",
    ]
    held = tmp_path / "allocations.json"
    held.write_text('{"allocations": [{"node": "10.0.1.5", "job_id": "run-7"}]}')
    config.write_text(f'[aws-flow-logs]\nfiles = []\nallocations_file = "{held}"\n')
    done = trainfare(*command, cwd=tmp_path)
    assert done.code == 0
    assert [json.loads(line)["value"]["job_id"] for line in done.out.splitlines()] == ["run-7"]


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (("aws-flow-logs",), "[aws-flow-logs]\n"),
        (("s3-access-logs",), "[s3-access-logs]\nfiles = []\n"),
        (("gcp-flow-logs",), None),
    ],
)
def test_where_no_file_is_named_it_says_how_to(
    arguments: tuple[str, ...], text: str | None, tmp_path: Path
) -> None:
    if text is not None:
        (tmp_path / "collect.toml").write_text(text)
    done = trainfare("collect", *arguments, "--dry-run", cwd=tmp_path)
    assert done.code == 2
    assert done.one_line().endswith("; or name files with --files PATTERN")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("dcgm", "--files", "a"), "collect dcgm reads no files; name its source in the table [dcgm]"),
        (("aws-flow-logs", "a.log"), "name files after --files"),
        (("aws-flow-logs", "--files", ""), "files: '' names no files, expected e.g. /logs/*.gz"),
    ],
)
def test_files_where_there_are_none(arguments: tuple[str, ...], said: str, tmp_path: Path) -> None:
    done = trainfare("collect", *arguments, "--dry-run", cwd=tmp_path)
    assert done.code == 2
    assert said in done.one_line()
