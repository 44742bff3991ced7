"""The options of `trainfare collect nvidia-smi`."""

from __future__ import annotations

from pydantic import Field

from streams.collect.gpu_samples import SampleOptions


class Options(SampleOptions):
    """The table `[nvidia-smi]`."""

    command: list[str] = Field(
        default=["nvidia-smi"],
        min_length=1,
        description="The command nvidia-smi, and what runs it, e.g. ssh and a host.",
    )
    node: str = Field(
        default="",
        max_length=256,
        description="The node's name, as the allocations have it; default: this host's.",
    )
    slurm_processes: bool = Field(
        default=False,
        description="Whether a GPU that no allocation names is of the Slurm job whose processes compute on it.",
    )
    timeout_s: float = Field(default=10.0, gt=0, le=60, description="How long nvidia-smi may take.")
    source: str = Field(
        default="nvidia-smi", min_length=1, max_length=256, description="The events' `source`."
    )
