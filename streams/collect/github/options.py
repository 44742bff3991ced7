"""The options of `trainfare collect github`."""

from __future__ import annotations

from pydantic import Field

from streams.collect.ci_api import CiOptions
from streams.collect.http_source import Address


class Options(CiOptions):
    """The table `[github]`."""

    url: Address = Field(
        default="https://api.github.com",
        description="URL of the API; GitHub Enterprise: https://HOST/api/v3.",
    )
    repositories: list[str] = Field(
        min_length=1, max_length=1_000, description="Repositories whose jobs are read, as OWNER/NAME."
    )
