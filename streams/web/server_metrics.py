"""The metrics of the HTTP server: connections, closed ones by reason, wrong tokens, users' SQL.

No addresses of clients: these are only in the log.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Self

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from streams.explain.stored import FALLBACKS
from streams.web.connections import DropReason, RefusalReason
from streams.web.ingest import IngestEndpoint
from streams.web.listener import Listener
from streams.web.query_service import OUTCOMES as QUERY_OUTCOMES
from streams.web.query_service import QueryService
from streams.web.token_guesses import TokenGuesses


@dataclass(frozen=True)
class ServerFacts:
    """A snapshot of the server's counters, which begin at 0 with the process."""

    connections: int = 0
    refused: Mapping[str, int] = field(default_factory=dict)
    dropped: Mapping[str, int] = field(default_factory=dict)
    pauses: int = 0
    tokens_refused: int = 0
    queries: Mapping[str, int] = field(default_factory=dict)
    queries_running: int = 0
    explain_fallbacks: Mapping[str, int] = field(default_factory=dict)
    events: Mapping[str, int] = field(default_factory=dict)
    bodies_evicted: int = 0

    @classmethod
    def of(
        cls,
        entrance: Listener,
        guesses: TokenGuesses,
        queries: QueryService,
        explain_fallbacks: Mapping[str, int],
        ingest: IngestEndpoint,
    ) -> Self:
        """Read the counters of a server."""
        connections = entrance.connections
        return cls(
            connections.connections,
            dict(connections.refused),
            dict(connections.dropped),
            entrance.pauses,
            guesses.count,
            dict(queries.outcomes),
            queries.running,
            dict(explain_fallbacks),
            dict(ingest.outcomes),
            ingest.bodies_evicted,
        )


NOTHING = ServerFacts()


def collect(facts: ServerFacts) -> Iterable[Metric]:
    """Yield the server's series."""
    yield GaugeMetricFamily("trainfare_web_connections", "Open connections.", value=facts.connections)
    yield _by_reason(
        "trainfare_web_connections_refused",
        "Connections that were closed at once, by which limit was reached.",
        dict.fromkeys(map(str, RefusalReason), 0) | dict(facts.refused),
    )
    yield _by_reason(
        "trainfare_web_connections_dropped",
        "Connections that were cut, by what their client was too slow with.",
        dict.fromkeys(map(str, DropReason), 0) | dict(facts.dropped),
    )
    yield CounterMetricFamily(
        "trainfare_web_bodies_evicted",
        "Bodies of events and webhooks that came slowly and made room for others.",
        value=facts.bodies_evicted,
    )
    yield CounterMetricFamily(
        "trainfare_web_accept_pauses",
        "Times that no connection could be taken for lack of open files.",
        value=facts.pauses,
    )
    yield CounterMetricFamily(
        "trainfare_web_tokens_refused", "Wrong tokens that were shown.", value=facts.tokens_refused
    )
    yield _by_reason(
        "trainfare_web_queries",
        "SQL of users, by what became of it.",
        dict.fromkeys(QUERY_OUTCOMES, 0) | dict(facts.queries),
        "outcome",
    )
    yield GaugeMetricFamily(
        "trainfare_web_queries_running", "SQL of users that runs now.", value=facts.queries_running
    )
    yield _by_reason(
        "trainfare_explain_fallbacks",
        "Explanations that fell back to whole minutes, by reason.",
        dict.fromkeys(FALLBACKS, 0) | dict(facts.explain_fallbacks),
    )
    yield _by_reason(
        "trainfare_web_events",
        "Events that came over HTTP: accepted, or by the reason of their refusal.",
        {"accepted": 0} | dict(facts.events),
        "outcome",
    )


def _by_reason(name: str, documentation: str, values: Mapping[str, int], label: str = "reason") -> Metric:
    family = CounterMetricFamily(name, documentation, labels=[label])
    for reason, value in sorted(values.items()):
        family.add_metric([reason], value)
    return family
