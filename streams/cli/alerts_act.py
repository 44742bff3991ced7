"""`trainfare alerts ack` and `silence`: acts on an alert through a worker, as the page does."""

from __future__ import annotations

import re
from typing import Annotated, Any, Final

import typer

from schemas.escaping import visible
from streams.cli.acting import ActingWorker
from streams.cli.options import DataOption, UrlOption
from streams.cli.rule_titles import title_of
from streams.errors import TrainfareError, WrongUseError

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
    worker = ActingWorker(data, url)
    alert = worker.alert(alert_id)
    from streams.engine.alerts.possible import CEILING_FIELDS  # loads the kernels

    field = CEILING_FIELDS.get(alert["rule"])
    rate = {field: alert["subject"]["name"], "usd_per_hour": alert["usd_per_hour"]} if field else {}
    record = {"kind": "ack", "alert_id": alert_id, **rate}
    worker.write(
        record, lasts, comment, f"acknowledged {title_of(alert['rule'])} of {alert['subject']['name']}"
    )


def silence(
    alert_id: AlertArgument,
    lasts: ForOption = "1h",
    comment: CommentOption = "",
    data: DataOption = None,
    url: UrlOption = None,
) -> None:
    """Silence an alert: no message of its rule about what it is about; it is still stored and shown."""
    _check(alert_id)
    worker = ActingWorker(data, url)
    alert = worker.alert(alert_id)
    record = {"kind": "silence", **about(alert)}
    worker.write(record, lasts, comment, f"silenced {title_of(alert['rule'])} of {alert['subject']['name']}")


def about(alert: dict[str, Any]) -> dict[str, str]:
    """The match fields of what an alert is about, or of whose that is.

    Raises:
        TrainfareError: There is nothing that a silence could match.
    """
    kind, name = alert["subject"]["kind"], alert["subject"]["name"]
    if kind == "meter":
        raise TrainfareError("an alert about the meter itself is not silenced from here; mend what it says")
    from streams.engine.alerts.possible import narrowest_silence  # loads the kernels

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
