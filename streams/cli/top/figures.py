"""The figures of `trainfare top` at one instant, as values, and their source."""

from __future__ import annotations

from decimal import Decimal
from typing import Protocol

import msgspec

from streams.errors import TrainfareError

_NOTHING = Decimal(0)


class JobAlert(msgspec.Struct, frozen=True):
    """A firing alert of a job, as in the list of jobs."""

    rule: str = ""
    severity: str = ""
    status: str = "firing"
    alert_id: str = ""


class Job(msgspec.Struct, frozen=True):
    """One job, with the names of the API; missing values are empty."""

    job_id: str
    owner: str = ""
    team: str = ""
    project: str = ""
    experiment: str = ""
    state: str = ""
    attempts: int = 0
    gpu_count: Decimal = _NOTHING
    cluster: str = ""
    region: str = ""
    purchase: str = ""
    gpu_type: str = ""
    started_ms: int | None = None
    ended_ms: int | None = None
    usd_per_hour_now: Decimal = _NOTHING
    usd_per_hour: Decimal = _NOTHING
    usd_per_hour_15m: Decimal = _NOTHING
    usd_per_hour_1h: Decimal = _NOTHING
    usd_per_hour_6h: Decimal = _NOTHING
    expected_usd_per_hour: Decimal = _NOTHING
    ratio: float | None = None
    cost_usd: Decimal = _NOTHING
    lost_cost_usd: Decimal = _NOTHING
    gpu_h: Decimal = _NOTHING
    unpriced_gpu_h: Decimal = _NOTHING
    unpriced_compute_h: Decimal = _NOTHING  # of instances, CPUs or memory without GPUs, and of energy
    productive_ratio: float | None = None
    sparkline: tuple[tuple[int, float], ...] = ()
    alerts: tuple[JobAlert, ...] = ()


def is_unpriced(job: Job) -> bool:
    """Whether something that the job used has no price."""
    return bool(job.unpriced_gpu_h or job.unpriced_compute_h)


class Burn(msgspec.Struct, frozen=True):
    """The cost of the whole fleet."""

    as_of_ms: int = 0
    usd_per_hour_now: Decimal = _NOTHING
    usd_per_hour_1h: Decimal = _NOTHING
    spend_today_usd: Decimal = _NOTHING
    idle_gpu_ratio: float | None = None
    jobs_live: int = 0
    gpus_held: Decimal = _NOTHING
    alerts_firing: int = 0


class Subject(msgspec.Struct, frozen=True):
    """The subject of an alert."""

    kind: str = ""
    name: str = ""


class AlertView(msgspec.Struct, frozen=True):
    """One alert, firing or resolved."""

    alert_id: str
    rule: str = ""
    severity: str = ""
    status: str = ""
    subject: Subject = Subject()
    owner: str = ""
    started_ms: int = 0
    resolved_ms: int | None = None
    cost_usd: Decimal = _NOTHING
    summary: str = ""
    silenced: bool = False


class MeterView(msgspec.Struct, frozen=True):
    """Everything on the screen at one instant."""

    as_of_ms: int
    burn: Burn
    jobs: tuple[Job, ...] = ()
    alerts: tuple[AlertView, ...] = ()
    origin: str = ""  # where it was read, for people
    matched: int = 0  # jobs that have the words, of which `jobs` are those that burn most
    total: int = 0
    words: str = ""  # that were searched for


class Source(Protocol):
    """The source of snapshots; one thread calls at a time, not the one that draws."""

    def fetch(self, words: str = "") -> MeterView:
        """The newest snapshot; of the jobs with these words, if there are any.

        Raises:
            SourceError: There is none, with a message for the screen.
        """


class SourceError(TrainfareError):
    """There is no snapshot now; the message contains where it was searched, and what to do."""


class _Jobs(msgspec.Struct):
    jobs: tuple[Job, ...]
    as_of_ms: int = 0
    matched: int | None = None
    total: int | None = None
    partial: str = ""  # whose jobs alone; "": all


class _Alerts(msgspec.Struct):
    alerts: tuple[AlertView, ...]


def snapshot_of(jobs: bytes, burn: bytes, alerts: bytes, origin: str, words: str = "") -> MeterView:
    """Combine three responses of the API to one snapshot; unknown fields are ignored.

    Raises:
        SourceError: They are not responses of the API.
    """
    try:
        listed = msgspec.json.decode(jobs, type=_Jobs)
        fleet = msgspec.json.decode(burn, type=Burn)
        found = msgspec.json.decode(alerts, type=_Alerts).alerts
    except msgspec.DecodeError as error:
        raise SourceError(f"{origin}: not an answer of trainfare's API ({error})") from error
    present = len(listed.jobs)
    matched = present if listed.matched is None else listed.matched
    total = present if listed.total is None else listed.total
    if listed.partial:
        origin = f"{origin}, of {listed.partial} alone"
    return MeterView(
        max(fleet.as_of_ms, listed.as_of_ms), fleet, listed.jobs, found, origin, matched, total, words
    )
