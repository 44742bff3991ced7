"""A log of jobs of a kind that ended, of one that lives, and of prices elsewhere: what estimates are worked out from by hand."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from zlib import crc32

T0_MS = 1_772_366_400_000  # 2026-03-01 12:00:00 UTC
#: Ids that a path, a statement and a terminal must each quote.
HOSTILE = ("{job:String}", "..", "\u202egnp.exe'; DROP TABLE jobs; --", "ж" * 100)


def _event(topic: str, at_s: int, **value: object) -> str:
    said = f"{value.get('job_id', '')}-{value.get('type', '')}-{value.get('sku', '')}"
    identity = {"source": "t", "id": f"{topic}-{at_s}-{crc32(said.encode())}"}
    return json.dumps({"topic": topic, "value": {**identity, "time_ms": T0_MS + at_s * 1000, **value}}) + "\n"


def _price(sku: str, usd: str, at_s: int = 0, **match: object) -> str:
    terms = {"component": "gpu", "per": "gpu_hour", "usd": usd, "effective_ms": T0_MS + at_s * 1000}
    return _event("prices", 0, sku=sku, **{**terms, **match})


def _lines() -> Iterator[str]:
    yield _price("a", "3.60", gpu_type="A")
    yield _price("b", "1.20", gpu_type="B", region="eu-1")
    yield _price("c", "4.80", gpu_type="C", per="instance_hour", gpus=8)
    yield _price("spot", "1.20", gpu_type="H", purchase="spot")
    yield _price("on-demand", "3.60", gpu_type="H", purchase="on_demand")
    # Changes while jobs run, so that what they paid is cut there and nowhere else.
    yield _price("b", "0.70", 1_000, gpu_type="B", region="eu-1")
    yield _price("next-day", "0.10", 86_400, gpu_type="H", purchase="reserved")
    yield _price("others", "0.10", gpu_type="H", team="another")
    held = {"gpu_count": 8, "gpu_type": "H", "team": "v"}
    yield _event("jobs", 0, job_id="s", type="started", purchase="spot", **held)
    yield _event("jobs", 3_600, job_id="s", type="checkpointed")
    yield _event("jobs", 5_400, job_id="s", type="preempted")
    yield _event("jobs", 5_820, job_id="s", attempt=2, type="started")
    yield _event("jobs", 9_420, job_id="s", attempt=2, type="completed")
    for hours in range(1, 7):
        yield _event("jobs", 0, job_id=f"o{hours}", type="started", purchase="on_demand", **held)
        yield _event("jobs", hours * 3_600, job_id=f"o{hours}", type="completed")
    for job_id in HOSTILE:
        yield _event("jobs", 0, job_id=job_id, type="started", gpu_count=1, gpu_type="A")
        yield _event("jobs", 1_801, job_id=job_id, type="completed")
    yield _event("jobs", 0, job_id="waits", type="queued")
    yield _event("jobs", 21_700, job_id="live", type="started", purchase="on_demand", **held)
    yield _event("jobs", 23_500, job_id="live", type="checkpointed")


def write(path: Path) -> Path:
    path.write_text("".join(_lines()), encoding="utf-8")
    return path
