"""The options that the collectors of flow logs have in common."""

from __future__ import annotations

from ipaddress import ip_network
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator

from streams.collect.files.options import FileOptions

Way = Literal["same_zone", "cross_zone", "cross_region", "internet", "unclassified"]


class Network(BaseModel):
    """Where addresses are."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    cidr: str = Field(description="Addresses, e.g. 10.0.16.0/20.")
    region: str = Field(default="", max_length=256, description="Their region.")
    zone: str = Field(
        default="", max_length=256, description="Their zone, called as in the log (AWS: its id)."
    )
    path: Way | None = Field(default=None, description="The way to them, whatever else is known.")

    @field_validator("cidr")
    @classmethod
    def _is_network(cls, text: str) -> str:
        try:
            return str(ip_network(text))
        except ValueError:
            raise ValueError(f"{text[:80]!r} is no network, expected e.g. 10.0.16.0/20") from None


class FlowLogOptions(FileOptions):
    """Files of flow logs, and what is known of nodes and networks."""

    allocations_file: Path | None = Field(
        default=None, description="File of allocations: which job held which node, and when."
    )
    node_aliases: dict[str, str] = Field(
        default={},
        description="Address, interface, instance or MAC address -> node, as the allocations name it.",
    )
    networks: list[Network] = Field(
        default=[], max_length=10_000, description="Networks of your own, with region and zone."
    )
    region: str = Field(
        default="", max_length=256, description="Region of the nodes, where nothing names it."
    )
