"""Whatever a price list contains, it is read or refused in one line, and nothing of it steers a terminal."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streams.errors import WrongUseError
from streams.prices.findings import findings
from streams.prices.records import format_of, records_of
from streams.prices.source import PriceFormat, PriceList
from tests.prices.given import NOW_MS

CELLS = st.sampled_from(
    ["", "h", "0", "-1", "1e400", "NaN", "9" * 40, "2026-13-01", "9999-12-31", "gpu_hour", "gb", "spot", '"', "\x00",
     "\x1b[2J", "\u202e", "\ud7ff", "٣", "é" * 200, "a,b", "1.0", "r", "InstanceType", "{", "[" * 3000]
)  # fmt: skip
HEADERS = [
    "sku,usd,per,from,gpu_type,purchase",
    "sku,usd,per,effective_ms,gpus,component",
    "InstanceType,AcceleratorName,AcceleratorCount,Price,SpotPrice,Region,AvailabilityZone",
]


def judged(content: bytes, form: PriceFormat | None) -> None:
    listed = PriceList("p.csv", content, "aws")
    try:
        records = records_of(listed, form or format_of(listed), NOW_MS)
    except WrongUseError as refused:
        text = str(refused)
        assert text.startswith("p.csv")
        assert len(text) < 1_000
        assert "\x1b" not in text
        assert "\n" not in text
        return
    assert records
    findings([(each.line, each.event) for each in records])


@given(st.binary(max_size=300), st.sampled_from([None, *PriceFormat]))
def test_any_bytes(content: bytes, form: PriceFormat | None) -> None:
    judged(content, form)


@given(st.sampled_from(HEADERS), st.lists(st.lists(CELLS, max_size=8), max_size=4))
def test_any_cells(header: str, rows: list[list[str]]) -> None:
    text = "\n".join([header, *(",".join(row) for row in rows)])
    judged(text.encode("utf-8", "surrogatepass"), None)


@pytest.mark.parametrize("form", list(PriceFormat))
@pytest.mark.parametrize(
    "content", [b"[" * 100_000, b'{"a":' * 50_000, b'"' * 300_000, b"," * 300_000, b"1" * 5_000, b'{"GPU": ' + b"9" * 5_000 + b"}"]
)  # fmt: skip
def test_deep_and_long(content: bytes, form: PriceFormat) -> None:
    judged(content, form)


def test_more_prices_than_fit_in_memory_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("streams.prices.records.RECORDS_MAX", 2)
    text = "sku,usd,per,from\n" + "".join(f"s{number},1,gpu_hour,\n" for number in range(3))
    listed = PriceList("p.csv", text.encode())
    with pytest.raises(WrongUseError, match=r"p\.csv line 4: more than 2 prices"):
        records_of(listed, PriceFormat.csv, NOW_MS)
