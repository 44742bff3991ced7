"""What an issued token may name: judges events and controls against its bounds, and says what would be allowed."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple, NoReturn

from schemas.events import Event
from schemas.reasons import Reason
from schemas.refusal import shown
from schemas.validate_tokens import TokenBounds
from streams.engine.reference_log import Standing
from streams.web.errors import ApiError
from streams.web.ingest_body import AcceptedEvent, RefusedEvent
from streams.web.scopes import Caller
from streams.web.store_reader import StoreReader

_KNOWN_JOBS: Final = 16_384
_CLAIMED_JOBS: Final = 65_536
#: A job may be given to another team.
_KNOWN_MS: Final = 60_000
_ASKED_AT_ONCE: Final = 1_000
_SHOWN: Final = 5
_JOBS_SQL: Final = "SELECT job_id, owner, team FROM jobs FINAL WHERE job_id IN {jobs:Array(String)}"


class JobGroup(NamedTuple):
    """Whose a job is."""

    owner: str
    team: str


NOBODYS: Final = JobGroup("", "")


class JobGroups:
    """Whose jobs are: by the store, and by what this worker took of jobs that the store has not yet."""

    def __init__(self, store: StoreReader, now_ms: Callable[[], int]) -> None:
        self._store = store
        self._now_ms = now_ms
        self._known: OrderedDict[str, tuple[int, JobGroup]] = OrderedDict()
        self._claimed: OrderedDict[str, JobGroup] = OrderedDict()

    async def of(self, job_ids: Sequence[str]) -> dict[str, JobGroup]:
        """The groups of those jobs that are somebody's.

        Raises:
            ApiError: The store cannot say.
        """
        now_ms = self._now_ms()
        found = {
            each: known[1]
            for each in job_ids
            if (known := self._known.get(each)) is not None and now_ms - known[0] < _KNOWN_MS
        }
        asked = [each for each in job_ids if each not in found]
        for first in range(0, len(asked), _ASKED_AT_ONCE):
            for row in await self._store.rows(_JOBS_SQL, jobs=asked[first : first + _ASKED_AT_ONCE]):
                group = JobGroup(row["owner"], row["team"])
                if group == NOBODYS:
                    continue  # heard of by samples alone: whoever starts it says whose it is
                found[row["job_id"]] = group
                self._known.pop(row["job_id"], None)
                self._known[row["job_id"]] = (now_ms, group)
        while len(self._known) > _KNOWN_JOBS:
            self._known.popitem(last=False)
        return {each: self._claimed[each] for each in asked if each in self._claimed} | found

    def claim(self, claims: Mapping[str, JobGroup]) -> None:
        """Keep whose jobs are that the store has not yet; the first who says it has it."""
        for job_id, group in claims.items():
            self._claimed.setdefault(job_id, group)
        while len(self._claimed) > _CLAIMED_JOBS:
            self._claimed.popitem(last=False)


class BoundsFound(NamedTuple):
    """The events that a token may not send, and the jobs that the others begin."""

    refused: list[RefusedEvent]
    claims: Mapping[str, JobGroup]


async def judge_bounds(
    events: Sequence[AcceptedEvent],
    bounds: TokenBounds,
    jobs_of: Callable[[Sequence[str]], Awaitable[Mapping[str, JobGroup]]],
) -> BoundsFound:
    """The events that a token may not send, each with what it may name.

    Of a token that is bound by team or owner and not by ids, whose a job is decides: one of somebody else is not the token's to
    report, whatever the event says; one that is nobody's yet begins with an event that says whose it is.

    Raises:
        ApiError: The store cannot say whose jobs are.
    """
    asks = bool(bounds.teams or bounds.owners) and not bounds.job_prefixes
    ids = sorted({job for each in events if (job := _job(each.event))}) if asks else []
    jobs = {**await jobs_of(ids)} if ids else {}
    claims: dict[str, JobGroup] = {}
    refused = []
    for each in events:
        fault = _beyond(each, bounds) or (_of_another(each.event, bounds, jobs) if asks else None)
        if fault is not None:
            field, detail = fault
            refused.append(RefusedEvent(each.index, Reason.beyond_token, field, f"field `{field}`: {detail}"))
        elif asks and _job(each.event) not in jobs:
            jobs[_job(each.event)] = claims[_job(each.event)] = _said(each.event)
    return BoundsFound(refused, claims)


def _beyond(each: AcceptedEvent, bounds: TokenBounds) -> tuple[str, str] | None:
    """The field by which an event is beyond what a token may name, and why."""
    event, job_id = each.event, _job(each.event)
    if bounds.topics and each.record.topic not in bounds.topics:
        return "topic", _allows(each.record.topic, bounds.topics)
    if bounds.sources and event.source not in bounds.sources:
        return "source", _allows(event.source, bounds.sources)
    if not (bounds.job_prefixes or bounds.teams or bounds.owners):
        return None
    if not job_id:
        return "job_id", "this token may report jobs alone, and the event names none"
    if bounds.job_prefixes and not job_id.startswith(bounds.job_prefixes):
        return "job_id", _allows(job_id, [f"{prefix}..." for prefix in bounds.job_prefixes])
    said = _said(event)
    for field, allowed in (("team", bounds.teams), ("owner", bounds.owners)):
        named = getattr(said, field)
        if allowed and named and named not in allowed:
            return field, _allows(named, allowed)
    return None


def _of_another(event: Event, bounds: TokenBounds, jobs: Mapping[str, JobGroup]) -> tuple[str, str] | None:
    """As `_beyond`, by whose the job is."""
    job_id, said = _job(event), _said(event)
    group = jobs.get(job_id)
    for field, allowed in (("team", bounds.teams), ("owner", bounds.owners)):
        if not allowed:
            continue
        if group is not None and getattr(group, field) not in allowed:
            detail = f"the job {shown(job_id)} is of another {field}; this token is for {_list(allowed)}"
            return "job_id", detail
        if group is None and not getattr(said, field):
            detail = (
                f"no job {shown(job_id)} is known yet: its first event says its {field}, of {_list(allowed)}"
            )
            return field, detail
    return None


def _said(event: Event) -> JobGroup:
    return JobGroup(getattr(event, "owner", None) or "", getattr(event, "team", None) or "")


def _job(event: Event) -> str:
    return getattr(event, "job_id", None) or ""


def _allows(named: str, allowed: Sequence[str]) -> str:
    return f"got {shown(named)}, this token allows {_list(allowed)}"


def _list(allowed: Sequence[str]) -> str:
    more = f", {len(allowed) - _SHOWN} more" if len(allowed) > _SHOWN else ""
    return ", ".join(map(shown, allowed[:_SHOWN])) + more


def check_control(
    asked: Mapping[str, Any], caller: Caller, standing: Standing, alert: Mapping[str, str] | None
) -> None:
    """Check that what a control is for lies within the teams and owners of its caller's token, and what it replaces, too.

    Args:
        asked: The fields of the record.
        caller: Who asks.
        standing: The controls in force.
        alert: Of an acknowledgement `owner`, `team` and `subject_name` of its alert; None: there is none.

    Raises:
        ApiError: It reaches beyond; the message says what would be allowed, and nothing of what others have.
    """
    bounds, kind = caller.bounds, str(asked.get("kind"))
    if kind == "source":
        _check_source(asked, bounds)
    elif kind == "ack":
        if bounds.teams or bounds.owners:
            _check_ack(asked, bounds, alert or {})
    else:
        if not _is_within(_named_by(asked, standing), bounds):
            _refuse_beyond(asked, bounds, kind)
        before = _standing(kind, asked.get("name"), standing)
        if before is not None and not _is_within(_named_by(before, standing), bounds):
            raise _beyond_token(
                "name", f"you may not write a {kind} of this name: it is not yours; take another one"
            )


def within_bounds(standing: Standing, caller: Caller) -> Standing:
    """The controls in force that lie within the teams and owners of a caller's token: of the others it learns nothing."""
    bounds = caller.bounds
    if not (bounds.teams or bounds.owners):
        return standing
    return {
        key: each for key, each in standing.items() if _is_within(_named_by(each.value, standing), bounds)
    }


def no_such_alert(alert_id: object) -> ApiError:
    """What answers of an alert that there is not, or that is not the caller's."""
    return ApiError(
        404,
        f"alert_id: there is no alert {alert_id}; take the id from its message or from GET /api/v1/alerts",
        "no_such_alert",
        field="alert_id",
    )


def _check_ack(asked: Mapping[str, Any], bounds: TokenBounds, alert: Mapping[str, str]) -> None:
    if not _is_within([alert], bounds):
        raise no_such_alert(asked.get("alert_id"))
    # Its rate is planned for what it names: that must be what the alert is about.
    for field, own in (("team", alert.get("team")), ("job_id", alert.get("subject_name"))):
        if asked.get(field) not in (None, own):
            raise _beyond_token(field, f"you may name {shown(own)} here, as the alert does")


def _is_within(named_in: Sequence[Mapping[str, Any]], bounds: TokenBounds) -> bool:
    return _beyond_in(named_in, bounds) is None


def _beyond_in(named_in: Sequence[Mapping[str, Any]], bounds: TokenBounds) -> tuple[str, list[Any]] | None:
    """The field by which records reach beyond what a token may name, and what they name there."""
    for field, allowed in (("team", bounds.teams), ("owner", bounds.owners)):
        named = [each[field] for each in named_in if each.get(field) is not None]
        if allowed and not (named and all(each in allowed for each in named)):
            return field, named
    return None


def _refuse_beyond(asked: Mapping[str, Any], bounds: TokenBounds, kind: str) -> NoReturn:
    """Say what is beyond, of what was asked alone: what it refers to may be of others."""
    field, named = _beyond_in(_own_fields(asked), bounds) or ("team" if bounds.teams else "owner", [])
    allowed = bounds.teams if field == "team" else bounds.owners
    refers = " of this budget" if isinstance(asked.get("budget"), str) else f" that names no {field}"
    said = f" of {field} {shown(named[-1])}" if named else refers
    raise _beyond_token(field, f"you may not write a {kind}{said}; you may with {field} {_list(allowed)}")


def _check_source(asked: Mapping[str, Any], bounds: TokenBounds) -> None:
    if bounds.teams or bounds.owners or bounds.job_prefixes:
        raise _beyond_token(
            "kind", "this token reports jobs of its own; what a source has read is a collector's to say"
        )
    if bounds.sources and asked.get("name") not in bounds.sources:
        detail = f"this token may not say what source {shown(asked.get('name'))} has read"
        raise _beyond_token("name", f"{detail}; it may of {_list(bounds.sources)}")


def _beyond_token(field: str, detail: str) -> ApiError:
    return ApiError(403, f"{field}: {detail}", Reason.beyond_token, field=field)


def _named_by(value: Mapping[str, Any], standing: Standing) -> list[Mapping[str, Any]]:
    """Where a record says whose it is: in its fields, and in `match`; of an override in those of its budget."""
    if "budget" in value and isinstance(value["budget"], str):
        value = _standing("budget", value["budget"], standing) or {}
    return _own_fields(value)


def _own_fields(value: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    inner = value.get("match")
    return [value, inner] if isinstance(inner, Mapping) else [value]


def _standing(kind: str, name: object, standing: Standing) -> Mapping[str, Any] | None:
    found = [each.value for each in standing.values() if each.kind == kind and each.name == name]
    return found[-1] if found else None
