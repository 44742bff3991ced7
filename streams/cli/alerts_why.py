"""`trainfare alerts why ID`: how far each rule is from firing, and what kept a message back."""

from __future__ import annotations

import re
import shlex
import sys
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any, Final

import msgspec
import typer

from schemas.escaping import visible
from streams.cli.options import DataOption, settings_for
from streams.cli.output import FormatOption, Grid, OutputFormat, to_json, write
from streams.cli.reading import Reader, reader
from streams.errors import TrainfareError, WrongUseError

if TYPE_CHECKING:
    from streams.explain.why.judged import JudgedRule

_ALERT_ID: Final = re.compile(r"al_[0-9a-f]{24}", re.ASCII)
_MAX_MS: Final = 2**32 * 1000
_SHOWN_CHARS: Final = 60
#: Ends a condition without a measure, whose value is 1 or 0.
_FLAG: Final = " (1: yes)"
#: What is left of sums that are none.
_NOISE: Final = 1e-9
#: What stands for the rules where there are none, by the reason.
_NO_RULES: Final = {
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
    form: FormatOption = OutputFormat.table,
) -> None:
    """Show how far each rule about a job is from firing, and what kept a message back."""
    at_ms = _instant(at)
    with reader(settings_for(data)) as store:
        found = _found(store, subject_id, at_ms)
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
        ("Messages", _messages(found), "no alert in the day before"),
        (
            "Rules: a condition is met once its share reaches 1, and a rule holds once all of its conditions are, or all below one `or`",
            _grouped(_rules(shown, budgets)),
            _NO_RULES[found["rules_missing"]],
        ),
    ):
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
            f"\n{found['records_unknown']} records of rules or plans were stored by an older release without their settings: "
            "where one applies, the thresholds above are the defaults. Publish them again.\n"
        )


def _found(store: Reader, subject_id: str, at_ms: int | None) -> dict[str, Any]:
    """What is known of the subject at the instant.

    Raises:
        TrainfareError: The store knows neither such a job nor such an alert.
    """
    from streams.explain.acts import DIMENSIONS, IN_FORCE, facts_of, jobs_of
    from streams.explain.why import sql
    from streams.explain.why.messages import fates, outranked
    from streams.explain.why.plans import plans_of

    alert = None
    if _ALERT_ID.fullmatch(subject_id):
        alert = next(iter(store.records(sql.ONE_ALERT, alert=subject_id)), None)
    kind, name = "job", subject_id
    if alert is not None:
        kind, name = str(alert["subject_kind"]), str(alert["subject_name"])
    job = next(iter(store.records(sql.JOB, job=name)), None) if kind == "job" else None
    if job is None and alert is None:
        raise TrainfareError(
            f"'{visible(subject_id[:_SHOWN_CHARS])}': neither a job nor an alert of this store; `trainfare jobs` lists jobs"
        )
    # Who acknowledged or silenced it after its last change keeps the next message back.
    acts_ms = at_ms
    if at_ms is None and alert is not None:
        at_ms = int(str(alert["changed_ms"]))
        acts_ms = max(at_ms, *(int(str(row["at_ms"])) for row in store.records(sql.NEWEST_TICK)))
    of_job = None if job is None else store.judged(name, at_ms)
    if of_job is not None:
        at_ms = of_job.at_ms
    assert at_ms is not None  # the subject is a job or an alert
    acts_ms = at_ms if acts_ms is None else acts_ms
    alerts: list[dict[str, Any]] = store.records(sql.ALERTS, kind=kind, name=name, at_ms=at_ms)
    if alert is not None:
        alerts = [alert]
    controls: list[dict[str, Any]] = store.records(IN_FORCE, at_ms=acts_ms)
    dimensions: dict[str, Any] = {}
    if jobs := sorted({*jobs_of(alerts), *([name] if job is not None else ())}):
        dimensions = {str(row["job_id"]): row for row in store.records(DIMENSIONS, jobs=jobs)}
    facts = {row["alert_id"]: facts_of(row, dimensions) for row in alerts}
    ids = [row["alert_id"] for row in alerts]
    deliveries = store.records(sql.DELIVERIES, alerts=ids) if ids else []
    rules = [] if of_job is None else of_job.rules
    rules = [*rules, *_when_opened(alerts, at_ms)]
    if alert is not None:
        rules = [*rules, *_by_sql(store, alert, at_ms)]
    holds = {each.rule for each in rules if each.holds}
    messages = [*fates(alerts, deliveries, controls, facts, acts_ms), *outranked(holds, alerts, at_ms)]
    return {
        "subject": {"kind": kind, "name": name},
        "at_ms": at_ms,
        "rule": "" if alert is None else alert["rule"],
        "rules": [msgspec.structs.asdict(each) for each in rules],
        "rules_missing": "" if of_job is None else of_job.missing,
        "records_unknown": 0 if of_job is None else of_job.records_unknown,
        "plans": [
            each._asdict() for each in plans_of(controls, {**dimensions.get(name, {}), "job_id": name}, at_ms)
        ]
        if job is not None
        else [],
        "budgets": store.records(sql.BUDGETS, kind=kind, name=name),
        "messages": [each._asdict() for each in messages],
        "statement": "" if alert is None else _statement(store, str(alert["alert_id"])),
        "mend": [] if alert is None else _mends(store, str(alert["alert_id"])),
    }


def _when_opened(alerts: Iterable[Mapping[str, Any]], at_ms: int) -> list[JudgedRule]:
    """How far rules that are judged on the ledger were beyond their thresholds when these alerts opened."""
    from streams.engine.rules.rule import margins_of
    from streams.explain.why.judged import condition
    from streams.explain.why.messages import is_firing

    return [
        condition(
            alert["rule"],
            margin._replace(what=f"{margin.what}, when it opened"),
            holds=is_firing(alert, at_ms),
            enabled=True,
        )
        for alert in alerts
        for margin in margins_of(alert["margins"])
    ]


def _by_sql(store: Reader, alert: dict[str, Any], at_ms: int) -> list[JudgedRule]:
    """What is known of an alert of a rule by SQL; nothing is asked again."""
    from streams.explain.why.judged import CONTROLS
    from streams.explain.why.messages import is_firing
    from streams.explain.why.own_rules import by_statement, is_by_sql

    if not is_by_sql(str(alert["rule"])):
        return []
    return by_statement(alert, store.records(CONTROLS, at_ms=at_ms), is_firing=is_firing(alert, at_ms))


def _statement(store: Reader, alert_id: str) -> str:
    """The statement of an alert of a rule by SQL, '' of another one."""
    from streams.explain.why.sql import STATEMENT

    found = store.records(STATEMENT, alert=alert_id)
    return str(found[0]["evidence_sql"]) if found else ""


def _mends(store: Reader, alert_id: str) -> list[str]:
    """The commands that the evidence of an alert about a missing price has."""
    from streams.explain.why.sql import MISSING_PRICE_EVIDENCE

    found = store.records(MISSING_PRICE_EVIDENCE, alert=alert_id)
    rows = store.records(str(found[0]["evidence_sql"])) if found else []
    return sorted({str(row["mend"]) for row in rows if row.get("mend")})


def _rules(rules: Iterable[Mapping[str, Any]], budgets: Iterable[Mapping[str, Any]]) -> Grid:
    rows = [
        (
            each["rule"],
            "yes" if each["holds"] else "no",
            str(each["way"]),
            each["what"].removesuffix(_FLAG) + ("" if each["enabled"] else ", switched off"),
            _figure(each["what"], each["value"]),
            _figure(each["what"], each["threshold"]),
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


def _figure(what: str, value: float | None) -> str:
    if value is None:
        return "unknown"
    if what.endswith(_FLAG):
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
        (each["alert_id"], each["rule"], each["status"], each["message"], each["because"])
        for each in found["messages"]
    ]
    return Grid(("alert", "rule", "status", "message", "because"), rows)


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
    if not 0 <= at_ms < _MAX_MS:
        raise WrongUseError(
            f"--at {visible(text[:_SHOWN_CHARS])}: expected an instant such as 2026-10-01T06:00:10, or ms since 1970"
        )
    return at_ms
