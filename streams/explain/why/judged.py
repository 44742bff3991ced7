"""How far each rule about a job is from firing, as its shard's judge has it: asked of the state that the store has of the job."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

import msgspec

from schemas.events import ControlEvent
from streams.engine.rules.rule import SHARE_MAX, Margin
from streams.engine.shard.margins import StoredJob, controls_of
from streams.explain.job import shard_of
from streams.explain.stored import ExplainedStore

#: Of each control the newest record that was in the log then; an older release stored none of their values.
CONTROLS: Final = """
SELECT kind, name, value, removed FROM controls FINAL
WHERE kind IN ('rule', 'planned') AND time <= fromUnixTimestamp64Milli({at_ms:Int64}, 'UTC')
ORDER BY offset DESC LIMIT 1 BY kind, name"""
_NEWEST: Final = """
SELECT greatest(toUnixTimestamp64Milli((SELECT max(time) FROM burn_rates WHERE job_id = {job:String})),
                toUnixTimestamp64Milli((SELECT max(last_event) FROM jobs FINAL WHERE job_id = {job:String}))) AS at_ms"""


class JudgedRule(msgspec.Struct, frozen=True):
    """One condition of a rule; all conditions of a rule with the same `way` must hold, of several ways one is enough.

    `holds`, `enabled`: of the rule; `value`, `share`: None where nothing is known to tell it by.
    """

    rule: str
    what: str
    value: float | None
    threshold: float
    share: float | None
    way: int
    holds: bool
    enabled: bool


class JudgedJob(msgspec.Struct, frozen=True):
    """The conditions of every rule about a job at an instant, in the order of the rules.

    `missing`: why there are none, '' if there are. `records_unknown`: so many records of rules or plans are in force whose
    settings an older release did not store.
    """

    at_ms: int
    rules: list[JudgedRule]
    missing: str = ""
    records_unknown: int = 0


class RestoredJob(NamedTuple):
    """A job with its shard's judge; `missing`: why there is none."""

    job: StoredJob | None
    missing: str


def judged(
    store: ExplainedStore, job_id: str, at_ms: int | None = None, state_max_bytes: int | None = None
) -> JudgedJob:
    """The conditions at an instant; without one at the newest that is known of the job.

    Raises:
        SinkError: The store does not answer.
        UnknownFormatError: Another version of the program wrote the snapshots.
    """
    if at_ms is None:
        at_ms = int(str(_records(store, _NEWEST, job=job_id)[0]["at_ms"] or 0))
    known = restored(store, job_id, state_max_bytes)
    if known.job is None:
        return JudgedJob(at_ms, [], known.missing)
    controls, records_unknown = judging(_records(store, CONTROLS, at_ms=at_ms))
    found = known.job.margins(at_ms, controls)
    rules = [
        condition(rule.rule, margin, holds=rule.holds, enabled=rule.enabled)
        for rule in found
        for margin in rule.margins
    ]
    return JudgedJob(at_ms, rules, records_unknown=records_unknown)


def judging(rows: Sequence[Mapping[str, Any]]) -> tuple[list[ControlEvent], int]:
    """The records of rules and plans of rows of `CONTROLS`, and of how many an older release stored no settings."""
    rows = [row for row in rows if not row["removed"]]
    read = [row for row in rows if row["value"]]
    controls = controls_of((row["kind"], row["name"], msgspec.json.decode(row["value"])) for row in read)
    return controls, len(rows) - len(read)


def restored(store: ExplainedStore, job_id: str, state_max_bytes: int | None) -> RestoredJob:
    """The job as its shard stored it last.

    Raises:
        SinkError: The store does not answer.
        UnknownFormatError: Another version of the program wrote the snapshots.
    """
    shard, missing = shard_of(store, job_id, state_max_bytes)
    if shard is None:
        return RestoredJob(None, missing)
    chain = store.snapshots.load(shard)
    if not chain.version:
        return RestoredJob(None, "no_state")
    job = StoredJob.load(shard, chain.blobs, job_id)
    if job.archived is not None:
        for blob in store.archive.fetch(shard, {job_id: job.archived}).values():
            job.adopt(blob)
    return RestoredJob(job, "")


def condition(rule: str, margin: Margin, *, holds: bool, enabled: bool) -> JudgedRule:
    """A margin of a rule as it is shown."""
    return JudgedRule(
        rule=rule,
        what=margin.what,
        value=margin.value,
        threshold=margin.threshold,
        share=None if margin.share is None else min(margin.share, SHARE_MAX),
        way=margin.way,
        holds=holds,
        enabled=enabled,
    )


def _records(store: ExplainedStore, sql: str, **parameters: object) -> list[Mapping[str, Any]]:
    return list[Mapping[str, Any]](store.ask(sql, parameters).records())
