"""The attempts of one job from its set of lifecycle events: paid segments, ends, states, lost time."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from tests.oracle.intake import JobLog, attempt_of
from tests.oracle.model import ENDS, JOB_TYPES, PAID_AT_MOST_MS, PRICE_FIELDS, STARTS, Json, milli

Interval = tuple[int, int]
ENDLESS_MS = 2**62

# "the attempt is then"; types that are not here leave it as before
STATE_AFTER = {
    "queued": "queued", "allocated": "starting", "started": "running", "resumed": "running",
    "suspended": "suspended",
}  # fmt: skip


@dataclass(frozen=True)
class Values:
    """What "holds from the event that names them to the next one that does"."""

    gpu_milli: int = 0  # "never named, it is 0"
    nodes: dict[str, int] | None = None
    instance_milli: int = 0
    cpu_milli: int = 0
    memory_milli: int = 0
    fields: dict[str, str] = field(default_factory=dict)
    team: str = ""  # of a node

    def after(self, event: Json) -> Values:
        """The values from this event on."""
        gpu_milli, nodes = self.gpu_milli, self.nodes
        if event.get("nodes") is not None:
            # "Where `gpu_count` is absent and `nodes` is given, it is their sum"; given both, they are equal.
            nodes = {node: milli(count) for node, count in event["nodes"].items()}
            gpu_milli = sum(nodes.values())
        elif event.get("gpu_count") is not None:
            gpu_milli = milli(event["gpu_count"])
            # "a `gpu_count` without `nodes` keeps the nodes only if it equals their sum, else forgets them"
            if nodes is not None and sum(nodes.values()) != gpu_milli:
                nodes = None

        def named(name: str, before: int) -> int:
            return before if event.get(name) is None else milli(event[name])

        return Values(
            gpu_milli,
            nodes,
            named("instance_count", self.instance_milli),
            named("cpu_count", self.cpu_milli),
            named("memory_gib", self.memory_milli),
            self.fields | {f: event[f] for f in PRICE_FIELDS if event.get(f) is not None},
            self.team if event.get("team") is None else event["team"],
        )

    def places(self) -> list[tuple[str, int]]:
        """(node, thousandths of a GPU): "Rows per GPU-time follow the nodes"; '' when they are not known."""
        places = list(self.nodes.items()) if self.nodes is not None else [("", self.gpu_milli)]
        return [(node, gpu_milli) for node, gpu_milli in places if gpu_milli]

    def instances(self) -> list[tuple[str, int]]:
        """(node, thousandths of an instance): shared out evenly where all nodes have no GPUs, else without a node."""
        if not self.nodes or self.gpu_milli:
            return [("", self.instance_milli)]
        each, more = divmod(self.instance_milli, len(self.nodes))
        return [(node, each + (1 if place < more else 0)) for place, node in enumerate(sorted(self.nodes))]


class Segment(NamedTuple):
    """Paid time [start, end) with what was held in it."""

    start_ms: int
    end_ms: int
    phase: str
    values: Values


@dataclass
class Attempt:
    """One attempt; `number` orders the attempts of a job."""

    number: int
    events: list[Json]  # all accepted ones, sorted
    has_samples: bool
    superseded_ms: int | None = None
    initial: Values = field(default_factory=Values)

    @property
    def own_end(self) -> Json | None:
        """By the contract: "The first ending event ends it"."""
        return next((e for e in self.events if e["type"] in ENDS), None)

    @property
    def effective(self) -> list[Json]:
        """Events through the end; "what is later is kept but changes nothing (`after_end`)"."""
        if self.own_end is not None:
            return self.events[: self.events.index(self.own_end) + 1]
        if self.superseded_ms is not None:
            return [e for e in self.events if e["time_ms"] <= self.superseded_ms]
        return self.events

    @property
    def metered(self) -> bool:
        """By "An attempt with no `allocated` or `started` event is metered"; one after the end counts."""
        return not any(e["type"] in STARTS for e in self.events)

    @property
    def final(self) -> Values:
        """The values with which the next attempt begins."""
        values = self.initial
        for event in self.effective:
            values = values.after(event)
        return values

    def first_start_ms(self) -> int | None:
        """Its first allocated, started or resumed event that is not after its own end."""
        through_end = self.events if self.own_end is None else self.effective
        return next((e["time_ms"] for e in through_end if e["type"] in STARTS), None)

    def state(self) -> str:
        """The attempt's state by name."""
        if self.own_end is not None:
            return str(self.own_end["type"])
        if self.superseded_ms is not None:
            return "superseded"
        if self.metered and (self.has_samples or not self.events):
            return "metered"
        # Events that set no state leave the attempt as it began: not yet held, so queued.
        states = ["queued", *(STATE_AFTER[e["type"]] for e in self.events if e["type"] in STATE_AFTER)]
        return states[-1]

    def segments(self, as_of_ms: int) -> list[Segment]:
        """Paid time. Metered attempts have none: their samples pay."""
        if self.metered:
            return []
        if self.own_end is not None:
            end_ms: int = self.own_end["time_ms"]
        else:
            # "Attempts that have not ended are paid up to the meter's clock"
            end_ms = as_of_ms if self.superseded_ms is None else self.superseded_ms
        found: list[Segment] = []
        phase, values = "", self.initial
        for index, event in enumerate(self.effective):
            values = values.after(event)
            phase = _phase_after(event, phase)
            is_last = index + 1 == len(self.effective)
            until_ms = end_ms if is_last else min(end_ms, self.effective[index + 1]["time_ms"])
            if phase and event["time_ms"] < until_ms:
                found.append(Segment(event["time_ms"], until_ms, phase, values))
        if not found:
            return []
        # "An attempt is paid for 400 days at most", from its first paid instant.
        cap_ms = found[0].start_ms + PAID_AT_MOST_MS
        capped = [s._replace(end_ms=min(s.end_ms, cap_ms)) for s in found]
        return [s for s in capped if s.start_ms < s.end_ms]

    def lost(self, *, has_lower: bool) -> list[Interval]:
        """Lost time as disjoint intervals: "a second is lost once"."""
        if self.metered:  # "no wall-clock time and no lost work"
            return []
        intervals: list[Interval] = []
        broke_off_ms = self.superseded_ms  # "as if it had failed at that instant"
        if self.own_end is not None:
            broke_off_ms = (
                self.own_end["time_ms"] if self.own_end["type"] in ("preempted", "failed") else None
            )
        if broke_off_ms is not None:
            # Lost is the time "from its last `checkpointed` (else its start) to its end".
            checkpoints = [e["time_ms"] for e in self.effective if e["type"] == "checkpointed"]
            since_ms = checkpoints[-1] if checkpoints else self.first_start_ms()
            if since_ms is not None:
                intervals.append((since_ms, broke_off_ms))
        if has_lower:  # "plus the `starting` phase of every attempt after the lowest-numbered"
            # The meter's clock "cuts nothing else": a start-up that goes on has no end yet.
            intervals += [(s.start_ms, s.end_ms) for s in self.segments(ENDLESS_MS) if s.phase == "starting"]
        return union(intervals)


def _phase_after(event: Json, phase: str) -> str:
    """The phase in which the attempt is paid from this event on, '' when it is not."""
    kind = event["type"]
    if kind == "suspended":
        return "suspended" if event.get("holds_gpus") else ""  # "released, unless `holds_gpus` is true"
    if kind == "queued" or kind in ENDS:
        return ""
    if kind in STARTS:
        return STATE_AFTER[kind]
    return phase


def union(intervals: Iterable[Interval]) -> list[Interval]:
    """The same time as disjoint, sorted, non-empty intervals."""
    joined: list[Interval] = []
    for start_ms, end_ms in sorted(i for i in intervals if i[0] < i[1]):
        if joined and start_ms <= joined[-1][1]:
            joined[-1] = (joined[-1][0], max(joined[-1][1], end_ms))
        else:
            joined.append((start_ms, end_ms))
    return joined


def overlaps(intervals: Iterable[Interval], start_ms: int, end_ms: int) -> Iterator[Interval]:
    """The parts of disjoint intervals inside [start, end)."""
    for a_ms, b_ms in intervals:
        if max(a_ms, start_ms) < min(b_ms, end_ms):
            yield max(a_ms, start_ms), min(b_ms, end_ms)


def event_order(event: Json) -> tuple[int, int, str, str]:
    """By the contract: "sorted by (`time_ms`, order of the types, then `source`, `id`)"."""
    return (event["time_ms"], JOB_TYPES.index(event["type"]), event["source"], event["id"])


def attempts_of(log: JobLog) -> list[Attempt]:
    """The attempts of a job, lowest first; samples or traffic alone make an attempt too."""
    sampled = {s.attempt for s in log.samples}
    numbers = {attempt_of(e) for e in log.events} | sampled | {attempt_of(e) for _, e in log.traffic}
    attempts = [
        Attempt(n, sorted((e for e in log.events if attempt_of(e) == n), key=event_order), n in sampled)
        for n in sorted(numbers)
    ]
    values = Values()
    for index, attempt in enumerate(attempts):
        # "An attempt without an end of its own ends when the earliest first `allocated` or `started`
        # of any later attempt happens"
        if attempt.own_end is None:
            starts_ms = [later.first_start_ms() for later in attempts[index + 1 :]]
            attempt.superseded_ms = min((t for t in starts_ms if t is not None), default=None)
        # "a later attempt begins with the last values before it"
        attempts[index] = replace(attempt, initial=values)
        values = attempts[index].final
    return attempts
