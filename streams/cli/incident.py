"""`trainfare incident ID`: a report of one alert or incident in Markdown, for whoever writes down what was learnt of it."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from schemas.escaping import visible
from streams.cli.options import DataOption, UrlOption
from streams.cli.reading import reader_for
from streams.errors import TrainfareError

_SHOWN_CHARS = 60


def incident(
    alert_id: Annotated[
        str, typer.Argument(metavar="ID", help="The id of an alert or of an incident: al_ and 24 hex digits.")
    ],
    data: DataOption = None,
    url: UrlOption = None,
) -> None:
    """Write a report of an alert or an incident in Markdown: what happened, who got a message, what it cost, what would have fired earlier."""
    from streams.cli.incident_shown import markdown_of  # loads the engine
    from streams.explain.incident.report import incident_report

    with reader_for(data, url) as store:
        report = incident_report(store, alert_id)
    if report is None:
        raise TrainfareError(
            f"'{visible(alert_id[:_SHOWN_CHARS])}': no alert of this store has this id; `trainfare alerts list` has them"
        )
    sys.stdout.write(markdown_of(report))
