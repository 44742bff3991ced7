"""Judges dead letters one by one, and sends those again that the meter would now accept."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from enum import StrEnum
from itertools import islice
from typing import Any, Final, NamedTuple

from schemas.decode import decode
from schemas.invalid import Invalid
from schemas.reasons import Reason
from schemas.redaction import is_withheld
from schemas.reserved import FIRST_BACKFILL_SHARD
from streams.accounts.refused import LOG_OF_FILES, OF_FILES
from streams.cli.dead_letters.letters import Letter, Selection, letters, log_of, raw_of
from streams.cli.dead_letters.log import LogReader, Original
from streams.cli.progress import progress
from streams.cli.reading import Reader
from streams.config.settings import MeterSettings, Settings
from streams.engine.settings import FUTURE_MS
from streams.engine.shard.dead_letters import REPLAY_HEADER, RecordPosition, is_late_again
from streams.errors import WrongUseError
from streams.keys import key_of
from streams.topics import Topic
from streams.transport.cluster import cluster_of, log_name
from streams.transport.producer import LogProducer

_REACH_S: Final = 5.0
#: Records in memory at a time: one may have 1 MiB.
_AT_ONCE: Final = 100
_OF_BACKFILL: Final = "a backfill refused it; correct its file, and backfill that"


class Outcome(StrEnum):
    """What becomes of a dead letter."""

    SEND = "sent again"
    BACK = "already sent again"
    REFUSED = "refused again"
    CONTROL = "control"
    GONE = "no longer whole"
    PAST = "of a backfill"
    OTHER = "another record"


#: (outcome, topic, reason) -> (number of dead letters, the last of them).
Tally = dict[tuple[Outcome, str, str], tuple[int, str]]


class Judged(NamedTuple):
    """A dead letter, its outcome, the reason for it, and the record to send."""

    letter: Letter
    outcome: Outcome
    why: str = ""
    record: Original | None = None


def check_log(store: Reader, settings: Settings) -> None:
    """Check that the configured log is the one that this store was built from.

    Raises:
        WrongUseError: It is another one, or the store was built from files.
    """
    log = log_of(store)
    if log == LOG_OF_FILES:
        raise WrongUseError(f"nothing can be sent again: {OF_FILES}")
    here = log_name(settings.kafka, cluster_of(settings.kafka, _REACH_S))
    if log != here:
        raise WrongUseError(
            f"the dead letters are of {log or 'no log'}, but the settings name {here}; set kafka.bootstrap_servers "
            "and kafka.topic_prefix to where they came from"
        )


def resend(judgements: Iterable[Judged], producer: LogProducer | None = None) -> Tally:
    """Send what may be sent, and count; without a producer, only count."""
    tally: Tally = {}
    with progress("reading" if producer is None else "sending", None) as advance:
        for letter, outcome, why, record in judgements:
            place = letter.place
            if producer is not None and record is not None:
                partition = None if letter.reason == Reason.wrong_partition else place.partition
                producer.send(Topic(place.topic), *record, partition)
            row = (outcome, place.topic, letter.reason)
            tally[row] = (tally.get(row, (0,))[0] + 1, f"{place}: {why}" if why else str(place))
            advance(1)
    return tally


def judged(
    store: Reader,
    log: LogReader,
    settings: Settings,
    chosen: Selection,
    now_ms: int,
    *,
    force: bool,
    again: bool,
) -> Iterator[Judged]:
    """Judge all selected dead letters, in the order of the log."""
    meter, partitions = settings.meter, settings.kafka.partitions
    # Every dead letter sent again before these offsets is in the table. Read them before the dead letters: a record
    # metered in between is then found in both, not in neither.
    books: Any = store.ask("SELECT topic, partition, next_offset FROM books FINAL").rows()
    metered_to = {(topic, partition): offset for topic, partition, offset in books}
    asked = letters(store, chosen)
    partition, back = ("", -1), set[RecordPosition]()
    moved: dict[str, set[RecordPosition]] = {}  # by topic: sent again into any partition, not metered yet
    while chunk := list(islice(asked, _AT_ONCE)):
        originals: dict[RecordPosition, Original | None] = {}
        for letter in chunk:
            place = letter.place
            if place.partition >= FIRST_BACKFILL_SHARD:
                continue
            if letter.reason == Reason.wrong_partition and place.topic not in moved and not again:
                starts = (
                    RecordPosition(place.topic, n, metered_to.get((place.topic, n), 0))
                    for n in range(partitions)
                )
                moved[place.topic] = {found for start in starts for found in log.came_back(start)}
            if place[:2] != partition and not again:
                partition = place[:2]
                # A record is sent again to a later offset.
                start = max(place.offset + 1, metered_to.get(partition, 0))
                back = set(log.came_back(place._replace(offset=start)))
            is_back = place in back or place in moved.get(place.topic, ())
            if again or (letter.replayed_to is None and not is_back):
                originals[place] = log.original(place)
        raws = raw_of(store, [place for place, found in originals.items() if found is None])
        for letter in chunk:
            place = letter.place
            if place.partition >= FIRST_BACKFILL_SHARD:
                yield Judged(letter, Outcome.PAST, _OF_BACKFILL)
            elif place in originals:
                yield judge(letter, originals[place], raws.get(place), meter, now_ms, force=force)
            else:
                yield Judged(letter, Outcome.BACK)


def judge(
    letter: Letter,
    found: Original | None,
    raw: bytes | None,
    meter: MeterSettings,
    now_ms: int,
    *,
    force: bool,
) -> Judged:
    """Judge one dead letter that was not sent again yet.

    `found`: the record in the log; None if the log no longer has it: then `raw` is what the table has of it.
    """
    topic, why = letter.place.topic, ""
    if found is not None:
        if not letter.begins(found.value or b""):
            return Judged(letter, Outcome.OTHER, "the log has another record there; was the topic made anew?")
    elif raw is None or letter.is_cut:
        return Judged(
            letter, Outcome.GONE, "the log no longer has it, and the table has only the beginning of it"
        )
    elif topic == Topic.CONTROLS or is_withheld(raw):
        return Judged(letter, Outcome.GONE, "the log no longer has it, and the table withholds its values")
    else:
        found = Original(key_of(Topic(topic), raw), raw, [])
        why = "from the table: the log no longer has it (headers are lost)"
    if letter.reason == Reason.wrong_partition:
        # The key may be the fault: send it with the one by which the meter's own producer places it.
        found = found._replace(key=key_of(Topic(topic), found.value or b""))
    headers = [(name, value) for name, value in found.headers if name != REPLAY_HEADER]
    record = found._replace(headers=[*headers, (REPLAY_HEADER, str(letter.place).encode())])
    refusal = _refusal(letter, record, meter, now_ms)
    if refusal and not force:
        return Judged(letter, Outcome.REFUSED, refusal)
    if topic == Topic.CONTROLS and not force:
        return Judged(
            letter,
            Outcome.CONTROL,
            "the last control in the log stands, and a later one may have come: publish it anew if it should hold",
        )
    return Judged(letter, Outcome.SEND, refusal or why, record)


def _refusal(letter: Letter, record: Original, meter: MeterSettings, now_ms: int) -> str:
    """Why the meter would refuse it again; empty if it would not, as far as can be known here."""
    event = decode(letter.place.topic, record.value, record.headers, FUTURE_MS + now_ms)
    if isinstance(event, Invalid):
        return f"{event.reason}: {event.detail}"
    late = letter.reason == Reason.too_late
    if late and is_late_again(letter.detail, meter.job_horizon_ms, meter.late_horizon_ms):
        return "too_late: under the same horizons; raise meter.job_horizon_ms or meter.late_horizon_ms first"
    return ""
