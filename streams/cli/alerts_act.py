"""`trainfare alerts ack` and `silence`: acts on an alert through a worker, as the page does."""

from __future__ import annotations

import re
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from schemas.escaping import visible
from streams.cli.options import DataOption, UrlOption, check_one_of, settings_for
from streams.clock import SystemClock
from streams.engine.alerts.possible import CEILING_FIELDS, narrowest_silence
from streams.errors import TrainfareError, WrongUseError

if TYPE_CHECKING:
    from streams.cli.remote import RemoteReader
    from streams.config.settings import Settings

_ALERT_ID: Final = re.compile(r"al_[0-9a-f]{24}", re.ASCII)

AlertArgument = Annotated[
    str, typer.Argument(metavar="ALERT", help="The id of an alert: al_ and 24 hex digits.")
]
ForOption = Annotated[str, typer.Option("--for", metavar="TIME", help="For how long, e.g. 30m, 4h, 2d.")]
CommentOption = Annotated[str, typer.Option("--comment", metavar="TEXT", help="Why; shown at the alert.")]


def ack(
    alert_id: AlertArgument,
    lasts: ForOption = "4h",
    comment: CommentOption = "",
    data: DataOption = None,
    url: UrlOption = None,
) -> None:
    """Acknowledge an alert: what still fires is not sent again, and it does not escalate."""
    _check(alert_id)
    worker = _Worker(data, url)
    alert = worker.alert(alert_id)
    field = CEILING_FIELDS.get(alert["rule"])
    rate = {field: alert["subject"]["name"], "usd_per_hour": alert["usd_per_hour"]} if field else {}
    record = {"kind": "ack", "alert_id": alert_id, **rate}
    worker.write(record, lasts, comment, f"acknowledged {alert['rule']} of {alert['subject']['name']}")


def silence(
    alert_id: AlertArgument,
    lasts: ForOption = "1h",
    comment: CommentOption = "",
    data: DataOption = None,
    url: UrlOption = None,
) -> None:
    """Silence an alert: no message of its rule about what it is about; it is still stored and shown."""
    _check(alert_id)
    worker = _Worker(data, url)
    alert = worker.alert(alert_id)
    record = {"kind": "silence", **about(alert)}
    worker.write(record, lasts, comment, f"silenced {alert['rule']} of {alert['subject']['name']}")


def about(alert: dict[str, Any]) -> dict[str, str]:
    """The match fields of what an alert is about, or of whose that is.

    Raises:
        TrainfareError: There is nothing that a silence could match.
    """
    kind, name = alert["subject"]["kind"], alert["subject"]["name"]
    if kind == "meter":
        raise TrainfareError("an alert about the meter itself is not silenced from here; mend what it says")
    return narrowest_silence(alert["rule"], kind, name, alert)


def _check(alert_id: str) -> None:
    """Check the form of an id.

    Raises:
        WrongUseError: It is none of an alert.
    """
    if not _ALERT_ID.fullmatch(alert_id):
        raise WrongUseError(
            f"{visible(alert_id[:60])}: expected the id of an alert; `trainfare alerts list --format json` has them"
        )


class _Worker:
    """The worker that takes the record: that of `--url`, the one that has the directory open, or the configured one."""

    def __init__(self, data: Path | None, url: str | None) -> None:
        check_one_of(data, url)
        settings = settings_for(data)
        self._url = _where(settings, url)
        self._reads = self._remote(settings, url, settings.web.token)
        self._writes = self._remote(settings, url, settings.web.write_token or settings.web.token)

    def _remote(self, settings: Settings, url: str | None, token: Any) -> RemoteReader:
        from streams.cli.remote import RemoteReader, token_of

        data_dir = settings.clickhouse.data_dir
        if data_dir is not None and url is None:
            token = token_of(data_dir, token)
        return RemoteReader(self._url, token)

    def alert(self, alert_id: str) -> dict[str, Any]:
        """The alert.

        Raises:
            TrainfareError: The worker has none of this id, or does not answer.
        """
        found = self._reads.alert(alert_id)
        if found is None:
            raise TrainfareError(f"{alert_id}: the worker at {self._url} has no alert of this id")
        return found

    def write(self, record: dict[str, Any], lasts: str, comment: str, done: str) -> None:
        """Let the worker write the record, and say until when it holds."""
        from streams.explain.alert_list import length_ms  # loads the engine

        until_ms = SystemClock().now_ms() + length_ms(lasts, "--for")
        why = {"comment": comment} if comment else {}
        answer = self._writes.control({**record, "until_ms": until_ms, **why})
        until = datetime.fromtimestamp(until_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M UTC")
        sys.stdout.write(visible(f"{done} until {until}, by {answer['by']}") + "\n")


def _where(settings: Settings, url: str | None) -> str:
    """The address of the worker.

    Raises:
        TrainfareError: None has the directory open.
    """
    from streams.cli.top.sources import announced, checked, configured

    if url is not None:
        return checked(url)
    data_dir = settings.clickhouse.data_dir
    if data_dir is None:
        return configured(settings.web)
    found = announced(data_dir)
    if found is None:
        raise TrainfareError(
            f"no worker has {data_dir} open, and acts go through one: start `trainfare serve --data {data_dir}`, or name a worker by --url"
        )
    return found
