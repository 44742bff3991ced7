"""A made-up fleet as the API would tell it: 40 jobs over a few hours, one of which runs away, one of which sleeps.

Everything follows from the instant that is asked for, so that two answers about it agree.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

MINUTE_MS = 60_000
HOUR_MS = 3_600_000
BEGAN_MS = 1_780_300_800_000  # 2026-06-01 08:00 UTC
HOSTILE = "<img src=x onerror=alert(1)>"

TABLES = {
    "tables": [
        {
            "name": "job_costs",
            "is_view": True,
            "about": "Everything of one job.",
            "columns": [
                {"name": "job_id", "type": "String"},
                {"name": "team", "type": "String"},
                {"name": "cost_usd", "type": "Decimal(38, 9)"},
            ],
        },
        {
            "name": "alerts",
            "is_view": False,
            "about": "",
            "columns": [{"name": "rule", "type": "String"}, {"name": "started", "type": "DateTime64(3)"}],
        },
    ],
    "examples": [
        {"title": "Cost by team", "sql": "SELECT team, sum(cost_usd) AS usd\nFROM job_costs\nGROUP BY team"}
    ],
}

_OWNERS = (
    ("ada", "vision", "atlas"),
    ("grace", "language", "babel"),
    ("linus", "speech", "echo"),
    ("margaret", "robotics", "gripper"),
    ("edsger", "language", "babel"),
    ("barbara", "vision", "atlas"),
)
_PRICES = {"H100": 2.49, "A100": 1.29, "L40S": 0.86}


@dataclass(frozen=True)
class Spec:
    """What a job is, as far as the API needs it."""

    job_id: str
    gpus: int
    gpu_type: str
    owner: int
    start_ms: int
    end_ms: int | None = None
    use: float | None = 0.8
    expected: float = 1.0  # of the quoted rate
    story: str = ""

    def rate(self, at_ms: int) -> float:
        """Dollars per hour at an instant."""
        if at_ms < self.start_ms or (self.end_ms is not None and at_ms >= self.end_ms):
            return 0.0
        gpus = self.gpus * (8 if self.story == "scaled" and at_ms >= BEGAN_MS + 200 * MINUTE_MS else 1)
        if self.story == "spot" and (at_ms // MINUTE_MS) % 70 < 6:
            return 0.0
        return gpus * _PRICES[self.gpu_type] * 1.12

    def cost(self, at_ms: int) -> float:
        """Dollars from the start to an instant, in steps of a minute and the rest."""
        minutes, rest_ms = divmod(max(0, at_ms - self.start_ms), MINUTE_MS)
        whole = sum(self.rate(self.start_ms + at * MINUTE_MS) for at in range(minutes))
        return (whole * MINUTE_MS + self.rate(at_ms) * rest_ms) / HOUR_MS


def specs() -> list[Spec]:
    """The jobs of the fleet."""
    fixed = [
        Spec("llm-pretrain-7b", 128, "H100", 1, BEGAN_MS + 4 * MINUTE_MS, use=0.91),
        Spec("diffusion-xl-finetune", 8, "H100", 0, BEGAN_MS + 35 * MINUTE_MS, use=0.34, story="scaled"),
        Spec("asr-conformer-spot", 32, "A100", 2, BEGAN_MS + 12 * MINUTE_MS, use=0.77, story="spot"),
        Spec("notebook-barbara-tmp", 16, "A100", 5, BEGAN_MS + 2 * MINUTE_MS, use=0.01, story="idle"),
        Spec("reward-model-v3", 16, "H100", 4, BEGAN_MS + 60 * MINUTE_MS, use=0.69, expected=0.62),
        Spec("grasp-policy-ppo", 24, "L40S", 3, BEGAN_MS + 20 * MINUTE_MS, use=0.58),
        Spec("eval-harness-nightly", 4, "L40S", 4, BEGAN_MS + 5 * MINUTE_MS, BEGAN_MS + 90 * MINUTE_MS, 0.66),
    ]
    sweep = [
        Spec(
            f"sweep-vit-lr/trial-{at:02d}",
            (1, 2, 4)[at % 3],
            ("A100", "L40S")[at % 2],
            (0, 3, 5)[at % 3],
            BEGAN_MS + at * 6 * MINUTE_MS,
            BEGAN_MS + (at * 6 + 40) * MINUTE_MS if at < 22 else None,
            0.5 + (at % 5) * 0.09,
        )
        for at in range(33)
    ]
    return [*fixed, *sweep]


def usd(value: float) -> str:
    """Money as the API writes it."""
    return f"{value:.9f}"


def job_row(spec: Spec, now_ms: int, alerts: list[dict[str, Any]]) -> dict[str, Any]:
    """One JOB of the API."""
    owner, team, project = _OWNERS[spec.owner]
    now = spec.rate(now_ms)
    quoted = spec.gpus * _PRICES[spec.gpu_type] * 1.12 * spec.expected
    live = spec.end_ms is None or spec.end_ms > now_ms
    minutes = range(59, -1, -1)
    cost = spec.cost(now_ms)
    return {
        "job_id": spec.job_id,
        "owner": owner,
        "team": team,
        "project": project,
        "experiment": "vit-lr" if spec.job_id.startswith("sweep") else "",
        "state": ("running" if now else "suspended") if live else "completed",
        "attempts": 4 if spec.story == "spot" else 1,
        "gpu_count": spec.gpus * (8 if spec.story == "scaled" and now > quoted * 2 else 1),
        "cluster": "fra-1",
        "region": "eu-central-1",
        "purchase": "spot" if spec.story == "spot" else "on_demand",
        "gpu_type": spec.gpu_type,
        "started_ms": spec.start_ms,
        "ended_ms": None if live else spec.end_ms,
        **{name: usd(now) for name in ("usd_per_hour_now", "usd_per_hour", "usd_per_hour_15m")},
        **{name: usd(now) for name in ("usd_per_hour_1h", "usd_per_hour_6h")},
        "expected_usd_per_hour": usd(quoted),
        "ratio": now / quoted if live else None,
        "cost_usd": usd(cost),
        "lost_cost_usd": usd(cost * 0.11 if spec.story == "spot" else 0),
        "gpu_h": cost / _PRICES[spec.gpu_type] / 1.12,
        "productive_ratio": spec.use if live else None,
        "sparkline": [[at, _wobble(spec, at)] for at in (now_ms - each * 3 * MINUTE_MS for each in minutes)],
        "alerts": [
            {name: each[name] for name in ("alert_id", "rule", "severity", "status")}
            for each in alerts
            if each["subject"]["name"] == spec.job_id and each["status"] == "firing"
        ],
    }


def detail(spec: Spec, now_ms: int, alerts: list[dict[str, Any]]) -> dict[str, Any]:
    """The answer about one job."""
    end_ms = min(now_ms, spec.end_ms or now_ms)
    row = job_row(spec, now_ms, alerts)
    cost = spec.cost(now_ms)
    minutes = range(spec.start_ms // MINUTE_MS, end_ms // MINUTE_MS)
    expected = float(row["expected_usd_per_hour"])
    tries = list(_attempts(spec, end_ms))
    shares = {"gpu": 0.86, "compute": 0.06, "network": 0.012, "storage": 0.018, "overhead": 0.05}
    return {
        "job": row,
        "costs": {name: usd(cost * share) for name, share in shares.items()},
        "attempts": [
            {
                **{name: row[name] for name in ("region", "purchase", "gpu_type", "gpu_count")},
                "attempt": at,
                "state": row["state"] if to_ms == end_ms else "preempted",
                "reason": "" if to_ms == end_ms else "spot_reclaim",
                "started_ms": from_ms,
                "ended_ms": to_ms if to_ms < now_ms else None,
                "cost_usd": usd(cost / len(tries)),
                "lost_cost_usd": usd(0 if to_ms == end_ms else cost * 0.11 / max(1, len(tries) - 1)),
            }
            for at, from_ms, to_ms in tries
        ],
        "phases": [
            {"attempt": at, "phase": phase, "start_ms": start, "end_ms": end}
            for at, from_ms, to_ms in tries
            for phase, start, end in (
                ("starting", from_ms, from_ms + 4 * MINUTE_MS),
                ("running", from_ms + 4 * MINUTE_MS, to_ms),
            )
        ],
        "usage": [
            [at * MINUTE_MS, spec.gpus * 60, max(0.0, min(1.0, (spec.use or 0) + 0.08 * math.sin(at / 5)))]
            for at in minutes
            if spec.rate(at * MINUTE_MS)
        ],
        "burn": [
            [at * MINUTE_MS, _wobble(spec, at * MINUTE_MS), spec.cost(at * MINUTE_MS) / max(1, at - minutes[0]) * 60, expected]
            for at in minutes[1::2]
        ],
        "alerts": [each for each in alerts if each["subject"]["name"] == spec.job_id],
    }  # fmt: skip


def explain(spec: Spec, now_ms: int) -> dict[str, Any]:
    """The intervals behind the cost: per hour and node."""
    nano_total = 0
    intervals = []
    at_ms = spec.start_ms
    while at_ms < min(now_ms, spec.end_ms or now_ms):
        to_ms = min(at_ms + HOUR_MS, now_ms)
        for node in range(max(1, spec.gpus // 8)):
            quantity = min(8, spec.gpus) * 1000 * (to_ms - at_ms)
            nano = round(quantity * _PRICES[spec.gpu_type] / 3.6)
            nano_total += nano
            intervals.append(
                {
                    "from_ms": at_ms,
                    "to_ms": to_ms,
                    "attempt": 1,
                    "node": f"fra-gpu-{node:03d}",
                    "component": "gpu",
                    "phase": "running",
                    "quantity": quantity,
                    "unit": "gpu_milli_ms",
                    "price_usd": usd(_PRICES[spec.gpu_type]),
                    "per": "gpu_hour",
                    "sku": f"aws.{spec.gpu_type.lower()}",
                    "cost_usd": f"{nano // 10**9}.{nano % 10**9:09d}",
                    "lost_cost_usd": "0.000000000",
                    "rule": f"GPUs held while running; price matches gpu_type={spec.gpu_type}",
                }
            )
        at_ms = to_ms
    total = f"{nano_total // 10**9}.{nano_total % 10**9:09d}"
    return {"job_id": spec.job_id, "total_usd": total, "intervals": intervals}


def alert(job: str, whose: int, began_ms: int, **changes: Any) -> dict[str, Any]:
    """One alert of the API."""
    who, team, project = _OWNERS[whose]
    row = {
        "alert_id": f"al_{abs(hash((job, began_ms))):024x}"[:27],
        "rule": "burn_fast",
        "severity": "page",
        "status": "firing",
        "subject": {"kind": "job", "name": job},
        "owner": who,
        "team": team,
        "project": project,
        "started_ms": began_ms,
        "resolved_ms": None,
        "ratio": 6.4,
        "usd_per_hour": "142.771200000",
        "expected_usd_per_hour": "22.310400000",
        "cost_usd": "35.692800000",
        "window_ms": 15 * MINUTE_MS,
        "summary": f"job {job} burns 142.77 USD/h, 6.4 times the expected 22.31 USD/h, over 15 min",
        "evidence_sql": "SELECT time, usd_per_hour_15m, expected_usd_per_hour\nFROM burn_rates FINAL\n"
        f"WHERE job_id = '{job}'\nORDER BY time",
        "silenced": False,
        "deliveries": [delivered(began_ms)],
    }
    return row | changes


def delivered(
    at_ms: int, outcome: str = "delivered", status: str = "firing", detail: str = ""
) -> dict[str, Any]:
    """One row about a message."""
    return {
        "time_ms": at_ms + 900,
        "status": status,
        "receiver": "http://127.0.0.1:9000",
        "attempt": 1,
        "outcome": outcome,
        "http_status": 204 if outcome == "delivered" else 503,
        "detail": detail,
    }


def _attempts(spec: Spec, end_ms: int) -> Iterator[tuple[int, int, int]]:
    """Number, start and end of each attempt: a spot job is held between its reclaims."""
    if spec.story != "spot":
        yield 1, spec.start_ms, end_ms
        return
    held = [at for at in range(spec.start_ms, end_ms, MINUTE_MS) if spec.rate(at)]
    number, first = 1, held[0]
    for before, after in zip(held, [*held[1:], None], strict=True):
        if after is None or after - before > MINUTE_MS:
            yield number, first, end_ms if after is None else before + MINUTE_MS
            number, first = number + 1, after or 0


def _wobble(spec: Spec, at_ms: int) -> float:
    return spec.rate(at_ms) * (1 + 0.03 * math.sin(at_ms / 240_000 + spec.gpus))
