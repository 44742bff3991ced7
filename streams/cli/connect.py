"""`trainfare config check --connect`: what Kafka and ClickHouse answer, within a bounded time."""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Callable, Iterable
from typing import Final, NamedTuple

from sinks.clickhouse.check import check_store
from sinks.target import Embedded, Target
from streams.cli.reading import server_of
from streams.config.settings import Settings
from streams.errors import TrainfareError
from streams.transport.check import check_kafka

_REQUEST_S: Final = 5
_RETRY_FOR_S: Final = 1.0
#: For all that one service is asked, however slowly it answers.
SERVICE_S: Final = 40.0


class Answer(NamedTuple):
    """A row of the command; `mend` is empty unless something is wrong."""

    service: str
    subject: str
    result: str
    found: str
    mend: str


def asked(settings: Settings, service_s: float = SERVICE_S) -> list[Answer]:
    """What both services answer, each within `service_s`."""
    clickhouse = settings.clickhouse
    target: Target
    if clickhouse.data_dir is None:
        target = dataclasses.replace(
            server_of(clickhouse),
            connect_timeout_s=_REQUEST_S,
            request_timeout_s=_REQUEST_S,
            retry_for_s=_RETRY_FOR_S,
        )
    else:
        target = Embedded(
            data_dir=clickhouse.data_dir, database=clickhouse.database, retry_for_s=_RETRY_FOR_S
        )
    web = settings.web
    writes = settings.canary.enabled or bool(web.token or web.write_token)
    return [
        *_within(service_s, "Kafka", lambda: check_kafka(settings.kafka, _REQUEST_S, writes_events=writes)),
        *_within(service_s, "ClickHouse", lambda: check_store(target)),
    ]


def _within(
    service_s: float, service: str, ask: Callable[[], Iterable[tuple[str, str, str]]]
) -> list[Answer]:
    """The answers that come in time; what comes later is a fault and ends with the process."""
    found: list[Answer] = []

    def run() -> None:
        try:
            for subject, said, mend in ask():
                found.append(Answer(service, subject, "fault" if mend else "ok", said, mend))
        except TrainfareError as fault:
            found.append(Answer(service, "answer", "fault", str(fault), "mend what it says"))

    thread = threading.Thread(target=run, daemon=True, name=f"check {service}")
    thread.start()
    thread.join(service_s)
    if not thread.is_alive():
        return found
    late = f"no whole answer within {service_s:g} s"
    return [
        *found,
        Answer(service, "answer", "fault", late, "look at its load and its log, and at the network"),
    ]
