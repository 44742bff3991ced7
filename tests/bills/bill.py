"""Bills in the FOCUS format from a few words, so that a test says only what it is about."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Mapping
from pathlib import Path

from schemas.tables import SCHEMAS
from sinks.clickhouse import ClickHouseStore
from streams.bills.files import BillFile
from streams.bills.loading import Loaded, load
from streams.packed import open_packed

#: Real bills of September 2024, made anonymous.
SAMPLE = Path(__file__).resolve().parents[3] / "shared" / "data" / "billing" / "focus_1.0_sample_part1.csv"
NOW_MS = 1_800_000_000_000
USUAL = {
    "BilledCost": "1.5",
    "BillingAccountId": "acct",
    "BillingAccountName": "NULL",
    "BillingCurrency": "USD",
    "BillingPeriodEnd": "2026-04-01 00:00:00",
    "BillingPeriodStart": "2026-03-01 00:00:00",
    "ChargeCategory": "Usage",
    "ChargeClass": "NULL",
    "ChargeDescription": "an hour",
    "ChargePeriodEnd": "2026-03-01 11:00:00",
    "ChargePeriodStart": "2026-03-01 10:00:00",
    "ContractedCost": "NULL",
    "EffectiveCost": "0",
    "InvoiceIssuerName": "Cloud Inc.",
    "ListCost": "1.5",
    "PricingQuantity": "1",
    "PricingUnit": "Hours",
    "ProviderName": "Cloud",
    "PublisherName": "Cloud Inc.",
    "ServiceCategory": "Compute",
    "ServiceName": "VM",
    "ResourceId": "n1",
    "SkuId": "SKU1",
    "Tags": "NULL",
}


def line(**values: str) -> dict[str, str]:
    """A line: what is not given is a usual value."""
    return {**USUAL, **values}


def text_of(lines: Iterable[Mapping[str, str]]) -> str:
    """The lines in CSV."""
    rows = list(lines)
    out = io.StringIO()
    writer = csv.DictWriter(out, list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return out.getvalue()


def written(path: Path, *lines: Mapping[str, str]) -> Path:
    """A file of the lines."""
    path.write_text(text_of(lines), encoding="utf-8")
    return path


def file_of(path: Path) -> BillFile:
    return BillFile(str(path), lambda: open_packed(path))


def loaded(store: ClickHouseStore, *paths: Path, replace: bool = False, now_ms: int = NOW_MS) -> list[Loaded]:
    """Load the files."""
    return load(store, [file_of(path) for path in paths], now_ms, replace=replace)


def stored(store: ClickHouseStore) -> dict[str, list[dict[str, object]]]:
    """Every current row of a bill."""
    return {name: store.select(name).to_pylist() for name in SCHEMAS if name.startswith("bill_")}
