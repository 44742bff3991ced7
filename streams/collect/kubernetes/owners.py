"""Whose a pod is: the job at the top of its owners, by what the pod itself carries. Pure functions.

Controllers write the name of the top into labels of the pods, so that no other object need be read. Where a pod names its
top by uid, a job made anew under the same name is another one; where it names it by name alone, it is a later attempt.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Final, NamedTuple

from streams.collect.kubernetes.objects import ObjectMeta, OwnerReference
from streams.collect.kubernetes.options import Options

_ID_BYTES: Final = 116  # a prefix comes before it, and an event's id is longer
_INDEX: Final = "batch.kubernetes.io/job-completion-index"
_JOBSET: Final = "jobset.sigs.k8s.io/"
_KUBEFLOW: Final = "training.kubeflow.org/"
#: What puts pods into groups that start together: their pods without GPUs (launchers, heads) are of the job, too.
_GROUPED: Final = frozenset(
    {
        "JobSet",
        "RayJob",
        "RayCluster",
        "RayService",
        "Volcano",
        "MPIJob",
        "LeaderWorkerSet",
        "PodGroup",
        "Named",
    }
)

#: What is one training run by its name: made anew under the same name, it goes on with that run.
_RUNS: Final = frozenset(
    {
        "JobSet",
        "RayJob",
        "Volcano",
        "MPIJob",
        "Kubeflow",
        "PyTorchJob",
        "TFJob",
        "JAXJob",
        "XGBoostJob",
        "PaddleJob",
    }
)


class Identity(NamedTuple):
    """The job of a pod, `uid` where the pod says it.

    `slot` is the pod's place in the job ("" where pods have none), `restarts` how often its controller began anew
    (None: it does not count).
    """

    job_id: str
    kind: str
    name: str
    uid: str = ""
    slot: str = ""
    restarts: int | None = None
    is_grouped: bool = False

    @property
    def is_run(self) -> bool:
        """Whether its name names a training run."""
        return self.kind in _RUNS


class _Top(NamedTuple):
    kind: str
    name: str
    uid: str = ""
    slot: str = ""
    restarts: int | None = None


def identity_of(meta: ObjectMeta, options: Options) -> Identity:
    """The job of a pod."""
    labels, annotations = meta.labels or {}, meta.annotations or {}
    owner = controller_of(meta)
    top = _top(meta, owner, labels, annotations)
    named = labels.get(options.job_id_label, "") if options.job_id_label else ""
    named = named if len(named.encode("utf-8", "replace")) <= _ID_BYTES else ""
    job_id = options.job_id_prefix + (named or _id(meta.namespace, top))
    kind = "Named" if named else top.kind
    is_grouped = kind in _GROUPED or (owner is not None and owner.api_version.startswith("kubeflow.org/"))
    return Identity(job_id, top.kind, top.name, top.uid, top.slot, top.restarts, is_grouped)


def controller_of(meta: ObjectMeta) -> OwnerReference | None:
    """The object that made a pod; None for one that a person made."""
    owners = meta.owner_references or []
    return next((each for each in owners if each.controller), owners[0] if owners else None)


def _top(
    meta: ObjectMeta, owner: OwnerReference | None, labels: Mapping[str, str], annotations: Mapping[str, str]
) -> _Top:
    index = labels.get(_INDEX) or annotations.get(_INDEX) or ""
    if name := labels.get(_JOBSET + "jobset-name", ""):
        parts = (labels.get(_JOBSET + each, "") for each in ("replicatedjob-name", "job-index"))
        slot = "/".join((*parts, index))
        restarts = _count(labels.get(_JOBSET + "restart-attempt", ""))
        return _Top("JobSet", name, labels.get(_JOBSET + "jobset-uid", ""), slot, restarts)
    if name := labels.get("ray.io/originated-from-cr-name", ""):
        return _Top(labels.get("ray.io/originated-from-crd") or "RayJob", name)
    if name := labels.get("ray.io/cluster", ""):
        return _Top("RayCluster", name, owner.uid if owner and owner.kind == "RayCluster" else "")
    if name := labels.get("volcano.sh/job-name", ""):
        places = ("volcano.sh/task-spec", "volcano.sh/task-index")
        slot = "/".join(annotations.get(each) or labels.get(each, "") for each in places)
        restarts = _count(annotations.get("volcano.sh/job-retry-count", ""))
        return _Top("Volcano", name, owner.uid if owner else "", slot, restarts)
    if name := labels.get(_KUBEFLOW + "job-name", ""):
        return _of_kubeflow(name, owner, labels)
    if name := labels.get("leaderworkerset.sigs.k8s.io/name", ""):
        places = ("group-index", "worker-index")
        slot = "/".join(labels.get(f"leaderworkerset.sigs.k8s.io/{each}", "") for each in places)
        return _Top("LeaderWorkerSet", name, "", slot)
    if name := labels.get("kueue.x-k8s.io/pod-group-name", ""):
        return _Top("PodGroup", name)
    if owner is None:
        return _Top("Pod", meta.name, meta.uid)
    replicas_of = owner.name.removesuffix(f"-{labels.get('pod-template-hash', '')}")
    if owner.kind == "ReplicaSet" and replicas_of != owner.name:
        return _Top("Deployment", replicas_of)
    return _Top(owner.kind, owner.name, owner.uid, index)


def _of_kubeflow(name: str, owner: OwnerReference | None, labels: Mapping[str, str]) -> _Top:
    """A PyTorchJob, TFJob...: of an MPIJob the launcher has another owner than the workers."""
    slot = "/".join(labels.get(_KUBEFLOW + each, "") for each in ("replica-type", "replica-index"))
    operator = labels.get(_KUBEFLOW + "operator-name", "")
    if "mpi" in operator or labels.get(_KUBEFLOW + "job-role") in ("launcher", "worker"):
        return _Top("MPIJob", name, "", slot)
    if owner is not None and owner.name == name:
        return _Top(owner.kind, name, owner.uid, slot)
    return _Top("Kubeflow", name, "", slot)


def _id(namespace: str, top: _Top) -> str:
    """A job's id: "research/5f0c2a9b/train", with a kind in place of the uid where there is none.

    The name stands last: what acts on jobs goes by what is behind the last slash.
    """
    found = f"{namespace}/{top.uid[:8] or top.kind}/{top.name}"
    if len(found.encode("utf-8", "replace")) <= _ID_BYTES:
        return found
    return f"{hashlib.sha256(found.encode('utf-8', 'replace')).hexdigest()[:32]}/{top.name[:16]}"


def _count(value: str) -> int | None:
    return int(value) if value.isascii() and value.isdigit() and len(value) < 7 else None
