"""The HTTP server of a worker, composed of its parts and run in the worker's event loop."""

from __future__ import annotations

import asyncio
import errno
import logging
import os
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Final

from aiohttp import web

from schemas.events import ControlEvent
from schemas.release import release
from sinks.clickhouse import ClickHouseStore
from streams.calendar import PLAIN, Calendar
from streams.config.live import CiSettings, WebSettings
from streams.config.serving import SignInSettings
from streams.config.settings import QuerySettings
from streams.costs.closing_key import ClosingSecrets
from streams.engine.reference_log import ReferenceLog, Standing
from streams.errors import TrainfareError
from streams.notify.act_links import ActLinks
from streams.web import assets, descriptors
from streams.web.act_links import ActLinkEndpoint
from streams.web.bills import BillEndpoint
from streams.web.connections import PATIENCE, Timeouts
from streams.web.controls import ControlEndpoint
from streams.web.endpoint import url_of
from streams.web.health import Health
from streams.web.hooks.endpoint import HookEndpoint
from streams.web.ingest import IngestEndpoint
from streams.web.last_audit import LastAudit
from streams.web.listener import Listener, ListenerOptions
from streams.web.meter import MeterReport
from streams.web.middleware import BODY_MAX_BYTES, add_headers, middleware
from streams.web.otlp.endpoint import OtlpEndpoint
from streams.web.parts import Parts, ReadParts
from streams.web.prices import PriceEndpoint
from streams.web.query_service import QueryService
from streams.web.receivers import ReceiverEndpoint, ReceiverTester
from streams.web.record_log import RecordLog
from streams.web.refused_requests import RefusedRequests
from streams.web.routes import Routes
from streams.web.scopes import IssuedRecords
from streams.web.security import Needed, RequestGuard, check_bind
from streams.web.server_metrics import ServerFacts
from streams.web.sign_in.endpoint import SignInEndpoint
from streams.web.sign_in.people import people_of
from streams.web.store_reader import StoreReader, TeamReader
from streams.web.stream import Broadcaster
from streams.web.tables import Tables
from streams.web.team_answers import Teams, partial_of
from streams.web.token_bounds import JobGroups
from streams.worker.health.worker_status import WorkerStatus

logger = logging.getLogger(__name__)

_STOP_WITHIN_S = 2.0
#: The speed of the clock of a store that nobody meters into: its figures stay those of its last instant.
AT_REST: Final = 0.0
_NOBODY: Final = SignInSettings()


class WebServer:
    """The server. `store` and `worker` are called for every response: both may become available later.

    `local_token` has all scopes beside the tokens of the settings; it does not close what is open without it.
    `speed` is that of the meter's clock: 1, or as fast as a demo is, or `AT_REST`. `standing` are the controls in force. `shown_settings` are those that the page of the meter shows, by name; no secret is among them.
    """

    def __init__(
        self,
        settings: WebSettings,
        store: Callable[[], ClickHouseStore | None],
        worker: Callable[[], WorkerStatus],
        now_ms: Callable[[], int],
        *,
        speed: float = 1,
        audit: Callable[[], LastAudit] = LastAudit,
        query: QuerySettings | None = None,
        ci: CiSettings | None = None,
        local_token: str | None = None,
        controls: RecordLog | None = None,
        standing: Callable[[], Standing] = dict,
        issued: IssuedRecords = dict,
        requests: Callable[[], Mapping[bytes, ControlEvent]] = dict,
        prices: Callable[[], ReferenceLog | None] = ReferenceLog,
        filed: Mapping[bytes, ControlEvent] | None = None,
        events: RecordLog | None = None,
        wall_ms: Callable[[], int] = lambda: 0,
        receivers: Callable[[], ReceiverTester | None] = lambda: None,
        docs_url: str = "",
        patience: Timeouts = PATIENCE,
        shown_settings: Mapping[str, Any] | None = None,
        calendar: Calendar = PLAIN,
        sign_in: SignInSettings = _NOBODY,
        at_rest: str | None = None,
    ) -> None:
        people = people_of(sign_in, settings.session_ms, wall_ms)
        check_bind(settings, people_sign_in=people is not None)
        self._settings = settings
        self._readers = [
            StoreReader(store, "web"),
            StoreReader(store, "health", 1),
            StoreReader(store, "bills", 1),
            StoreReader(store, "estimates", 2),
            StoreReader(store, "ingest", 1),
        ]
        # A process that writes no controls meters no log of its own: it is a demo, which ends with its store.
        self._bills = BillEndpoint(
            None if controls is None else self._readers[2],
            wall_ms,
            now_ms,
            ClosingSecrets(settings.closing_key, at_rest),
        )
        self.queries = QueryService(store, query or QuerySettings())

        read = ReadParts.of(self._readers[0], now_ms, wall_ms, docs_url)
        guard = RequestGuard(settings, local_token, now_ms, wall_ms, issued, filed, people)
        files = descriptors.limit()
        connections_max = descriptors.connections_within(files, settings.max_connections)
        if connections_max < settings.max_connections:
            logger.warning(
                "fewer connections than web.max_connections",
                extra={
                    "connections_max": connections_max,
                    "wanted": settings.max_connections,
                    "limit": files,
                    "kept_for_meter": descriptors.KEPT,
                    "runbook": "docs/access.md#limits-of-clients",
                },
            )
        options = ListenerOptions(connections_max, settings.max_connections_per_address, patience)
        self._entrance = Listener(options, now_ms)
        self.broadcaster = Broadcaster(
            lambda: routes.snapshot(), per_client_max=settings.max_streams_per_client
        )
        ingest = IngestEndpoint(events, wall_ms, now_ms, JobGroups(self._readers[4], now_ms))
        acting = ControlEndpoint(
            controls, wall_ms, now_ms, read.figures.alert_group, standing, requests, guard.is_in_force
        )
        acting.nobody = lambda owner: "" if (tester := receivers()) is None else tester.nobody(owner)
        key = settings.act_link_key
        links = None if key is None else ActLinks(key.get_secret_value())

        def of_teams(teams: Teams) -> Parts:
            reader = TeamReader(self._readers[0], teams)
            return replace(
                parts,
                **vars(ReadParts.of(reader, now_ms, wall_ms, docs_url, read.details.stored)),
                estimates=TeamReader(self._readers[3], teams),
                partial=partial_of(teams),
            )

        parts = Parts(
            **vars(read),
            of_teams=of_teams,
            health=Health(self._readers[1], worker, lambda: _name_of(store()), now_ms),
            broadcaster=self.broadcaster,
            queries=self.queries,
            estimates=self._readers[3],
            meter=MeterReport(
                read.figures,
                self._readers[0],
                now_ms,
                release(),
                shown_settings or {},
                speed,
                docs_url,
                ingest.refused,
            ),
            tables=Tables(self._readers[0], now_ms),
            assets=assets.load(),
            guard=guard,
            controls=acting,
            prices=PriceEndpoint(acting, prices),
            ingest=ingest,
            hooks=HookEndpoint(ci or CiSettings(), ingest, guard.refusal),
            otlp=OtlpEndpoint(ingest),
            receivers=ReceiverEndpoint(receivers, now_ms),
            bills=self._bills,
            sign_in=SignInEndpoint(sign_in, people, guard, settings.public_url, now_ms, wall_ms),
            calendar=calendar,
            act_links=ActLinkEndpoint(links, acting, guard.refusal, wall_ms, guard.named),
            version=release(),
            audit=audit,
            speed=speed,
            edge=lambda: ServerFacts.of(
                self._entrance, guard.guesses, self.queries, read.details.stored.fallbacks, ingest
            ),
        )
        routes = Routes(parts)
        self._refusals = RefusedRequests(controls, wall_ms)
        scopes: dict[str, Needed] = {}
        app = web.Application(
            middlewares=[middleware(guard, scopes, now_ms, self._refusals)], client_max_size=BODY_MAX_BYTES
        )
        app.on_response_prepare.append(add_headers)
        scopes |= routes.add_to(app)
        # A client that has left needs no response: its handler is cancelled.
        self._runner = web.AppRunner(app, handler_cancellation=True, shutdown_timeout=_STOP_WITHIN_S)
        # A process that writes no controls leaves its store as it is.
        self._uses, self._notes_uses = guard.issued.uses, controls is not None
        self._looking: asyncio.Task[None] | None = None
        self._storing: asyncio.Task[None] | None = None
        self._refusing: asyncio.Task[None] | None = None
        self.recheck = parts.sign_in.recheck
        self._rechecking: asyncio.Task[None] | None = None
        self.url = ""

    async def start(self) -> None:
        """Listen.

        Raises:
            TrainfareError: The address is not available.
        """
        settings = self._settings
        await self._runner.setup()
        assert self._runner.server is not None
        try:
            port = await self._entrance.open(self._runner.server, settings.bind.strip("[]"), settings.port)
        except OSError as fault:
            await self._runner.cleanup()
            raise TrainfareError(_not_to_be_had(settings, fault)) from fault
        self._looking = asyncio.create_task(self.queries.check_reader())
        if self._notes_uses:
            self._storing = asyncio.create_task(self._uses.keep_storing(self._readers[1]))
            self._refusing = asyncio.create_task(self._refusals.keep_writing())
        if self.recheck is not None:
            self._rechecking = asyncio.create_task(self.recheck.keep_asking())
        self._bills.begin()
        self.url = url_of(settings.bind, port)
        logger.info("live page and API are served", extra={"url": self.url})
        if shared := settings.tokens():
            logger.info(
                "tokens of settings are in use, which is for one person and not for a company: whoever has one passes for all",
                extra={
                    "settings": ", ".join(f"web.{each}" for each in shared),
                    "runbook": "docs/company.md#tokens",
                },
            )

    async def stop(self) -> None:
        """Disconnect stream listeners, finish responses, and stop listening."""
        for task in filter(None, (self._looking, self._storing, self._refusing, self._rechecking)):
            task.cancel()
        self.broadcaster.close()
        self._entrance.stop_listening()
        await self.queries.close()  # first: a handler may be waiting for one
        await self._runner.cleanup()
        await self._bills.close()
        await self._entrance.close()
        if self._notes_uses:
            await self._uses.store_or_say(self._readers[1])
        await asyncio.gather(*(reader.close() for reader in self._readers))


def _not_to_be_had(settings: WebSettings, fault: OSError) -> str:
    where = f"{settings.bind}:{settings.port}"
    if fault.errno == errno.EADDRINUSE:
        return (
            f"web.port {settings.port} on {settings.bind} is taken by another process; "
            "name a free one by --port or web.port (TRAINFARE_WEB_PORT), or 0 for any"
        )
    reason = os.strerror(fault.errno) if fault.errno else str(fault)
    return f"cannot listen on {where}: {reason}; set web.bind and web.port to an address of this machine"


def _name_of(store: ClickHouseStore | None) -> str | None:
    return None if store is None else str(store.target)
