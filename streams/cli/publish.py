"""`trainfare publish FILE|DIR`: sends events from JSONL, or a log on disk, to Kafka, keyed as docs/events.md says.

A line without an event is refused here, and so is a control that would have no effect: people write those,
and wait for what they do.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, NamedTuple

import msgspec
import typer

from schemas.counting import how_many
from schemas.escaping import visible
from schemas.ignored_fields import IgnoredFields
from schemas.wire_types import MAX_KEY_BYTES
from streams.address_keys import AddressKeys, address_keys
from streams.cli.files import must_exist, numbered_lines
from streams.cli.options import settings_for
from streams.cli.progress import progress
from streams.clock import SystemClock
from streams.config.settings import Settings
from streams.errors import FileFaultsError, WrongUseError
from streams.keys import key_of
from streams.topics import Topic, short_name

if TYPE_CHECKING:
    from streams.cli.lateness import Lateness

_ANSWER_S: Final = 10.0
_FAULTS_SHOWN: Final = 20


class _Line(msgspec.Struct):
    """One line of a file of events; the value's bytes are passed on unchanged."""

    topic: str
    value: msgspec.Raw
    headers: dict[str, str] | None = None


class _Outgoing(NamedTuple):
    topic: Topic
    key: bytes
    value: bytes | None
    headers: list[tuple[str, bytes]]


_decoder = msgspec.json.Decoder(_Line)


def publish(
    files: Annotated[
        list[Path],
        typer.Argument(
            metavar="FILE...",
            help="JSONL, optionally .gz or .zst; or one data directory of `trainfare serve`.",
        ),
    ],
) -> None:
    """Publish events from JSONL files to Kafka: one {"topic": "jobs", "value": {...}} a line; or move the log of `trainfare serve` there."""
    settings = settings_for()
    from streams.segmented_log.directory import DIRECTORY  # loads what only a log on disk needs

    if len(files) == 1 and (files[0] / DIRECTORY).is_dir():
        _move(files[0], settings)
        return
    must_exist(files)
    prefix = settings.kafka.topic_prefix
    # Two passes: nothing is sent if any line is invalid.
    total, ignored = _checked(files, settings, SystemClock().now_ms())
    from streams.cli.lateness import warning  # loads the engine
    from streams.transport.producer import LogProducer  # loads Kafka clients; not needed to refuse a file

    keys = address_keys(settings.at_rest.keys)
    with LogProducer(settings.kafka) as producer, progress("publishing", total) as advance:
        lateness = _lateness(settings)
        for file in files:
            for number, event in _numbered(file, prefix):
                lateness.add(f"{file} line {number}", *event)
                producer.send(*_sealed(event, keys))
                advance(1)
    if said := warning(lateness, total):
        sys.stderr.write(f"trainfare: {visible(said)}\n")
    for sentence in ignored.sentences():
        sys.stderr.write(f"trainfare: {sentence}\n")
    sys.stdout.write(
        f"{how_many(producer.acknowledged, 'event')} acknowledged by {settings.kafka.bootstrap_servers}\n"
    )


def _sealed(event: _Outgoing, keys: AddressKeys | None) -> _Outgoing:
    if keys is None or event.topic != Topic.CONTROLS or event.value is None:
        return event
    return event._replace(value=keys.sealed_record(event.value))


def _checked(files: Sequence[Path], settings: Settings, now_ms: int) -> tuple[int, IgnoredFields]:
    """How many events there are, and which of their fields nobody reads.

    Raises:
        FileFaultsError: Some are controls that would have no effect.
    """
    from streams.cli.control_lines import ControlLines  # loads the engine
    from streams.cli.sql_rule_check import sql_faults

    kafka = settings.kafka
    total, controls, ignored = 0, ControlLines(now_ms), IgnoredFields()
    for file in files:
        for number, event in _numbered(file, kafka.topic_prefix):
            total += 1
            ignored.add(event.topic, event.value)
            if event.topic == Topic.CONTROLS:
                controls.add(f"{file} line {number}", event.value)
    if faults := controls.faults(kafka) or sql_faults(controls.effective, settings):
        left = len(faults) - _FAULTS_SHOWN
        raise FileFaultsError(
            [*faults[:_FAULTS_SHOWN], *([f"and {left} more"] if left > 0 else []), "nothing was published"]
        )
    return total, ignored


def _lateness(settings: Settings) -> Lateness:
    """What says which events the meter will refuse as `too_late`, by what the log has and the files' own order."""
    from streams.cli.lateness import Lateness
    from streams.engine.settings import FUTURE_MS
    from streams.transport.newest import newest_times

    kafka, now_ms = settings.kafka, SystemClock().now_ms()
    newest_ms = newest_times(kafka, now_ms + FUTURE_MS, _ANSWER_S)
    return Lateness(settings.meter, kafka.partitions, newest_ms, now_ms)


def _move(data: Path, settings: Settings) -> None:
    """Send what Kafka does not have yet of a log on disk."""
    from streams.broker.move_to_kafka import MoveToKafka
    from streams.transport.cluster import cluster_of, log_name
    from streams.transport.producer import LogProducer

    move = MoveToKafka(data, log_name(settings.kafka, cluster_of(settings.kafka, _ANSWER_S)))
    with LogProducer(settings.kafka) as producer, progress("publishing", move.left_bytes) as advance:
        sent = move.run(producer, advance)
    sys.stdout.write(
        f"{how_many(sent, 'event')} of {data} acknowledged by {settings.kafka.bootstrap_servers}\n"
    )


def outgoing(file: Path, prefix: str) -> Iterator[_Outgoing]:
    """Yield the Kafka record of each line of the file.

    Raises:
        WrongUseError: A line is no event.
    """
    return (event for _, event in _numbered(file, prefix))


def _numbered(file: Path, prefix: str) -> Iterator[tuple[int, _Outgoing]]:
    for number, text in numbered_lines(file):
        try:
            line = _decoder.decode(text)
            topic = Topic(short_name(line.topic, prefix))
        except (msgspec.MsgspecError, ValueError, RecursionError) as fault:
            raise WrongUseError(
                f'{file} line {number}: {fault}; expected {{"topic": "jobs", "value": {{...}}}} '
                f"with a topic of {', '.join(Topic)}"
            ) from None
        value = bytes(line.value)
        key = key_of(topic, value)[:MAX_KEY_BYTES]
        sent = None if value == b"null" else value
        headers = [(name, each.encode()) for name, each in (line.headers or {}).items()]
        yield number, _Outgoing(topic, key, sent, headers)
