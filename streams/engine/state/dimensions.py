"""The attributes of a job that alerts use: its owner, and what silences and planned rates match on."""

from __future__ import annotations

from typing import Final, NamedTuple


class AlertDimensions(NamedTuple):
    """The latest values of a job; '' where a value is unknown."""

    job_id: str
    owner: str = ""
    team: str = ""
    project: str = ""
    experiment: str = ""
    cluster: str = ""
    region: str = ""
    zone: str = ""
    cloud: str = ""
    account: str = ""
    instance_type: str = ""
    gpu_type: str = ""
    purchase: str = ""
    gpu_milli: int = 0  # GPUs held now, in thousandths, for the summary
    run_id: str = ""  # the run that its alerts may be one cause of


MATCHED: Final = AlertDimensions._fields[:-2]
"""What a control can ask a job for."""
