"""Describes what to do about each reason of a refusal, and marks the field at fault in a record."""

from __future__ import annotations

import re
from typing import Final

import msgspec
import orjson

from schemas.escaping import visible
from schemas.reasons import Reason

_PRODUCER: Final = "a wrong producer writes to the topic: find it by the record, and stop or mend it"
_COLLECTOR: Final = (
    "the collector is at fault: mend it and publish the event again with the same id; if trainfare was at fault, "
    "replay after the upgrade"
)
ADVICE: Final[dict[str, str]] = {
    Reason.malformed_json: _PRODUCER,
    Reason.not_an_object: _PRODUCER,
    Reason.bad_envelope: "the CloudEvents envelope lacks what it needs: mend the producer and publish again",
    Reason.unknown_topic: "the line names a topic that there is not: mend the file",
    Reason.unknown_type: _COLLECTOR,
    Reason.unknown_value: _COLLECTOR,
    Reason.missing_field: _COLLECTOR,
    Reason.wrong_type: _COLLECTOR,
    Reason.out_of_range: _COLLECTOR,
    Reason.too_long: (
        "a name, id or label is longer than 256 bytes, or an object has more than 64: shorten it in the collector, and "
        "publish the event again with the same id"
    ),
    Reason.nul_byte: _COLLECTOR,
    Reason.reserved_name: (
        "a name of the meter's own (docs/names.md, Reserved names): find who sends it, and let them take another. Records of the canary "
        "that another key signed, or an earlier version, are harmless"
    ),
    Reason.not_finite: _COLLECTOR,
    Reason.unequal_lengths: _COLLECTOR,
    Reason.inconsistent: _COLLECTOR,
    Reason.oversize: "the record is larger than the meter takes: let the collector send smaller ones",
    Reason.future: (
        "a clock was wrong by more than 5 min: mend it; replay when the event's time has come, if that time is right"
    ),
    Reason.unread_batch: (
        "one compressed batch held more than 64 MiB or a million records, as an attack does; none was read. Find its producer by the "
        "offset; events that were meant must be published again, in smaller batches"
    ),
    Reason.wrong_partition: (
        "the producer puts keys elsewhere than Kafka's default partitioner, or takes another key: set its partitioner to murmur2 "
        "(docs/events.md, Keys and partitioners); then replay, which sends each record to the partition of its key"
    ),
    Reason.too_late: (
        "it came after meter.job_horizon_ms (or, a sample, meter.late_horizon_ms): raise the horizon on all workers, "
        "restart them, replay; or accept the gap"
    ),
}
OF_FILES: Final = (
    "the log of this store is files given to `trainfare replay`, not Kafka: mend the lines and replay all files into a "
    "new directory, or put the mended lines into a file of their own and `trainfare replay FILE --append`"
)
_FIELD: Final = re.compile(r"field `([^`]+)`")
_STEPS: Final = re.compile(r"[^.\[\]]+")


def field_of(detail: str) -> str | None:
    """The field that a refusal's detail names."""
    found = _FIELD.match(detail)
    return None if found is None else found[1]


def pretty(raw: bytes, field: str | None) -> str:
    """The record, indented if it is JSON, with an arrow at the field at fault."""
    try:
        value = msgspec.json.decode(raw)
        lines = orjson.dumps(value, option=orjson.OPT_INDENT_2).decode().splitlines()
    except (msgspec.MsgspecError, orjson.JSONEncodeError, ValueError, RecursionError):
        return visible(raw.decode("utf-8", "backslashreplace"), lines=True)
    at = None if field is None else _line_of(lines, field)
    marked = [f"{line}   <-- {field}" if number == at else line for number, line in enumerate(lines)]
    return visible("\n".join(marked), lines=True)


def _line_of(lines: list[str], field: str) -> int | None:
    """The line of the field: each step of its path is one level deeper, after the step before."""
    found, begin = None, 0
    for depth, step in enumerate(_STEPS.findall(field), 1):
        key = f"{'  ' * depth}{orjson.dumps(step).decode()}: "
        hit = next((n for n in range(begin, len(lines)) if lines[n].startswith(key)), None)
        if hit is None:
            return found
        found, begin = hit, hit + 1
    return found
