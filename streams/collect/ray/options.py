"""The options of `trainfare collect ray`."""

from __future__ import annotations

from datetime import date, datetime
from pathlib import Path
from typing import Annotated, Final, Literal

from pydantic import Field, field_validator

from streams.collect.http_source import Address
from streams.collect.options import PriceFields, SinceOptions

DESCRIBES: Final = ("owner", "team", "project", "experiment", "run_id")


class Options(SinceOptions):
    """The table `[ray]`."""

    url: Address = Field(
        default="http://127.0.0.1:8265", description="URL of the dashboard of a cluster's head."
    )
    token_file: Path | None = Field(
        default=None, description="File with the token of a cluster with RAY_AUTH_MODE=token."
    )
    gpu_scope: Literal["job", "cluster"] = Field(
        default="job",
        description="job: the GPUs that a job holds in Ray; cluster: all of the cluster, for one that runs one job.",
    )
    include_drivers: bool = Field(
        default=True, description="Whether drivers that were not submitted as jobs are jobs too."
    )
    include_tasks: bool = Field(
        default=True, description="Whether tasks outside of placement groups are looked at, too."
    )
    include_nodes: bool = Field(default=False, description="Whether nodes are events.")
    include_cpu_only: bool = Field(
        default=False, description="Whether jobs that never hold a GPU are events."
    )
    since: datetime | date | None = Field(
        default=None, description="What ran before is not counted; default: the UTC day of the first poll."
    )
    job_id_prefix: str = Field(
        default="", max_length=64, description="Before each job's id, where several clusters have equal ones."
    )
    metadata: dict[str, str] = Field(
        default={},
        description="owner, team, project, experiment, run_id -> key of a job's metadata, where it has another name.",
    )
    dashboard_delay_s: float = Field(
        default=10.0, ge=5, le=600, description="Seconds after which Ray's dashboard shows all of an instant."
    )
    resources: dict[str, Annotated[float, Field(ge=0.001, le=1000)]] = Field(
        default={}, description="More resources of Ray -> the GPUs that one unit is, e.g. TPU, neuron_cores."
    )
    gpu_types: dict[str, str] = Field(default={}, description="Ray's accelerator_type -> the price list's.")
    price_fields: PriceFields = Field(default={}, description="Price fields of all jobs, e.g. cluster.")
    timeout_s: float = Field(default=30.0, gt=0, le=600, description="How long an answer may take.")
    max_response_mib: int = Field(default=256, ge=1, le=4096, description="How large an answer may be, MiB.")
    source: str = Field(default="ray", min_length=1, max_length=256, description="The events' `source`.")

    @field_validator("metadata")
    @classmethod
    def _describe(cls, metadata: dict[str, str]) -> dict[str, str]:
        for name in metadata:
            if name not in DESCRIBES:
                raise ValueError(f"{name[:80]!r} is none of {', '.join(DESCRIBES)}")
        return metadata
