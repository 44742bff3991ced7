"""`trainfare alerts test OWNER`: sends a test message to each receiver of the owner or team, and shows what happened."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from schemas.escaping import visible
from schemas.events import ControlEvent
from streams.address_keys import address_keys
from streams.cli.faults import FAILED
from streams.cli.files import must_exist
from streams.cli.options import DataOption, UrlOption, check_one_of
from streams.cli.output import FormatOption, Grid, OutputFormat, write
from streams.cli.running_meter import of_running_meter
from streams.clock import SystemClock
from streams.config.load import load_settings
from streams.config.settings import Settings
from streams.errors import TrainfareError, WrongUseError
from streams.topics import Topic

_FIELDS: Final = ("receiver", "kind", "outcome", "http_status", "detail")


def send_test(
    owner: Annotated[
        str,
        typer.Argument(metavar="OWNER", help="Whose addresses are tried: an owner, or a team (team/NAME)."),
    ],
    data: DataOption = None,
    url: UrlOption = None,
    here: Annotated[
        bool,
        typer.Option(
            "--here",
            help="Send from this shell with its settings, e.g. before workers are restarted with them.",
        ),
    ] = False,
    config: Annotated[
        Path | None,
        typer.Option(
            "--config",
            metavar="FILE",
            help="With --here or --controls: settings file, instead of TRAINFARE_CONFIG or trainfare.toml.",
        ),
    ] = None,
    controls: Annotated[
        list[Path] | None,
        typer.Option(
            "--controls",
            metavar="FILE",
            help="Take the addresses from these files, as `publish` would send them, and send from this shell.",
        ),
    ] = None,
    form: FormatOption = OutputFormat.table,
) -> None:
    """Send a test message to every receiver of an owner or a team; exit 1 unless all are delivered.

    A running worker sends it, with its own settings and the addresses that it knows; without one, this shell does.
    """
    from_here = here or bool(controls)
    check_one_of(data, url)
    if url is not None and (from_here or config is not None):
        raise WrongUseError("--url asks a worker: leave out --here, --controls and --config")
    if config is not None:
        must_exist([config], "give a settings file")
        from_here = True
    must_exist(controls or [])
    settings = load_settings(os.environ, config, overrides={"clickhouse.data_dir": data})
    if url is None and not from_here:
        settings = of_running_meter(settings)
    asked = None if from_here else _asked_worker(settings, url, owner)
    if asked is None:
        tested = f"the file {config} and this shell's environment" if config else "this shell"
        results = _sent_from_here(settings, owner, controls or [], tested)
    else:
        tested, results = asked
    if form is OutputFormat.table:
        write(Grid(_FIELDS, [[each[name] for name in _FIELDS] for each in results]), form)
        looked = "" if from_here else f" (none answers {_where(settings)}; --url names another one)"
        aside = "" if asked else f"; no running worker was asked{looked}, and it may have others"
        sys.stdout.write(visible(f"tested with the settings of {tested}{aside}") + "\n")
    else:
        rows = [[*(each[name] for name in _FIELDS), tested] for each in results]
        write(Grid((*_FIELDS, "settings_of"), rows), form)
    if any(each["outcome"] != "delivered" for each in results):
        raise typer.Exit(FAILED)


def _asked_worker(settings: Settings, url: str | None, owner: str) -> tuple[str, list[dict[str, Any]]] | None:
    """Let a worker send the test; return where it runs and what happened. None: none runs where it was looked for."""
    from streams.cli.remote import NoWorkerError, RemoteReader, token_of
    from streams.cli.top.sources import announced, checked, configured

    data_dir = settings.clickhouse.data_dir
    if url is not None:
        found: str | None = checked(url)
    elif data_dir is None:
        found = configured(settings.web) if settings.web.enabled else None
    else:
        found = announced(data_dir)
    if found is None:
        return None
    token = settings.web.write_token or settings.web.token
    if data_dir is not None and url is None:
        token = token_of(data_dir, token, settings.at_rest.keys)
    try:
        return f"the worker at {found}", RemoteReader(found, token).receivers_tested(owner)
    except NoWorkerError:
        if url is not None:
            raise
        return None


def _where(settings: Settings) -> str:
    """Where a worker was looked for."""
    from streams.cli.top.sources import configured

    data_dir = settings.clickhouse.data_dir
    return f"at {configured(settings.web)}" if data_dir is None else f"for {data_dir}"


def _sent_from_here(
    settings: Settings, owner: str, controls: list[Path], tested: str
) -> list[dict[str, Any]]:
    from streams.engine.alerts.controls import Controls
    from streams.notify.from_settings import notifier_options
    from streams.notify.opened_addresses import opened_addresses
    from streams.notify.receiver_check import ReceiverCheck

    if controls:
        events = _from_files(controls, settings.kafka.topic_prefix)
    else:
        from streams.transport.controls_log import read_controls  # loads Kafka clients

        events = read_controls(settings.kafka)
    keys, controls_read = address_keys(settings.at_rest.keys), Controls.from_events(events)
    sender = ReceiverCheck(
        lambda of: opened_addresses(controls_read.address_of(of), keys),
        lambda of: opened_addresses(controls_read.address_of_team(of), keys),
        notifier_options(settings),
        SystemClock(),
    )
    reason = sender.nobody(owner)
    if reason:
        raise TrainfareError(f"nothing is sent: {reason} (by the settings of {tested})")
    return [each._asdict() for each in asyncio.run(sender.send(owner))]


def _from_files(files: list[Path], prefix: str) -> list[ControlEvent]:
    """The controls of the files, in their order; other events and refused ones are left out."""
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
