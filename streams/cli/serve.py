"""`trainfare serve`: the meter of a team with one machine, with its log on disk instead of Kafka; or the page of a store at rest."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from streams.cli.cycles import collect_rarely
from streams.cli.options import PortOption
from streams.cli.reading import target_of
from streams.cli.worker import exit_quietly_while_loading, settings_of_service
from streams.errors import WrongUseError


def serve(
    data: Annotated[
        Path,
        typer.Option("--data", metavar="DIR", help="Directory of the log and of the embedded ClickHouse."),
    ],
    read_only: Annotated[
        bool,
        typer.Option(
            "--read-only", help="Show a store at rest, e.g. of a replay: page, API and SQL; meter nothing."
        ),
    ] = False,
    port: PortOption = None,
) -> None:
    """Take events over HTTP, keep them in a log on disk, and meter them; without Kafka."""
    exit_quietly_while_loading()
    settings = settings_of_service(data, port)
    if not settings.web.enabled:
        raise WrongUseError("serve takes events and shows the page over HTTP: set web.enabled = true")
    if read_only:
        target_of(settings.clickhouse)  # opening a directory without a store would make one
    from streams.worker.health.memory import share_arenas

    share_arenas()
    from streams.web.descriptors import raise_limit

    raise_limit()
    collect_rarely()
    if read_only:
        from streams.read_only import run_read_only  # loads Kafka, ClickHouse and the kernels

        run_read_only(settings)
        return
    from streams.serve import run_serve  # loads Faust, Kafka, ClickHouse and the kernels

    run_serve(settings, data)
