"""`trainfare alerts ack`, `silence` and `planned`: acts on an alert through a worker, as the page does."""

from __future__ import annotations

import re
import sys
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from schemas.escaping import visible
from streams.cli.acting import ActingWorker
from streams.cli.options import DataOption, UrlOption
from streams.cli.output import minute_text
from streams.cli.rule_titles import title_of
from streams.errors import TrainfareError, WrongUseError

_ALERT_ID: Final = re.compile(r"al_[0-9a-f]{24}", re.ASCII)

AlertArgument = Annotated[
    str, typer.Argument(metavar="ALERT", help="The id of an alert: al_ and 24 hex digits.")
]
ForOption = Annotated[str, typer.Option("--for", metavar="TIME", help="For how long, e.g. 30m, 4h, 2d.")]
CommentOption = Annotated[str, typer.Option("--comment", metavar="TEXT", help="Why; shown at the alert.")]


EndOption = Annotated[bool, typer.Option("--end", help="End what is in force for the alert, instead.")]


def ack(
    alert_id: AlertArgument,
    lasts: ForOption = "4h",
    comment: CommentOption = "",
    end: EndOption = False,
    data: DataOption = None,
    url: UrlOption = None,
) -> None:
    """Acknowledge an alert: what still fires is not sent again, and it does not escalate."""
    worker, alert = _asked(alert_id, data, url, ends="ack" if end else "", comment=comment)
    if end:
        return
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
    end: EndOption = False,
    data: DataOption = None,
    url: UrlOption = None,
) -> None:
    """Silence an alert: no message of its rule about what it is about; it is still stored and shown."""
    worker, alert = _asked(alert_id, data, url, ends="silence" if end else "", comment=comment)
    if end:
        return
    match = about(alert)
    title = title_of(alert["rule"])
    worker.write(
        {"kind": "silence", **match}, lasts, comment, f"silenced {title} of {alert['subject']['name']}"
    )
    sys.stdout.write(visible(_reach(title, match)) + "\n")


def _reach(title: str, match: dict[str, str]) -> str:
    """What a silence of one alert covers, and what would cover the other rules, too."""
    whose = " and ".join(
        f"{field.removesuffix('_id')} {name}" for field, name in match.items() if field != "rule"
    )
    if not whose:
        return f"it covers every alert of {title} ({match['rule']}), and no other rule"
    return (
        f"it covers {title} ({match['rule']}) of {whose} alone; for all rules of {whose}, "
        "`trainfare publish` a silence without `rule`: docs/silences.md#silences-planned-rates"
    )


def planned(
    alert_id: AlertArgument,
    lasts: ForOption = "8h",
    usd_per_hour: Annotated[
        str,
        typer.Option(
            "--usd-per-hour", metavar="USD", help="The planned rate; without it, that of the alert."
        ),
    ] = "",
    comment: CommentOption = "",
    end: EndOption = False,
    data: DataOption = None,
    url: UrlOption = None,
) -> None:
    """Declare what the job of an alert costs as planned, from the alert's window on: up to 1.2 of the rate is no fault."""
    worker, alert = _asked(alert_id, data, url, ends="planned" if end else "", comment=comment)
    if end:
        return
    from_ms = max(0, alert["started_ms"] - (alert["window_ms"] or 0))
    rate = usd_per_hour or _rate(alert)
    record = {"kind": "planned", **_job_of(alert), "from_ms": from_ms, "usd_per_hour": rate}
    job = alert["subject"]["name"]
    worker.write(record, lasts, comment, f"planned {rate} USD/h of {job} from {minute_text(from_ms)}")


def _asked(
    alert_id: str, data: Path | None, url: str | None, *, ends: str, comment: str
) -> tuple[ActingWorker, dict[str, Any]]:
    """The worker to act through, and the alert; `ends`: the kind of controls for it that are ended, '' for none."""
    _check(alert_id)
    worker = ActingWorker(data, url)
    alert, controls = worker.alert(alert_id)
    if ends:
        _end(worker, alert, ends, [each for each in controls if each["kind"] == ends], comment)
    return worker, alert


def _job_of(alert: dict[str, Any]) -> dict[str, str]:
    """The match field of a plan.

    Raises:
        TrainfareError: No plan can quiet the alert.
    """
    from streams.engine.rules.registry import PLANNED_QUIETS  # loads the kernels

    if alert["subject"]["kind"] != "job" or alert["rule"] not in PLANNED_QUIETS:
        raise TrainfareError(
            f"{title_of(alert['rule'])}: no planned rate can quiet it, only {', '.join(PLANNED_QUIETS)} about a job; `alerts silence` can"
        )
    return {"job_id": alert["subject"]["name"]}


def _rate(alert: dict[str, Any]) -> str:
    """What the job costs per hour by an alert; one of `traffic` has what traffic costs, and all else apart."""
    beside = alert["expected_usd_per_hour"] if alert["rule"] == "traffic" else "0"
    rate = Decimal(str(alert["usd_per_hour"])) + Decimal(str(beside))
    return f"{rate.normalize():f}"


def _end(
    worker: ActingWorker, alert: dict[str, Any], kind: str, found: list[dict[str, Any]], comment: str
) -> None:
    """End those of the controls of a kind that are for the alert alone; `found`: all that are in force for it.

    Raises:
        TrainfareError: None is in force, or only such as are for other alerts as well.
    """
    mine = about(alert) if kind == "silence" else _job_of(alert) if kind == "planned" else {}
    own = [each for each in found if not each["recurs"] and each.get("match", {}) == mine]
    for each in own:
        worker.end(each, comment)
    others = ", ".join(f"{kind}/{each['name']}" for each in found if each not in own)
    if others and not own:
        raise TrainfareError(
            f"{visible(others)}: is for more than this alert; end it on the page, or where it was published"
        )
    if not found:
        raise TrainfareError(f"{alert['alert_id']}: no {kind} is in force for it")


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
