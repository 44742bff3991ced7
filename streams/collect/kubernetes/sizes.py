"""How large a job is to become, by the object that its pods belong to: which devices all of its pods together ask for.

Only a size that is fixed is one: of what grows and shrinks by itself nothing is said. Pure functions.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from typing import Final, NamedTuple

import msgspec

from streams.collect.kubernetes.objects import ObjectMeta, PodSpec
from streams.collect.kubernetes.requests import requests_of

_PODS_AT_MOST: Final = 100_000
#: Whole devices by resource, as `PodRequests` has them.
Devices = Mapping[str, int]


class _Camel(msgspec.Struct, rename="camel"):
    """As Kubernetes writes fields."""


class PodTemplate(_Camel):
    """What pods are made from."""

    spec: PodSpec = msgspec.field(default_factory=PodSpec)


class PodCount(NamedTuple):
    """So many pods of one template."""

    pods: int
    template: PodTemplate


class BatchJobSpec(_Camel):
    """Of a Job, and of the Jobs of a JobSet."""

    template: PodTemplate = msgspec.field(default_factory=PodTemplate)
    parallelism: int | None = None
    completions: int | None = None

    def pods(self, times: int = 1) -> Iterator[PodCount]:
        """How many run side by side."""
        at_once = 1 if self.parallelism is None else self.parallelism
        yield PodCount(
            times * min(at_once, at_once if self.completions is None else self.completions), self.template
        )


class JobTemplate(_Camel):
    """What the Jobs of a JobSet are made from."""

    spec: BatchJobSpec = msgspec.field(default_factory=BatchJobSpec)


class ReplicatedJob(_Camel):
    """Some equal Jobs of a JobSet."""

    replicas: int = 1
    template: JobTemplate = msgspec.field(default_factory=JobTemplate)


class JobSetSpec(_Camel):
    """Of a JobSet."""

    replicated_jobs: list[ReplicatedJob] = []

    def pods(self) -> Iterator[PodCount]:
        """Those of all its Jobs."""
        for each in self.replicated_jobs:
            yield from each.template.spec.pods(each.replicas)


class Replicas(_Camel):
    """Some equal pods of a job of Kubeflow, or of a task of Volcano."""

    replicas: int = 1
    template: PodTemplate = msgspec.field(default_factory=PodTemplate)


class ElasticPolicy(_Camel):
    """Between which numbers of workers a PyTorchJob may be."""

    min_replicas: int | None = None
    max_replicas: int | None = None


class KubeflowSpec(_Camel):
    """Of a PyTorchJob, TFJob, MPIJob and others of Kubeflow, each with a field of its own."""

    pytorch_replica_specs: dict[str, Replicas] = {}
    tf_replica_specs: dict[str, Replicas] = {}
    mpi_replica_specs: dict[str, Replicas] = {}
    jax_replica_specs: dict[str, Replicas] = {}
    xgb_replica_specs: dict[str, Replicas] = {}
    paddle_replica_specs: dict[str, Replicas] = {}
    elastic_policy: ElasticPolicy | None = None

    def pods(self) -> Iterator[PodCount]:
        """Those of all roles; none where it may grow and shrink."""
        elastic = self.elastic_policy
        if elastic is not None and elastic.min_replicas != elastic.max_replicas:
            return
        for specs in (
            self.pytorch_replica_specs,
            self.tf_replica_specs,
            self.mpi_replica_specs,
            self.jax_replica_specs,
            self.xgb_replica_specs,
            self.paddle_replica_specs,
        ):
            yield from (PodCount(each.replicas, each.template) for each in specs.values())


class VolcanoSpec(_Camel):
    """Of a job of Volcano."""

    tasks: list[Replicas] = []

    def pods(self) -> Iterator[PodCount]:
        """Those of all tasks: `minAvailable` may start with fewer, the others are of its start, too."""
        yield from (PodCount(each.replicas, each.template) for each in self.tasks)


class RayPodGroup(_Camel):
    """The head, or workers of one kind, of a Ray cluster."""

    template: PodTemplate = msgspec.field(default_factory=PodTemplate)
    replicas: int | None = None
    min_replicas: int | None = None
    num_of_hosts: int = 1
    suspend: bool = False


class RayClusterSpec(_Camel):
    """Of a RayCluster."""

    head_group_spec: RayPodGroup = msgspec.field(default_factory=RayPodGroup)
    worker_group_specs: list[RayPodGroup] = []
    enable_in_tree_autoscaling: bool = False

    def pods(self) -> Iterator[PodCount]:
        """The head and all workers; none where an autoscaler says how many."""
        if self.enable_in_tree_autoscaling:
            return
        yield PodCount(1, self.head_group_spec.template)
        for each in self.worker_group_specs:
            replicas = each.replicas if each.replicas is not None else each.min_replicas or 0
            yield PodCount(0 if each.suspend else replicas * each.num_of_hosts, each.template)


class RayJobSpec(_Camel):
    """Of a RayJob; none where it runs in a cluster that is there."""

    ray_cluster_spec: RayClusterSpec = msgspec.field(default_factory=RayClusterSpec)

    def pods(self) -> Iterator[PodCount]:
        """Those of its cluster."""
        yield from self.ray_cluster_spec.pods()


class LeaderWorkerTemplate(_Camel):
    """A leader and its workers."""

    worker_template: PodTemplate = msgspec.field(default_factory=PodTemplate)
    leader_template: PodTemplate | None = None
    size: int = 1


class LeaderWorkerSetSpec(_Camel):
    """Of a LeaderWorkerSet."""

    leader_worker_template: LeaderWorkerTemplate = msgspec.field(default_factory=LeaderWorkerTemplate)
    replicas: int = 1

    def pods(self) -> Iterator[PodCount]:
        """Those of all groups."""
        group = self.leader_worker_template
        yield PodCount(self.replicas, group.leader_template or group.worker_template)
        yield PodCount(self.replicas * (group.size - 1), group.worker_template)


class PodSet(_Camel):
    """Equal pods of a Workload."""

    name: str = ""
    count: int = 1
    template: PodTemplate = msgspec.field(default_factory=PodTemplate)


class WorkloadSpec(_Camel):
    """Of Kueue's Workload, which stands for a group of pods."""

    pod_sets: list[PodSet] = []

    def pods(self) -> Iterator[PodCount]:
        """Those of the group."""
        yield from (PodCount(each.count, each.template) for each in self.pod_sets)


Spec = (
    BatchJobSpec
    | JobSetSpec
    | KubeflowSpec
    | VolcanoSpec
    | RayClusterSpec
    | RayJobSpec
    | LeaderWorkerSetSpec
    | WorkloadSpec
)


class OwnerKind(NamedTuple):
    """Where objects of a kind are, and how they say their size."""

    group: str
    versions: tuple[str, ...]
    plural: str
    spec: type[Spec]


def _kubeflow(plural: str, *versions: str) -> OwnerKind:
    return OwnerKind("kubeflow.org", versions or ("v1",), plural, KubeflowSpec)


#: Kind of a job's identity -> the objects that it stands for.
OWNER_KINDS: Final[Mapping[str, OwnerKind]] = {
    "Job": OwnerKind("batch", ("v1",), "jobs", BatchJobSpec),
    "JobSet": OwnerKind("jobset.x-k8s.io", ("v1alpha2",), "jobsets", JobSetSpec),
    "PyTorchJob": _kubeflow("pytorchjobs"),
    "TFJob": _kubeflow("tfjobs"),
    "JAXJob": _kubeflow("jaxjobs"),
    "XGBoostJob": _kubeflow("xgboostjobs"),
    "PaddleJob": _kubeflow("paddlejobs"),
    "MPIJob": _kubeflow("mpijobs", "v2beta1", "v1"),
    "Volcano": OwnerKind("batch.volcano.sh", ("v1alpha1",), "jobs", VolcanoSpec),
    "RayCluster": OwnerKind("ray.io", ("v1",), "rayclusters", RayClusterSpec),
    "RayJob": OwnerKind("ray.io", ("v1",), "rayjobs", RayJobSpec),
    "LeaderWorkerSet": OwnerKind(
        "leaderworkerset.x-k8s.io", ("v1",), "leaderworkersets", LeaderWorkerSetSpec
    ),
    "PodGroup": OwnerKind("kueue.x-k8s.io", ("v1beta2", "v1beta1"), "workloads", WorkloadSpec),
}


class _Owner(msgspec.Struct):
    metadata: ObjectMeta
    spec: msgspec.Raw


def size_of(body: bytes, kind: OwnerKind, uid: str, is_device: Callable[[str], bool]) -> Devices:
    """The devices that all pods of an owner ask for; empty where it does not say so, or is another one than `uid` ("": any).

    Raises:
        ValueError: It is no object of its kind.
    """
    owner = msgspec.json.decode(body, type=_Owner)
    if uid and owner.metadata.uid != uid:
        return {}
    spec = msgspec.json.decode(owner.spec, type=kind.spec)
    found: Counter[str] = Counter()
    all_pods = 0
    for pods, template in spec.pods():
        all_pods += pods
        if pods < 0 or all_pods > _PODS_AT_MOST or template.spec.resource_claims:
            return {}  # which devices claims will be is not known yet
        for name, devices in requests_of(template.spec, is_device).devices.items():
            found[name] += pods * devices
    return dict(found)
