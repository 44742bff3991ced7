"""What the launcher's environment says of this process: its job, its rank, the price fields of its job."""

from __future__ import annotations

import os
import socket
import sys
import time
from collections.abc import Mapping
from typing import Any

#: Variables with the job's id, the first one that is set counts. `trainfare collect slurm` calls jobs as `sacct` does.
_JOB_IDS = (
    "TRAINFARE_JOB_ID",
    "SLURM_JOB_ID",
    "AWS_BATCH_JOB_ID",
    "TRAINING_JOB_NAME",
    "LSB_JOBID",
    "PBS_JOBID",
)
#: Variables with the rank of this process among all of its job.
_RANKS = ("RANK", "SLURM_PROCID", "OMPI_COMM_WORLD_RANK", "PMI_RANK")
#: Where there is no such one (Lightning starts its processes so), both of these must be 0.
_RANK_PARTS = ("NODE_RANK", "LOCAL_RANK")
_LOCAL_RANKS = ("LOCAL_RANK", "SLURM_LOCALID", "OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID")
#: Fields of `started` and where they are found if the script does not say them.
_FIELDS = {
    "owner": ("TRAINFARE_OWNER", "SLURM_JOB_USER", "USER"),
    "team": ("TRAINFARE_TEAM", "SLURM_JOB_ACCOUNT"),
    "project": ("TRAINFARE_PROJECT",),
    "experiment": ("TRAINFARE_EXPERIMENT",),
    "run_id": ("TRAINFARE_RUN_ID", "WANDB_RUN_ID", "MLFLOW_RUN_ID"),
    "work_dir": ("SLURM_SUBMIT_DIR",),
    "cluster": ("TRAINFARE_CLUSTER", "SLURM_CLUSTER_NAME"),
    "cloud": ("TRAINFARE_CLOUD",),
    "region": ("TRAINFARE_REGION", "AWS_REGION"),
    "instance_type": ("TRAINFARE_INSTANCE_TYPE",),
    "gpu_type": ("TRAINFARE_GPU_TYPE",),
    "purchase": ("TRAINFARE_PURCHASE",),
}
_LOCAL_SIZES = ("LOCAL_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE", "SLURM_NTASKS_PER_NODE")
#: Set where Slurm gives each task GPUs of its own.
_BOUND = ("SLURM_GPUS_PER_TASK", "SLURM_GPU_BIND", "SLURM_TRES_PER_TASK")
_OFF = ("0", "false", "no", "off")


def job_id_of(environ: Mapping[str, str]) -> str:
    """The job's id; of a task of a Slurm array as `sacct` writes it; made up where no launcher has one."""
    array, task = environ.get("SLURM_ARRAY_JOB_ID"), environ.get("SLURM_ARRAY_TASK_ID")
    if array and task and not environ.get("TRAINFARE_JOB_ID"):
        return f"{array}_{task}"
    return _first(environ, _JOB_IDS) or f"{node_of(environ)[:100]}-{os.getpid()}-{int(time.time())}"


def node_of(environ: Mapping[str, str]) -> str:
    """The name of this machine."""
    return _first(environ, ("TRAINFARE_NODE", "NODE_NAME", "SLURMD_NODENAME")) or socket.gethostname()


def is_main_process(environ: Mapping[str, str], modules: Mapping[str, Any] = sys.modules) -> bool:
    """Whether this process reports for its job: of many one does. `modules`: those that are loaded."""
    group = modules.get("torch.distributed")
    try:
        if group is not None and group.is_available() and group.is_initialized():
            return int(group.get_rank()) == 0
    except Exception:  # something else of that name
        group = None
    rank = _first(environ, _RANKS)
    return rank == "0" if rank else all(environ.get(name, "") in ("", "0") for name in _RANK_PARTS)


def local_rank_of(environ: Mapping[str, str]) -> int:
    """The rank among the processes of this machine; 0 where nothing is known."""
    return number_of(_first(environ, _LOCAL_RANKS)) or 0


def is_sampled_by_another(environ: Mapping[str, str]) -> bool:
    """Whether the first process of this machine sees the GPUs of this one too, and so samples them."""
    visible = environ.get("CUDA_VISIBLE_DEVICES")
    if not local_rank_of(environ) or _first(environ, _BOUND):
        return False
    if visible is None:
        return environ.get("NVIDIA_VISIBLE_DEVICES", "void") not in ("", "void", "none")
    return len(visible.split(",")) >= (number_of(_first(environ, _LOCAL_SIZES)) or 2)


def fields_of(environ: Mapping[str, str]) -> dict[str, Any]:
    """Fields of `started` that the environment knows."""
    found: dict[str, Any] = {
        name: value for name, names in _FIELDS.items() if (value := _first(environ, names))
    }
    if "work_dir" in found:  # a path may be longer than what an event may hold
        found["work_dir"] = found["work_dir"].encode("utf-8", "replace")[:256].decode("utf-8", "ignore")
    gpus = gpus_of(environ)
    if requested := requested_of(environ):
        found["gpus_requested"] = requested
    return {**found, "gpu_count": gpus} if gpus is not None else found


def gpus_of(environ: Mapping[str, str]) -> int | None:
    """How many GPUs the job holds: as Slurm says, or as this machine shows where the job has no other."""
    total = number_of(environ.get("SLURM_GPUS"))
    if total is not None:
        return total
    on_node, nodes = (
        number_of(environ.get("SLURM_GPUS_ON_NODE")),
        number_of(environ.get("SLURM_JOB_NUM_NODES")),
    )
    if on_node is not None:
        return on_node * (nodes or 1)
    world, local = number_of(environ.get("WORLD_SIZE")), number_of(environ.get("LOCAL_WORLD_SIZE"))
    visible = environ.get("CUDA_VISIBLE_DEVICES")
    if visible is None or (world or 1) > (local or 1):
        return None
    return len([each for each in visible.split(",") if each.strip() not in ("", "-1")])


def requested_of(environ: Mapping[str, str]) -> int | None:
    """How many GPUs all processes of the job will hold: one each, unless this machine shows otherwise."""
    if _first(environ, ("SLURM_GPUS", "SLURM_GPUS_ON_NODE")):
        return gpus_of(environ)
    visible, local = environ.get("CUDA_VISIBLE_DEVICES"), number_of(environ.get("LOCAL_WORLD_SIZE"))
    shown = (
        None
        if visible is None
        else len([each for each in visible.split(",") if each.strip() not in ("", "-1")])
    )
    return number_of(environ.get("WORLD_SIZE")) if shown in (None, 1, local) else None


def is_off(environ: Mapping[str, str], name: str) -> bool:
    """Whether a variable says no."""
    return environ.get(name, "").strip().lower() in _OFF


def number_of(text: str | None) -> int | None:
    """What a variable says, None unless it is a number from 0."""
    try:
        number = int(text or "")
    except ValueError:
        return None
    return number if number >= 0 else None


def _first(environ: Mapping[str, str], names: tuple[str, ...]) -> str:
    return next((value for name in names if (value := environ.get(name, "").strip())), "")
