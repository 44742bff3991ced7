"""The history of alerts for the API: pages of them, one with all that is known of it, why it fires, and the course of its rule."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

from streams.engine.alerts.titles import title_of
from streams.engine.rules.registry import BY_NAME
from streams.explain import acts, alert_list
from streams.explain.alert_list import AlertsAsked
from streams.explain.stored import ExplainedStore
from streams.explain.why.answer import StoreRecords, answer
from streams.explain.why.margin_history import MarginHistory, histories_before, margin_history
from streams.notify.links import RULES_PAGE, RUNBOOKS
from streams.web import queries
from streams.web.detail import STATE_MAX_BYTES
from streams.web.figures import ApiFigures, chunks
from streams.web.store_reader import Row, StoreReader

Object = dict[str, Any]


class AlertHistory:
    """Alerts of the store, each answer cached like the live figures.

    Args:
        store_reader: Where they are.
        figures: The live figures, which know what an alert says as of now.
        docs_url: The folder of the documentation; '': runbooks have a path and no address.
    """

    def __init__(self, store_reader: StoreReader, figures: ApiFigures, docs_url: str = "") -> None:
        self._store_reader = store_reader
        self._figures = figures
        self._docs_url = docs_url

    async def page(self, asked: AlertsAsked) -> Object:
        """One page of the alerts that are asked for, how many there are, and where the next page begins."""

        async def make() -> Object:
            ask = self._store_reader.rows
            # One more than is shown tells whether there is another page.
            places, counts = await asyncio.gather(
                ask(alert_list.settled(asked.sql()), **{**asked.parameters(), "limit": asked.limit + 1}),
                ask(alert_list.settled(asked.count_sql()), **asked.count_parameters()),
            )
            shown = places[: asked.limit]
            found = await self._alerts([place["alert_id"] for place in shown])
            matched = {place["alert_id"]: place["matched"] for place in shown}
            members = await self._members(found) if asked.folded else {}
            return {
                "as_of_ms": await self._figures.now_ms(),
                "alerts": [
                    {
                        **alert,
                        "members": _with_matched(members.get(alert["alert_id"]), matched[alert["alert_id"]]),
                    }
                    for alert in found
                ],
                "count": counts[0]["rows"],
                "count_alerts": counts[0]["alerts"],
                "before": asked.next(shown[-1]) if len(places) > len(shown) else None,
            }

        return await self._figures.kept(("alerts", asked), make) or {}

    async def names(self) -> Object:
        """The rules, owners and teams that there are alerts of."""

        async def make() -> Object:
            return (await self._store_reader.rows(alert_list.settled(alert_list.NAMES)))[0]

        return await self._figures.kept(("alert names",), make) or {}

    async def one(self, alert_id: str) -> Object | None:
        """One alert with its rule, its messages, what was done about it, and what it shares a cause with; None: there is none."""

        async def make() -> Object | None:
            found = await self._alerts([alert_id])
            if not found:
                return None
            (alert,) = found
            ask = self._store_reader.rows
            now_ms = await self._figures.now_ms()
            more, heads, controls, members = await asyncio.gather(
                ask(queries.ALERT_MORE, alert=alert_id),
                ask(alert_list.settled(alert_list.HEAD_OF), alert=alert_id),
                self._controls(alert_id, now_ms),
                self._members(found),
            )
            head = heads[0]["head"] if heads else alert_id
            return {
                "as_of_ms": now_ms,
                "alert": {**alert, **more[0], "members": _with_matched(members.get(alert_id), 0)},
                "part_of": None if head == alert_id else next(iter(await self._alerts([head])), None),
                "rule": self._rule(str(alert["rule"])),
                "controls": controls,
            }

        return await self._figures.kept(("alert", alert_id), make)

    async def why(self, alert_id: str, at_ms: int | None) -> Object | None:
        """What `trainfare alerts why` says of an alert; None: there is none."""

        def work(store: ExplainedStore) -> Object | None:
            return answer(StoreRecords(store, STATE_MAX_BYTES), alert_id, at_ms)

        if not await self._figures.has_alert(alert_id):
            return None
        found = await self._store_reader.explained(work)
        if found is not None and self._store_reader.teams is not None:
            # A rule by SQL is whoever's; of how many records an older release stored no settings is of all teams.
            found |= {"statement": "", "records_unknown": min(found["records_unknown"], 1)}
        return found

    async def margins(self, alert_id: str) -> MarginHistory | None:
        """How far its rule was from firing before it opened, and while it fired; None: there is no such alert."""
        rows = await self._store_reader.rows(queries.SOME_ALERTS, alerts=[alert_id])
        now_ms = await self._figures.as_of_ms()
        if not rows:
            return None
        return await self._store_reader.explained(
            lambda store: margin_history(store, rows[0], now_ms, STATE_MAX_BYTES)
        )

    async def before(self, alert_id: str) -> list[MarginHistory] | None:
        """How far every rule about its job was from firing until it opened; None: there is no such alert."""
        rows = await self._store_reader.rows(queries.SOME_ALERTS, alerts=[alert_id])
        if not rows:
            return None
        return await self._store_reader.explained(
            lambda store: histories_before(store, rows[0], STATE_MAX_BYTES)
        )

    async def _alerts(self, ids: Sequence[str]) -> list[Object]:
        """Alerts as objects, in this order, each with what became of its message."""
        rows: dict[str, Row] = {}
        message: dict[str, str] = {}
        for some in chunks(ids):
            found, said = await asyncio.gather(
                self._store_reader.rows(queries.SOME_ALERTS, alerts=some),
                self._store_reader.rows(alert_list.settled(alert_list.MESSAGES_OF), alerts=some),
            )
            rows.update((row["alert_id"], row) for row in found)
            message.update((row["alert_id"], row["message"]) for row in said)
        whole = await self._figures.with_deliveries([rows[each] for each in ids if each in rows])
        return [{**alert, "message": message.get(alert["alert_id"], "none")} for alert in whole]

    async def _members(self, alerts: Sequence[Object]) -> dict[str, Object]:
        """How many alerts of jobs each of these tells of, by its id."""
        heads = [
            each["alert_id"] for each in alerts if each["shared_cause"] and each["subject"]["kind"] != "job"
        ]
        found: dict[str, Object] = {}
        for some in chunks(heads):
            for row in await self._store_reader.rows(alert_list.settled(alert_list.MEMBERS), alerts=some):
                found[row.pop("head")] = row
        return found

    async def _controls(self, alert_id: str, now_ms: int) -> list[Object]:
        """The acknowledgements, silences and plans that were for the alert at any time while it fired, the newest first."""
        ask = self._store_reader.rows
        rows = await ask(queries.SOME_ALERTS, alerts=[alert_id])
        controls = await ask(queries.CONTROLS, at_ms=now_ms)
        dimensions: dict[str, Row] = {}
        if jobs := acts.jobs_of(rows):
            dimensions = {row["job_id"]: row for row in await ask(queries.DIMENSIONS, jobs=jobs)}
        return [
            each
            for row in rows
            for each in acts.touching(row, controls, acts.facts_of(row, dimensions), now_ms)
        ]

    def _rule(self, name: str) -> Object:
        """What is known of a rule, one by SQL included."""
        runbook = RUNBOOKS.get(name, RULES_PAGE)
        known = BY_NAME.get(name)
        return {
            "name": name,
            "title": title_of(name),
            "about": known.about if known else "",
            "holds": known.holds if known else "",
            "planned_quiets": bool(known and known.planned_quiets),
            "runbook": f"docs/{runbook}",
            "runbook_url": f"{self._docs_url}/{runbook}" if self._docs_url else None,
        }


def _with_matched(members: Mapping[str, Any] | None, matched: int) -> Object | None:
    return None if members is None else {**members, "matched": matched}
