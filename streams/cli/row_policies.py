"""`trainfare store row-policies`: what gives a user of a ClickHouse server the rows of a team alone."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from streams.cli.options import settings_for
from streams.errors import WrongUseError


def row_policies(
    user: Annotated[str, typer.Argument(help="The user to make, e.g. vision_reader.")],
    team: Annotated[list[str], typer.Option("--team", help="A team whose rows it sees; may be repeated.")],
) -> None:
    """Print the statements with which an administrator makes such a user; nothing is changed."""
    from sinks.query.row_policies import statements

    settings = settings_for(None).clickhouse
    if settings.cluster is not None:
        raise WrongUseError(
            "clickhouse.cluster: row policies of tables that are spread over servers were not tried"
        )
    for each in statements(settings.database, user, team):
        sys.stdout.write(f"{each};\n")
