"""The options that all collectors of files have."""

from __future__ import annotations

from pydantic import Field, field_validator

from streams.collect.options import CollectorOptions


class FileOptions(CollectorOptions):
    """Which files are read, and how much of them."""

    interval_s: float = Field(default=60.0, ge=1, le=3600, description="Seconds between two polls.")
    files: list[str] = Field(
        min_length=1,
        max_length=1_000,
        description="Files and patterns, e.g. /logs/**/*.gz; `--files` adds to them.",
    )
    min_file_age_s: float = Field(
        default=60.0, ge=0, le=86_400, description="A file is read once it has not changed for so long."
    )
    max_files: int = Field(default=20_000, ge=1, le=200_000, description="More files are a fault.")
    max_file_mib: int = Field(
        default=1024,
        ge=1,
        le=65_536,
        description="The rest of a file beyond this, unpacked, is left out; MiB.",
    )

    @field_validator("files")
    @classmethod
    def _name_files(cls, files: list[str]) -> list[str]:
        for pattern in files:
            if not pattern or len(pattern) > 4_096 or "\0" in pattern:
                raise ValueError(f"{pattern[:80]!r} names no files, expected e.g. /logs/*.gz")
        return files

    @property
    def unpacked_bytes(self) -> int:
        """How much of a file is read, unpacked."""
        return self.max_file_mib * 2**20
