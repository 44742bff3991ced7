"""The options of `trainfare collect json-files`: which files, and the map."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from streams.collect.files.options import FileOptions
from streams.collect.kafka.options import MapOptions, MapRule

#: What a rule reads, in place of a topic: a line of any of the files.
LINE = "line"


class LineRule(MapRule):
    """Makes one event of a line, or of each entry of a list in it; `when` says of which lines."""

    topic: Literal["line"] = Field(default="line", description="Only `line`, and need not be said.")


class Options(FileOptions, MapOptions):
    """The table `[json-files]`."""

    files: list[str] = Field(
        default=[], max_length=1_000, description="Files and patterns; `--files` adds to them."
    )
    source: str = Field(
        default="json-files", min_length=1, max_length=256, description="The events' `source`."
    )
    rules: list[LineRule] = Field(  # type: ignore[assignment]  # narrower, and never written to
        min_length=1, max_length=100, description="What is made of which lines."
    )
