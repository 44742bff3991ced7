"""The options of `trainfare collect gitlab`."""

from __future__ import annotations

from pydantic import Field

from streams.collect.ci_api import CiOptions
from streams.collect.http_source import Address


class Options(CiOptions):
    """The table `[gitlab]`."""

    url: Address = Field(default="https://gitlab.com/api/v4", description="URL of the API, with /api/v4.")
    projects: list[str] = Field(
        min_length=1, max_length=1_000, description="Projects whose jobs are read: GROUP/NAME, or the number."
    )
