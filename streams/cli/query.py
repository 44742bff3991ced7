"""`trainfare sql`: one read-only statement.

It must not know any table.
"""

from __future__ import annotations

from typing import Annotated

import typer

from streams.cli.options import DataOption, settings_for
from streams.cli.output import Format, FormatOption, Grid, write
from streams.cli.reading import reader


def sql(
    query: Annotated[str, typer.Argument(help="One statement that only reads; see the views in docs.")],
    data: DataOption = None,
    form: FormatOption = Format.table,
) -> None:
    """Run read-only SQL over the ledger and its views."""
    with reader(settings_for(data)) as store:
        answer = store.ask(query)
        write(Grid(answer.names, list(answer.rows())), form)
