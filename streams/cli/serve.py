"""`trainfare serve`: the meter of a team with one machine, with its log on disk instead of Kafka."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from streams.cli.cycles import collect_rarely
from streams.cli.worker import exit_quietly_while_loading, settings_of_service
from streams.errors import WrongUseError


def serve(
    data: Annotated[
        Path,
        typer.Option("--data", metavar="DIR", help="Directory of the log and of the embedded ClickHouse."),
    ],
) -> None:
    """Take events over HTTP, keep them in a log on disk, and meter them; without Kafka."""
    exit_quietly_while_loading()
    settings = settings_of_service(data)
    if not settings.web.enabled:
        raise WrongUseError("serve takes events over HTTP: set web.enabled = true")
    from streams.worker.health.memory import share_arenas

    share_arenas()
    from streams.web.descriptors import raise_limit

    raise_limit()
    from streams.serve import run_serve  # loads Faust, Kafka, ClickHouse and the kernels

    collect_rarely()
    run_serve(settings, data)
