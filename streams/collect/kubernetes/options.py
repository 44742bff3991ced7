"""The options of `trainfare collect kubernetes`."""

from __future__ import annotations

import ipaddress
from datetime import date, datetime
from pathlib import Path
from typing import Self
from urllib.parse import urlsplit

from pydantic import Field, field_validator, model_validator

from streams.collect.options import PriceFields, SinceOptions


class Options(SinceOptions):
    """The table `[kubernetes]`."""

    interval_s: float = Field(default=5.0, ge=1, le=300, description="Seconds that a watch lasts.")
    url: str = Field(default="", description="The API server; none: that of the cluster it runs in.")
    token_file: Path | None = Field(default=None, description="File with a bearer token, read each time.")
    ca_file: Path | None = Field(default=None, description="Certificates that the API server must have.")
    client_cert_file: Path | None = Field(default=None, description="Certificate to log in with.")
    client_key_file: Path | None = Field(default=None, description="Key of that certificate.")
    namespace: str = Field(
        default="", max_length=63, description="Only pods of this namespace; none: of all."
    )
    label_selector: str = Field(default="", max_length=1024, description="Only pods with these labels.")
    include_nodes: bool = Field(
        default=True, description="Whether nodes are read: types, zones, what nobody holds."
    )
    include_owners: bool = Field(
        default=True, description="Whether what made the pods is read: how many GPUs a job asks for."
    )
    since: datetime | date | None = Field(
        default=None, description="What ran before is not counted; default: the UTC day of the first poll."
    )
    cluster: str = Field(default="", max_length=256, description="The cluster's name, a price field.")
    job_id_prefix: str = Field(
        default="", max_length=64, description="Before each job's id, where several clusters have equal ones."
    )
    job_id_label: str = Field(
        default="", max_length=317, description="Label of pods with the job's id; none: by the pods' owners."
    )
    include_cpu_only: bool = Field(default=False, description="Whether jobs without GPUs are events too.")
    owner_labels: list[str] = Field(default=["trainfare.io/owner"], description="Labels with the owner.")
    team_labels: list[str] = Field(default=["trainfare.io/team"], description="Labels with the team.")
    project_labels: list[str] = Field(
        default=["trainfare.io/project", "kueue.x-k8s.io/queue-name", "volcano.sh/queue-name"],
        description="Labels with the project; the first that a pod has counts.",
    )
    experiment_labels: list[str] = Field(
        default=["trainfare.io/experiment"], description="Labels with the experiment; none: the job's name."
    )
    teams: dict[str, str] = Field(default={}, description="Namespace -> team, where they differ.")
    gpu_types: dict[str, str] = Field(default={}, description="A node's type of GPU -> the price list's.")
    resources: dict[str, float] = Field(
        default={}, description="More resources of pods -> the GPUs that one unit is."
    )
    price_fields: PriceFields = Field(default={}, description="Price fields of all jobs and nodes.")
    allocations_output_file: Path | None = Field(
        default=None, description="File that says which job a pod is of, for the collector dcgm."
    )
    timeout_s: float = Field(default=30.0, gt=0, le=600, description="How long the server may be silent.")
    max_object_kib: int = Field(
        default=4096, ge=16, le=65_536, description="Size of an object that is read, KiB."
    )
    source: str = Field(default="kubernetes", min_length=1, max_length=256, description="Events' `source`.")

    @field_validator("url")
    @classmethod
    def _is_address(cls, url: str) -> str:
        parts = urlsplit(url)
        if url and (parts.scheme not in {"http", "https"} or not parts.hostname or parts.username):
            raise ValueError("no address of an API server, expected e.g. https://10.0.0.1:6443")
        return url.rstrip("/")

    @field_validator("resources")
    @classmethod
    def _are_shares(cls, resources: dict[str, float]) -> dict[str, float]:
        for name, gpus in resources.items():
            if not 0.001 <= gpus <= 1000:
                raise ValueError(f"{name[:80]!r} = {gpus:g}, expected GPUs from 0.001 to 1000")
        return resources

    @model_validator(mode="after")
    def _keeps_secrets_on_the_wire(self) -> Self:
        if (self.client_cert_file is None) != (self.client_key_file is None):
            raise ValueError("client_cert_file and client_key_file go together")
        if urlsplit(self.url).scheme == "http":
            if self.token_file or self.client_cert_file or self.ca_file:
                raise ValueError("a token or certificate needs https")
            if not _is_local(urlsplit(self.url).hostname or ""):
                raise ValueError("http is only for this machine (kubectl proxy); use https")
        return self

    def without_files(self) -> Self:
        """The same options for a poll that must store nothing."""
        return self.model_copy(update={"allocations_output_file": None})


def _is_local(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
