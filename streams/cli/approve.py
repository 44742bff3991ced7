"""`trainfare approve`: shows what waits for a second person, and confirms it."""

from __future__ import annotations

import json
import sys
from typing import Annotated

import typer

from schemas.escaping import visible
from streams.cli.options import DataOption, UrlOption, settings_for
from streams.cli.output import minute_text


def approve(
    request_id: Annotated[
        str, typer.Argument(metavar="[ID]", help="What to confirm; without it, show what waits.")
    ] = "",
    data: DataOption = None,
    url: UrlOption = None,
) -> None:
    """Confirm what another person has asked for: a silence or planned rate broader than a team, a budget that suspends or stops jobs."""
    from streams.cli.acting import worker_at

    worker = worker_at(data, url, settings_for(data))
    if request_id:
        done = worker.confirm(request_id)
        sys.stdout.write(
            f"{visible(str(done['kind']))} {visible(str(done['name']))}: by {visible(str(done['by']))}\n"
        )
        return
    for each in worker.waiting():
        until = minute_text(each["until_ms"])
        said = f"{each['id']}  by {each['by']}, until {until}: {json.dumps(each['control'])}"
        sys.stdout.write(f"{visible(said)}\n")
