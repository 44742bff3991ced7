"""Which records of the log count: refused, too late, duplicate or applied; grouped by job and node.

The order of the log matters here and nowhere after.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field

from tests.oracle.model import FUTURE_MS, PRICE_FIELDS, Counts, Json, Line

# "Lateness is counted within one partition of `jobs`, `gpu`, `network`, `storage`, `nodes`"
TOPICS_WITH_HORIZON = ("jobs", "gpu", "network", "storage", "nodes")


@dataclass(frozen=True)
class Sample:
    """The accepted part of a gpu record: whole seconds [first_s, end_s) of the GPUs not too late."""

    time_ms: int
    source: str
    id: str
    node: str
    attempt: int
    fields: dict[str, str]
    first_s: int
    end_s: int
    permille: dict[str, int]  # GPU id -> permille
    tensor: dict[str, int]  # the same of tensor_ratio, where the sample has it
    sm: dict[str, int] = field(default_factory=dict)  # the same of sm_ratio

    def newer(self) -> tuple[int, str, str, str, tuple[str, ...]]:
        """By the contract: "the newest sample (by time_ms, source, node, id)"; a last tie by its fields."""
        return (
            self.time_ms,
            self.source,
            self.node,
            self.id,
            tuple(self.fields.get(f, "") for f in PRICE_FIELDS),
        )


@dataclass
class JobLog:
    """What was accepted of one job."""

    events: list[Json] = field(default_factory=list)
    samples: list[Sample] = field(default_factory=list)
    traffic: list[tuple[str, Json]] = field(default_factory=list)  # (topic, event)


@dataclass
class Accepted:
    """What was accepted of a log, and the books of what was not."""

    jobs: dict[str, JobLog] = field(default_factory=dict)
    nodes: dict[str, list[Json]] = field(default_factory=dict)
    unattributed: list[Sample] = field(default_factory=list)  # of GPUs that no job has
    prices: list[Json] = field(default_factory=list)
    newest_ms: int = 0  # newest event time of a valid record, whatever its topic
    dead: list[tuple[int, str]] = field(default_factory=list)
    counts: Counts = field(default_factory=Counts)


def body(line: Line) -> Json:
    """The JSON object of a valid line; CloudEvents envelopes are the decoder's business."""
    if isinstance(line.value, bytes):
        parsed: Json = json.loads(line.value)
        return parsed
    return line.value


def attempt_of(event: Json) -> int:
    """By the contract: "`attempt` (integer from 1, default 1)"; null is absent."""
    number = event.get("attempt")
    return 1 if number is None else int(number)


class _Lateness:
    """The newest second of each (job, attempt, node, GPU), in log order."""

    def __init__(self, late_horizon_s: int) -> None:
        self._late_horizon_s = late_horizon_s
        self._newest_s: dict[tuple[str, int, str, str], int] = {}

    def accept(self, event: Json) -> Sample | None:
        """The sample without its late GPUs; None when all of them are late."""
        job_id, node, time_ms = event.get("job_id") or "", event["node"], event["time_ms"]
        attempt = attempt_of(event) if job_id else 0  # without a job only node and GPU count
        # A sample stands for "the whole seconds from floor((time_ms - interval_ms) / 1000)
        # up to, not including, floor(time_ms / 1000)".
        first_s, end_s = (time_ms - event["interval_ms"]) // 1000, time_ms // 1000
        gpus, ratios = event.get("gpus"), event["util_ratio"]
        if gpus is None:  # "A scalar `gpu` / `util_ratio` is accepted as an array of one"
            gpus = [event["gpu"]]
        if not isinstance(ratios, list):
            ratios = [ratios]
        tensor_ratios = event.get("tensor_ratio")
        if not isinstance(tensor_ratios, list):
            tensor_ratios = [tensor_ratios] * len(gpus)
        permille: dict[str, int] = {}
        sm_ratios = event.get("sm_ratio")
        if not isinstance(sm_ratios, list):
            sm_ratios = [sm_ratios] * len(gpus)
        tensor: dict[str, int] = {}
        sm: dict[str, int] = {}
        for gpu, ratio, tensor_ratio, sm_ratio in zip(gpus, ratios, tensor_ratios, sm_ratios, strict=True):
            newest_s = self._newest_s.get((job_id, attempt, node, gpu))
            # "begins more than `late_horizon` before the newest second seen, earlier in the log, of that GPU"
            if newest_s is not None and first_s < newest_s - self._late_horizon_s:
                continue
            # "the IEEE double product util_ratio x 1000.0, rounded half to even"; named twice, the largest
            permille[gpu] = max(permille.get(gpu, 0), round(float(ratio) * 1000.0))
            if tensor_ratio is not None:
                tensor[gpu] = max(tensor.get(gpu, 0), round(float(tensor_ratio) * 1000.0))
            if sm_ratio is not None:
                sm[gpu] = max(sm.get(gpu, 0), round(float(sm_ratio) * 1000.0))
        if not permille:
            return None
        if first_s < end_s:
            for gpu in permille:
                key = (job_id, attempt, node, gpu)
                self._newest_s[key] = max(self._newest_s.get(key, end_s - 1), end_s - 1)
        fields = {f: event[f] for f in PRICE_FIELDS if event.get(f) is not None}
        id_ = event.get("id") or ""
        return Sample(
            time_ms, event["source"], id_, node, attempt, fields, first_s, end_s, permille, tensor, sm
        )


class Intake:
    """A walk along the log, line by line. Without `job_horizon_ms` nothing is late in its partition."""

    def __init__(self, *, job_horizon_ms: int | None, late_horizon_s: int, run_start_ms: int | None) -> None:
        self.accepted = Accepted()
        self._job_horizon_ms = job_horizon_ms
        self._run_start_ms = run_start_ms
        self._lateness = _Lateness(late_horizon_s)
        self._newest_ms: dict[tuple[str, int], int] = {}
        self._seen: set[tuple[str, ...]] = set()
        self._lines = 0

    def take(self, line: Line) -> None:
        """Take in the next line."""
        out, index = self.accepted, self._lines
        self._lines += 1
        event = body(line) if line.valid else {}
        if not line.valid or (
            self._run_start_ms is not None and event["time_ms"] > self._run_start_ms + FUTURE_MS
        ):
            out.dead.append((index, "future" if line.valid else "invalid"))
            out.counts.dead_lettered += 1
            return
        time_ms: int = event["time_ms"]
        out.newest_ms = max(out.newest_ms, time_ms)
        place = (line.topic, line.partition)
        newest_before_ms = self._newest_ms.get(place, time_ms)
        self._newest_ms[place] = max(newest_before_ms, time_ms)
        late = (
            self._job_horizon_ms is not None
            and line.topic in TOPICS_WITH_HORIZON
            and time_ms < newest_before_ms - self._job_horizon_ms
        )
        outcome = "too_late" if late else _apply(line.topic, event, out, self._lateness, self._seen)
        if outcome == "too_late":
            out.dead.append((index, outcome))
            out.counts.too_late += 1
        elif outcome == "duplicate":
            out.counts.duplicate += 1
        elif outcome == "unattributed":
            out.counts.unattributed += 1
        else:
            out.counts.applied += 1


def take_in(
    lines: Iterable[Line], *, job_horizon_ms: int | None, late_horizon_s: int, run_start_ms: int | None
) -> Accepted:
    """Walk the log once."""
    intake = Intake(job_horizon_ms=job_horizon_ms, late_horizon_s=late_horizon_s, run_start_ms=run_start_ms)
    for line in lines:
        intake.take(line)
    return intake.accepted


def _apply(topic: str, event: Json, out: Accepted, lateness: _Lateness, seen: set[tuple[str, ...]]) -> str:
    if topic == "controls":
        return "applied"
    if topic == "prices":
        out.prices.append(event)  # which of two records of one revision stands is the price book's business
        return "applied"
    if topic == "gpu":
        sample = lateness.accept(event)
        if sample is None:  # "a record all of whose GPUs are late is dead-lettered"
            return "too_late"
        if not event.get("job_id"):  # "counted `unattributed`, and kept"
            out.unattributed.append(sample)
            return "unattributed"
        out.jobs.setdefault(event["job_id"], JobLog()).samples.append(sample)
        return "applied"
    # "Two events with equal (topic, job id or node, source, id) are one event:
    # the first valid one in the log counts"
    owner = event["node"] if topic == "nodes" else event["job_id"]
    identity = (topic, owner, event["source"], event["id"])
    if identity in seen:
        return "duplicate"
    seen.add(identity)
    if topic == "nodes":
        out.nodes.setdefault(owner, []).append(event)
    elif topic == "jobs":
        out.jobs.setdefault(owner, JobLog()).events.append(event)
    else:
        out.jobs.setdefault(owner, JobLog()).traffic.append((topic, event))
    return "applied"
