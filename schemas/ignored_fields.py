"""Counts the fields of records that no version of them has: they are ignored, which a misspelt name is not meant to be."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Final

import msgspec

from schemas.counting import how_many
from schemas.decode import WIRES
from schemas.escaping import visible
from schemas.event_pages import fields_page
from schemas.redaction import CONTROLS

_COUNTED_AT_MOST: Final = 100
_SHOWN: Final = 10
_NAME_CHARACTERS: Final = 60
_KNOWN: Final = {
    topic: frozenset(wire.__struct_encode_fields__) for topic, wire in WIRES.items() if topic != CONTROLS
}
_decoder: Final = msgspec.json.Decoder(dict[str, msgspec.Raw])


class IgnoredFields:
    """The fields that were ignored, by topic and name, each with its records."""

    def __init__(self) -> None:
        self._records: Counter[tuple[str, str]] = Counter()

    def add(self, topic: str, value: bytes | None) -> None:
        """Count those of a record, `value` being its JSON.

        None are counted of a CloudEvent, which has an envelope, nor of a control, which is invalid with such a field.
        """
        known = _KNOWN.get(topic)
        if value is None or known is None:
            return
        try:
            record = _decoder.decode(value)
        except (msgspec.MsgspecError, ValueError, RecursionError):
            return
        if record.keys() <= known or "specversion" in record:
            return
        for name in record.keys() - known:
            if (topic, name) in self._records or len(self._records) < _COUNTED_AT_MOST:
                self._records[topic, name] += 1

    def sentences(self) -> Iterator[str]:
        """Yield a sentence for each field, the most frequent first."""
        most = self._records.most_common()
        for (topic, name), count in most[:_SHOWN]:
            records = how_many(count, "record")
            effect = "; without it a price is for more than was meant" if topic == "prices" else ""
            yield (
                f"{records} of {topic} with the field {visible(name[:_NAME_CHARACTERS])}, which is not known and was "
                f"ignored{effect} (docs/{fields_page(topic)})"
            )
        if len(most) > _SHOWN:
            yield f"and {len(most) - _SHOWN} more such fields"
