"""Selects the dead letters of a command, and reads them from the store."""

from __future__ import annotations

import base64
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple

import xxhash

from schemas.reasons import Reason
from schemas.redaction import withheld
from streams.accounts.refused import GROUPS, WHERE, WITH_REPLAYS
from streams.cli.dead_letters.of_job import OF_JOB, job_parameters
from streams.cli.output import Grid
from streams.cli.reading import Reader
from streams.engine.shard.dead_letters import RAW_BYTES_AT_MOST, SAMPLE_RAW_BYTES, RecordPosition, place_of
from streams.errors import WrongUseError
from streams.topics import short_name

#: The topic name under which `trainfare replay` stores lines without an event: the file's number, the line's number.
LINES_TOPIC: Final = "replay"
_PAGE: Final = 10_000
_UNITS_MS: Final = {"s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_AGO: Final = re.compile(r"(\d{1,9})([smhd])")
_UNBOUNDED: Final = 2**62
_JOB_HERE: Final = "/* of a job */"  # only where it is asked for, as it reads whole records
_LETTERS: Final = f"""
SELECT topic, partition, offset, time, reason, detail, raw_bytes, raw_hash, version > 0 AS replayed, replayed_at, to_partition,
       to_offset
FROM (
    SELECT topic, partition, offset, time, reason, detail, length(raw) AS raw_bytes, xxh3(raw) AS raw_hash
    FROM dead_letters FINAL {WHERE}
      AND (topic, partition, offset) > ({{after_topic:String}}, {{after_partition:Int64}}, {{after_offset:Int64}})
) AS d {WITH_REPLAYS}
ORDER BY topic, partition, offset
LIMIT {{limit:UInt64}}
"""  # noqa: S608 - of constants, values bound
_RAW: Final = f"SELECT topic, partition, offset, base64Encode(raw) AS raw FROM dead_letters FINAL {WHERE}"  # noqa: S608 - of constants, values bound


class Letter(NamedTuple):
    """A row of `dead_letters`, without the record's bytes."""

    place: RecordPosition
    time: datetime
    reason: str
    detail: str
    raw_bytes: int
    raw_hash: int
    replayed_at: datetime | None
    replayed_to: RecordPosition | None

    @property
    def is_cut(self) -> bool:
        """Whether the table has only the beginning of the record."""
        return self.raw_bytes in (RAW_BYTES_AT_MOST, SAMPLE_RAW_BYTES)

    def begins(self, value: bytes) -> bool:
        """Whether these are the record's bytes, as far as the table has them: all, the first of them, or a replacement."""
        return self._is(value) or self._is(withheld(value))

    def _is(self, kept: bytes) -> bool:
        fits = self.is_cut or len(kept) == self.raw_bytes
        return fits and xxhash.xxh3_64_intdigest(kept[: self.raw_bytes]) == self.raw_hash


@dataclass(frozen=True)
class Selection:
    """Filters, combined by AND; [since_ms, until_ms) is of log time."""

    topic: str = ""
    reason: str = ""
    since_ms: int = 0
    until_ms: int = _UNBOUNDED
    places: tuple[RecordPosition, ...] = ()
    job: str = ""

    def sql(self, query: str) -> str:
        """The query with the condition of a job, if one is selected."""
        return query.replace(_JOB_HERE, OF_JOB if self.job else "")

    def parameters(self) -> dict[str, object]:
        """The values for the SQL."""
        return {
            "topic": self.topic,
            "reason": self.reason,
            "since": self.since_ms,
            "until": self.until_ms,
            "places": [str(place) for place in self.places],
            **(job_parameters(self.job) if self.job else {}),
        }


def selection(
    topic: str | None,
    reason: str | None,
    since: str | None,
    until: str | None,
    places: Sequence[str],
    *,
    prefix: str,
    now_ms: int,
    job: str | None = None,
) -> Selection:
    """Parse the filters of a command.

    Raises:
        WrongUseError: One is invalid.
    """
    if reason is not None and reason not in list(Reason):
        raise WrongUseError(f"--reason {reason}: no such reason; one of {', '.join(Reason)}")
    if job == "":
        raise WrongUseError("--job: expected a job's id")
    return Selection(
        short_name(topic or "", prefix),
        reason or "",
        0 if since is None else _instant_ms("--since", since, now_ms),
        _UNBOUNDED if until is None else _instant_ms("--until", until, now_ms),
        tuple(map(named, places)),
        job or "",
    )


def named(text: str) -> RecordPosition:
    """Parse a position.

    Raises:
        WrongUseError: The text is not a position.
    """
    place = place_of(text)
    if place is None:
        raise WrongUseError(f"{text}: no dead letter; expected TOPIC/PARTITION/OFFSET, e.g. gpu/3/41907")
    return place


def _instant_ms(option: str, text: str, now_ms: int) -> int:
    """Parse an instant: a time ago (`90s`, `15m`, `2h`, `7d`), ISO 8601 (UTC by default), or ms since 1970."""
    if (ago := _AGO.fullmatch(text)) is not None:
        return max(now_ms - int(ago[1]) * _UNITS_MS[ago[2]], 0)
    if text.isdecimal() and len(text) > 8:
        return int(text)
    try:
        instant = datetime.fromisoformat(text)
    except ValueError:
        raise WrongUseError(
            f"{option} {text}: no instant; expected e.g. 15m, 2h, 7d (ago), 2026-11-21T12:00 (UTC) or ms since 1970"
        ) from None
    return round((instant if instant.tzinfo else instant.replace(tzinfo=UTC)).timestamp() * 1000)


def groups(store: Reader, chosen: Selection, limit: int) -> Grid:
    """Return, by topic and reason: how many there were, how many are stored and were sent again, when, and an example."""
    answer = store.ask(chosen.sql(GROUPS), **chosen.parameters(), limit=limit)
    rows = list(answer.rows())
    if chosen.since_ms > 0 or chosen.until_ms < _UNBOUNDED or chosen.places or chosen.job:
        # The full counts have no time, no position and no job.
        rows = [(topic, reason, None, *known) for topic, reason, _, *known in rows]
    return Grid(answer.names, rows)


def letters(store: Reader, chosen: Selection, limit: int = _UNBOUNDED) -> Iterator[Letter]:
    """Yield dead letters in the order of the log, read in pages."""
    after = RecordPosition("", -1, -1)
    while (asked := min(limit, _PAGE)) > 0:
        afters = {f"after_{name}": value for name, value in after._asdict().items()}
        page: list[Any] = list(
            store.ask(chosen.sql(_LETTERS), **chosen.parameters(), **afters, limit=asked).rows()
        )
        for topic, partition, offset, *known, replayed, replayed_at, to_partition, to_offset in page:
            after = RecordPosition(topic, partition, offset)
            back = (replayed_at, RecordPosition(topic, to_partition, to_offset)) if replayed else (None, None)
            yield Letter(after, *known, *back)
        if len(page) < asked:
            return
        limit -= asked


def letter_at(store: Reader, place: RecordPosition) -> Letter | None:
    """The dead letter at a position, if the store has it."""
    return next(letters(store, Selection(places=(place,))), None)


def raw_of(store: Reader, places: Sequence[RecordPosition]) -> dict[RecordPosition, bytes]:
    """The stored bytes of these records; at most a hundred at a time."""
    rows: Any = store.ask(_RAW, **Selection(places=tuple(places)).parameters()).rows() if places else ()
    return {RecordPosition(*place): base64.b64decode(raw) for *place, raw in rows}


def log_of(store: Reader) -> str | None:
    """The log that the store was built from, by its metadata."""
    rows = store.records("SELECT value FROM meta FINAL WHERE key = 'log'")
    return str(rows[0]["value"]) if rows else None
