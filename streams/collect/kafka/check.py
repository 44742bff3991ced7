"""`trainfare collect kafka --check FILE`: the events that a map makes of a sample, or what is wrong. Needs no Kafka."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import orjson

from schemas.escaping import visible
from streams.accounts.causes import remedy_of
from streams.collect.collector import CollectedEvent
from streams.collect.kafka.mapping import RecordMap
from streams.collect.kafka.options import MapOptions
from streams.errors import TrainfareError, WrongUseError

_SAMPLE_BYTES: Final = 16 * 2**20
_FAULTS_SAID: Final = 20


def check_sample(options: MapOptions, sample: Path) -> list[CollectedEvent]:
    """The events of all records of a sample.

    Raises:
        WrongUseError: The file cannot be read, or does not say of which topic its records are.
        TrainfareError: Records do not make the events that the rules say, or no record makes any.
    """
    rules, held = RecordMap(options), options.gpu_allocations()
    events: list[CollectedEvent] = []
    said: list[str] = []
    for where, record in _records(sample):
        topic, value = _with_topic(options, record, where)
        made, faults = rules.of_record(topic, value, held)
        if faults:
            mend = f" ({remedy_of(faults[0].reason)})" if faults[0].reason == "unit" else ""
            said.append(f"{where}: {faults[0]}{mend}")
        events += made
    if said:
        more = f"; and {len(said) - _FAULTS_SAID} more" if len(said) > _FAULTS_SAID else ""
        raise TrainfareError("; ".join(said[:_FAULTS_SAID]) + more)
    if not events:
        raise TrainfareError(
            f"{sample}: no rule makes an event of it: every `when` is false, or `each` is empty"
        )
    return events


def _records(sample: Path) -> Iterator[tuple[str, bytes]]:
    """Yield where each record stands, and its JSON: the whole file, or each line of it."""
    try:
        with sample.open("rb") as file:
            text = file.read(_SAMPLE_BYTES + 1)
    except OSError as fault:
        raise WrongUseError(f"{sample}: {fault.strerror}") from None
    if len(text) > _SAMPLE_BYTES:
        raise WrongUseError(f"{sample}: expected at most {_SAMPLE_BYTES} bytes")
    lines = [(number, line) for number, line in enumerate(text.splitlines(), 1) if line.strip()]
    if not lines:
        raise WrongUseError(f"{sample}: it is empty; expected a record, or a line for each")
    # A sample whose first line is bad is one of lines all the same.
    if len(lines) == 1 or _is_json(text) or not any(_is_object(line) for _, line in lines):
        yield str(sample), text.strip()
        return
    for number, line in lines:
        yield f"{sample}, line {number}", line.strip()


def _is_json(text: bytes) -> bool:
    try:
        orjson.loads(text)
    except ValueError:
        return False
    return True


def _is_object(text: bytes) -> bool:
    return text.strip().startswith(b"{") and _is_json(text)


def _with_topic(options: MapOptions, record: bytes, where: str) -> tuple[str, bytes]:
    """The topic and the value: those of `{"topic": ..., "value": ...}`, else the only topic and the record."""
    found: Any = None
    if _is_json(record):
        found = orjson.loads(record)
    if isinstance(found, dict) and found.keys() == {"topic", "value"}:
        if found["topic"] not in options.topics:
            raise WrongUseError(
                f"{where}: no rule reads topic {visible(str(found['topic'])[:80])}; expected one of "
                f"{', '.join(options.topics[:20])}"
            )
        return found["topic"], orjson.dumps(found["value"])
    if len(options.topics) > 1:
        raise WrongUseError(
            f'{where}: the map reads {len(options.topics)} topics; expected {{"topic": ..., "value": ...}} with one of '
            f"{', '.join(options.topics[:20])}"
        )
    return options.topics[0], record
