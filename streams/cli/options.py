"""Options shared by several commands, and the settings from the environment.

Only commands may import it; nothing else reads the environment.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from schemas.escaping import visible
from sinks.engine_installed import require_engine
from streams.config.load import former_names, load_settings
from streams.config.settings import Settings
from streams.errors import WrongUseError

DataOption = Annotated[
    Path | None,
    typer.Option(
        "--data",
        metavar="DIR",
        help="Directory of the embedded ClickHouse; without it, the configured server, else the meter that runs on this machine.",
    ),
]
PortOption = Annotated[
    int | None,
    typer.Option(
        "--port",
        metavar="N",
        min=0,
        max=65_535,
        help="Port of the page and API, 0: any free one; without it, the setting web.port.",
    ),
]
UrlOption = Annotated[
    str | None,
    typer.Option(
        "--url",
        metavar="URL",
        help="A worker's API, e.g. http://127.0.0.1:8787; found automatically by default.",
    ),
]


def levels_of(given: Sequence[str] | None, allowed: Sequence[str], otherwise: str) -> tuple[str, ...]:
    """The levels that `--by` names, given several times or with commas.

    Raises:
        WrongUseError: One is not allowed, or named twice.
    """
    text = ",".join(given or [otherwise])
    found = tuple(each.strip() for each in text.split(","))
    if not set(found) <= set(allowed) or len(set(found)) != len(found):
        raise WrongUseError(f"--by {visible(text[:80])}: expected some of {', '.join(allowed)}, each once")
    return found


def check_one_of(data: Path | None, url: str | None) -> None:
    """Check that a command names a directory or a worker, and not both.

    Raises:
        WrongUseError: It names both.
    """
    if data is not None and url is not None:
        raise WrongUseError("--url asks a worker: leave out --data")


def require_store(settings: Settings) -> None:
    """Check, before kernels are compiled or Kafka is asked, that the configured store can be opened at all.

    Raises:
        EngineMissing: It is a directory, and the embedded ClickHouse is not installed.
    """
    if settings.clickhouse.data_dir is not None:
        require_engine(f"a store in a directory ({settings.clickhouse.data_dir})")


def settings_for(data: Path | None = None, **overrides: object) -> Settings:
    """The settings of the environment, overridden by the command line (`meter__as_of_ms=...`); former names are said on stderr."""
    sys.stderr.writelines(f"warning: {visible(str(each))}\n" for each in former_names(os.environ))
    given = {name.replace("__", ".", 1): value for name, value in overrides.items()}
    return load_settings(os.environ, overrides={"clickhouse.data_dir": data, **given})
