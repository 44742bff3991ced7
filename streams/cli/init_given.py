"""What the user says to `trainfare init`: options, the environment, and what an earlier call has kept."""

from __future__ import annotations

import os
import secrets
import shutil
import socket
import sys
import tomllib
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from schemas.events import PRICE_FIELDS, PriceEvent
from schemas.units import usd_to_nano
from streams.cli.files import must_exist
from streams.cli.price_files import price_list
from streams.cli.this_user import user_name
from streams.collect.registry import COLLECTORS
from streams.config.load import is_secret, load_origins, load_settings
from streams.errors import WrongUseError
from streams.init.files import text_in
from streams.init.plan import COLLECT_FILE, PRICES_FILE, SETTINGS_FILE, TOKEN_FILE, Site
from streams.init.price_file import prices_in, rows_in
from streams.init.proposals import GivenAnswers, is_named
from streams.init.surroundings import Surroundings
from streams.init.texts import options_model
from streams.prices.records import format_of, records_of

_TOKEN_BYTES: Final = 32
_PORTS: Final = 20
_TYPES_SHOWN: Final = 12
#: Variables that commands of Slurm need, where a site has them.
_PASSED_ON: Final = ("SLURM_CONF",)
#: Where systemd looks for commands.
_PATH: Final = ("/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin")


def answers(
    price: Sequence[str] | None,
    alias: Sequence[str] | None,
    lists: Sequence[Path] | None,
    cloud: str | None,
    now_ms: int,
) -> GivenAnswers:
    """Prices, aliases and price lists; `cloud` is of lists that name none.

    Raises:
        WrongUseError: One is not of its form, or a list has faults.
    """
    usd = _pairs(price, "--price")
    for name, text in usd.items():
        try:
            usd_to_nano(text)
        except ValueError as fault:
            raise WrongUseError(f"--price {name[:80]!a}: {fault}") from None
    files = list(lists or ())
    must_exist(
        files, "name a price list (CSV, JSON, OpenCost, SkyPilot or a cloud's, optionally .gz or .zst)"
    )
    events: list[PriceEvent] = []
    for file in files:
        given = price_list(file, cloud)
        events += (record.event for record in records_of(given, format_of(given), now_ms))
    return GivenAnswers(usd, _pairs(alias, "--alias"), events)


def must_be_here(found: Surroundings, said: GivenAnswers, given: GivenAnswers) -> None:
    """Refuse an answer about a type that is not here: after a typing error the type that was meant would have another price.

    `said`: the options alone; `given`: with what is written already.

    Raises:
        WrongUseError: Neither the scheduler nor the price list has the type.
    """
    has_aliases = "gpu_types" in options_model(found.source).model_fields
    if said.aliases and not has_aliases:
        raise WrongUseError("--alias: types keep their own names here; price them by these, --price TYPE=USD")
    written = (row.get("gpu_type", "") for row in given.known_rows)
    names = [*found.types, *given.aliases.values(), *written]
    for option, answers_of, known in (("--alias", said.aliases, found.types), ("--price", said.usd, names)):
        if odd := [name for name in answers_of if not is_named(name, known)]:
            types = ", ".join(repr(each) for each in [*found.types][:_TYPES_SHOWN] if each) or "none"
            raise WrongUseError(
                f"{option} {odd[0][:80]!a}: no GPU here has that type; there are {types}. "
                f"A price for a type that comes later is a line in {PRICES_FILE}"
            )


def fields_of(given: Sequence[str] | None) -> dict[str, str]:
    """Price fields of all jobs.

    Raises:
        WrongUseError: One is no price field.
    """
    fields = _pairs(given, "--price-field")
    if odd := fields.keys() - set(PRICE_FIELDS):
        raise WrongUseError(f"--price-field {min(odd)[:80]!a}: expected one of {', '.join(PRICE_FIELDS)}")
    return fields


def with_fields(found: Surroundings, fields: dict[str, str]) -> Surroundings:
    """What is found, with price fields that the user says of all jobs."""
    if not fields:
        return found
    own = dict(found.options[found.source])
    own["price_fields"] = {**own.get("price_fields", {}), **fields}
    kinds = tuple(kind._replace(fields={**kind.fields, **fields}) for kind in found.kinds)
    return found._replace(kinds=kinds, options={**found.options, found.source: own})


def written_tables(directory: Path) -> dict[str, dict[str, Any]]:
    """The tables of collectors that are there already; those that no collector has are left out.

    Raises:
        SinkError: The file cannot be trusted.
        WrongUseError: It is no TOML.
    """
    try:
        document = tomllib.loads(text_in(directory, COLLECT_FILE) or "")
    except (ValueError, RecursionError) as fault:
        raise WrongUseError(f"{directory / COLLECT_FILE}: {fault}") from None
    return {name: table for name, table in document.items() if name in COLLECTORS and isinstance(table, dict)}


def with_written(given: GivenAnswers, directory: Path, source: str, now_ms: int) -> GivenAnswers:
    """The answers, with aliases and prices that an earlier call or a person has written.

    Raises:
        SinkError: A file cannot be trusted.
        WrongUseError: A file has faults.
    """
    aliases = written_tables(directory).get(source, {}).get("gpu_types", {})
    known = {str(name): str(value) for name, value in aliases.items()} if isinstance(aliases, dict) else {}
    given = given._replace(aliases={**known, **given.aliases})
    text = text_in(directory, PRICES_FILE)
    if text is None:
        return given
    name = str(directory / PRICES_FILE)
    return given._replace(known_rows=rows_in(name, text), known_prices=prices_in(name, text, now_ms))


def site_at(directory: Path, now_ms: int) -> Site:
    """Where it is set up: settings of the environment and of a file that is there go into the file, secrets do not.

    Raises:
        SettingsError: They have faults.
        SinkError: A file cannot be trusted.
        WrongUseError: No port is free.
    """
    file = directory / SETTINGS_FILE if text_in(directory, SETTINGS_FILE) is not None else None
    settings, given = load_settings(os.environ, file), dict[str, object]()
    for setting in load_origins(os.environ, file):
        group, _, field = setting.partition(".")
        model = getattr(settings, group)
        if not is_secret(type(model).model_fields[field]):
            given[setting] = getattr(model, field)
    script = Path(sys.executable).with_name("trainfare")
    program = (str(script),) if script.is_file() else (sys.executable, "-m", "streams.cli.main")
    token = (text_in(directory, TOKEN_FILE) or "").strip() or secrets.token_urlsafe(_TOKEN_BYTES)
    given.setdefault("web.port", settings.web.port if file else _free_port(settings.web.port))
    variables = {name: os.environ[name] for name in _PASSED_ON if os.environ.get(name)}
    commands = shutil.which("sinfo")
    if commands is not None and str(Path(commands).parent) not in _PATH:
        variables["PATH"] = ":".join((str(Path(commands).parent), *_PATH))
    return Site(directory, given, user_name(), program, token, variables, now_ms)


def _pairs(given: Sequence[str] | None, option: str) -> dict[str, str]:
    found = {}
    for each in given or ():
        name, _, value = each.rpartition("=")
        if not name.strip() or not value.strip() or not each.isprintable():
            raise WrongUseError(f"{option} {each[:80]!a}: expected NAME=VALUE")
        found[name.strip()] = value.strip()
    return found


def _free_port(first: int) -> int:
    for port in range(first, first + _PORTS):
        with socket.socket() as probe, suppress(OSError):
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(("127.0.0.1", port))
            return port
    raise WrongUseError(f"no port from {first} to {first + _PORTS - 1} is free; set TRAINFARE_WEB_PORT")
