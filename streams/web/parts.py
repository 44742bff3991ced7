"""What the routes are built from: parts that read, for all or for some teams alone, and those that write."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from streams.calendar import Calendar
from streams.explain.stored import StoredJobs
from streams.web.act_links import ActLinkEndpoint
from streams.web.alert_history import AlertHistory
from streams.web.assets import Assets
from streams.web.bills import BillEndpoint
from streams.web.budget_detail import BudgetDetails
from streams.web.controls import ControlEndpoint
from streams.web.detail import Details
from streams.web.experiments import Experiments
from streams.web.figures import ApiFigures
from streams.web.health import Health
from streams.web.hooks.endpoint import HookEndpoint
from streams.web.ingest import IngestEndpoint
from streams.web.job_list import JobList
from streams.web.last_audit import LastAudit
from streams.web.meter import MeterReport
from streams.web.otlp.endpoint import OtlpEndpoint
from streams.web.prices import PriceEndpoint
from streams.web.query_service import QueryService
from streams.web.receivers import ReceiverEndpoint
from streams.web.security import RequestGuard
from streams.web.server_metrics import ServerFacts
from streams.web.sign_in.endpoint import SignInEndpoint
from streams.web.store_reader import StoreReader
from streams.web.stream import Broadcaster
from streams.web.tables import Tables
from streams.web.team_answers import Teams


@dataclass(frozen=True)
class ReadParts:
    """Those of the parts that show rows of a reader: of all, or of some teams alone."""

    figures: ApiFigures
    job_list: JobList
    details: Details
    experiments: Experiments
    alerts: AlertHistory
    budgets: BudgetDetails

    @classmethod
    def of(
        cls,
        reader: StoreReader,
        now_ms: Callable[[], int],
        wall_ms: Callable[[], int],
        docs_url: str,
        stored: StoredJobs | None = None,
    ) -> ReadParts:
        """They as made of the rows of a reader; `stored`: what was read of all jobs by others."""
        figures = ApiFigures(reader, now_ms, wall_ms)
        return cls(
            figures,
            JobList(reader, figures),
            Details(reader, figures, stored),
            Experiments(reader, figures),
            AlertHistory(reader, figures, docs_url),
            BudgetDetails(reader, figures),
        )


@dataclass(frozen=True)
class Parts(ReadParts):
    """What the routes are built from."""

    health: Health
    broadcaster: Broadcaster
    queries: QueryService
    estimates: StoreReader
    tables: Tables
    meter: MeterReport
    assets: Assets
    guard: RequestGuard
    version: str
    audit: Callable[[], LastAudit]
    speed: float  # of the meter's clock; 1 except in the demo, and 0 where nobody meters
    edge: Callable[[], ServerFacts]
    controls: ControlEndpoint
    prices: PriceEndpoint
    ingest: IngestEndpoint
    hooks: HookEndpoint
    otlp: OtlpEndpoint
    receivers: ReceiverEndpoint
    act_links: ActLinkEndpoint
    bills: BillEndpoint
    sign_in: SignInEndpoint
    calendar: Calendar  # the usual one
    of_teams: Callable[[Teams], Parts]  # the same, made of rows of these teams alone
    partial: str = ""  # whose rows alone they are made of; "": of all
