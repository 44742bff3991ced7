"""The options of `trainfare collect slurm`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import date, datetime
from functools import cached_property
from pathlib import Path
from typing import Final, Self

from pydantic import Field, field_validator

from streams.collect.options import PriceFields, SinceOptions
from streams.collect.slurm.tres import node_names

_GRES_NAME: Final = re.compile(r"[A-Za-z0-9_.-]{1,64}")


class Options(SinceOptions):
    """The table `[slurm]`."""

    squeue_command: list[str] = Field(
        default=["squeue"],
        min_length=1,
        description="The command squeue, and what runs it, e.g. ssh and a host.",
    )
    sacct_command: list[str] = Field(
        default=["sacct"], min_length=1, description="The command sacct, likewise."
    )
    use_sacct: bool = Field(
        default=True, description="Whether sacct is asked; false where there is no slurmdbd."
    )
    nodes_command: list[str] = Field(
        default=[], description="The command that lists nodes as JSON; none: nodes are no events."
    )
    since: datetime | date | None = Field(
        default=None, description="What ran before is not counted; default: the UTC day of the first poll."
    )
    job_id_prefix: str = Field(
        default="", max_length=64, description="Before each job's id, where several clusters have equal ones."
    )
    raw_job_ids: bool = Field(
        default=False, description="Whether a task of an array has Slurm's own number as its id."
    )
    include_cpu_only: bool = Field(default=False, description="Whether jobs without GPUs are events too.")
    suspended_hold_gpus: bool = Field(
        default=True, description="Whether suspended jobs keep their GPUs, as Slurm has it."
    )
    shards_per_gpu: int = Field(default=1, ge=1, le=1000, description="Shards (gres/shard) of one GPU.")
    mps_per_gpu: int = Field(default=100, ge=1, le=1000, description="MPS shares (gres/mps) of one GPU.")
    gres_gpus: dict[str, float] = Field(
        default={}, description="Other generic resources, e.g. npu -> the GPUs that one is."
    )
    gpu_types: dict[str, str] = Field(default={}, description="Slurm's type of a GPU -> the price list's.")
    teams: dict[str, str] = Field(default={}, description="Account -> team, where they differ.")
    price_fields: PriceFields = Field(default={}, description="Price fields of all jobs, e.g. region.")
    partition_price_fields: dict[str, PriceFields] = Field(
        default={}, description="Partition -> price fields of its jobs, e.g. purchase; of its nodes, too."
    )
    node_price_fields: dict[str, PriceFields] = Field(
        default={}, description='Nodes, e.g. "gpu[1-8],login", -> their own price fields.'
    )
    feature_price_fields: dict[str, PriceFields] = Field(
        default={}, description="Feature of a node -> price fields of nodes that have it, e.g. purchase."
    )
    default_partition: str = Field(
        default="",
        description="Whose price fields a node has whose partitions differ; default: Slurm's default.",
    )
    partitions_command: list[str] = Field(
        default=["scontrol", "show", "partition", "--oneliner"],
        min_length=1,
        description="The command that says which partition is the default, where partitions of a node differ.",
    )
    allocations_output_file: Path | None = Field(
        default=None, description="File that says which job holds which GPUs, for the collector dcgm."
    )
    timeout_s: float = Field(default=60.0, gt=0, le=600, description="How long a command may take.")
    max_output_mib: int = Field(default=256, ge=1, le=4096, description="How much a command may answer, MiB.")
    source: str = Field(default="slurm", min_length=1, max_length=256, description="The events' `source`.")

    @property
    def has_shards(self) -> bool:
        """Whether it is said how many shards a GPU has."""
        return "shards_per_gpu" in self.model_fields_set

    @field_validator("gres_gpus")
    @classmethod
    def _are_others(cls, gres_gpus: dict[str, float]) -> dict[str, float]:
        for name, gpus in gres_gpus.items():
            if name in ("gpu", "shard", "mps") or not _GRES_NAME.fullmatch(name):
                raise ValueError(f"{name[:80]!r} is no generic resource of another name, such as npu")
            if not 0.001 <= gpus <= 1000:
                raise ValueError(f"{name[:80]!r} = {gpus:g}, expected GPUs from 0.001 to 1000")
        return gres_gpus

    @field_validator("node_price_fields")
    @classmethod
    def _named(cls, of_nodes: dict[str, PriceFields]) -> dict[str, PriceFields]:
        for names in of_nodes:
            node_names(names)
        return of_nodes

    @cached_property
    def fields_by_node(self) -> Mapping[str, PriceFields]:
        """`node_price_fields` by the name of each node; of two that name one the later holds."""
        return {
            name: fields for names, fields in self.node_price_fields.items() for name in node_names(names)
        }

    def without_files(self) -> Self:
        """The same options for a poll that must store nothing."""
        return self.model_copy(update={"allocations_output_file": None})
