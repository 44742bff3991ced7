"""`trainfare carbon load`: how much CO2 equivalent a kilowatt-hour stands for, by region and hour."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Final

import typer

from streams.cli.lists import load_files
from streams.cli.options import DataOption, UrlOption

_WANTED: Final = "name a file of carbon intensities with the columns hour,region,g_per_kwh"


def load(
    files: Annotated[
        list[Path], typer.Argument(metavar="FILE...", help="hour,region,g_per_kwh in CSV; also .gz or .zst.")
    ],
    data: DataOption = None,
    url: UrlOption = None,
) -> None:
    """Load carbon intensities; one that stands otherwise is restated, and with it every amount made from it."""
    load_files(files, "carbon", _WANTED, data, url)
