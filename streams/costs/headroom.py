"""What budgets leave: the SQL of their present state, and which of them limits what is asked for."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Final

LEVELS: Final = ("team", "owner", "project", "experiment", "job")
_NOTHING: Final = Decimal("0.000000000")
#: The budgets of the last minute that was judged, of those per run that of the job's run; one that is gone since has an older row.
HEADROOM: Final = """
SELECT budget, subject_kind, subject_name, per, toUnixTimestamp64Milli(period_start) AS period_start_ms,
    toUnixTimestamp64Milli(period_end) AS period_end_ms, match, limit_usd, limit_gpu_hours, limit_wall_clock_hours, used_usd,
    used_gpu_hours, used_wall_clock_hours, used_ratio, usd_per_hour, toUnixTimestamp64Milli(time) AS time_ms
FROM budget_use FINAL
WHERE time = (SELECT max(time) FROM budget_use) AND subject_kind != '' AND (per != 'run' OR subject_name = {job:String} OR has(jobs, {job:String}))
ORDER BY used_ratio DESC, budget"""


@dataclass(frozen=True)
class Left:
    """What one budget leaves; None: it does not limit it."""

    budget: str
    subject: str
    per: str
    usd: Decimal | None
    gpu_hours: float | None
    wall_clock_hours: float | None
    used_ratio: float
    usd_per_hour: Decimal
    time_ms: int

    def object(self) -> dict[str, Any]:
        """Return it for JSON: money as decimal strings."""
        return {
            "budget": self.budget,
            "subject": self.subject,
            "per": self.per,
            "headroom_usd": None if self.usd is None else f"{self.usd:f}",
            "headroom_gpu_hours": self.gpu_hours,
            "headroom_wall_clock_hours": self.wall_clock_hours,
            "used_ratio": self.used_ratio,
            "usd_per_hour": f"{self.usd_per_hour:f}",
        }


def lefts(rows: Iterable[Mapping[str, Any]], asked: Mapping[str, str]) -> list[Left]:
    """What the budgets leave that apply to what is asked for: all that they match on is named, and equal."""
    facts = {"job_id" if name == "job" else name: value for name, value in asked.items()}
    return [_left(row) for row in rows if row["per"] == "run" or dict(row["match"]).items() <= facts.items()]


def least(found: Sequence[Left]) -> dict[str, Any]:
    """The least that is left over all budgets, for JSON; None: nothing limits it."""
    usd = min((each.usd for each in found if each.usd is not None), default=None)
    return {
        "headroom_usd": None if usd is None else f"{usd:f}",
        "headroom_gpu_hours": min(
            (each.gpu_hours for each in found if each.gpu_hours is not None), default=None
        ),
        "as_of_ms": max((each.time_ms for each in found), default=None),
        "budgets": [each.object() for each in found],
    }


def _left(row: Mapping[str, Any]) -> Left:
    usd = row["limit_usd"]
    return Left(
        budget=row["budget"],
        subject=f"{row['subject_kind']} {row['subject_name']}".strip(),
        per=row["per"],
        usd=max(usd - row["used_usd"], _NOTHING) if usd else None,
        gpu_hours=_rest(row, "gpu_hours"),
        wall_clock_hours=_rest(row, "wall_clock_hours"),
        used_ratio=row["used_ratio"],
        usd_per_hour=row["usd_per_hour"],
        time_ms=int(row["time_ms"]),
    )


def _rest(row: Mapping[str, Any], unit: str) -> float | None:
    limit = float(row[f"limit_{unit}"])
    return max(limit - float(row[f"used_{unit}"]), 0.0) if limit else None
