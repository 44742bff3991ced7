"""`trainfare config check` and `trainfare topics create`: prepare the start of a worker."""

from __future__ import annotations

import os
import sys
from typing import Annotated

import typer
from pydantic import SecretStr

from schemas.escaping import visible
from streams.cli.faults import FAILED
from streams.cli.options import settings_for
from streams.cli.output import FormatOption, Grid, OutputFormat, write
from streams.config.load import former_names, groups, load_origins, load_settings
from streams.config.settings import Settings


def check(
    connect: Annotated[
        bool,
        typer.Option(
            "--connect", help="Ask Kafka and ClickHouse, and show what they answer; exit 1 on a fault."
        ),
    ] = False,
    form: FormatOption = OutputFormat.table,
) -> None:
    """Show every setting with its value and origin, or every fault."""
    settings = load_settings(os.environ)
    if connect:
        from streams.cli.connect import asked  # loads the clients of both

        answers = asked(settings)
        write(Grid(("service", "subject", "result", "found", "to mend"), answers), form)
        if any(each.mend for each in answers):
            raise typer.Exit(FAILED)
        return
    origins = load_origins(os.environ)
    rows = []
    for group, model in groups().items():
        for name in model.model_fields:
            value = getattr(getattr(settings, group), name)
            secret = isinstance(value, SecretStr) and value.get_secret_value() != ""
            shown = "***" if secret else "" if value is None or isinstance(value, SecretStr) else str(value)
            rows.append((f"{group}.{name}", shown, origins.get(f"{group}.{name}", "default")))
    write(Grid(("setting", "value", "from"), rows), form)
    notes = [*map(str, former_names(os.environ)), *notes_of(settings)]
    sys.stderr.writelines(f"note: {visible(note)}\n" for note in notes)


def notes_of(settings: Settings) -> list[str]:
    """What is valid, and yet hardly what was meant: each with what mends it."""
    alerts, web = settings.alerts, settings.web
    sends = alerts.webhook_secret or alerts.smtp_host or alerts.alertmanager_urls or alerts.default_webhook
    notes = []
    if sends and not web.public_url:
        notes.append(
            "alerts are sent without links: set web.public_url to the address by which people open the page"
        )
    if web.act_link_key is not None and not web.public_url:
        notes.append("web.act_link_key has no effect without web.public_url: messages have no links to sign")
    return notes


def create() -> None:
    """Create the missing topics with the right partitions, compaction and timestamps; check those that exist."""
    settings = settings_for()
    from streams.transport.admin import connect, create_topics  # loads Kafka clients

    made = create_topics(settings.kafka, connect(settings.kafka))
    where = settings.kafka.bootstrap_servers
    text = "created " + ", ".join(made) if made else "all topics exist, as they must be"
    sys.stdout.write(f"{where}: {text}\n")
