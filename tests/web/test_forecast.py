"""GET /api/v1/forecast: what the command answers, and refusals that name the parameter."""

from __future__ import annotations

from decimal import Decimal

from sinks.clickhouse import ClickHouseStore
from tests.web.test_costs import get


def test_it_answers_the_month_by_team_and_names_what_is_wrong(store: ClickHouseStore) -> None:
    found = get(store, "by=team&tz=Europe/Berlin", path="forecast")
    assert (found["month"], found["tz"], found["by"]) == ("2026-03", "Europe/Berlin", "team")
    assert found["month_end"] == "2026-04-01T00:00:00+02:00"
    spent = [Decimal(row["spent_usd"]) for row in found["rows"]]
    assert sum(spent) == Decimal(found["total"]["spent_usd"]) > 0
    assert found["total"]["forecast_usd"] is None, "there is no whole day yet"
    for wrong, said in (
        ("by=job", "by: got"),
        ("tz=../x", "tz: "),
        ("spot_share=2", "spot_share: "),
        ("day=1", "'day'"),
    ):
        assert said in get(store, wrong, 400, path="forecast")["error"]["message"]
