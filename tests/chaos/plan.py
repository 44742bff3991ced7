"""How large and how rough a run of chaos is, and what is told of it."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Final

KINDS: Final = ("kill", "term", "freeze", "join", "kill_all", "leave", "freeze_in_flight", "momentary")
#: Within which, after the last fault, every shard has an owner and metering goes on.
WELL_WITHIN_S: Final = 60.0


@dataclass(frozen=True)
class Plan:
    """How large and how rough a run is."""

    jobs: int
    seconds: int
    cycles: int
    per_s: float
    seed: int = 1
    partitions: int = 6
    kinds: tuple[str, ...] = KINDS
    session_timeout_ms: int = 3_000
    rest_s: tuple[float, float] = (1.0, 4.0)
    patience_s: float = 180.0  # a sweep may put rows right 90 s after a takeover
    # What a supervisor does with a worker that stands still, sooner: where batches get lost, the last of a topic may, and
    # nothing comes behind it that would show the hole.
    restart_after_s: float | None = None
    module: tuple[str, ...] = ("streams.cli.main",)
    env: dict[str, str] = field(default_factory=dict)
    # Whether budgets, rules across jobs and receipts are judged, too. The run has a present of its own then, and so many seconds
    # after it begins a week ends: everything must be sent by then.
    has_budgets: bool = False
    lead_s: float = 240.0


@dataclass
class Report:
    """What was done and what came of it."""

    events: int = 0
    cycles: list[str] = field(default_factory=list)
    seconds: float = 0.0
    rebalances: int = 0
    rows: int = 0
    drained: bool = True
    # After the last fault: until the group's description had an owner for every shard, and until more was committed.
    owned_after_s: float | None = None
    goes_on_after_s: float | None = None
    momentary: Counter[str] = field(default_factory=Counter)  # answers that the proxy gave, by kind
    exits: list[str] = field(default_factory=list)
    differences: list[str] = field(default_factory=list)
    told: Counter[str] = field(default_factory=Counter)  # messages by rule or type

    @property
    def parts_that_differ(self) -> set[str]:
        """Names of the tables, and `books`."""
        return {words.partition(" ")[0].rstrip(":") for words in self.differences}

    def __str__(self) -> str:
        kinds = ", ".join(f"{kind} {n}" for kind, n in sorted(Counter(self.cycles).items()))
        lines = {
            "events": f"{self.events:,}",
            "cycles": f"{len(self.cycles)} ({kinds})",
            "seconds": f"{self.seconds:.0f}",
            "events/s": f"{self.events / max(self.seconds, 1e-9):,.0f}",
            "rebalances": str(self.rebalances),
            "rows": f"{self.rows:,}",
            "drained": "yes" if self.drained else "NO",
            "owned after": _seconds(self.owned_after_s),
            "goes on after": _seconds(self.goes_on_after_s),
            "momentary": ", ".join(f"{kind} {n}" for kind, n in sorted(self.momentary.items())) or "none",
            "unasked exits": ", ".join(self.exits) or "none",
            "told": ", ".join(f"{rule} {n}" for rule, n in sorted(self.told.items())) or "nothing asked",
            "differences": str(len(self.differences)),
        }
        text = "\n".join(f"{name:<14}{value}" for name, value in lines.items())
        return "\n".join([text, *self.differences[:12]])


def _seconds(value_s: float | None) -> str:
    return f"NOT WITHIN {WELL_WITHIN_S:g} s" if value_s is None else f"{value_s:.1f} s"
