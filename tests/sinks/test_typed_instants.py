"""Instants of an answer keep their zone and microseconds."""

from __future__ import annotations

import io
from datetime import UTC, datetime
from types import ModuleType
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from sinks.query import arrow, msgpack

ENCODERS: dict[ModuleType, Any] = {arrow: arrow.Encoder, msgpack: msgpack.MessagePackEncoder}
TYPES = {
    "DateTime('UTC')": ZoneInfo("UTC"),
    "Nullable(DateTime64(6, 'Australia/Lord_Howe'))": ZoneInfo("Australia/Lord_Howe"),
}
INSTANTS = [
    datetime(2026, 10, 4, 13, 29, 59, 999_999, UTC),
    datetime(2026, 10, 4, 15, 30, tzinfo=UTC),
    datetime(1960, 1, 1, tzinfo=UTC),
    None,
]


@pytest.mark.parametrize("form", [arrow, msgpack], ids=["arrow", "msgpack"])
def test_instants_keep_their_zone(form: ModuleType) -> None:
    encoder = ENCODERS[form](["at", "there"], [*TYPES])
    encoder.add([INSTANTS, INSTANTS])
    encoder.add([INSTANTS[:1], INSTANTS[:1]])
    sink = io.BytesIO()
    encoder.write(sink)
    for column, zone in zip(form.decode(sink.getvalue()).columns, TYPES.values(), strict=True):
        found = [None if each is None else str(each) for each in column]
        expected = [*INSTANTS, INSTANTS[0]]
        assert found == [None if each is None else str(each.astimezone(zone)) for each in expected]
