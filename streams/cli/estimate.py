"""`trainfare estimate`: what a job would cost, and what one that ran would have cost elsewhere."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from schemas.escaping import visible
from streams.cli.options import DataOption, settings_for
from streams.cli.output import FormatOption, OutputFormat
from streams.cli.reading import Reader, reader
from streams.clock import SystemClock
from streams.errors import WrongUseError

if TYPE_CHECKING:
    from streams.estimate.forecast import Plan


def estimate(
    data: DataOption = None,
    gpus: Annotated[str, typer.Option(metavar="N", help="GPUs that the job would hold, e.g. 8.")] = "",
    hours: Annotated[str, typer.Option(metavar="H", help="Hours that it would take without retries.")] = "",
    gpu_type: Annotated[str, typer.Option(help="Type of GPU, e.g. H100.")] = "",
    purchase: Annotated[str, typer.Option(help="on_demand, spot, reserved or on_prem.")] = "",
    region: Annotated[str, typer.Option(help="Region, as prices name it.")] = "",
    zone: Annotated[str, typer.Option(help="Zone.")] = "",
    cloud: Annotated[str, typer.Option(help="Cloud.")] = "",
    cluster: Annotated[str, typer.Option(help="Cluster.")] = "",
    account: Annotated[str, typer.Option(help="Account that pays.")] = "",
    instance_type: Annotated[str, typer.Option(help="Type of instance.")] = "",
    team: Annotated[str, typer.Option(help="Team; jobs of its own are the narrower kind.")] = "",
    project: Annotated[str, typer.Option(help="Project.")] = "",
    experiment: Annotated[str, typer.Option(help="Experiment.")] = "",
    label: Annotated[
        list[str] | None,
        typer.Option(metavar="KEY=VALUE", help="A label, for prices by label; may be repeated."),
    ] = None,
    like: Annotated[
        str, typer.Option(metavar="JOB", help="A job that ran, for all that is not given here.")
    ] = "",
    of: Annotated[
        str,
        typer.Option(
            metavar="JOB",
            help="A job that ran: what it would have cost elsewhere, on spot if nothing else is named.",
        ),
    ] = "",
    speed_factor: Annotated[
        str, typer.Option(metavar="F", help="With --of: its time there is F times as long.")
    ] = "",
    everywhere: Annotated[
        bool,
        typer.Option("--everywhere", help="At each place of the price list, the cheapest first."),
    ] = False,
    form: FormatOption = OutputFormat.table,
) -> None:
    """Estimate a job's cost before it runs, or with --of what one that ran would have cost elsewhere.

    --of with nothing else compares with spot, or with on_demand if the job ran on spot.
    """
    from streams.estimate.request import check_purchase

    check_purchase(purchase)
    fields = {
        "cloud": cloud, "region": region, "zone": zone, "cluster": cluster, "account": account,
        "instance_type": instance_type, "gpu_type": gpu_type, "purchase": purchase,
    }  # fmt: skip
    fields = {name: value for name, value in fields.items() if value}
    groups = {"team": team, "project": project, "experiment": experiment}
    with reader(settings_for(data)) as store:
        if of:
            if gpus or hours or like or label or any(groups.values()):
                raise WrongUseError(
                    "--of JOB takes the job as it ran: name only what is different, such as --gpu-type"
                )
            if not everywhere:
                _compare(store, of, fields, speed_factor, form)
            elif fields or speed_factor:
                raise WrongUseError(
                    "--everywhere compares all places: name no field and no --speed-factor beside it"
                )
            else:
                _compare_all(store, of, form)
        else:
            if speed_factor:
                raise WrongUseError("--speed-factor is for a job that ran: name it with --of")
            _forecast(store, gpus, hours, fields, groups, like, form, label or (), everywhere=everywhere)


def _forecast(
    store: Reader,
    gpus: str,
    hours: str,
    fields: dict[str, str],
    groups: dict[str, str],
    like: str,
    form: OutputFormat,
    labels: Sequence[str],
    *,
    everywhere: bool,
) -> None:
    from streams.cli.estimate_shown import show_forecast, show_planned_places
    from streams.estimate.asking import past_jobs, stored_book
    from streams.estimate.forecast import forecast
    from streams.estimate.planned_places import planned_places
    from streams.estimate.prices import context_of, nearer, not_in_price, said_of_any
    from streams.estimate.shown import case_prices
    from streams.prices.label_gaps import gap_of

    plan = _plan(store, gpus, hours, fields, groups, like, labels)
    book = stored_book(store.records, plan.fields.get("gpu_type", ""))
    past = past_jobs(store.records, plan.names())
    if plan.work_ms is None and past is None:
        raise WrongUseError("--hours is needed: no similar past job says how long it takes")
    at_ms = SystemClock().now_ms()
    found = forecast(plan, book, past, at_ms)
    prices = case_prices(found.cases[0])
    # What --like names was priced by this price before.
    missing = not_in_price(book, prices, fields)
    if everywhere:
        show_planned_places(planned_places(store.records, plan, book, past, found, at_ms), book, form)
    else:
        show_forecast(plan, found, past, book, at_ms, form, like, missing)
    sku = next(price.sku for price in prices if price.component == "gpu")
    note = nearer(book, context_of(plan.fields, plan.team, plan.project), sku, at_ms)
    gaps = (gap_of(each, book.events) for each in plan.labels)
    _note([*said_of_any(missing, fields), note, *gaps])


def _note(notes: Iterable[str | None]) -> None:
    for said in filter(None, notes):
        sys.stderr.write(f"note: {visible(said)}\n")


def _plan(
    store: Reader,
    gpus: str,
    hours: str,
    fields: dict[str, str],
    groups: dict[str, str],
    like: str,
    labels: Sequence[str],
) -> Plan:
    """What is planned, with all that is not given taken from the job that it is like."""
    from streams.estimate.asking import job_facts
    from streams.estimate.forecast import Plan
    from streams.estimate.request import check_labels, gpu_milli_of, work_ms_of

    check_labels(labels)

    work_ms = work_ms_of(hours) if hours else None
    if like:
        facts = job_facts(store.records, like)
        gpus = gpus or facts["gpus"]
        fields = {**facts["fields"], **fields}
        groups = {name: value or facts[name] for name, value in groups.items()}
        # A job has one value of a key.
        named = dict(each.split("=", 1) for each in (*facts["named"], *labels))
        labels = [f"{key}={value}" for key, value in sorted(named.items())]
    elif not gpus:
        raise WrongUseError("--gpus is needed, or --like JOB, or --of JOB for a job that ran")
    return Plan(gpu_milli_of(gpus), work_ms, fields, **groups, labels=tuple(labels))


def _compare(
    store: Reader, job_id: str, fields: dict[str, str], speed_factor: str, form: OutputFormat
) -> None:
    from streams.cli.estimate_shown import show_comparison
    from streams.estimate.asking import job_facts, other_purchase, ran_job, stored_book, with_past
    from streams.estimate.elsewhere import SPOT, Elsewhere, compared
    from streams.estimate.prices import not_in_price, said_of_any
    from streams.estimate.request import speed_of

    speed = speed_of(speed_factor or "1")
    facts = job_facts(store.records, job_id)
    was = facts["fields"].get("purchase", "")
    is_default = not fields and speed == 1
    if is_default:
        fields = {"purchase": other_purchase(was)}
    there = Elsewhere(fields, speed)
    book = stored_book(store.records, fields.get("gpu_type", ""))
    if fields.get("purchase") == SPOT and was != SPOT:
        there = with_past(store.records, facts, there)
    job = ran_job(store.records, job_id, there, book)
    found = compared(job, there, book)
    show_comparison(job_id, job, there, found, book, form, is_default=is_default)
    _note(said_of_any(not_in_price(book, found.elsewhere.prices, fields), fields))


def _compare_all(store: Reader, job_id: str, form: OutputFormat) -> None:
    from streams.cli.estimate_shown import show_alternatives
    from streams.estimate.alternatives import alternatives

    show_alternatives(alternatives(store.records, job_id), form)
