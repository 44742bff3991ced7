"""Of a job that falls silent the source of its newest sign is known, in any cut of the log and after a crash."""

from __future__ import annotations

import json
import random

import pytest

from schemas.tables import ALERTS
from streams.engine.state.sample_times import source_key
from tests.oracle.cases import T0, gpu, job
from tests.oracle.model import HOUR_MS, MINUTE_MS, Line
from tests.property.test_alerts import check
from tests.strategies.logs import time_of

SOURCES = ("dcgm/a", "dcgm/b", "own")


def signs(seed: int) -> tuple[list[Line], dict[str, str]]:
    """Jobs of which three sources send samples and heartbeats, often at one instant, and of each the source of the newest."""
    rng = random.Random(seed)
    lines: list[Line] = []
    newest: dict[str, tuple[int, int, str]] = {}
    for number in range(6):
        name = f"j{number}"
        lines.append(job(name, "started", T0, gpu_count=2, cluster=f"c{number % 3}"))
        for k in range(rng.randrange(1, 12)):
            at_ms, source = T0 + rng.randrange(1, 8) * MINUTE_MS, rng.choice(SOURCES)
            if rng.random() < 0.3:
                line = job(name, "heartbeat", at_ms, source=source, id=f"h{number}/{k}")
            else:
                line = gpu(name, at_ms, MINUTE_MS, {str(k % 2): 0.9}, source=source, node=f"n{k % 3}")
            lines.append(line)
            newest[name] = max(newest.get(name, (0, 0, "")), (at_ms, source_key(source), source))
    rng.shuffle(lines)
    lines.sort(key=time_of)
    end = job("other", "queued", T0 + 2 * HOUR_MS)
    return [*lines, end], {name: source for name, (_, _, source) in newest.items()}


@pytest.mark.parametrize("seed", range(6))
def test_the_source_of_the_newest_sign_in_any_cut(seed: int) -> None:
    lines, newest = signs(seed)
    rng = random.Random(seed)
    cuts = sorted({rng.randrange(1, len(lines)) for _ in range(seed)})
    watching = check(lines, cuts, {cut: rng.randrange(2) for cut in cuts[1:3]})
    found = {
        row["subject_name"]: row["shared_cause"]
        for row in watching.rows(ALERTS)
        if row["rule"] == "silent_job"
    }
    assert found == {
        name: json.dumps(["silence", source], separators=(",", ":")) for name, source in newest.items()
    }
