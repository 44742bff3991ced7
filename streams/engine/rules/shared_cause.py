"""What alerts about several jobs have in common if they have one cause: a price, a silent source, a sweep, a cluster that hangs.

A cause is a text that is equal for all of them, a JSON array of its kind and of what it is about.
"""

from __future__ import annotations

import json
from typing import Final

from streams.engine.rules.similar_jobs import stem_of
from streams.engine.state.dimensions import AlertDimensions

PRICE: Final = "price"
SILENCE: Final = "silence"
SWEEP: Final = "sweep"
#: What jobs of several owners in a cluster stand still by. It is no cause of their own alerts, which may be of a sweep as well.
STANDSTILL: Final = "standstill"
STANDSTILL_RULES: Final = ("idle_gpus", "stalled")
#: The names of sources of which each job, or each node, has one: the SDK's, and the usual one of `collect nvidia-smi`.
_ONE_EACH: Final = ("sdk", "nvidia-smi")


def cause_text(kind: str, *about: str) -> str:
    """The text of a cause. Names may have any characters, lone surrogates among them: they are escaped."""
    return json.dumps([kind, *about], separators=(",", ":"))


def parts_of(cause: str) -> tuple[str, ...]:
    """The kind of a cause and what it is about, the reverse of `cause_text`."""
    return tuple(json.loads(cause))


def of_silence(source: str, job: AlertDimensions) -> str:
    """The source that jobs share which fall silent at one time: who sent the last that was heard of them, on however many pools.

    Where each job or node has a process of its own that is called as the others are, it is the pool of nodes that they share.
    """
    if source and source not in _ONE_EACH:
        return cause_text(SILENCE, source)
    pool = job.instance_type or job.gpu_type
    return cause_text(SILENCE, job.cluster, pool) if job.cluster or pool else ""


def of_standstill(rule: str, cluster: str) -> str:
    """What jobs of a cluster share that stand still at one time: its file system or network; '': not known, or another rule."""
    return cause_text(STANDSTILL, cluster) if cluster and rule in STANDSTILL_RULES else ""


def of_sweep(rule: str, job: AlertDimensions) -> str:
    """The sweep whose jobs fire one rule: an experiment of a team, or an owner's jobs of one numbered name, else of one run.

    Trials of a sweep may each be a run of their own, so a numbered name comes first.
    """
    if job.experiment:
        return cause_text(SWEEP, rule, job.team, job.experiment)
    stem = stem_of(job.job_id)
    name = stem if stem != job.job_id else job.run_id
    return cause_text(SWEEP, rule, job.team, job.owner, name) if name and job.owner else ""
