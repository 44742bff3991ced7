"""What the collectors of CI systems have in common: their options, pages of an API, its limits, and the span that a poll reads.

They make the very events of the webhooks, by `streams.ci`: whatever comes by both counts once.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Final

from pydantic import Field, field_validator

from schemas.durations import HOUR_MS
from schemas.escaping import visible
from streams.accounts.account import Account
from streams.ci.jobs import CiGpus, CiJob, events_of, gpus_of, left_out, unlisted
from streams.clock import Clock
from streams.collect.collector import CollectedEvent, Position, SourceUnavailableError
from streams.collect.http_source import BadStatusError, OutsideAnswer, OutsideApi
from streams.collect.options import SinceOptions
from streams.config.live import gpus_by_name
from streams.topics import Topic

_NEXT: Final = re.compile(r'<([^<>]{1,4096})>\s*;[^,]{0,200}\brel="?next"?')
_PAGES_AT_MOST: Final = 1_000
_LONGEST_WAIT_S: Final = 3_600
_DIGITS: Final = re.compile(r"\d{1,10}\Z", re.ASCII)


class CiOptions(SinceOptions):
    """What the tables `[github]` and `[gitlab]` have in common."""

    interval_s: float = Field(default=600.0, ge=1, le=3600, description="Seconds between two polls.")
    token_file: Path | None = Field(default=None, description="File with a token that may read jobs.")
    runner_gpus: str = Field(
        min_length=1, max_length=65_536, description="GPUs of runners, as in `ci.runner_gpus` of the meter."
    )
    since: datetime | date | None = Field(
        default=None,
        description="Jobs that were created before are left out; default: the UTC day of the first poll.",
    )
    until: datetime | date | None = Field(
        default=None, description="And those created from then on, to fill one gap; default: none."
    )
    job_hours: int = Field(
        default=24,
        ge=1,
        le=720,
        description="How long a job may be on its way: those created so long before a poll are looked at again.",
    )
    timeout_s: float = Field(default=30.0, gt=0, le=600, description="How long an answer may take.")
    max_response_mib: int = Field(default=64, ge=1, le=4096, description="How large an answer may be, MiB.")

    @field_validator("runner_gpus")
    @classmethod
    def _are_gpus(cls, text: str) -> str:
        gpus_by_name(text)
        return text

    @property
    def gpus(self) -> dict[str, CiGpus]:
        """The GPUs by label, tag or name of a job."""
        return {name: CiGpus(*each) for name, each in gpus_by_name(self.runner_gpus).items()}

    def span_ms(self, position: Position | None, now_ms: int) -> tuple[int, int, int]:
        """What a poll reads: the first and last instant at which a job was created, and `since`, in ms since 1970."""
        kept = position or {}
        since_ms = kept.get("since_ms")
        if not isinstance(since_ms, int):
            since_ms = self.begin_ms(now_ms)
        read_ms = kept.get("read_ms")
        begin_ms = since_ms
        if isinstance(read_ms, int):
            begin_ms = max(since_ms, read_ms - self.job_hours * HOUR_MS)
        end_ms = now_ms
        if self.until is not None:
            end_ms = min(now_ms, SinceOptions(since=self.until).begin_ms(now_ms))
        return begin_ms, end_ms, since_ms


class CiApi:
    """The API of a CI system: its pages, and its limits, which are kept without asking again."""

    def __init__(self, api: OutsideApi, clock: Clock, limit_headers: tuple[str, str]) -> None:
        """`limit_headers`: those of how many requests are left, and of when there are more, in s since 1970."""
        self.api = api
        self._clock = clock
        self._left, self._reset = limit_headers
        self._closed_until_ms = 0

    def get(self, path: str) -> OutsideAnswer:
        """An answer.

        Raises:
            BadStatusError: It answers with another status than 200.
            SourceUnavailableError: It does not answer, or asks to wait.
        """
        if (wait_ms := self._closed_until_ms - self._clock.now_ms()) > 0:
            raise SourceUnavailableError(
                f"{self.api.address}: its rate limit is used up for {wait_ms // 1000} s more"
            )
        try:
            return self.api.answer(path)
        except BadStatusError as fault:
            wait_s = self._wait_s(fault)
            if wait_s is None:
                raise
            self._closed_until_ms = self._clock.now_ms() + wait_s * 1000
            raise SourceUnavailableError(f"{fault}; asked again in {wait_s} s") from None

    def pages(self, path: str) -> Iterator[bytes]:
        """Yield the answer to a path, and those to the following pages.

        Raises:
            SourceUnavailableError: One is not to be had.
        """
        following: str | None = path
        for _ in range(_PAGES_AT_MOST):
            if following is None:
                return
            answer = self.get(following)
            yield answer.body
            following = self._next(answer)
        raise SourceUnavailableError(
            f"{self.api.address}: more than {_PAGES_AT_MOST} pages; name a shorter span"
        )

    def _next(self, answer: OutsideAnswer) -> str | None:
        found = _NEXT.search(answer.headers.get("link", ""))
        if found is None:
            return None
        if not found[1].startswith(self.api.address + "/"):  # the token goes to nobody else
            raise SourceUnavailableError(
                f"{self.api.address}: its next page is at {visible(found[1][:100])}; make that the url"
            )
        return found[1].removeprefix(self.api.address)

    def _wait_s(self, fault: BadStatusError) -> int | None:
        """How long to ask nothing more; None where the answer is about something else."""
        after = fault.headers.get("retry-after", "")
        if fault.status in (403, 429, 503) and _DIGITS.match(after):
            return min(int(after), _LONGEST_WAIT_S)
        if fault.status == 429 or (fault.status == 403 and fault.headers.get(self._left, "") == "0"):
            reset = fault.headers.get(self._reset, "")
            left_s = int(reset) - self._clock.now_ms() // 1000 if _DIGITS.match(reset) else 60
            return min(max(left_s, 1), _LONGEST_WAIT_S)
        return None


class JobEvents:
    """The events of jobs, and the account of all jobs that were listed."""

    def __init__(self, gpus: dict[str, CiGpus]) -> None:
        self._gpus = gpus
        self.events: list[CollectedEvent] = []
        self.account = Account()

    def add(self, job: CiJob) -> None:
        """Take a job: its events, if its runner has GPUs."""
        if (why := left_out(job, self._gpus)) is not None:
            self.account.not_understood(why.reason, why.said)
            return
        if gpus_of(job, self._gpus) is None:
            self.account.free("without_gpus")
            return
        self.account.metered()
        self.events += (CollectedEvent(Topic.JOBS, event) for event in events_of(job, self._gpus))

    def leave_out(self, job: str, names: Sequence[str]) -> None:
        """Account for a job none of whose names stands for GPUs; one that is named as if it did is not understood."""
        if odd := unlisted(names, self._gpus):
            self.account.not_understood("unlisted_label", f"{job} ran on {odd}")
        else:
            self.account.free("without_gpus")

    def oldest_first(self) -> list[CollectedEvent]:
        """The events in the order of time."""
        return sorted(self.events, key=lambda event: (event.value["time_ms"], event.value["id"]))


def iso(time_ms: int) -> str:
    """An instant as APIs take it."""
    return datetime.fromtimestamp(time_ms // 1000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
