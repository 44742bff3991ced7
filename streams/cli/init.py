"""`trainfare init`: finds what there is to meter, writes the configuration for it, and starts the meter."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from schemas.events import PriceEvent
from streams.cli.faults import FAILED
from streams.cli.init_given import answers, fields_of, site_at, with_fields, with_written, written_tables
from streams.cli.init_shown import show_changes, show_found, show_unpriced, text_of_start
from streams.clock import SystemClock
from streams.config.load import load_settings
from streams.errors import WrongUseError
from streams.init.files import changes, read_state, text_in, write_files
from streams.init.look import NAMES, detected, look, unknown
from streams.init.plan import COLLECT_FILE, PRICES_FILE, SETTINGS_FILE, planned
from streams.init.price_file import prices_csv, prices_in
from streams.init.proposals import GivenAnswers, Proposal, UnpricedKind, propose, unpriced
from streams.init.surroundings import Surroundings
from streams.init.texts import options_model


def init(
    name: Annotated[
        str | None,
        typer.Argument(
            metavar="[NAME]", help=f"What there is: {', '.join(NAMES)}; without a name it is found out."
        ),
    ] = None,
    directory: Annotated[
        Path, typer.Option("--dir", metavar="DIR", help="Directory of the files, and of the meter's data.")
    ] = Path("live"),
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Take all proposals; ask nothing.")] = False,
    print_: Annotated[
        bool, typer.Option("--print", help="Print what would be written; write and start nothing.")
    ] = False,
    price: Annotated[
        list[str] | None,
        typer.Option("--price", metavar="TYPE=USD", help="Dollars of a GPU-hour of a type; may be repeated."),
    ] = None,
    alias: Annotated[
        list[str] | None,
        typer.Option(
            "--alias", metavar="TYPE=NAME", help="What a type is called in prices; may be repeated."
        ),
    ] = None,
    prices: Annotated[
        list[Path] | None,
        typer.Option("--prices", metavar="FILE", help="A price list, yours or a cloud's; may be repeated."),
    ] = None,
    price_field: Annotated[
        list[str] | None,
        typer.Option(
            "--price-field", metavar="NAME=VALUE", help="Of all jobs, e.g. cloud=aws; may be repeated."
        ),
    ] = None,
    url: Annotated[
        str, typer.Option("--url", metavar="URL", help="Kubernetes' API server, or Ray's dashboard.")
    ] = "",
    token_file: Annotated[
        Path | None, typer.Option("--token-file", metavar="FILE", help="A token to show there.")
    ] = None,
    ca_file: Annotated[
        Path | None,
        typer.Option("--ca-file", metavar="FILE", help="Certificates that the API server must have."),
    ] = None,
    is_started: Annotated[
        bool, typer.Option("--start/--no-start", help="Whether the meter is started, too.")
    ] = True,
    wait: Annotated[
        int,
        typer.Option("--wait", metavar="S", min=0, max=3600, help="Seconds to wait for the first job."),
    ] = 120,
) -> None:
    """Write the configuration for what is here, start the meter, and show the first priced job."""
    if name is not None and name not in NAMES:
        raise unknown(name)
    clock = SystemClock()
    now_ms = clock.now_ms()
    directory = directory.absolute()
    fields = fields_of(price_field)
    given = answers(price, alias, prices, fields.get("cloud"), now_ms)
    written = written_tables(directory)
    named = name or detected()
    login = {
        key: value
        for key, each in {"url": url, "token_file": token_file, "ca_file": ca_file}.items()
        if (value := each or written.get(named, {}).get(key))
    }
    found = with_fields(look(named, login, clock), fields)
    given = with_written(given, directory, found.source, now_ms)
    state = read_state(directory)
    site = site_at(directory, now_ms)
    show_found(found)
    proposal = _proposed(found, given, asks=not (yes or print_))
    missing = unpriced(found.kinds, proposal.aliases, {}, _prices(proposal, now_ms), now_ms)
    lines = [each.line or each.kind.gpu_type for each in missing]
    plan = planned(found, proposal, lines, site, written)
    all_changes = changes(directory, plan.files, state)
    show_changes(all_changes, directory, proposal, with_texts=print_)
    if not print_:
        if not yes and not typer.confirm(f"Write these to {directory}?", default=True, err=True):
            raise typer.Abort
        write_files(directory, all_changes, state)
        missing = _missing_now(found, directory, now_ms)
        if is_started:
            from streams.cli.init_start import run  # loads the kernels' compiler

            run(plan, site, state, found, wait)
        else:
            sys.stdout.write(text_of_start(plan, directory))
    if missing:
        show_unpriced(found, missing)
        raise typer.Exit(FAILED)


def _proposed(found: Surroundings, given: GivenAnswers, *, asks: bool) -> Proposal:
    """The proposal; a person is asked what a type costs that has none.

    Raises:
        WrongUseError: There is no person to ask, or the answer is no price.
    """
    has_aliases = "gpu_types" in options_model(found.source).model_fields
    proposal = propose(found, given, has_aliases=has_aliases)
    if not asks:
        return proposal
    if not sys.stdin.isatty():
        raise WrongUseError("nobody can be asked here: --yes takes all proposals, --print shows them")
    priced = {row.get("gpu_type") for row in proposal.rows}
    said = []
    for type_ in found.types:
        if type_ and proposal.aliases.get(type_, type_) not in priced:
            usd = typer.prompt(f"Dollars of a GPU-hour of {type_!a} (empty: later)", default="", err=True)
            said += [f"{type_}={usd}"] if usd.strip() else []
    asked = answers(said, None, None, None, 0)
    return propose(found, given._replace(usd={**given.usd, **asked.usd}), has_aliases=has_aliases)


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
