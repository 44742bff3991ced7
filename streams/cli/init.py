"""`trainfare init`: its options; what it does is in `init_run`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from streams.init.names import NAMES


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
    from streams.cli.init_run import InitRequest, run  # loads collectors and prices; not needed for --help

    login = {"url": url, "token_file": token_file, "ca_file": ca_file}
    run(
        InitRequest(
            name,
            directory.absolute(),
            login,
            tuple(price or ()),
            tuple(alias or ()),
            tuple(prices or ()),
            tuple(price_field or ()),
            wait,
            asks=not (yes or print_),
            writes=not print_,
            starts=is_started,
        )
    )
