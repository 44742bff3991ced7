"""`trainfare audit`: checks the record accounting and the ledger, and compares the ledger with the log."""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer
from rich.console import Console
from rich.text import Text

from schemas.counting import how_many
from schemas.escaping import visible
from schemas.reasons import OUTCOMES
from streams.cli.changes import show_changes
from streams.cli.files import must_exist
from streams.cli.options import DataOption, settings_for
from streams.cli.output import FormatOption, Grid, OutputFormat, to_json, write
from streams.cli.progress import progress
from streams.cli.reading import Reader, reader, reader_at
from streams.errors import WrongUseError
from streams.selfcheck.change_chain import Seal

if TYPE_CHECKING:
    import pyarrow as pa

    from streams.config.settings import Settings
    from streams.selfcheck.recount.recount import Span
    from streams.selfcheck.recount.recount_result import RecountResult

UNBALANCED: Final = 1
#: Tables are not read at one instant while a worker writes: failures are checked twice.
_AGAIN_S: Final = 3.0


def audit(
    files: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="[changes | FILE...]",
            help="`changes`: show the audit trail. With --recount of a replay: the files that were replayed.",
        ),
    ] = None,
    data: DataOption = None,
    url: Annotated[
        str | None, typer.Option("--url", metavar="URL", help="Ask this worker, e.g. http://127.0.0.1:8787.")
    ] = None,
    recount: Annotated[
        tuple[str, str] | None,
        typer.Option(
            "--recount",
            metavar="FROM TO",
            help="Read the log again and compare the ledger's minutes in [FROM, TO): ms since 1970 or ISO 8601, UTC.",
        ),
    ] = None,
    repair: Annotated[
        bool,
        typer.Option("--repair", help="With --recount: rewrite rows that are wrong or missing."),
    ] = False,
    noted: Annotated[
        list[str] | None,
        typer.Option(
            "--noted",
            metavar="OFFSET:HASH",
            help="What an earlier audit said to note of the audit trail: fails where it is not in the chain any more.",
        ),
    ] = None,
    form: FormatOption = OutputFormat.table,
) -> None:
    """Check the record accounting and the ledger; exit 1 on any difference."""
    if url is not None and data is not None:
        raise WrongUseError("--url asks a worker, --data a directory; give one of them")
    settings = settings_for(data)
    if files == [Path("changes")] and recount is None:
        with reader(settings) if url is None else reader_at(url, settings) as store:
            show_changes(store, form)
        return
    if files and recount is None:
        raise WrongUseError("files are read by --recount only")
    if noted and recount is not None:
        raise WrongUseError("--noted is of the audit trail, which --recount does not read")
    seals = [_seal(each) for each in noted or []]
    if repair and recount is None:
        raise WrongUseError("--repair goes with --recount FROM TO, which says what is wrong")
    opened = reader(settings) if url is None else reader_at(url, settings)
    with opened as store:
        if recount is not None:
            from streams.cli.recount import recount as compared  # loads Kafka and the kernels
            from streams.cli.recount import span_of

            span = span_of(*recount)
            must_exist(files or [])
            insert = _inserting(store) if repair else None
            with progress("recounting", None) as advance:
                found = compared(_asking(store), settings, span, files or [], advance, insert)
            _show_recount(found, form)
            ok = found.ok
            if repair:
                _put_on_record(settings, span, found)
            if repair and ok and not found.unverifiable:
                _forget_parts(store, span)
        else:
            shown = _audited(store, seals)
            _show(shown, form)
            ok = bool(shown["ok"])
    if not ok:
        raise typer.Exit(UNBALANCED)


def _asking(store: Reader) -> Any:
    return lambda sql, parameters: store.records(sql, **parameters)


def _inserting(store: Reader) -> Callable[[str, pa.Table], None]:
    opened = store.store
    if opened is None:
        raise WrongUseError("--repair writes to the store itself: stop the worker that has it open first")

    def insert(table: str, rows: pa.Table) -> None:
        opened.insert(table, rows, f"repair-{table}-{time.time_ns()}")

    return insert


def _put_on_record(settings: Settings, span: Span, found: RecountResult) -> None:
    from streams.cli.deeds import put_on_record

    what = f"minutes of {span.from_ms} to {span.until_ms} ms since 1970"
    own_log = settings.clickhouse.data_dir is not None
    put_on_record(
        settings, "repair", f"{span.from_ms}-{span.until_ms}", what, found.put_back, own_log=own_log
    )


def _forget_parts(store: Reader, span: Span) -> None:
    """Delete detached parts of months whose rows were all repaired."""
    from streams.selfcheck.recount.repair import repaired

    opened = store.store
    assert opened is not None
    for part in repaired(opened.lost_parts, span):
        opened.forget_part(part)
        sys.stderr.write(f"trainfare: {part} is dropped: all rows of its month are right\n")


def _seal(text: str) -> Seal:
    offset, _, digest = text.partition(":")
    if not re.fullmatch(r"[0-9]{1,18}", offset) or not re.fullmatch(r"[0-9a-f]{64}", digest):
        raise WrongUseError(
            f"--noted {visible(text[:100])}: expected OFFSET:HASH, as `trainfare audit` says it of the audit trail"
        )
    return Seal(int(offset), digest)


def _audited(store: Reader, noted: Sequence[Seal]) -> dict[str, Any]:
    """The checks of the tables, and those of the worker's memory if a worker is queried."""
    from streams.selfcheck.audit import ledger_checks, tables
    from streams.selfcheck.audit.text import as_object
    from streams.selfcheck.audit.verdict import Verdict

    books, findings = tables.stored_findings(_asking(store), noted)
    lost = store.lost_parts()
    if not all(finding.ok for finding in findings):
        time.sleep(_AGAIN_S)
        books, findings = tables.stored_findings(_asking(store), noted)
    findings += [] if lost is None else ledger_checks.parts(lost)
    stored = as_object(Verdict(time.time_ns() // 1_000_000, tuple(findings), tuple(books)))
    worker = store.audited()
    return {**stored, "ok": stored["ok"] and (worker is None or worker["ok"]), "worker": worker}


def _show(found: dict[str, Any], form: OutputFormat) -> None:
    if form is OutputFormat.json:
        sys.stdout.write(to_json(found) + "\n")
        return
    names = ("records_in", *OUTCOMES)
    rows = [
        (
            f"{b['topic']}/{b['partition']}",
            *(b[name] for name in names),
            "ok" if b["balance"] == 0 else f"{b['balance']:+d}",
        )
        for b in found["books"]
    ]
    write(Grid(("partition", *names, "balance"), rows), form)
    if form is OutputFormat.csv:
        return
    _findings("Tables", found["findings"])
    worker = found["worker"]
    if worker is not None:
        _findings(f"Worker, {worker['age_ms'] // 1000} s ago", worker["findings"])
    _line("balanced" if found["ok"] else "NOT BALANCED", ok=found["ok"], before="\n")


def _findings(title: str, findings: list[dict[str, Any]]) -> None:
    sys.stdout.write(f"\n{title}\n")
    for finding in findings:
        mark = "ok  " if finding["ok"] else "FAIL"
        _line(mark, ok=finding["ok"], after=f"  {finding['check']:<15} {finding['detail']}")


def _line(mark: str, *, ok: bool, before: str = "", after: str = "") -> None:
    """Print a line whose mark is coloured on a terminal; names in it are escaped."""
    after = visible(after)
    if not sys.stdout.isatty():
        sys.stdout.write(f"{before}{mark}{after}\n")
        return
    text = Text.assemble(before, (mark, "green" if ok else "bold red"), after)
    Console(file=sys.stdout, highlight=False).print(text)


def _show_recount(found: RecountResult, form: OutputFormat) -> None:
    counts = {
        "records_read": found.records,
        "rows_agree": found.agree,
        "rows_differ": found.differ,
        "rows_missing": found.missing,
        "rows_extra": found.extra,
        "rows_newer": found.newer,
        "rows_put_back": found.put_back,
        "unsettled": found.unsettled,
        "cannot_tell": len(found.unverifiable),
    }
    if form is OutputFormat.json:
        report = {
            "ok": found.ok,
            **counts,
            "differences": found.differences,
            "cannot_tell_of": found.unverifiable,
        }
        sys.stdout.write(to_json(report) + "\n")
        return
    write(
        Grid(("", ""), [(name.replace("_", " "), count) for name, count in counts.items()]),
        OutputFormat.table,
    )
    for difference in found.differences:
        _line("FAIL", ok=False, after=f"  {difference}")
    if found.unverifiable:
        some = ", ".join(found.unverifiable[:10]) + (", ..." if len(found.unverifiable) > 10 else "")
        sys.stdout.write(
            f"the log no longer reaches back to the beginning of {how_many(len(found.unverifiable), 'job or node', 'jobs and nodes')}: {visible(some)}\n"
        )
    _line(
        "the ledger is what the log says" if found.ok else "THE LEDGER IS NOT WHAT THE LOG SAYS", ok=found.ok
    )
