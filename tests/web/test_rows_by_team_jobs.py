"""One job of a team, for who is bound to it: what is stored of its states says the same as to everybody, and a job of others is unknown."""

from __future__ import annotations

from typing import Any, Final
from urllib.parse import quote

import pytest

from sinks.clickhouse import ClickHouseStore
from streams.explain.job import explained
from streams.web.store_reader import StoreReader, TeamReader, TeamStore
from tests.web.log import AS_OF_MS, ODD_ID
from tests.web.marked_store import token_of
from tests.web.serving import BEARER, TOKEN, Client, served

VIEWER, RECORD = token_of("viewer", "read", teams=("vision",))
BOUND: Final = {"Authorization": f"Bearer {VIEWER}"}
OWN, OTHER = "a", "b"
DAY_MS: Final = 86_400_000
RANGE: Final = f"from_ms={AS_OF_MS - DAY_MS}&to_ms={AS_OF_MS}"
BELOW: Final = ("", "/explain", "/explain?by=minute", "/rules", f"/rules?at_ms={AS_OF_MS}", "/elsewhere")


def test_the_own_job_is_told_as_to_all(store: ClickHouseStore) -> None:
    async def work(client: Client) -> None:
        for below in BELOW:
            path = f"/api/v1/jobs/{OWN}{below}"
            own, whole = [await client.get(path, headers=each) for each in (BOUND, BEARER)]
            assert own.pop("partial") == "team vision", path
            # The newest figures are those of the own rows.
            assert own | {"as_of_ms": 0} == whole | {"as_of_ms": 0}, path
        exact = await client.get(f"/api/v1/jobs/{OWN}/explain", headers=BOUND)
        assert (exact["fallback"], len(exact["intervals"]) > 0) == ("", True)
        rules = await client.get(f"/api/v1/jobs/{OWN}/rules", headers=BOUND)
        assert (rules["missing"], len(rules["rules"]) > 5) == ("", True)

    served(store, work, filed=RECORD, token=TOKEN)


def test_a_job_of_others_is_none(store: ClickHouseStore) -> None:
    async def work(client: Client) -> None:
        for job in (OTHER, ODD_ID):  # of another team, and of none
            for below in (*BELOW, "/similar", "/receipt"):
                path = f"/api/v1/jobs/{quote(job, safe='')}{below}"
                found = await client.get(path, 404, headers=BOUND)
                missing = await client.get(
                    path.replace(f"jobs/{quote(job, safe='')}", "jobs/no-such"), 404, headers=BOUND
                )
                said = [each["error"]["message"] for each in (found, missing)]
                assert said[0].replace(repr(job), "J") == said[1].replace("'no-such'", "J")
                await client.get(path, 404 if below == "/receipt" and job == OTHER else 200, headers=BEARER)

    served(store, work, filed=RECORD, token=TOKEN)


def test_costs_to_come_and_shares_are_of_the_own_team(store: ClickHouseStore) -> None:
    async def work(client: Client) -> None:
        forecast = await client.get("/api/v1/forecast", headers=BOUND)
        assert [row["team"] for row in forecast["rows"]] == ["vision"]
        shares = await client.get("/api/v1/coverage", headers=BOUND)
        whole = await client.get("/api/v1/coverage", headers=BEARER)
        assert 0 < float(shares["rows"][0]["cost_usd"]) < float(whole["rows"][0]["cost_usd"])
        top = await client.get(f"/api/v1/panels/top_jobs?{RANGE}", headers=BOUND)
        assert [row[0] for row in top["rows"]] == [OWN]
        refused = await client.get("/api/v1/costs?metric=m3", 403, headers=BOUND)
        assert refused["error"]["code"] == "beyond_token"
        saved = await client.get("/api/v1/savings", headers=BOUND)
        assert not {row["saving"] for row in saved["rows"]} & {"idle_nodes"}

    served(store, work, filed=RECORD, token=TOKEN)


def test_panels_of_nodes_are_for_all(store: ClickHouseStore) -> None:
    async def work(client: Client) -> None:
        boards = {
            who: [
                panel["name"]
                for board in (await client.get("/api/v1/dashboards", headers=each))["dashboards"]
                for panel in board["panels"]
            ]
            for who, each in (("own", BOUND), ("all", BEARER))
        }
        left_out = [name for name in boards["all"] if name not in boards["own"]]
        assert {"nodes", "unallocated", "dead_letters"} <= {*left_out}
        assert {"burn_now", "live_jobs", "top_jobs", "job_cost", "alerts"} <= {*boards["own"]}
        for name in left_out:
            found = await client.get(f"/api/v1/panels/{name}?{RANGE}&job={OWN}", 403, headers=BOUND)
            assert found["error"]["code"] == "beyond_token"
            assert "made from rows of all teams" in found["error"]["message"]
        live = await client.get(f"/api/v1/panels/live_jobs?{RANGE}", headers=BOUND)
        assert {row[0] for row in live["rows"]} <= {OWN}
        for job, attempts in ((OWN, 1), (OTHER, 0)):
            found = await client.get(f"/api/v1/panels/job_attempts?{RANGE}&job={job}", headers=BOUND)
            assert len(found["rows"]) == attempts

    served(store, work, filed=RECORD, token=TOKEN)


def test_a_reader_that_forgets_the_teams_would_tell(
    store: ClickHouseStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert explained(TeamStore(store, ("vision",)), OTHER) is None
    assert explained(TeamStore(store, ("speech",)), OTHER) is not None

    async def unbound(self: TeamReader, work: Any) -> Any:
        return await StoreReader.run(self._reader, work)

    monkeypatch.setattr(TeamReader, "explained", unbound)

    async def told(client: Client) -> None:
        await client.get(f"/api/v1/jobs/{OTHER}/explain", 200, headers=BOUND)

    served(store, told, filed=RECORD, token=TOKEN)
