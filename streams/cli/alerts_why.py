"""`trainfare alerts why ID`: how far each rule is from firing, and what kept a message back."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from schemas.counting import how_many
from schemas.durations import DATETIME_END_MS
from schemas.escaping import visible
from streams.cli.dead_letters.of_job import refused_in_words, refused_of
from streams.cli.options import DataOption, UrlOption
from streams.cli.output import FormatOption, Grid, OutputFormat, to_json, write
from streams.cli.reading import reader_for
from streams.engine.rules.rule import IS_FLAG
from streams.errors import TrainfareError, WrongUseError

_SHOWN_CHARS: Final = 60
#: What is left of sums that are none.
_NOISE: Final = 1e-9
#: What stands for the rules where there are none, by the reason.
NO_RULES: Final = {
    "": "no rule is judged per subject of this kind, or the job had not begun",
    "too_large": "the stored state of the job's shard is too large to be read for one question",
    "no_state": "neither a snapshot nor the archive has the state of this job",
}


def why(
    subject_id: Annotated[str, typer.Argument(metavar="ID", help="A job, or the id of an alert.")],
    at: Annotated[
        str,
        typer.Option(
            metavar="TIME",
            help="Instant (UTC), e.g. 2026-10-01T06:00:10 or ms since 1970; otherwise the newest, of an alert its last change.",
        ),
    ] = "",
    every: Annotated[
        bool, typer.Option("--all", help="Of an alert all rules about its subject, not its own alone.")
    ] = False,
    data: DataOption = None,
    url: UrlOption = None,
    form: FormatOption = OutputFormat.table,
) -> None:
    """Show how far each rule about a job is from firing, and what kept a message back."""
    found = _found(subject_id, _instant(at), data, url)
    wider = found.get("wider_alerts", [])  # a worker of an older release does not say
    if form is OutputFormat.json:
        sys.stdout.write(to_json(found) + "\n")
        return
    if form is OutputFormat.csv:
        write(_rules(found["rules"], found["budgets"]), form)
        return
    shown = [each for each in found["rules"] if every or found["rule"] in ("", each["rule"])]
    budgets = found["budgets"] if every or not found["rule"] else []
    sys.stdout.write(f"{_head(found)}\n")
    for title, grid, nothing in (
        ("Messages", _messages(found), f"no alert about this {found['subject']['kind']} in the day before"),
        ("Alerts about what it is part of, as its team or the price of its GPUs", _wider(wider), ""),
        (
            "Rules: a condition is met once its share reaches 1, and a rule holds once all of its conditions are, or all below one `or`",
            _grouped(_rules(shown, budgets)),
            NO_RULES[found["rules_missing"]],
        ),
    ):
        if not grid.rows and not nothing:
            continue
        sys.stdout.write(f"\n{title}\n")
        if grid.rows:
            write(grid, form)
        else:
            sys.stdout.write(f"{nothing}\n")
    others = {each["rule"] for each in found["rules"]} - {each["rule"] for each in shown}
    if others:
        sys.stdout.write(f"{len(others)} more {'rule' if len(others) == 1 else 'rules'} about it: --all\n")
    if found["plans"]:
        sys.stdout.write("\nPlanned rates: what is planned is no fault, up to 1.2 of it\n")
        write(_plans(found), form)
    if found["statement"]:
        asked = "\n".join(visible(line) for line in found["statement"].splitlines())
        sys.stdout.write(
            f"\nIts statement, with the instants of its alert\ntrainfare sql {shlex.quote(asked)}\n"
        )
    for command in found["mend"]:
        sys.stdout.write(
            f"\nWhat mends it (writes price.csv here; check the price first)\n{visible(command)}\n"
        )
    if found["records_unknown"]:
        sys.stdout.write(
            f"\n{how_many(found['records_unknown'], 'record of a rule or plan was', 'records of rules or plans were')} stored by an older release without their settings: "
            "where one applies, the thresholds above are the defaults. Publish them again.\n"
        )


def _rules(rules: Iterable[Mapping[str, Any]], budgets: Iterable[Mapping[str, Any]]) -> Grid:
    rows = [
        (
            each["rule"],
            "off" if not each["enabled"] else "yes" if each["holds"] else "no",
            str(each["way"]),
            each["what"].removesuffix(IS_FLAG) + ("" if each["enabled"] else ", switched off"),
            figure_text(each["what"], each["value"]),
            figure_text(each["what"], each["threshold"]),
            "" if each["share"] is None else f"{min(max(each['share'], 0), 999):.2f}",
        )
        for each in rules
    ]
    rows += [
        ("budget_used", "yes" if each["used_ratio"] >= 1 else "no", "0", f"used share of {each['budget']}",
         f"{each['used_ratio']:.4g}", "1", f"{each['used_ratio']:.2f}")
        for each in budgets
    ]  # fmt: skip
    return Grid(("rule", "holds", "way", "condition", "value", "threshold", "share"), rows)


def figure_text(what: str, value: float | None) -> str:
    """A value or a threshold of a condition as it is shown."""
    if value is None:
        return "unknown"
    if what.endswith(IS_FLAG):
        return "yes" if value else "no"
    return f"{value if abs(value) > _NOISE else 0:.4g}"


def _grouped(grid: Grid) -> Grid:
    """The rule and whether it holds once, and `or` where another way to hold begins."""
    rows = []
    before: tuple[object, object] | None = None
    for rule, holds, way, *rest in grid.rows:
        if before is None or before[0] != rule:
            first = (rule, holds)
        else:
            first = ("" if before[1] == way else "  or", "")
        before = (rule, way)
        rows.append((*first, *rest))
    return Grid((*grid.columns[:2], *grid.columns[3:]), rows)


def _messages(found: Mapping[str, Any]) -> Grid:
    rows = [
        (each["alert_id"], each["rule"], each["status"], each["message"], _about(each))
        for each in found["messages"]
    ]
    return Grid(("alert", "rule", "status", "message", "delivered, because, next"), rows)


def _wider(alerts: Iterable[Mapping[str, Any]]) -> Grid:
    rows = [
        (each["alert_id"], each["rule"], each["status"], f"{each['subject_kind']} {each['subject_name']}", each["summary"])
        for each in alerts
    ]  # fmt: skip
    return Grid(("alert", "rule", "status", "about", "sentence"), rows)


def _about(message: Mapping[str, Any]) -> str:
    """To whom it was delivered and when, what keeps it back, and who gets it next; a worker of an older release says only the second."""
    return "; ".join(filter(None, (message.get("delivered"), message["because"], message.get("next"))))


def _plans(found: dict[str, Any]) -> Grid:
    rows = [
        (f"planned/{each['name']}", each["by"], f"{float(str(each['usd_per_hour'])):g}", each["recurs"] or _until(each["until_ms"]),
         "yes" if each["covers"] else "")
        for each in found["plans"]
    ]  # fmt: skip
    return Grid(("plan", "by", "usd_per_hour", "when", "now"), rows)


def _until(at_ms: int | None) -> str:
    return "always" if at_ms is None else f"until {_instant_text(at_ms)}"


def _head(found: dict[str, Any]) -> str:
    subject = found["subject"]
    return f"{subject['kind']} {visible(subject['name'])} at {_instant_text(found['at_ms'])}"


def _instant_text(at_ms: int) -> str:
    return datetime.fromtimestamp(at_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def _found(subject_id: str, at_ms: int | None, data: Path | None, url: str | None) -> dict[str, Any]:
    """What there is to say of a job or an alert.

    Raises:
        TrainfareError: It is neither.
    """
    from streams.explain.why.answer import answer  # loads the engine

    with reader_for(data, url) as store:
        found = answer(store, subject_id, at_ms)
        if found is not None:
            return found
        refused = refused_in_words(refused_of(store, subject_id), subject_id, data)
    then = f", but {refused}" if refused else "; `trainfare jobs` lists jobs"
    raise TrainfareError(
        f"'{visible(subject_id[:_SHOWN_CHARS])}': neither a job nor an alert of this store{then}"
    )


def _instant(text: str) -> int | None:
    """Ms since 1970; None where no instant is given.

    Raises:
        WrongUseError: It is no instant.
    """
    if not text:
        return None
    try:
        if text.isascii() and text.isdecimal():
            at_ms = int(text[:16])
        else:
            moment = datetime.fromisoformat(text)
            at_ms = round((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() * 1000)
    except (ValueError, OverflowError):
        at_ms = -1
    if not 0 <= at_ms < DATETIME_END_MS:
        raise WrongUseError(
            f"--at {visible(text[:_SHOWN_CHARS])}: expected an instant such as 2026-10-01T06:00:10, or ms since 1970"
        )
    return at_ms
