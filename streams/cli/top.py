"""`trainfare top`: jobs by what they burn now, live on a terminal, or once for a pipe.

It must not load the terminal library where only one table is written.
"""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from streams.cli.options import DataOption, settings_for
from streams.cli.output import FormatOption, OutputFormat


def top(
    data: DataOption = None,
    url: Annotated[
        str | None,
        typer.Option(
            "--url", metavar="URL", help="A worker's API, e.g. http://127.0.0.1:8787; else it is found."
        ),
    ] = None,
    once: Annotated[
        bool, typer.Option("--once", help="Write one table and end; so too where piped.")
    ] = False,
    form: FormatOption = OutputFormat.table,
) -> None:
    """Watch what jobs cost per hour, the dearest first."""
    from streams.cli.top_source import source_for  # loads the store, and what speaks HTTP

    source = source_for(settings_for(data), url)
    if once or form is not OutputFormat.table or not _on_terminal():
        from streams.cli.top_plain import write_snapshot

        write_snapshot(source.fetch(), form)
    else:
        from streams.cli.top_view import show  # loads Textual

        show(source)


def _on_terminal() -> bool:
    """Keys come from stdin, and Textual draws on stderr so that stdout stays free: all three must be a person's."""
    return all(stream.isatty() for stream in (sys.stdin, sys.stdout, sys.stderr))
