"""The options of `trainfare collect dcgm`."""

from __future__ import annotations

from urllib.parse import urlsplit

from pydantic import Field, field_validator

from streams.collect.dcgm.text import DEFAULT_JOB_LABEL
from streams.collect.gpu_samples import SampleOptions


class Options(SampleOptions):
    """The table `[dcgm]`."""

    targets: list[str] = Field(
        min_length=1, description="Addresses of exporters, e.g. http://gpu-01:9400/metrics."
    )
    timeout_s: float = Field(default=5.0, gt=0, le=60, description="How long an exporter may take in all.")
    max_concurrent_scrapes: int = Field(
        default=32, ge=1, le=512, description="Exporters that are scraped at the same time."
    )
    job_id_label: str | None = Field(
        default=None,
        description="Label with the job's id, where the scheduler sets one; default: hpc_job without allocations, none with.",
    )
    source: str = Field(default="dcgm", min_length=1, max_length=256, description="The events' `source`.")

    @property
    def label_of_job(self) -> str:
        """The label that names a job; empty: none does."""
        if self.job_id_label is not None:
            return self.job_id_label
        # Who holds nothing by the scheduler's word is named by no label that was left behind, or by another id.
        return DEFAULT_JOB_LABEL if self.allocations_file is None else ""

    @field_validator("targets")
    @classmethod
    def _are_addresses(cls, targets: list[str]) -> list[str]:
        for target in targets:
            parts = urlsplit(target)
            if parts.scheme not in {"http", "https"} or not parts.hostname:
                raise ValueError(f"{target[:200]!r} is no address, expected e.g. http://gpu-01:9400/metrics")
        return targets
