"""The routes of the server: the scope that each needs, and its handler."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any, Final, NamedTuple, TypeVar

import msgspec
from aiohttp import web

from streams.costs.headroom import LEVELS
from streams.errors import WrongUseError
from streams.explain import alert_list
from streams.web import metrics
from streams.web.controls import NOT_HERE
from streams.web.costs import in_currency
from streams.web.encode import json_answer
from streams.web.errors import ApiError
from streams.web.finance_endpoint import FinanceEndpoint
from streams.web.health import public
from streams.web.job_endpoint import JobEndpoint
from streams.web.job_list import PARAMETERS, ListRequest, limit_of, one_of, request_of
from streams.web.middleware import CALLER, TEAMS, client_of, sees_all
from streams.web.page_sessions import PageSessions
from streams.web.panels import board_asked, dashboards, panel_answer, write_board
from streams.web.parameters import instant, known_alert, parameters
from streams.web.parts import Parts
from streams.web.query import query
from streams.web.scopes import ALL, CONTROL_SCOPES, Caller, Scope
from streams.web.security import Needed
from streams.web.team_answers import TeamAnswers, TeamHandlers, Teams, partial_header
from streams.web.token_endpoint import TokenEndpoint
from streams.worker.health.worker_status import Check

T = TypeVar("T")

_TOP_JOBS: Final = 100
_TOP_ALERTS: Final = 50
# Prometheus gives up after 10 s, and would then have no metrics of this worker at all.
_FACTS_WITHIN_S: Final = 3.0
#: Send buffer of a listener: room for the newest snapshot, not for a megabyte of older ones.
_STREAM_SEND_BYTES: Final = 128 * 1024
_HOW_TO_WRITE: Final = "web.write_token (TRAINFARE_WEB_WRITE_TOKEN)"
OPEN: Final = None
#: What any of its kinds needs; each is judged once its kind is known.
CONTROLS: Final = frozenset(CONTROL_SCOPES.values())
ANY: Final = ALL


class Route(NamedTuple):
    """One path; HEAD is supported where GET is."""

    method: str
    path: str
    scope: Needed  # OPEN: public; of several: one of them
    handler: Callable[[web.Request], Awaitable[web.StreamResponse]]


class Routes:
    """The handlers."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts

    def table(self) -> tuple[Route, ...]:
        """Every route."""
        jobs, finance = JobEndpoint(self._parts), FinanceEndpoint(self._parts)
        tokens, sessions = TokenEndpoint(self._parts), PageSessions(self._parts)
        return (
            Route("GET", "/healthz", OPEN, self._healthz),
            Route("GET", "/readyz", OPEN, self._readyz),
            Route("GET", "/metrics", Scope.METRICS, self._metrics),
            Route("GET", "/api/v1/jobs", Scope.READ, self._jobs),
            Route("GET", "/api/v1/jobs/{job_id:[^/]+}", Scope.READ, jobs.job),
            Route("GET", "/api/v1/jobs/{job_id:[^/]+}/explain", Scope.READ, jobs.explain),
            Route("GET", "/api/v1/jobs/{job_id:[^/]+}/rules", Scope.READ, jobs.rules),
            Route("GET", "/api/v1/jobs/{job_id:[^/]+}/similar", Scope.READ, jobs.similar),
            Route("GET", "/api/v1/jobs/{job_id:[^/]+}/elsewhere", Scope.READ, jobs.elsewhere),
            Route("GET", "/api/v1/jobs/{job_id:[^/]+}/receipt", Scope.READ, jobs.receipt),
            # The same of an id that no path can name: `..`, which browsers and proxies take for a step up.
            Route("GET", "/api/v1/job", Scope.READ, jobs.job),
            Route("GET", "/api/v1/job/explain", Scope.READ, jobs.explain),
            Route("GET", "/api/v1/job/rules", Scope.READ, jobs.rules),
            Route("GET", "/api/v1/job/similar", Scope.READ, jobs.similar),
            Route("GET", "/api/v1/job/elsewhere", Scope.READ, jobs.elsewhere),
            Route("GET", "/api/v1/job/receipt", Scope.READ, jobs.receipt),
            Route("GET", "/api/v1/burn", Scope.READ, self._burn),
            Route("GET", "/api/v1/clock", Scope.READ, self._clock),
            Route("GET", "/api/v1/costs", Scope.READ, finance.costs),
            Route("GET", "/api/v1/costs/span", Scope.READ, finance.span),
            Route("GET", "/api/v1/costs/month", Scope.READ, finance.month),
            Route("GET", "/api/v1/forecast", Scope.READ, finance.forecast),
            Route("GET", "/api/v1/dashboards", Scope.READ, self._dashboards),
            Route("GET", "/api/v1/dashboards/{name}", Scope.READ, self._board),
            Route("GET", "/api/v1/panels/{name}", Scope.READ, self._panel),
            Route("GET", "/api/v1/idle", Scope.READ, finance.idle),
            Route("GET", "/api/v1/commitments", Scope.READ, finance.commitments),
            Route("GET", "/api/v1/coverage", Scope.READ, finance.coverage),
            Route("GET", "/api/v1/savings", Scope.READ, finance.savings),
            Route("GET", "/api/v1/carbon", Scope.READ, finance.carbon),
            Route("GET", "/api/v1/budgets", Scope.READ, self._budgets),
            Route("GET", "/api/v1/budgets/detail", Scope.READ, self._budget),
            Route("GET", "/api/v1/headroom", Scope.READ, self._headroom),
            Route("GET", "/api/v1/experiments", Scope.READ, self._experiments),
            Route("GET", "/api/v1/experiments/{name:[^/]+}", Scope.READ, self._experiment),
            Route("GET", "/api/v1/alerts", Scope.READ, self._alerts),
            Route("GET", "/api/v1/alerts/{alert_id:[^/]+}", Scope.READ, self._alert),
            Route("GET", "/api/v1/alerts/{alert_id:[^/]+}/why", Scope.READ, self._alert_why),
            Route("GET", "/api/v1/alerts/{alert_id:[^/]+}/margins", Scope.READ, self._alert_margins),
            Route("GET", "/api/v1/alerts/{alert_id:[^/]+}/before", Scope.READ, self._alert_before),
            Route("GET", "/api/v1/meter", Scope.READ, self._meter),
            Route("GET", "/api/v1/audit", Scope.READ, self._audit),
            Route("GET", "/audit", Scope.READ, self._audit_text),
            Route("GET", "/api/v1/stream", Scope.READ, self._stream),
            Route("POST", "/api/v1/session", Scope.READ, sessions.begin),
            Route("GET", "/api/v1/tables", Scope.READ, self._tables),
            Route("POST", "/api/v1/query", Scope.QUERY, self._query),
            Route("POST", "/api/v1/controls", CONTROLS, self._controls),
            Route("POST", "/api/v1/sources", Scope.INGEST, tokens.source),
            Route("GET", "/api/v1/approvals", CONTROLS, tokens.waiting),
            Route("POST", "/api/v1/approvals", CONTROLS, tokens.confirm),
            Route("GET", "/api/v1/whoami", ANY, tokens.whoami),
            Route("GET", "/api/v1/changes", Scope.ADMIN, tokens.changes),
            Route("GET", "/api/v1/tokens", Scope.ADMIN, tokens.listed),
            Route("POST", "/api/v1/tokens", Scope.ADMIN, tokens.write),
            Route("POST", "/api/v1/prices", Scope.LIMIT, tokens.publish_prices),
            Route("POST", "/api/v1/receivers/test", Scope.LIMIT, self._receivers),
            Route("POST", "/api/v1/events", Scope.INGEST, self._events),
            Route("POST", "/api/v1/bills", Scope.LIMIT, self._bills),
            Route("POST", "/api/v1/bills/pieces", Scope.LIMIT, self._bill_piece),
            Route("POST", "/api/v1/bills/allocations", Scope.LIMIT, self._bill_allocations),
            Route("POST", "/api/v1/bills/withdrawals", Scope.LIMIT, self._bill_withdrawal),
            Route("POST", "/api/v1/closings", Scope.LIMIT, self._close_month),
            Route("GET", "/api/v1/closings/{month:[^/]+}", Scope.QUERY, self._closing),
            # Open to all: they check a secret of their own, which is no token.
            Route("POST", "/v1/traces", Scope.INGEST, self._traces),
            Route("POST", "/v1/metrics", Scope.INGEST, self._otlp_metrics),
            Route("POST", "/api/v1/act", OPEN, self._act),
            Route("POST", "/api/v1/hooks/github", OPEN, self._github),
            Route("POST", "/api/v1/hooks/gitlab", OPEN, self._gitlab),
            Route("GET", "/", OPEN, sessions.page),
            Route("GET", "/api/v1/sign_in", OPEN, self._sign_in_state),
            Route("POST", "/api/v1/sign_out", OPEN, self._sign_in_end),
            Route("GET", "/sign_in", OPEN, self._sign_in_begin),
            Route("GET", "/sign_in/callback", OPEN, self._sign_in_callback),
            Route("GET", "/act", OPEN, self._act_page),
            Route("GET", "/static/{path:.+}", OPEN, self._static),
        )

    def add_to(self, app: web.Application) -> dict[str, Needed]:
        """Register every route; return the scopes by aiohttp's names of the paths."""
        scopes: dict[str, Needed] = {}
        answers = TeamAnswers(self._handlers_of)
        for method, path, scope, whole in self.table():
            handler = answers.handler(method, path, whole)
            if method == "GET":
                route = app.router.add_get(path, handler, allow_head=path != "/api/v1/stream")
            else:
                route = app.router.add_route(method, path, handler)
            assert route.resource is not None
            scopes[route.resource.canonical] = scope
        return scopes

    def _handlers_of(self, teams: Teams) -> TeamHandlers:
        routes = Routes(self._parts.of_teams(teams))
        routes._parts = replace(routes._parts, broadcaster=self._parts.broadcaster.beside(routes.snapshot))
        return TeamHandlers({(method, path): handler for method, path, _, handler in routes.table()})

    async def snapshot(self) -> dict[str, Any]:
        """The content of the stream."""
        figures = self._parts.figures
        burn, jobs, alerts = await asyncio.gather(
            figures.burn(),
            self._parts.job_list.page(ListRequest(limit=_TOP_JOBS)),
            figures.alerts("", _TOP_ALERTS),
        )
        return {
            "burn": burn,
            "jobs": jobs["jobs"],
            "alerts": alerts["alerts"],
            "speed": self._parts.speed,
            "may_act": self._may_act,
            **({"partial": self._parts.partial} if self._parts.partial else {}),
        }

    @property
    def _may_act(self) -> bool:
        """Whether a page can offer to write controls: to whoever has the token."""
        return not self._acts_need

    @property
    def _acts_need(self) -> str:
        """What must be set before a page can offer to write controls, in words; '': nothing."""
        if not self._parts.controls.enabled:
            return f"{NOT_HERE}, with {_HOW_TO_WRITE}"
        return "" if self._parts.guard.may_write else f"set {_HOW_TO_WRITE}, and restart the worker"

    @property
    def _acting(self) -> dict[str, Any]:
        """Whether the page may act on what it is answered, and else what that needs."""
        return {"may_act": self._may_act, "acts_need": self._acts_need}

    # -- health and metrics --------------------------------------------------------------------------------

    async def _healthz(self, _: web.Request) -> web.Response:
        stuck = (await self._parts.health.recent()).stuck
        return (
            json_answer({"status": "stuck", "detail": stuck}, status=503)
            if stuck
            else json_answer({"status": "ok"})
        )

    async def _readyz(self, request: web.Request) -> web.Response:
        checks = await self._parts.health.checks()
        ready = all(check.ok for check in checks)
        # Addresses and paths are shown only with a token that may read, on a loopback address, too.
        may_read = sees_all(request)
        found = [
            {"name": check.name, "ok": check.ok, "detail": check.detail if may_read else public(check)}
            for check in checks
        ]
        return json_answer({"ready": ready, "checks": found}, status=200 if ready else 503)

    async def _metrics(self, _: web.Request) -> web.Response:
        parts = self._parts
        status = await parts.health.status()
        try:
            facts: metrics.StoreFacts | None = await asyncio.wait_for(self._facts(), _FACTS_WITHIN_S)
        except (ApiError, TimeoutError):
            facts = None
        body = metrics.page(status, facts, parts.broadcaster.listeners, parts.version, parts.edge())
        return web.Response(body=body, headers={"Content-Type": metrics.CONTENT_TYPE})

    async def _facts(self) -> metrics.StoreFacts:
        figures = self._parts.figures
        burn, firing, deliveries = await asyncio.gather(
            figures.burn(), figures.alerts_firing(), figures.deliveries_made()
        )
        return metrics.StoreFacts(burn["jobs_live"], float(burn["usd_per_hour_now"]), firing, deliveries)

    async def _audit(self, _: web.Request) -> web.Response:
        return json_answer(self._parts.audit().json())

    async def _audit_text(self, _: web.Request) -> web.Response:
        return self._parts.audit().text()

    async def _meter(self, request: web.Request) -> web.Response:
        parameters(request, set())
        parts = self._parts
        status, checks = await parts.health.status(), await parts.health.checks()
        # As in /readyz: addresses and paths only with a token that may read.
        may_read = sees_all(request)
        shown = [check if may_read else Check(check.name, check.ok, public(check)) for check in checks]
        return json_answer(await parts.meter.of(status, shown, parts.audit()))

    # -- figures -------------------------------------------------------------------------------------------

    async def _jobs(self, request: web.Request) -> web.Response:
        asked = request_of(parameters(request, set(PARAMETERS)))
        return json_answer(await self._parts.job_list.page(asked))

    async def _burn(self, _: web.Request) -> web.Response:
        return json_answer(await self._parts.figures.burn())

    async def _clock(self, _: web.Request) -> web.Response:
        return json_answer({"as_of_ms": await self._parts.figures.as_of_ms(), "speed": self._parts.speed})

    async def _dashboards(self, request: web.Request) -> web.Response:
        parameters(request, set())
        return json_answer(dashboards(by_team=request.get(TEAMS) is not None))

    async def _panel(self, request: web.Request) -> web.Response:
        asked = parameters(request, {"from_ms", "to_ms", "job"})
        name = request.match_info["name"]
        found = await panel_answer(name, asked, self._parts.queries, client_of(request))
        return web.Response(body=found, content_type="application/json")

    async def _board(self, request: web.Request) -> web.StreamResponse:
        asked = parameters(request, {"range", "job"})
        teams, caller, parts = request.get(TEAMS), request[CALLER], self._parts
        board = board_asked(request.match_info["name"], asked, by_team=teams is not None)
        as_of_ms = await parts.figures.as_of_ms()
        about = partial_header(teams) if teams is not None else {}
        response = web.StreamResponse(
            headers={"Content-Type": "application/x-ndjson", "X-Accel-Buffering": "no", **about}
        )
        await response.prepare(request)
        try:
            # As of the stream: a session that ends meanwhile ends here.
            async with asyncio.timeout(parts.guard.left_ms(caller) / 1_000):
                await write_board(
                    board,
                    as_of_ms,
                    parts.partial,
                    parts.queries,
                    client_of(request),
                    lambda line: self._written(response, caller, memoryview(line)),
                )
                await response.write_eof()
        except* (ConnectionError, TimeoutError):
            response.force_close()
        return response

    async def _budgets(self, request: web.Request) -> web.Response:
        asked = parameters(request, {"currency"})
        found = await self._parts.figures.budgets()
        if "currency" in asked:
            parts = self._parts
            as_of_ms = await parts.figures.as_of_ms()
            found = await in_currency(asked["currency"], found, parts.queries, client_of(request), as_of_ms)
        return json_answer({**found, **self._acting})

    async def _budget(self, request: web.Request) -> web.Response:
        given = parameters(request, {"budget", "kind", "name"})
        budget, kind, name = (given.get(each, "") for each in ("budget", "kind", "name"))
        found = await self._parts.budgets.one(budget, kind, name)
        if found is None:
            raise ApiError(
                404,
                f"budget {budget!r} of {kind} {name!r}: no minute has judged it; GET /api/v1/budgets lists them",
            )
        return json_answer({**found, **self._acting})

    async def _headroom(self, request: web.Request) -> web.Response:
        asked = {name: value for name, value in parameters(request, set(LEVELS)).items() if value}
        if not asked:
            raise ApiError(400, f"name at least one of {', '.join(LEVELS)}")
        return json_answer(await self._parts.figures.headroom(asked))

    async def _experiments(self, request: web.Request) -> web.Response:
        parameters(request, set())
        return json_answer(await self._parts.experiments.all())

    async def _experiment(self, request: web.Request) -> web.Response:
        parameters(request, set())
        name = request.match_info["name"]
        found = await self._parts.experiments.one(name)
        if found is None:
            raise ApiError(404, f"no job of this store names the experiment {name!r}")
        return json_answer(found)

    async def _alerts(self, request: web.Request) -> web.Response:
        given = parameters(request, {*alert_list.PARAMETERS, "limit", "names"})
        names = one_of("names", given.pop("names", ""), ("", "0", "1"))
        try:
            asked = alert_list.alerts_asked(given, limit_of(given))
        except WrongUseError as wrong:
            raise ApiError(400, str(wrong)) from wrong
        body = {**await self._parts.alerts.page(asked), **self._acting}
        if names == "1":
            body["names"] = await self._parts.alerts.names()
        return json_answer(body)

    async def _alert(self, request: web.Request) -> web.Response:
        parameters(request, set())
        alert_id = request.match_info["alert_id"]
        found = known_alert(alert_id, await self._parts.alerts.one(alert_id))
        return json_answer({**found, **self._acting})

    async def _alert_why(self, request: web.Request) -> web.Response:
        at_ms = instant("at_ms", parameters(request, {"at_ms"}).get("at_ms"))
        alert_id = request.match_info["alert_id"]
        return json_answer(known_alert(alert_id, await self._parts.alerts.why(alert_id, at_ms)))

    async def _alert_margins(self, request: web.Request) -> web.Response:
        parameters(request, set())
        alert_id = request.match_info["alert_id"]
        found = known_alert(alert_id, await self._parts.alerts.margins(alert_id))
        return web.Response(body=msgspec.json.encode(found), content_type="application/json")

    async def _alert_before(self, request: web.Request) -> web.Response:
        parameters(request, set())
        alert_id = request.match_info["alert_id"]
        found = known_alert(alert_id, await self._parts.alerts.before(alert_id))
        return web.Response(body=msgspec.json.encode(found), content_type="application/json")

    async def _stream(self, request: web.Request) -> web.StreamResponse:
        caller = request[CALLER]
        broadcaster = self._parts.broadcaster
        with broadcaster.seat(client_of(request)):
            response = web.StreamResponse(
                headers={"Content-Type": "text/event-stream; charset=utf-8", "X-Accel-Buffering": "no"}
            )
            transport = request.transport
            if transport is not None and (line := transport.get_extra_info("socket")) is not None:
                line.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _STREAM_SEND_BYTES)
            await response.prepare(request)
            try:
                # A session that ends while somebody looks ends here: the page asks again, and then for a token.
                async with asyncio.timeout(self._parts.guard.left_ms(caller) / 1_000):
                    await broadcaster.serve(lambda data: self._written(response, caller, data))
            except (ConnectionError, TimeoutError):
                response.force_close()  # the listener has left, or was closed
        return response

    async def _written(self, response: web.StreamResponse, caller: Caller, data: memoryview) -> None:
        if self._parts.guard.left_ms(caller) <= 0:
            raise TimeoutError  # whoever it was has signed out
        await response.write(data)

    async def _tables(self, request: web.Request) -> web.Response:
        parameters(request, set())
        return json_answer(await self._parts.tables.listed(request.get(TEAMS)))

    async def _query(self, request: web.Request) -> web.StreamResponse:
        return await query(request, self._parts.queries, client_of(request))

    async def _events(self, request: web.Request) -> web.Response:
        topic = parameters(request, {"topic"}).get("topic", "")
        return await self._parts.ingest.answer(request, request[CALLER], topic)

    async def _traces(self, request: web.Request) -> web.Response:
        return await self._parts.otlp.traces(request, request[CALLER])

    async def _otlp_metrics(self, request: web.Request) -> web.Response:
        return await self._parts.otlp.metrics(request, request[CALLER])

    async def _github(self, request: web.Request) -> web.Response:
        return await self._parts.hooks.github(request, request[CALLER])

    async def _gitlab(self, request: web.Request) -> web.Response:
        return await self._parts.hooks.gitlab(request, request[CALLER])

    async def _controls(self, request: web.Request) -> web.Response:
        return await self._parts.controls.answer(request, request[CALLER])

    async def _bills(self, request: web.Request) -> web.Response:
        return await self._parts.bills.load(request, request[CALLER])

    async def _bill_piece(self, request: web.Request) -> web.Response:
        return await self._parts.bills.piece(request, request[CALLER])

    async def _bill_allocations(self, request: web.Request) -> web.Response:
        return await self._parts.bills.allocate(request, request[CALLER])

    async def _bill_withdrawal(self, request: web.Request) -> web.Response:
        return await self._parts.bills.withdraw(request, request[CALLER])

    async def _close_month(self, request: web.Request) -> web.Response:
        return await self._parts.bills.close_month(request, request[CALLER])

    async def _closing(self, request: web.Request) -> web.Response:
        parameters(request, set())
        return await self._parts.bills.is_signed(request)

    async def _act(self, request: web.Request) -> web.Response:
        return await self._parts.act_links.answer(request, request[CALLER])

    # -- the page ------------------------------------------------------------------------------------------

    async def _receivers(self, request: web.Request) -> web.Response:
        return await self._parts.receivers.answer(request, request[CALLER])

    async def _sign_in_state(self, request: web.Request) -> web.Response:
        return await self._parts.sign_in.state(request)

    async def _sign_in_begin(self, request: web.Request) -> web.Response:
        return await self._parts.sign_in.begin(request)

    async def _sign_in_callback(self, request: web.Request) -> web.Response:
        return await self._parts.sign_in.callback(request)

    async def _sign_in_end(self, request: web.Request) -> web.Response:
        return await self._parts.sign_in.end(request)

    async def _act_page(self, request: web.Request) -> web.Response:
        return self._asset("act.html", request)

    async def _static(self, request: web.Request) -> web.Response:
        return self._asset(request.match_info["path"], request)

    def _asset(self, path: str, request: web.Request) -> web.Response:
        answer = self._parts.assets.answer(path, request)
        if answer is None:
            raise ApiError(404, f"there is nothing at {request.path}")
        return answer
