"""Options shared by several commands, and the settings from the environment.

Only commands may import it; nothing else reads the environment.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from streams.config.load import load_settings
from streams.config.settings import Settings

DataOption = Annotated[
    Path | None,
    typer.Option(
        "--data",
        metavar="DIR",
        help="Directory of the embedded ClickHouse; without it, the configured server.",
    ),
]


def settings_for(data: Path | None = None, **overrides: object) -> Settings:
    """Return the settings of the environment, overridden by the command line (`meter__as_of_ms=...`)."""
    given = {name.replace("__", ".", 1): value for name, value in overrides.items()}
    return load_settings(os.environ, overrides={"clickhouse.data_dir": data, **given})
