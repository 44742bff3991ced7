"""`trainfare receipts show|ask`: what owners were sent when jobs and weeks ended, and who is sent it."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Final

import msgspec
import typer

from schemas.escaping import visible
from streams.cli.acting import ActingWorker
from streams.cli.options import DataOption, UrlOption, settings_for
from streams.cli.output import FormatOption, Grid, OutputFormat, say_full, to_json, usd, write
from streams.cli.reading import Reader, reader
from streams.clock import SystemClock
from streams.errors import TrainfareError, WrongUseError
from streams.explain.receipts import FOUND, KNOWN, SENT, unsent_row
from streams.topics import Topic

if TYPE_CHECKING:
    from streams.notify.notice import Notice

_SHOWN_CHARS: Final = 60
_COLUMNS: Final = ("ended", "receipt", "of", "owner", "cost_usd", "lost_usd", "messages", "summary")
_UNSENT: Final = """but nothing can be sent: {why}
1. give the owner an address, or set alerts.default_webhook: docs/receivers.md#owners
2. set alerts.webhook_secret, and start the meter anew: docs/webhooks.md#webhooks
then: trainfare alerts test {owner}
until then receipts are kept, not sent, and not sent later: trainfare receipts show JOB
"""
#: Who asks for receipts, by the newest record of each name.
_ASKED: Final = """
SELECT name FROM changes FINAL WHERE kind = 'receipt'
GROUP BY name HAVING argMax(NOT removed AND JSONExtractBool(after, 'on'), offset) ORDER BY name LIMIT 20"""
_LIST: Final = f"""
SELECT r.ended AS ended, r.receipt_id AS receipt_id, r.subject_kind AS kind, r.subject_name AS name, r.owner AS owner,
    r.cost_usd AS cost_usd, r.lost_usd AS lost_usd, d.outcomes AS outcomes, r.summary AS summary
FROM (SELECT * FROM receipts FINAL) AS r {SENT}
WHERE {{owner:String}} IN ('', r.owner) ORDER BY r.ended DESC, r.receipt_id LIMIT {{most:UInt64}}"""  # noqa: S608 - of constants


def show(
    receipt: Annotated[
        str,
        typer.Argument(
            metavar="[ID]",
            help="Id of a receipt, or of a job that ended; if absent, the newest receipts are listed.",
        ),
    ] = "",
    owner: Annotated[str, typer.Option(help="Only those sent to this owner.")] = "",
    limit: Annotated[int, typer.Option(min=1, max=10_000, help="Maximum number of receipts.")] = 20,
    data: DataOption = None,
    form: FormatOption = OutputFormat.table,
) -> None:
    """Show the receipts of jobs and weekly digests that were sent, or one of them; of an ended job without one what it would say."""
    with reader(settings_for(data)) as store:
        if not receipt:
            receipts = store.records(_LIST, owner=owner, most=limit)
            _list(receipts, form)
            say_full(receipts, form, limit)
            if not receipts and form is OutputFormat.table:
                sys.stdout.write(_none_yet(store))
            return
        found = store.records(FOUND, id=receipt) or [_made_now(store, receipt)]
    _one(found[0], form)


def _made_now(store: Reader, job_id: str) -> dict[str, object]:
    """The receipt of a job to which none was sent, as a row.

    Raises:
        TrainfareError: It has not ended, or there is no such job.
    """
    from streams.worker.receipts.receipt_reader import ReceiptReader  # loads the engine

    made = ReceiptReader(store.records).now(job_id)
    if made is not None:
        return unsent_row(store.records, made.message, made.owner, made.time_ms)
    name = visible(job_id[:_SHOWN_CHARS])
    if store.records(KNOWN, job=job_id):
        raise TrainfareError(
            f"job '{name}' has not ended; `trainfare job {shlex.quote(name)}` has what it has cost so far"
        )
    raise TrainfareError(
        f"'{name}': neither a receipt nor a job of this store; `trainfare receipts show` lists receipts, `trainfare jobs` jobs"
    )


def _list(found: Sequence[Mapping[str, Any]], form: OutputFormat) -> None:
    people = form is OutputFormat.table
    rows = [
        (
            each["ended"], each["receipt_id"], f"{each['kind']} {each['name']}", each["owner"],
            *(usd(each[name]) if people else each[name] for name in ("cost_usd", "lost_usd")),
            each["outcomes"] or "none", each["summary"],
        )
        for each in found
    ]  # fmt: skip
    columns, rows = (_COLUMNS[:-1], [row[:-1] for row in rows]) if people else (_COLUMNS, rows)
    write(Grid(columns, rows), form)


def _none_yet(store: Reader) -> str:
    """Say why there are no receipts: nobody asked, or no job of who asked has ended since."""
    try:
        names = [str(each["name"]) for each in store.records(_ASKED)]
    except TrainfareError:
        names = []  # who is bound to teams does not read who asked
    if not names:
        return "no receipts yet; `trainfare receipts ask OWNER` asks for them\n"
    asked = visible(", ".join(names))
    return (
        f"no receipts yet; asked for: {asked}. A receipt comes 20 to 90 s after a job of theirs ends\n"
        "`trainfare receipts show JOB` says what the receipt of a job that ended before would say\n"
    )


def _one(found: Mapping[str, Any], form: OutputFormat) -> None:
    body = str(found["message"]).encode()
    if form is OutputFormat.json:
        sys.stdout.write(to_json(msgspec.json.decode(body)) + "\n")
        return
    from streams.notify.notice import (
        notice_of,
        notice_text,
        text_figures,
    )  # loads the engine; not needed for --help

    notice: Notice = notice_of(body, str(found["owner"]))
    if form is OutputFormat.csv:
        write(Grid(("figure", "value"), text_figures(notice, str(found["outcomes"]))), form)
        return
    sys.stdout.write(notice_text(notice, str(found["outcomes"])))


def ask(
    owner: Annotated[
        str, typer.Argument(metavar="OWNER", help="Whose jobs; receipts go to the addresses of this owner.")
    ],
    team: Annotated[
        str, typer.Option(help="The weekly digest of this team, instead of receipts of the owner's jobs.")
    ] = "",
    off: Annotated[bool, typer.Option("--off", help="Stop sending them.")] = False,
    comment: Annotated[str, typer.Option(help="Why; it is kept in the record.")] = "",
    data: DataOption = None,
    url: UrlOption = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show the record, and publish nothing.")] = False,
) -> None:
    """Ask for receipts of an owner's jobs and a weekly digest: through the worker of --data or --url, else by Kafka."""
    if not owner:
        raise WrongUseError("receipts ask: name an owner")
    through_worker = data is not None or url is not None
    what = (
        f"the weekly digest of team {visible(team)}" if team else "receipts of their jobs and a weekly digest"
    )
    done = f"{visible(owner)} {'no longer gets' if off else 'gets'} {what}"
    from streams.engine.alerts.receipt_records import receipt_request  # loads the engine

    name, fields = receipt_request(owner, team, on=not off, comment=comment)
    now_ms = SystemClock().now_ms()
    value = {
        "id": f"cli_{now_ms}",
        "source": "trainfare/cli",
        "time_ms": now_ms,
        "kind": "receipt",
        "name": name,
    }
    record = msgspec.json.encode(value | fields)
    if dry_run:
        sys.stdout.write(f"{visible(record.decode())}\nnothing was published\n")
        return
    if through_worker:
        answer = ActingWorker(data, url).control({"kind": "receipt", "owner": owner, **fields}, "")
        sys.stdout.write(f"{done}: written by {visible(str(answer['by']))}\n")
        if why := str(answer.get("not_sent", "")):
            sys.stdout.write(_UNSENT.format(why=visible(why), owner=visible(shlex.quote(owner))))
        return
    settings = settings_for()
    from streams.transport.producer import LogProducer  # loads Kafka clients

    with LogProducer(settings.kafka) as producer:
        producer.send(Topic.CONTROLS, f"receipt/{name}".encode(), record)
    sys.stdout.write(f"{done}: acknowledged by {settings.kafka.bootstrap_servers}\n")
    if not off:
        sys.stdout.write(
            f"whether one can be sent says: trainfare alerts test {visible(shlex.quote(owner))}\n"
        )
