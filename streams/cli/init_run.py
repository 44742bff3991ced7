"""What `trainfare init` does: look, propose, write, start, and say what has no price."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import typer

from schemas.events import PriceEvent
from schemas.units import usd_to_nano
from sinks.directory_lock import LOCK_NAME
from streams.cli.faults import FAILED
from streams.cli.init_given import (
    answers,
    fields_of,
    must_be_here,
    site_at,
    with_fields,
    with_written,
    written_tables,
)
from streams.cli.init_shown import (
    show_changes,
    show_found,
    show_notes,
    show_prices,
    show_unpriced,
    text_of_start,
)
from streams.cli.kernels import compiled_beside
from streams.clock import SystemClock
from streams.config.load import load_settings
from streams.errors import WrongUseError
from streams.init.files import changes, read_state, text_in, write_files
from streams.init.look import detected, look, unknown
from streams.init.names import NAMES
from streams.init.plan import COLLECT_FILE, PRICES_FILE, SETTINGS_FILE, planned
from streams.init.price_file import prices_csv, prices_in
from streams.init.proposals import (
    GivenAnswers,
    Proposal,
    UnpricedKind,
    free,
    propose,
    unfit_lists,
    unpriced,
)
from streams.init.starting import is_held
from streams.init.surroundings import Surroundings
from streams.init.texts import options_model


class InitRequest(NamedTuple):
    """What the command line says; `asks`: whether a person is asked."""

    name: str | None
    directory: Path
    login: Mapping[str, object]
    price: Sequence[str]
    alias: Sequence[str]
    prices: Sequence[Path]
    price_field: Sequence[str]
    wait_s: int
    asks: bool
    writes: bool
    starts: bool


def run(asked: InitRequest) -> None:
    """Write the configuration for what is here, start the meter, and show the first priced job.

    Raises:
        TrainfareError: The scheduler does not answer, or the meter does not start.
        WrongUseError: An option or a file has faults, or nothing is here.
        SinkError: A file cannot be trusted or written.
        Exit: GPU-time has no price; with 1.
    """
    if asked.name is not None and asked.name not in NAMES:
        raise unknown(asked.name)
    clock, directory = SystemClock(), asked.directory
    fields = fields_of(asked.price_field)
    given = answers(asked.price, asked.alias, asked.prices, fields.get("cloud"), clock.now_ms())
    written = written_tables(directory)
    name = asked.name or detected()
    is_started = asked.writes and asked.starts and not is_held(directory / LOCK_NAME)
    # While the scheduler is asked, and the user.
    with compiled_beside(is_wanted=is_started) as until_compiled:
        _set_up(asked, _Said(name, clock, fields, given, written), until_compiled)


class _Said(NamedTuple):
    """What the options and the files say before anything is asked."""

    name: str
    clock: SystemClock
    fields: dict[str, str]
    given: GivenAnswers
    written: Mapping[str, Mapping[str, Any]]


def _set_up(asked: InitRequest, said: _Said, until_compiled: Callable[[], None]) -> None:
    """Look, propose, write and start."""
    directory, now_ms = asked.directory, said.clock.now_ms()
    known = said.written.get(said.name, {})
    login = {key: value for key, each in asked.login.items() if (value := each or known.get(key))}
    found = with_fields(look(said.name, login, said.clock), said.fields)
    given = with_written(said.given, directory, found.source, now_ms)
    state = read_state(directory)
    site = site_at(directory, now_ms)
    show_found(found)
    must_be_here(found, said.given, given)
    proposal = _proposed(found, given, asks=asked.asks)
    prices = _prices(proposal, now_ms)
    show_notes([*unfit_lists(found, given, proposal.aliases, now_ms), *free(prices)])
    missing = unpriced(found.kinds, proposal.aliases, {}, prices, now_ms)
    lines = [each.line or each.kind.gpu_type for each in missing]
    plan = planned(found, proposal, lines, site, said.written)
    all_changes = changes(directory, plan.files, state)
    show_prices(proposal)
    if asked.asks or not asked.writes:
        show_changes(all_changes, directory, is_done=False, with_texts=not asked.writes)
    if asked.asks and not typer.confirm(f"Write these to {directory}?", default=True, err=True):
        raise typer.Abort
    if asked.writes:
        write_files(directory, all_changes, state)
        if not asked.asks:
            show_changes(all_changes, directory, is_done=True, with_texts=False)
        missing = _missing_now(found, directory, now_ms)
    try:
        if asked.starts and asked.writes:
            from streams.cli.init_start import start_all  # loads what reads a store

            start_all(plan, site, state, found, asked.wait_s, until_compiled)
        elif asked.writes:
            sys.stdout.write(text_of_start(plan, directory))
    finally:
        # However it ends: a job that costs something else, or a meter that does not start, must not hide it.
        if missing:
            show_unpriced(found, missing)
    if missing:
        raise typer.Exit(FAILED)


def _proposed(found: Surroundings, given: GivenAnswers, *, asks: bool) -> Proposal:
    """The proposal; a person is asked what a type costs that has none.

    Raises:
        WrongUseError: There is no person to ask.
    """
    has_aliases = "gpu_types" in options_model(found.source).model_fields
    proposal = propose(found, given, has_aliases=has_aliases)
    if not asks:
        return proposal
    if not sys.stdin.isatty():
        raise WrongUseError("nobody can be asked here: --yes takes all proposals, --print shows them")
    priced = {row.get("gpu_type") for row in proposal.rows}
    said = dict[str, str]()
    for type_ in found.types:
        if type_ and proposal.aliases.get(type_, type_) not in priced:
            question = f"Dollars of a GPU-hour of {type_!a} (empty: later)"
            usd = typer.prompt(question, default="", show_default=False, err=True, value_proc=_usd)
            said |= {type_: usd} if usd else {}
    return propose(found, given._replace(usd={**given.usd, **said}), has_aliases=has_aliases)


def _usd(typed: str) -> str:
    """Dollars that a person has typed; empty: none.

    Raises:
        BadParameter: They are no price; the question is asked again.
    """
    usd = typed.strip()
    try:
        if usd:
            usd_to_nano(usd)
    except ValueError as fault:
        raise typer.BadParameter(str(fault)) from None
    return usd


def _prices(proposal: Proposal, now_ms: int) -> list[PriceEvent]:
    return prices_in(PRICES_FILE, prices_csv(proposal.rows, ()), now_ms)


def _missing_now(found: Surroundings, directory: Path, now_ms: int) -> list[UnpricedKind]:
    """The kinds of GPUs without a price by the files as they are now, a person's changes among them.

    Raises:
        WrongUseError: A file has faults.
    """
    from streams.collect.registry import options_of

    load_settings(os.environ, directory / SETTINGS_FILE)
    options = options_of(found.source, directory / COLLECT_FILE).model_dump()
    events = prices_in(PRICES_FILE, text_in(directory, PRICES_FILE) or "", now_ms)
    return unpriced(
        found.kinds, options.get("gpu_types", {}), options.get("price_fields", {}), events, now_ms
    )
