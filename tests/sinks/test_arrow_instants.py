"""Instants of an answer are those that pyarrow would make, and no command loads pandas for them."""

from __future__ import annotations

import io
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from zoneinfo import ZoneInfo

import pyarrow as pa

from sinks.query.arrow import Encoder, decode

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


def encoded() -> bytes:
    encoder = Encoder(["at", "there"], [*TYPES])
    encoder.add([INSTANTS, INSTANTS])
    encoder.add([INSTANTS[:1], INSTANTS[:1]])
    sink = io.BytesIO()
    encoder.write(sink)
    return sink.getvalue()


def test_instants_are_those_of_pyarrow() -> None:
    answer = decode(encoded())
    with pa.ipc.open_stream(encoded()) as reader:
        table = reader.read_all()
    for column, expected, zone in zip(answer.columns, table.columns, TYPES.values(), strict=True):
        assert [repr(each) for each in column] == [repr(each) for each in expected.to_pylist()]
        assert isinstance(column[0], datetime)
        assert column[0].tzinfo is zone


def test_no_command_loads_pandas_for_them(tmp_path: Path) -> None:
    (tmp_path / "answer").write_bytes(encoded())
    asks = (
        "import sys; from pathlib import Path; from sinks.query.arrow import decode; "
        f"decode(Path({str(tmp_path / 'answer')!r}).read_bytes()); sys.exit('pandas' in sys.modules)"
    )
    subprocess.run([sys.executable, "-c", asks], check=True, cwd=Path(__file__).parents[2])
