"""A load that should not stand is withdrawn, of no closed month, and put back by the same file."""

from __future__ import annotations

from pathlib import Path

import pytest

from sinks.clickhouse import ClickHouseStore
from streams.bills.withdrawing import ID_LEAST_CHARS, WITHDRAWN, withdraw
from streams.errors import WrongUseError
from tests.bills.bill import NOW_MS, line, loaded, stored, written

_STANDS = "SELECT sum(billed_cost) AS usd, count() AS lines FROM billed_lines"
MAY = {"BillingPeriodStart": "2026-05-01T00:00:00Z", "BillingPeriodEnd": "2026-06-01T00:00:00Z"}


def lines_of(store: ClickHouseStore) -> int:
    return int(str(store.ask(_STANDS, {}).records()[0]["lines"]))


def test_what_is_withdrawn_counts_no_more_and_the_same_file_puts_it_back(
    store: ClickHouseStore, tmp_path: Path
) -> None:
    other = written(tmp_path / "other.csv", line(**MAY, InvoiceIssuerName="another"))
    wrong = written(tmp_path / "wrong.csv", line(**MAY), line(**MAY))
    loaded(store, other)
    (load,) = loaded(store, wrong)
    assert lines_of(store) == 3
    gone = withdraw(store, load.load_id[:ID_LEAST_CHARS], [], NOW_MS + 5)
    assert (gone.load_id, gone.file, gone.lines, gone.months) == (load.load_id, "wrong.csv", 2, ["2026-05"])
    assert lines_of(store) == 1, "the other bill stays"
    status = {row["file"]: row["status"] for row in stored(store)["bill_loads"]}
    assert status == {"other.csv": "loaded", "wrong.csv": WITHDRAWN}
    with pytest.raises(WrongUseError, match=f"does not stand: it is {WITHDRAWN}"):
        withdraw(store, load.load_id, [], NOW_MS + 6)
    (again,) = loaded(store, wrong, now_ms=NOW_MS + 7)
    assert again.is_new
    assert lines_of(store) == 3


@pytest.mark.parametrize(
    ("name", "said"),
    [("abc", "expected 8 characters"), ("f" * 12, "no load has this load_id"), ("", "expected 8")],
)
def test_what_names_no_load_is_refused(store: ClickHouseStore, name: str, said: str) -> None:
    with pytest.raises(WrongUseError, match=said):
        withdraw(store, name, [], NOW_MS)


def test_of_a_closed_month_nothing_is_withdrawn(store: ClickHouseStore, tmp_path: Path) -> None:
    """Of a bill over two months neither may be closed."""
    two = {"BillingPeriodStart": "2026-05-15T00:00:00Z", "BillingPeriodEnd": "2026-06-15T00:00:00Z"}
    (load,) = loaded(store, written(tmp_path / "two.csv", line(**two)))
    for closed in ("2026-05", "2026-06"):
        with pytest.raises(WrongUseError, match=f"{closed} is closed"):
            withdraw(store, load.load_id, [closed], NOW_MS + 5)
    assert lines_of(store) == 1
    assert withdraw(store, load.load_id, ["2026-04", "2026-07"], NOW_MS + 5).months == ["2026-05", "2026-06"]
