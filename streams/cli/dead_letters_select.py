"""Which dead letters a command is about, and what the store knows of them.

It must not write; nor hand out more records' bytes at once than fit into memory.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final, NamedTuple

import xxhash

from schemas.reasons import Reason
from schemas.redaction import withheld
from streams.cli.reading import Reader
from streams.engine.shard.dead_letters import RAW_BYTES_AT_MOST, SAMPLE_RAW_BYTES, RecordPosition
from streams.errors import WrongUseError
from streams.topics import short_name

#: `trainfare replay` keeps lines that hold no event under this name: the file's number, the line's number.
LINES_TOPIC: Final = "replay"
#: What `meta` says of a store whose log was files.
LOG_OF_FILES: Final = "replayed files"
_PAGE: Final = 10_000
_UNITS_MS: Final = {"s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_AGO: Final = re.compile(r"(\d{1,9})([smhd])")
_WHERE: Final = """
WHERE ({topic:String} = '' OR topic = {topic:String})
  AND ({reason:String} = '' OR reason = {reason:String})
  AND toUnixTimestamp64Milli(time) >= {since:Int64} AND toUnixTimestamp64Milli(time) < {until:Int64}
  AND (empty({places:Array(String)})
       OR concat(topic, '/', toString(partition), '/', toString(offset)) IN {places:Array(String)})
"""
_LETTERS: Final = f"""
SELECT d.topic AS topic, d.partition AS partition, d.offset AS offset, d.time AS time, d.reason AS reason,
       d.detail AS detail, d.raw_bytes AS raw_bytes, d.raw_hash AS raw_hash, r.version > 0 AS replayed, r.time AS replayed_at,
       r.to_partition AS to_partition, r.to_offset AS to_offset
FROM
(
    SELECT topic, partition, offset, time, reason, detail, length(raw) AS raw_bytes, xxh3(raw) AS raw_hash
    FROM dead_letters FINAL {_WHERE}
      AND (topic, partition, offset) > ({{after_topic:String}}, {{after_partition:Int64}}, {{after_offset:Int64}})
) AS d
LEFT ANY JOIN (SELECT * FROM dead_letter_replays FINAL) AS r
ON r.topic = d.topic AND r.partition = d.partition AND r.offset = d.offset
ORDER BY topic, partition, offset
LIMIT {{limit:UInt64}}
"""  # noqa: S608 - of constants, values bound
_GROUPS: Final = f"""
SELECT g.topic AS topic, g.reason AS reason, greatest(g.stored, c.records) AS records, g.stored AS stored,
       g.replayed AS replayed, g.first AS first, g.last AS last, g.example AS example
FROM
(
    SELECT d.topic AS topic, d.reason AS reason, toInt64(count()) AS stored, countIf(r.version > 0) AS replayed,
           min(d.time) AS first, max(d.time) AS last, argMax(d.detail, (d.time, d.offset)) AS example
    FROM (SELECT topic, partition, offset, time, reason, detail FROM dead_letters FINAL {_WHERE}) AS d
    LEFT ANY JOIN (SELECT * FROM dead_letter_replays FINAL) AS r
    ON r.topic = d.topic AND r.partition = d.partition AND r.offset = d.offset
    GROUP BY topic, reason
) AS g
LEFT ANY JOIN
(
    SELECT topic, reason, sum(n.records) AS records
    FROM (SELECT * FROM dead_letter_counts FINAL) AS n GROUP BY topic, reason
) AS c ON c.topic = g.topic AND c.reason = g.reason
ORDER BY records DESC, topic, reason
LIMIT {{limit:UInt64}}
"""  # noqa: S608 - of constants, values bound
_RAW: Final = f"SELECT topic, partition, offset, base64Encode(raw) AS raw FROM dead_letters FINAL {_WHERE}"  # noqa: S608 - of constants, values bound
_LOWEST: Final = f"""
SELECT topic, partition, min(offset) AS lowest FROM dead_letters FINAL {_WHERE}
GROUP BY topic, partition ORDER BY topic, partition
"""  # noqa: S608 - of constants, values bound


class Letter(NamedTuple):
    """A row of `dead_letters`, without its bytes."""

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
        """Whether these are the record's bytes, as far as the table knows: all, the first of them, or what stands in their place."""
        return self._is(value) or self._is(withheld(value))

    def _is(self, kept: bytes) -> bool:
        fits = self.is_cut or len(kept) == self.raw_bytes
        return fits and xxhash.xxh3_64_intdigest(kept[: self.raw_bytes]) == self.raw_hash


@dataclass(frozen=True)
class Selection:
    """Filters, all of which must hold; [since_ms, until_ms) is of log time."""

    topic: str = ""
    reason: str = ""
    since_ms: int = 0
    until_ms: int = 2**62
    places: tuple[RecordPosition, ...] = ()

    @property
    def is_timed(self) -> bool:
        """Whether it asks for a part of the time: full counts know no time."""
        return self.since_ms > 0 or self.until_ms < 2**62

    def parameters(self) -> dict[str, object]:
        """Values for the SQL."""
        places = [str(place) for place in self.places]
        return {
            "topic": self.topic,
            "reason": self.reason,
            "since": self.since_ms,
            "until": self.until_ms,
            "places": places,
        }


def selection(
    topic: str | None,
    reason: str | None,
    since: str | None,
    until: str | None,
    places: Sequence[RecordPosition],
    *,
    prefix: str,
    now_ms: int,
) -> Selection:
    """What the options of a command ask for; raises WrongUseError."""
    if reason is not None and reason not in list(Reason):
        raise WrongUseError(f"--reason {reason}: no such reason; one of {', '.join(Reason)}")
    return Selection(
        short_name(topic or "", prefix),
        reason or "",
        0 if since is None else _instant_ms("--since", since, now_ms),
        2**62 if until is None else _instant_ms("--until", until, now_ms),
        tuple(places),
    )


def _instant_ms(option: str, text: str, now_ms: int) -> int:
    """An instant: so long ago (`90s`, `15m`, `2h`, `7d`), ISO 8601 (UTC if it names no zone), or ms since 1970."""
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


def groups(store: Reader, chosen: Selection, limit: int) -> list[dict[str, object]]:
    """By topic and reason: how many there were, how many are stored and came back, when, an example."""
    rows = store.records(_GROUPS, **chosen.parameters(), limit=limit)
    for row in rows:
        if chosen.is_timed or chosen.places:
            row["records"] = None
    return rows


def letters(store: Reader, chosen: Selection, limit: int | None = None) -> Iterator[Letter]:
    """In the order of the log, read by pages."""
    after, left = RecordPosition("", -1, -1), limit
    while left is None or left > 0:
        page = store.records(
            _LETTERS,
            **chosen.parameters(),
            after_topic=after.topic,
            after_partition=after.partition,
            after_offset=after.offset,
            limit=_PAGE if left is None else min(left, _PAGE),
        )
        for row in page:
            letter = _letter(row)
            after = letter.place
            yield letter
        if left is not None:
            left -= len(page)
        if len(page) < _PAGE:
            return


def _letter(row: dict[str, object]) -> Letter:
    place = RecordPosition(str(row["topic"]), _int(row["partition"]), _int(row["offset"]))
    replayed_at, time = row["replayed_at"], row["time"]
    came = bool(row["replayed"]) and isinstance(replayed_at, datetime)
    to = RecordPosition(place.topic, _int(row["to_partition"]), _int(row["to_offset"]))
    return Letter(
        place,
        time if isinstance(time, datetime) else datetime.fromtimestamp(0, UTC),
        str(row["reason"]),
        str(row["detail"]),
        _int(row["raw_bytes"]),
        _int(row["raw_hash"]),
        replayed_at if came and isinstance(replayed_at, datetime) else None,
        to if came else None,
    )


def raw_of(store: Reader, places: Sequence[RecordPosition]) -> dict[RecordPosition, bytes]:
    """What the table has of these records; for a hundred of them at once."""
    rows = store.records(_RAW, **Selection(places=tuple(places)).parameters()) if places else []
    return {
        RecordPosition(str(row["topic"]), _int(row["partition"]), _int(row["offset"])): base64.b64decode(
            str(row["raw"])
        )
        for row in rows
    }


def lowest(store: Reader, chosen: Selection) -> list[tuple[str, int, int]]:
    """Per topic and partition of the letters chosen, the lowest offset."""
    rows = store.records(_LOWEST, **chosen.parameters())
    return [(str(row["topic"]), _int(row["partition"]), _int(row["lowest"])) for row in rows]


def log_of(store: Reader) -> str | None:
    """Which log the store was made from, as its `meta` says."""
    rows = store.records("SELECT value FROM meta FINAL WHERE key = 'log'")
    return str(rows[0]["value"]) if rows else None


def metered_to(store: Reader) -> dict[tuple[str, int], int]:
    """(topic, partition) -> the offset before which every letter that came back is in `dead_letter_replays`."""
    rows = store.records("SELECT topic, partition, next_offset FROM books FINAL")
    return {(str(row["topic"]), _int(row["partition"])): _int(row["next_offset"]) for row in rows}


def _int(value: object) -> int:
    return int(str(value))
