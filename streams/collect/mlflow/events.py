"""Makes events of what a tracker says about a run. Pure functions: equal answers give equal events.

MLflow keeps one start and one end of a run: that it was resumed is seen by a poll, so a later attempt begins there.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any, Final, NamedTuple, get_args

import msgspec
from msgspec.structs import replace

from schemas.events import PRICE_FIELDS
from schemas.wire_types import Purchase
from streams.accounts.account import Account
from streams.collect.collector import CollectedEvent
from streams.collect.mlflow.progress import KnownRun
from streams.collect.mlflow.records import COSTS, ENDS, TrackedRun
from streams.collect.mlflow.tracker_options import TrackerOptions
from streams.collect.values import event_text
from streams.topics import Topic

JOB_ID: Final = "trainfare.job_id"
ATTEMPT: Final = "trainfare.attempt"
_PURCHASES: Final[tuple[str, ...]] = get_args(Purchase)
_SYSTEM: Final = "system/"
_NAMES_AT_MOST: Final = 64
_NAME_BYTES: Final = 256
#: Clocks of trainings may be ahead of ours by this; the meter bears as much.
_AHEAD_MS: Final = 240_000
#: A run that has logged nothing for so long was probably killed: trackers do not learn of that.
_SILENT_MS: Final = 86_400_000


class RunNews(NamedTuple):
    """The new events of a run, and what is known of it now."""

    events: list[CollectedEvent]
    run: KnownRun


class PollTimes(NamedTuple):
    """When MLflow was read before (0: never) and when now, and since when runs count; ms."""

    before_ms: int
    now_ms: int
    since_ms: int


def job_id_of(run: TrackedRun, options: TrackerOptions) -> str:
    """The job that a run is, or belongs to.

    Raises:
        ValueError: The id in its tag is too long.
    """
    found = run.tags.get(JOB_ID) or options.job_id_prefix + run.run_id
    if len(found.encode("utf-8", "replace")) > 200:
        raise ValueError(f"run {run.run_id}: {JOB_ID} has more than 200 bytes")
    return found


def new_run_events(
    run: TrackedRun, experiment: str, known: KnownRun | None, times: PollTimes, options: TrackerOptions
) -> RunNews:
    """What is new of a run: of one that is a job its life, and of each what its metrics say.

    Raises:
        ValueError: One of its tags has no meaning.
    """
    job_id = job_id_of(run, options)
    attempt = attempt_tag(run)
    events: list[CollectedEvent] = []
    if JOB_ID in run.tags:
        found = known or KnownRun(attempt or 1)
        found = replace(found, ended_ms=0 if run.is_live else max(run.end_ms, 1))
        described: dict[str, Any] = {"experiment": event_text(experiment)} if experiment else {}
    else:
        described = _description(run, experiment, options)
        events, found = _life(
            run, job_id, known or KnownRun(attempt or 1), known is None, described, times, options
        )
    measured = _measures(run, times, options)
    if measured is not None and _digest(measured) != found.measured:
        at_ms, fields = max(measured[0], times.since_ms), measured[1]
        found = replace(found, measured=_digest(measured))
        type_ = "heartbeat" if run.is_live else "updated"
        attached = described if JOB_ID in run.tags else {}
        what = f"{at_ms}.{found.measured}"
        # An attempt that the tag does not name is the scheduler's business: the meter takes 1.
        number = attempt if JOB_ID in run.tags else found.attempt
        events.append(_event(run, job_id, number, type_, at_ms, what, {**attached, **fields}, options))
    return RunNews(events, found)


def _life(
    run: TrackedRun,
    job_id: str,
    known: KnownRun,
    is_new: bool,
    described: Mapping[str, Any],
    times: PollTimes,
    options: TrackerOptions,
) -> tuple[list[CollectedEvent], KnownRun]:
    """The starts and ends of a run that is a job of its own, and its changed description."""
    events: list[CollectedEvent] = []

    def add(type_: str, at_ms: int, what: str, fields: Mapping[str, Any]) -> None:
        at_ms = max(at_ms, times.since_ms)
        events.append(_event(run, job_id, known.attempt, type_, at_ms, what, fields, options))

    if is_new:
        add("started", run.start_ms, str(run.start_ms), described)
        known = replace(known, described=_digest(described))
        if run.is_live and run.end_ms:
            # It was resumed before it was seen: how it ended is not known any more.
            add("preempted", run.end_ms, str(run.end_ms), {"reason": "unknown"})
            known = replace(known, ended_ms=run.end_ms)
    if known.ended_ms and (run.is_live or run.end_ms > known.ended_ms) and not run.is_deleted:
        # Of one that was resumed and ended between two polls only the end is known.
        resumed_ms = times.now_ms if run.is_live else min(times.before_ms, run.end_ms)
        before_ms = known.ended_ms
        known = replace(known, attempt=known.attempt + 1, ended_ms=0)
        add("resumed", max(resumed_ms, before_ms + 1), str(before_ms), described)
        known = replace(known, described=_digest(described))
    if known.described != _digest(described):
        known = replace(known, described=_digest(described))
        add("updated", times.now_ms, f"{times.now_ms}.{known.described}", described)
    if not known.ended_ms and not run.is_live:
        type_ = ENDS.get(run.status, "cancelled")  # deleted while it ran
        end_ms = run.end_ms if run.status in ENDS else times.now_ms
        add(type_, end_ms, str(end_ms), {"reason": "unknown"} if type_ == "failed" else {})
        known = replace(known, ended_ms=end_ms)
    return events, known


def _description(run: TrackedRun, experiment: str, options: TrackerOptions) -> dict[str, Any]:
    """What the tags `trainfare.NAME` and MLflow's own say about a run."""
    named = {name: options.price_fields.get(name, "") for name in PRICE_FIELDS}
    named |= {"owner": run.tags.get("mlflow.user", ""), "experiment": experiment, "run_id": run.run_id}
    for name in ("owner", "team", "project", *PRICE_FIELDS):
        named[name] = run.tags.get(f"trainfare.{name}") or named.get(name, "")
    if named["purchase"] not in ("", *_PURCHASES):
        raise ValueError(f"run {run.run_id}: trainfare.purchase is none of {', '.join(_PURCHASES)}")
    labels = {
        f"{options.tracker}_run": run.run_id,
        f"{options.tracker}_run_name": run.name,
        f"{options.tracker}_parent": run.tags.get("mlflow.parentRunId", ""),
    }
    return {
        "gpu_count": _gpus(run, options),
        **{name: event_text(text) for name, text in named.items() if text},
        "labels": {name: event_text(text) for name, text in labels.items() if text},
    }


def account_for(run: TrackedRun, options: TrackerOptions, account: Account, now_ms: int) -> None:
    """Account for a run whose events are made: one that is a job and names no GPUs costs nothing.

    `now_ms`: 0 where a later attempt ends it, so that it needs no end of its own.
    """
    if JOB_ID not in run.tags and run.is_backwards:
        account.not_understood("no_times", f"run {run.run_id} ends before it starts: it costs nothing")
    elif JOB_ID not in run.tags and _gpus(run, options) and _is_silent(run, now_ms):
        said = f"run {run.run_id} has no end, and has logged nothing for a day: it is paid on"
        account.not_understood("no_end", said)
    elif JOB_ID in run.tags or _gpus(run, options):
        account.metered()
    elif run.uses_gpus:
        account.not_understood("unnamed_gpus", f"run {run.run_id}: its system metrics are of GPUs")
    else:
        account.free("no_gpus_named")


def _is_silent(run: TrackedRun, now_ms: int) -> bool:
    return run.is_live and max(run.start_ms, run.logged_ms) < now_ms - _SILENT_MS


def _gpus(run: TrackedRun, options: TrackerOptions) -> float | int:
    text = run.tags.get("trainfare.gpus", "")
    try:
        gpus = float(text) if text else options.default_gpus
    except ValueError:
        gpus = -1.0
    if not 0 <= gpus <= 100_000:
        raise ValueError(f"run {run.run_id}: trainfare.gpus is no number of GPUs")
    milli = round(gpus * 1000)
    return milli // 1000 if milli % 1000 == 0 else milli / 1000


def attempt_tag(run: TrackedRun) -> int | None:
    """Which attempt its tag says that it is; None without one.

    Raises:
        ValueError: It says no number.
    """
    text = run.tags.get(ATTEMPT, "")
    if text and not (text.isascii() and text.isdigit() and 0 < int(text[:11]) < 2**31):
        raise ValueError(f"run {run.run_id}: {ATTEMPT} is no number from 1")
    return int(text) if text else None


def _measures(
    run: TrackedRun, times: PollTimes, options: TrackerOptions
) -> tuple[int, dict[str, Any]] | None:
    """Quality and progress with their time, that of the newest metric; None where there are none."""
    newest_ms, step = 0, None
    quality: dict[str, float] = {}
    progress: dict[str, float] = {}
    for name, metric in sorted(run.metrics.items()):
        is_late = not times.since_ms <= metric.at_ms <= times.now_ms + _AHEAD_MS
        if name in COSTS or name.startswith(_SYSTEM) or is_late or not _is_fit(name, metric.value):
            continue
        if _matches(name, options.progress):
            progress[name] = metric.value
        elif _matches(name, options.quality):
            quality[name] = metric.value
        else:
            continue
        newest_ms = max(newest_ms, metric.at_ms)
        step = metric.step if step is None else max(step, metric.step)
    if step is None:
        return None
    progress["step"] = step
    fields = {"quality": _first(quality), "progress": _first(progress)}
    return newest_ms, {name: found for name, found in fields.items() if found}


def _is_fit(name: str, value: float) -> bool:
    return math.isfinite(value) and 0 < len(name.encode("utf-8", "replace")) <= _NAME_BYTES


def _first(values: Mapping[str, float]) -> dict[str, float]:
    return dict(sorted(values.items())[:_NAMES_AT_MOST])


def _matches(name: str, patterns: Sequence[str]) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns)


def _digest(content: object) -> str:
    return hashlib.blake2b(msgspec.json.encode(content, order="sorted"), digest_size=8).hexdigest()


def _event(
    run: TrackedRun,
    job_id: str,
    attempt: int | None,
    type_: str,
    at_ms: int,
    what: str,
    fields: Mapping[str, Any],
    options: TrackerOptions,
) -> CollectedEvent:
    value = {
        **fields,
        "id": f"{run.run_id}.{attempt or 1}.{type_}.{what}",
        "source": options.source,
        "time_ms": at_ms,
        "job_id": job_id,
        "attempt": attempt or 1,
        "type": type_,
    }
    return CollectedEvent(Topic.JOBS, value)
