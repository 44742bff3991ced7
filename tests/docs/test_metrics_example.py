"""The small fleet of docs/worked_examples.md, metrics: each figure of its table from the command and from the oracle."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.cli.command import trainfare
from tests.oracle.compute import compute
from tests.oracle.metrics import Figures, metric_figures
from tests.oracle.model import HourKey, Line, Tables

SECTION = (
    (Path(__file__).resolve().parents[2] / "docs" / "worked_examples.md")
    .read_text()
    .partition("## A small fleet by hand")[2]
    .partition("\n## ")[0]
)
SLO = ("5.54", "0.5")


class Figure(NamedTuple):
    metric: str
    of: str  # `all`, or a level and its name
    column: str
    value: str


def figures() -> list[Figure]:
    rows = re.findall(r"^\| `(\w+)` \| `([^`]+)` \| `(\w+)` \| (\S+) \|$", SECTION, re.MULTILINE)
    return [Figure(*row) for row in rows]


def events() -> list[str]:
    block = re.search(r"```json\n(.*?)```", SECTION, re.DOTALL)
    assert block is not None
    return block[1].splitlines()


@pytest.fixture(scope="module")
def tables() -> Tables:
    found = compute([Line(event["topic"], event["value"]) for event in map(json.loads, events())])
    assert found.dead == []
    return found


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("fleet")
    (root / "log.jsonl").write_text("\n".join(events()) + "\n")
    done = trainfare("replay", root / "log.jsonl", "--data", root / "meter", "--partitions", "1")
    assert done.code == 0, done.err
    return root / "meter"


def near(value: str) -> object:
    return None if value == "null" else pytest.approx(float(value), rel=1e-5, abs=1e-6)


def is_of(tables: Tables, of: str) -> Callable[[HourKey], bool]:
    level, _, name = of.partition("=")
    if level == "reason":
        reasons = {("run-b", 1): "spot_reclaim", ("run-c", 1): "out_of_memory"}
        return lambda key: reasons.get((key.job_id, key.attempt), "") == name
    if level in ("op", "dst_region"):  # of traffic, of which there is one kind: per hour of all run time
        return lambda _: True
    return lambda key: of == "all" or getattr(tables.jobs[key.job_id], level) == name


@pytest.mark.parametrize("of", sorted({figure.of for figure in figures()}))
def test_the_oracle_computes_each_figure(tables: Tables, of: str) -> None:
    found: Figures = metric_figures(tables, is_of(tables, of), *map(Fraction, SLO))
    shown = [figure for figure in figures() if figure.of == of]
    assert {f: found[f.metric, f.column] for f in shown} == {f: near(f.value) for f in shown}


@pytest.mark.parametrize("metric", sorted({figure.metric for figure in figures()}))
def test_the_command_shows_each_figure(data: Path, metric: str) -> None:
    shown = [figure for figure in figures() if figure.metric == metric]
    for of in {figure.of for figure in shown}:
        words = [] if of == "all" else ["--where", of]
        words += ["--quality", "accuracy", "--progress", "step"] if metric == "m9" else []
        words += ["--slo-usd-per-hour", SLO[0], "--slo-target", SLO[1]] if metric == "m10" else []
        done = trainfare("costs", "--metric", metric, *words, "--data", data, "--format", "json")
        assert done.code == 0, done.err
        (row,) = json.loads(done.out)
        for figure in shown:
            if figure.of == of:
                value = row[figure.column]
                assert (None if value is None else float(value)) == near(figure.value), figure


def test_every_metric_is_in_the_table() -> None:
    assert {figure.metric for figure in figures()} >= {f"m{number}" for number in range(1, 11)}
    assert len(figures()) > 30
