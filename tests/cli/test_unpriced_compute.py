"""A job without GPUs whose compute has no price is shown as unpriced wherever its cost is, not as a zero."""

from __future__ import annotations

import csv
import io
from pathlib import Path

import pytest

from tests.cli.command import trainfare
from tests.cli.test_metered import answer, event

LINES = [
    event("prices", 0, sku="vm", component="compute", usd="3", per="instance_hour", effective_ms=0, instance_type="c5"),
    *(
        event("jobs", at_s, job_id=job_id, **said)
        for job_id, instance_type in (("prep", "m5"), ("paid", "c5"))
        for at_s, said in (
            (30, {"type": "started", "gpu_count": 0, "instance_count": 2, "instance_type": instance_type}),
            (3630, {"type": "completed"}),
        )
    ),
]  # fmt: skip


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("unpriced")
    lines = [line.replace('"id": "', f'"id": "{at}') for at, line in enumerate(LINES)]
    (folder / "log.jsonl").write_text("".join(lines))
    done = trainfare("replay", folder / "log.jsonl", "--data", folder / "meter", new_store="begun")
    assert done.code == 0, done.err
    return folder / "meter"


def test_the_lists_mark_it(data: Path) -> None:
    for words in (("jobs",), ("top", "--once")):
        rows = {line.split()[0]: line for line in answer(*words, "--data", data).splitlines() if line}
        assert "unpriced" in rows["prep"]
        assert "6.00" in rows["paid"]
        assert "unpriced" not in rows["paid"]
    records = csv.DictReader(io.StringIO(answer("jobs", "--data", data, "--format", "csv")))
    hours = {each["job_id"]: each["unpriced_compute_h"] for each in records}
    assert hours == {"prep": "2.000", "paid": "0.000"}


def test_its_components_say_which(data: Path) -> None:
    shown = answer("job", "prep", "--data", data)
    assert "compute     unpriced\ntotal       unpriced\n" in shown
    assert "unpriced" not in answer("job", "paid", "--data", data)
