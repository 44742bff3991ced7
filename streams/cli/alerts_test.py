"""`trainfare alerts test OWNER`: sends a test message to each receiver of the owner, and shows what happened.

It must not show a secret, an address beyond its host, or report success where a message was not delivered.
"""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from schemas.escaping import visible
from schemas.events import ControlEvent
from streams.cli.faults import FAILED
from streams.cli.files import must_exist
from streams.cli.output import FormatOption, Grid, OutputFormat, write
from streams.clock import SystemClock
from streams.config.load import load_settings
from streams.errors import TrainfareError
from streams.topics import Topic


def send_test(
    owner: Annotated[str, typer.Argument(metavar="OWNER", help="Whose addresses are tried.")],
    config: Annotated[
        Path | None,
        typer.Option(
            "--config", metavar="FILE", help="Settings file, instead of TRAINFARE_CONFIG or trainfare.toml."
        ),
    ] = None,
    controls: Annotated[
        list[Path] | None,
        typer.Option(
            "--controls",
            metavar="FILE",
            help="Take the addresses from these files, as `publish` would send them, not from Kafka.",
        ),
    ] = None,
    form: FormatOption = OutputFormat.table,
) -> None:
    """Send a test message to every receiver of an owner; exit 1 unless all are delivered."""
    if config is not None:
        must_exist([config], "give a settings file")
    settings = load_settings(os.environ, config)
    must_exist(controls or [])
    from streams.engine.alerts.controls import Controls
    from streams.notify.from_settings import notifier_options
    from streams.notify.receiver_check import ReceiverCheck, ReceiverCheckResult

    if controls:
        events = _from_files(controls, settings.kafka.topic_prefix)
    else:
        from streams.transport.controls_log import read_controls  # loads Kafka clients

        events = read_controls(settings.kafka)
    sender = ReceiverCheck(Controls.from_events(events).address_of, notifier_options(settings), SystemClock())
    reason = sender.nobody(owner)
    if reason:
        raise TrainfareError(f"nothing is sent: {reason}")
    results = asyncio.run(sender.send(owner))
    write(Grid(ReceiverCheckResult._fields, results), form)
    if form is OutputFormat.table:
        tested = f"the file {config} and this shell's environment" if config else "this shell"
        sys.stdout.write(
            visible(
                f"tested with the settings of {tested}; no running worker was asked, and it may have others"
            )
            + "\n"
        )
    if any(each.outcome != "delivered" for each in results):
        raise typer.Exit(FAILED)


def _from_files(files: list[Path], prefix: str) -> list[ControlEvent]:
    """Return the controls of the files, in their order; other events and refused ones are left out."""
    from schemas.decode import decode
    from streams.cli.publish import outgoing

    found: dict[bytes, ControlEvent] = {}
    for file in files:
        for each in outgoing(file, prefix):
            if each.topic is Topic.CONTROLS and each.value is not None:
                headers = [(name, value) for name, value in each.headers]
                event = decode(each.topic, each.value, headers, 2**62)
                if isinstance(event, ControlEvent):
                    found[each.key] = event
    return list(found.values())
