"""Whether a dead letter may be sent again, and what would be sent.

It must not read or write anything: the record is handed in.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final, NamedTuple

from schemas.decode import decode
from schemas.invalid import Invalid
from schemas.reasons import Reason
from schemas.redaction import is_withheld
from streams.cli.dead_letters_select import Letter
from streams.config.settings import MeterSettings
from streams.engine.shard.dead_letters import REPLAY_HEADER, is_late_again
from streams.keys import key_of
from streams.topics import Topic


class Outcome(StrEnum):
    """What becomes of a letter."""

    SEND = "sent again"
    BACK = "already sent again"
    REFUSED = "refused again"
    CONTROL = "control"
    GONE = "no longer whole"
    OTHER = "another record"


#: Of these a person may insist.
FORCED: Final = frozenset({Outcome.REFUSED, Outcome.CONTROL})
_LAST_STANDS: Final = (
    "the last control in the log stands, and a later one may have come: publish it anew if it should hold"
)


class Original(NamedTuple):
    """A record as it was produced."""

    key: bytes | None
    value: bytes | None
    headers: list[tuple[str, bytes | None]]


@dataclass(frozen=True)
class Judged:
    """A letter, what becomes of it, why, and the record to send."""

    letter: Letter
    outcome: Outcome
    why: str = ""
    record: Original | None = None


def judge(
    letter: Letter,
    found: Original | None,
    raw: bytes | None,
    meter: MeterSettings,
    now_ms: int,
    *,
    force: bool,
) -> Judged:
    """Judge one letter that did not come back yet.

    `found`: the record in the log; None if the log has it no more: then `raw` is the whole of it from the table, if
    the table has the whole.
    """
    topic = letter.place.topic
    if found is not None and not letter.begins(found.value or b""):
        return Judged(letter, Outcome.OTHER, "the log has another record there; was the topic made anew?")
    if found is not None:
        record, why = found, ""
    elif raw is None:
        return Judged(
            letter, Outcome.GONE, "the log no longer has it, and the table has only the beginning of it"
        )
    elif letter.place.topic == Topic.CONTROLS or is_withheld(raw):
        return Judged(letter, Outcome.GONE, "the log no longer has it, and the table withholds its values")
    else:
        record = Original(key_of(Topic(topic), raw), raw, [])
        why = "from the table: the log no longer has it (headers are lost)"
    headers = [(name, value) for name, value in record.headers if name != REPLAY_HEADER]
    record = record._replace(headers=[*headers, (REPLAY_HEADER, str(letter.place).encode())])
    again = _refused_again(letter, record, meter, now_ms)
    if again and not force:
        return Judged(letter, Outcome.REFUSED, again)
    if topic == Topic.CONTROLS and not force:
        return Judged(letter, Outcome.CONTROL, _LAST_STANDS)
    return Judged(letter, Outcome.SEND, again or why, record)


def _refused_again(letter: Letter, record: Original, meter: MeterSettings, now_ms: int) -> str:
    """Why the meter would refuse it again; empty if it would not, as far as that is known here."""
    from streams.engine.settings import FUTURE_MS  # loads numpy; every verb loads this module

    event = decode(letter.place.topic, record.value, record.headers, FUTURE_MS + now_ms)
    if isinstance(event, Invalid):
        return f"{event.reason}: {event.detail}"
    late = letter.reason == Reason.too_late
    if late and is_late_again(letter.detail, meter.job_horizon_ms, meter.late_horizon_ms):
        return "too_late: under the same horizons; raise meter.job_horizon_ms or meter.late_horizon_ms first"
    return ""
