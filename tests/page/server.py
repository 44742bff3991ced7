"""A server of the page with a scripted API: the real one's headers, figures that the test moves by hand."""

from __future__ import annotations

import asyncio
import json
import threading
from typing import Any, Self

from aiohttp import web

from streams.web import assets
from streams.web.security import HEADERS
from tests.page import alert_api, fleet
from tests.page.listing import listed

ASSETS = assets.load()
NOW_MS = fleet.BEGAN_MS + 223 * fleet.MINUTE_MS
_SNAPSHOT_S = 0.25  # four times as often as the real one, so that tests wait less


class Script:
    """What the scripted meter says; a test changes it between two snapshots."""

    def __init__(self) -> None:
        self.specs = fleet.specs()
        self.extra: list[dict[str, Any]] = []  # jobs of which nothing but their rows is known
        self.alerts: list[dict[str, Any]] = []
        self.budgets: list[dict[str, Any]] = []
        self.budget_detail: dict[str, Any] = {}
        self.controls: list[dict[str, Any]] = []  # that were for an alert
        self.failing: dict[str, str] = {}  # paths of the API that answer 503, and why
        self.run: dict[str, Any] | None = None  # that the job is a part of
        self.similar: dict[str, Any] = {"jobs": 0, "kind": {}, "is_over": False, "figures": {}}
        self.elsewhere: dict[str, Any] = {"reason": "it has paid for nothing yet", "places": []}
        self.receipt: dict[str, Any] | None = None
        self.now_ms = NOW_MS
        self.speed: float | None = 60
        self.streaming = True
        self.frozen = False
        self.empty = 0  # snapshots without an instant that are still to come
        self.asked: list[str] = []
        self.fault: str | None = None
        self.token: str | None = None
        self.may_act = False
        self.write_token = "may-write-and-nothing-else"
        self.records: list[dict[str, Any]] = []  # what the page sent to be written
        self.refusal: tuple[int, str] | None = None  # of the next record
        self.meter: dict[str, Any] | None = None  # what GET /api/v1/meter says; None: 503
        self.idle: dict[str, Any] | None = None  # what GET /api/v1/idle says; None: 504
        self.queries: list[str] = []  # SQL that was run
        self.parameters: list[dict[str, Any]] = []  # of each
        self.query_token = "may-ask-sql-and-nothing-else"
        self.answers: dict[str, tuple[int, dict[str, Any]]] = {}  # by SQL: status and body
        self.slow_s = 0.0  # of each answer to SQL

    def step(self) -> None:
        """Let the meter's clock go on for one snapshot."""
        if not self.frozen:
            self.now_ms += int(1000 * _SNAPSHOT_S * (self.speed or 1))

    def rows(self) -> list[dict[str, Any]]:
        return [*self.extra, *(fleet.job_row(spec, self.now_ms, self.alerts) for spec in self.specs)]

    def jobs(self, limit: int = 100) -> list[dict[str, Any]]:
        return sorted(self.rows(), key=lambda row: -float(row["usd_per_hour_now"]))[:limit]

    def burn(self) -> dict[str, Any]:
        rates = [spec.rate(self.now_ms) for spec in self.specs]
        held = [spec for spec, rate in zip(self.specs, rates, strict=True) if rate]
        total = fleet.usd(sum(rates))
        minutes = range(120, -1, -1) if self.specs else range(0)
        windows = ("usd_per_hour", "usd_per_hour_15m", "usd_per_hour_1h", "usd_per_hour_6h")
        return {
            "as_of_ms": self.now_ms,
            "usd_per_hour_now": total,
            **dict.fromkeys(windows, total),
            "expected_usd_per_hour": fleet.usd(
                sum(
                    float(fleet.job_row(spec, self.now_ms, [])["expected_usd_per_hour"])
                    for spec in held
                )
            ),
            "spend_today_usd": fleet.usd(sum(spec.cost(self.now_ms) for spec in self.specs)),
            "idle_gpu_ratio": 0.237 if self.specs else None,
            "jobs_live": len(held),
            "gpus_held": sum(spec.gpus for spec in held),
            "alerts_firing": sum(each["status"] == "firing" for each in self.alerts),
            "history": [
                [at, sum(spec.rate(at) for spec in self.specs)]
                for at in (self.now_ms - each * fleet.MINUTE_MS for each in minutes)
            ],
        }  # fmt: skip

    def clock(self) -> dict[str, Any]:
        return {
            "as_of_ms": 0 if self.empty else self.now_ms,
            "speed": 1 if self.speed is None else self.speed,
        }

    def snapshot(self) -> dict[str, Any]:
        told: dict[str, Any] = {
            "burn": self.burn(),
            "jobs": self.jobs(),
            "alerts": self.alerts,
            "may_act": self.may_act,
        }
        if self.empty:
            self.empty -= 1
            told["burn"] |= {"as_of_ms": 0, "history": []}
        return told if self.speed is None else {**told, "speed": self.speed}

    def spec(self, job_id: str) -> fleet.Spec | None:
        return next((spec for spec in self.specs if spec.job_id == job_id), None)


class Server:
    """The scripted server in a thread of its own; `url` is where it listens."""

    def __init__(self, script: Script) -> None:
        self.script = script
        self.url = ""
        self._loop = asyncio.new_event_loop()
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        assert self._ready.wait(10)
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        runner = web.AppRunner(self._app(), shutdown_timeout=0.1)
        self._loop.run_until_complete(runner.setup())
        site = web.TCPSite(runner, "127.0.0.1", 0)
        self._loop.run_until_complete(site.start())
        self.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
        self._ready.set()
        self._loop.run_forever()
        self._loop.run_until_complete(runner.cleanup())
        self._loop.close()

    def _app(self) -> web.Application:
        app = web.Application(middlewares=[self._remember])
        app.on_response_prepare.append(_add_headers)
        app.router.add_get("/", self._page)
        app.router.add_get("/act", self._act_page)
        app.router.add_post("/api/v1/act", self._act)
        app.router.add_get("/static/{path:.+}", _static)
        app.router.add_get("/api/v1/stream", self._stream)
        app.router.add_get("/api/v1/burn", self._answer(lambda _: self.script.burn()))
        app.router.add_get("/api/v1/clock", self._answer(lambda _: self.script.clock()))
        app.router.add_get(
            "/api/v1/jobs",
            self._answer(lambda request: listed(self.script.rows(), request.query)),
        )
        app.router.add_get("/api/v1/alerts", self._answer(self._alerts))
        app.router.add_get("/api/v1/alerts/{id}", self._answer(self._alert))
        app.router.add_get("/api/v1/alerts/{id}/why", self._answer(self._alert_why))
        app.router.add_get("/api/v1/alerts/{id}/margins", self._answer(self._alert_margins))
        app.router.add_get(
            "/api/v1/budgets",
            self._answer(
                lambda _: {"budgets": self.script.budgets, "as_of_ms": self.script.now_ms, **self._acting}
            ),
        )
        app.router.add_get("/api/v1/budgets/detail", self._answer(self._budget))
        app.router.add_post("/api/v1/controls", self._control)
        app.router.add_get("/api/v1/idle", self._idle)
        app.router.add_get("/api/v1/meter", self._meter)
        app.router.add_get("/api/v1/tables", self._answer(lambda _: fleet.TABLES))
        app.router.add_post("/api/v1/query", self._query)
        app.router.add_post("/api/v1/session", self._session)
        app.router.add_get(
            "/api/v1/sign_in", self._answer(lambda _: {"path": None, "name": None, "scopes": []})
        )
        app.router.add_get("/api/v1/job", self._answer(self._detail))
        app.router.add_get("/api/v1/job/explain", self._answer(self._explain))
        app.router.add_get("/api/v1/jobs/{id}", self._answer(self._detail))
        app.router.add_get("/api/v1/jobs/{id}/explain", self._answer(self._explain))
        for path in ("/api/v1/job", "/api/v1/jobs/{id}"):
            app.router.add_get(f"{path}/similar", self._answer(self._similar))
            app.router.add_get(f"{path}/elsewhere", self._answer(self._elsewhere))
        return app

    async def _page(self, request: web.Request) -> web.StreamResponse:
        return ASSETS[assets.INDEX_FILE].answer(request)

    async def _act_page(self, request: web.Request) -> web.StreamResponse:
        return ASSETS["act.html"].answer(request)

    async def _act(self, request: web.Request) -> web.Response:
        status, message = self.script.refusal or (202, "")
        if status != 202:
            return web.json_response({"error": {"code": "refused", "message": message}}, status=status)
        self.script.records.append(await request.json())
        until_ms = self.script.now_ms + 4 * 3_600_000
        return web.json_response({"by": "signed link", "id": "web_1", "until_ms": until_ms}, status=202)

    async def _session(self, request: web.Request) -> web.StreamResponse:
        if request.headers.get("Authorization") != f"Bearer {self.script.token}":
            fault = {"code": "unauthorized", "message": "this is no token of this worker"}
            return web.json_response({"error": fault}, status=401)
        answer = web.json_response({})
        answer.set_cookie("session", "1", httponly=True, samesite="Strict")
        return answer

    @web.middleware
    async def _remember(self, request: web.Request, handler: Any) -> web.StreamResponse:
        self.script.asked.append(request.path_qs)
        is_data = request.path.startswith("/api/") and request.path not in (
            "/api/v1/session",
            "/api/v1/sign_in",
        )
        if self.script.token and is_data and "session" not in request.cookies:
            fault = {"code": "unauthorized", "message": "show the worker's token"}
            return web.json_response({"error": fault}, status=401)
        answer: web.StreamResponse = await handler(request)
        return answer

    def _answer(self, make: Any) -> Any:
        async def handle(request: web.Request) -> web.Response:
            if request.path in self.script.failing:
                fault = {"code": "store_failed", "message": self.script.failing[request.path]}
                return web.json_response({"error": fault}, status=503)
            found = make(request)
            if found is None:
                fault = {
                    "code": "not_found",
                    "message": f"nothing of {request.match_info.get('id', 'this name')!r} in this store",
                }
                return web.json_response({"error": fault}, status=404)
            return web.json_response(found)

        return handle

    async def _control(self, request: web.Request) -> web.Response:
        script, said = self.script, request.headers.get("Authorization")
        status, message = script.refusal or (202, "")
        if said != f"Bearer {script.write_token}":
            status, message = 401, "show a token with the scope `write`"
        if status != 202:
            return web.json_response({"error": {"code": "refused", "message": message}}, status=status)
        script.records.append(await request.json())
        return web.json_response({"by": "web.write_token", "id": "web_1"}, status=202)

    async def _idle(self, _: web.Request) -> web.Response:
        if self.script.idle is None:
            fault = {"code": "query_timed_out", "message": "the query ran longer than 30 s"}
            return web.json_response({"error": fault}, status=504)
        return web.json_response(self.script.idle)

    async def _meter(self, _: web.Request) -> web.Response:
        if self.script.meter is None:
            fault = {"code": "starting", "message": "the worker is starting"}
            return web.json_response({"error": fault}, status=503)
        return web.json_response(self.script.meter)

    async def _query(self, request: web.Request) -> web.Response:
        script = self.script
        if request.headers.get("Authorization") != f"Bearer {script.query_token}":
            fault = {"code": "unauthorized", "message": "show a token with the scope `query`"}
            return web.json_response({"error": fault}, status=401)
        body = await request.json()
        sql = body["sql"]
        script.queries.append(sql)
        script.parameters.append(body.get("parameters", {}))
        await asyncio.sleep(script.slow_s)
        status, body = script.answers.get(sql, (200, {"columns": [], "types": [], "rows": []}))
        headers = {"X-Rows-Read": "12345", "X-Bytes-Read": "2097152"} if status == 200 else {}
        return web.json_response(body, status=status, headers=headers)

    def _detail(self, request: web.Request) -> dict[str, Any] | None:
        spec = self.script.spec(request.match_info.get("id") or request.query["id"])
        detail = None if spec is None else fleet.detail(spec, self.script.now_ms, self.script.alerts)
        return None if detail is None else {**detail, "run": self.script.run, "receipt": self.script.receipt}

    @property
    def _acting(self) -> dict[str, Any]:
        need = (
            ""
            if self.script.may_act
            else "set web.write_token (TRAINFARE_WEB_WRITE_TOKEN), and restart the worker"
        )
        return {"may_act": self.script.may_act, "acts_need": need}

    def _budget(self, request: web.Request) -> dict[str, Any] | None:
        name = request.query.get("budget", "")
        budget = next((each for each in self.script.budgets if each["budget"] == name), None)
        return (
            None
            if budget is None
            else {
                **self.script.budget_detail,
                "budget": budget,
                "as_of_ms": self.script.now_ms,
                **self._acting,
            }
        )

    def _alerts(self, request: web.Request) -> dict[str, Any]:
        script = self.script
        return {**alert_api.listed(script.alerts, request.query, script.now_ms), **self._acting}

    def _alert(self, request: web.Request) -> dict[str, Any] | None:
        script = self.script
        found = alert_api.one(request.match_info["id"], script.alerts, script.now_ms, script.controls)
        return None if found is None else {**found, **self._acting}

    def _alert_why(self, request: web.Request) -> dict[str, Any] | None:
        at_ms = int(request.query.get("at_ms", self.script.now_ms))
        return alert_api.why(request.match_info["id"], self.script.alerts, at_ms)

    def _alert_margins(self, request: web.Request) -> dict[str, Any] | None:
        return alert_api.margins(request.match_info["id"], self.script.alerts, self.script.now_ms)

    def _similar(self, request: web.Request) -> dict[str, Any] | None:
        spec = self.script.spec(request.match_info.get("id") or request.query["id"])
        return None if spec is None else self.script.similar

    def _elsewhere(self, request: web.Request) -> dict[str, Any] | None:
        spec = self.script.spec(request.match_info.get("id") or request.query["id"])
        return None if spec is None else self.script.elsewhere

    def _explain(self, request: web.Request) -> dict[str, Any] | None:
        spec = self.script.spec(request.match_info.get("id") or request.query["id"])
        return None if spec is None else fleet.explain(spec, self.script.now_ms)

    async def _stream(self, request: web.Request) -> web.StreamResponse:
        if not self.script.streaming:
            return web.json_response({"error": {"code": "unavailable", "message": "full"}}, status=503)
        answer = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await answer.prepare(request)
        while self.script.streaming:
            self.script.step()
            told: dict[str, Any] = self.script.snapshot()
            event = "snapshot"
            if self.script.fault:
                event, told = "fault", {"error": {"code": "store_failed", "message": self.script.fault}}
            try:
                await answer.write(f"event: {event}\ndata: {json.dumps(told)}\n\n".encode())
            except ConnectionResetError:
                break  # the page went
            await asyncio.sleep(_SNAPSHOT_S)
        return answer


async def _add_headers(_: web.Request, answer: web.StreamResponse) -> None:
    answer.headers.update(HEADERS)


async def _static(request: web.Request) -> web.StreamResponse:
    return ASSETS.answer(request.match_info["path"], request) or web.Response(status=404)
