"""`trainfare rules show`: which settings the rules have, for all jobs and for some, or for one job."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from streams.cli.options import DataOption, settings_for
from streams.cli.output import FormatOption, Grid, OutputFormat, write
from streams.cli.reading import reader
from streams.cli.rules import read_rules
from streams.errors import TrainfareError

if TYPE_CHECKING:
    from streams.config.settings import Settings

_JOB: Final = """
SELECT j.job_id AS job_id, j.owner AS owner, j.team AS team, j.project AS project, j.experiment AS experiment,
       mapKeys(j.labels) AS names, mapValues(j.labels) AS holding, a.cluster AS cluster, a.region AS region, a.zone AS zone,
       a.cloud AS cloud, a.account AS account, a.instance_type AS instance_type, a.gpu_type AS gpu_type, a.purchase AS purchase
FROM (SELECT * FROM jobs FINAL WHERE job_id = {job:String}) AS j
LEFT JOIN (SELECT * FROM attempts FINAL WHERE job_id = {job:String} ORDER BY attempt DESC LIMIT 1) AS a ON j.job_id = a.job_id
"""


def show(
    job: Annotated[str | None, typer.Option(metavar="ID", help="The settings for this job.")] = None,
    file: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Settings as this file would make them; without it, those published to Kafka.",
        ),
    ] = None,
    defaults: Annotated[
        bool, typer.Option("--defaults", help="The shipped file of defaults, as it is.")
    ] = False,
    data: DataOption = None,
    form: FormatOption = OutputFormat.table,
) -> None:
    """Show the settings of the rules, and what each judges: jobs, nodes, the fleet; or those of one job."""
    if defaults:
        from streams.rules.file import default_rules  # loads the engine; not needed for --help

        typer.echo(default_rules(), nl=False)
        return
    settings = settings_for(data)
    if file is not None:
        events = [record.event for record in read_rules(file)]
    else:
        from streams.transport.controls_log import read_controls  # loads Kafka clients

        events = read_controls(settings.kafka)
    from streams.rules.settings import dimensions_of_row, rules_in_force, rules_of_job

    if job is None:
        rows = rules_in_force(events)
    else:
        found = _job(settings, job)
        names, holding = found.pop("names"), found.pop("holding")
        labels = list(zip(_texts(names), _texts(holding), strict=True))
        rows = rules_of_job(events, dimensions_of_row(found), labels)
    write(Grid(("rule", "for", "enabled", "severity", "thresholds", "set_by"), rows), form)


def _job(settings: Settings, job: str) -> dict[str, object]:
    with reader(settings) as store:
        found = store.records(_JOB, job=job)
    if not found:
        raise TrainfareError(f"job {job!r}: not in this store; `trainfare jobs` lists them")
    return found[0]


def _texts(value: object) -> list[str]:
    return [str(each) for each in value] if isinstance(value, list | tuple) else []
