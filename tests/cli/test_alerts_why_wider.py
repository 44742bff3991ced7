"""`trainfare alerts why` of a job names the alerts about what it is part of, and the refused records of one that there is not."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.command import trainfare

T0 = 1_780_308_000_000
HOUR = 3_600_000


def line(topic: str, name: str, **value: object) -> str:
    return json.dumps({"topic": topic, "value": {"id": name, "source": "s", "time_ms": T0, **value}})


def started(name: str, gpu_type: str, **more: object) -> str:
    return line(
        "jobs", name, job_id=name, type="started", team="vision", gpu_type=gpu_type, gpu_count=8, **more
    )


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("wider")
    price = line(
        "prices",
        "a100",
        sku="a100",
        component="gpu",
        usd="3",
        per="gpu_hour",
        gpu_type="A100",
        effective_ms=T0 - HOUR,
    )
    lines = [
        price,
        started("unpriced", "B300/sxm", owner="ada"),
        started("ownerless", "A100"),
        started("usual", "A100", owner="ada"),
        started("refused", "A100", owner="ada").replace('"gpu_count": 8', '"gpu_count": -8'),
    ]
    (root / "log.jsonl").write_text("\n".join(lines) + "\n")
    done = trainfare("replay", root / "log.jsonl", "--data", root / "meter", "--as-of", str(T0 + 3 * HOUR))
    assert done.code == 0, done.err
    return root / "meter"


@pytest.mark.parametrize(
    ("job", "rules"), [("unpriced", ["missing_price"]), ("ownerless", ["owner_coverage"]), ("usual", [])]
)
def test_alerts_about_what_a_job_is_part_of(data: Path, job: str, rules: list[str]) -> None:
    found = json.loads(trainfare("alerts", "why", job, "--data", data, "--format", "json").out)
    assert [each["rule"] for each in found["wider_alerts"]] == rules
    shown = trainfare("alerts", "why", job, "--data", data).out
    assert ("Alerts about what it is part of" in shown, all(each in shown for each in rules)) == (
        bool(rules),
        True,
    )
    assert "no alert about this job in the day before" in shown
    (unpriced,) = (line for line in shown.splitlines() if line.startswith("unpriced "))
    assert unpriced.split()[1] == "off", "whatever its conditions say, it opens nothing"


def test_before_it_fired_it_is_not_named(data: Path) -> None:
    asked = ("alerts", "why", "unpriced", "--at", str(T0 + 60_000), "--data", data, "--format", "json")
    assert json.loads(trainfare(*asked).out)["wider_alerts"] == []


def test_of_a_job_whose_records_were_refused_it_says_so(data: Path) -> None:
    done = trainfare("alerts", "why", "refused", "--data", data)
    assert done.code == 1
    said = done.one_line()
    assert "neither a job nor an alert of this store, but the meter refused 1 record" in said
    assert "`trainfare dead-letters list --each --job refused" in said
    assert "`trainfare jobs` lists jobs" in trainfare("alerts", "why", "absent", "--data", data).one_line()
