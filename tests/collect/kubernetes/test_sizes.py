"""How many GPUs a job asks for in all, by the object that its pods belong to: in the shapes in which API servers have such objects."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.collect.kubernetes.cluster import Cluster
from tests.collect.kubernetes.objects import node, owner, pod

JOBS = "/apis/batch/v1/namespaces/research/jobs/train"
TRAIN: dict[str, Any] = {"owners": owner("Job", "train")}


def template(gpus: int = 8, resource: str = "nvidia.com/gpu", **more: Any) -> dict[str, Any]:
    """Pods of two containers, as controllers keep them."""
    asked = {"limits": {"cpu": "64", resource: str(gpus)}, "requests": {"cpu": "64", resource: str(gpus)}}
    main = {
        "name": "main",
        "image": "registry.example/train:1",
        "command": ["torchrun"],
        "env": [{"name": "KEY", "value": "secret"}],
        "resources": asked if gpus else {},
        "terminationMessagePath": "/dev/termination-log",
    }
    sidecar = {"name": "logs", "image": "registry.example/logs:1", "resources": {"limits": {"cpu": "1"}}}
    spec = {
        "restartPolicy": "Never",
        "schedulerName": "default-scheduler",
        "containers": [main, sidecar],
        **more,
    }
    return {"metadata": {"creationTimestamp": None, "labels": {"app": "train"}}, "spec": spec}


def made(kind: str, api_version: str, spec: dict[str, Any], uid: str = "uid-train") -> dict[str, Any]:
    meta = {"name": "train", "namespace": "research", "uid": uid, "resourceVersion": "7", "generation": 1}
    meta["managedFields"] = [{"manager": "kubectl", "operation": "Update", "fieldsV1": {"f:spec": {}}}]
    return {"apiVersion": api_version, "kind": kind, "metadata": meta, "spec": spec, "status": {"active": 1}}


def job(gpus: int = 8, **spec: Any) -> dict[str, Any]:
    about = {"backoffLimit": 0, "completionMode": "Indexed", "suspend": False, "template": template(gpus)}
    return made("Job", "batch/v1", {**about, **spec})


def roles(**replicas: tuple[int, int]) -> dict[str, Any]:
    return {
        role: {"replicas": count, "restartPolicy": "OnFailure", "template": template(gpus)}
        for role, (count, gpus) in replicas.items()
    }


def ray_cluster(**more: Any) -> dict[str, Any]:
    workers = [
        {
            "groupName": "h100",
            "replicas": 2,
            "minReplicas": 2,
            "maxReplicas": 2,
            "numOfHosts": 2,
            "template": template(),
        },
        {
            "groupName": "off",
            "replicas": 9,
            "minReplicas": 0,
            "maxReplicas": 9,
            "suspend": True,
            "template": template(),
        },
        {
            "groupName": "least",
            "minReplicas": 1,
            "maxReplicas": 1,
            "rayStartParams": {},
            "template": template(4),
        },
    ]
    head = {"serviceType": "ClusterIP", "rayStartParams": {"num-gpus": "0"}, "template": template(0)}
    return {"rayVersion": "2.46.0", "headGroupSpec": head, "workerGroupSpecs": workers, **more}


def cluster_of(bodies: dict[str, Any], **options: Any) -> Cluster:
    cluster = Cluster(**options)
    cluster.put("nodes", node("n1"), node("n2"))
    for path, body in bodies.items():
        cluster.server.bodies[path] = json.dumps(body).encode()
    cluster.poll(1)
    return cluster


def requested(cluster: Cluster, *pods: dict[str, Any]) -> list[int | None]:
    """What the events of these pods say, of those that say what is held."""
    cluster.put("pods", *pods)
    return [
        each.get("gpus_requested") for each in cluster.poll(20) if "gpu_count" in each and "job_id" in each
    ]


JOBSET = {"jobset.sigs.k8s.io/jobset-name": "train", "jobset.sigs.k8s.io/jobset-uid": "uid-train"}
KUBEFLOW = {"training.kubeflow.org/job-name": "train", "training.kubeflow.org/replica-type": "worker"}
RAY_JOB = {
    "ray.io/originated-from-cr-name": "train",
    "ray.io/originated-from-crd": "RayJob",
    "ray.io/cluster": "train-x",
}
LEADERS = {"leaderworkerset.sigs.k8s.io/name": "train"}


def of_kubeflow(kind: str, field: str, specs: dict[str, Any], **more: Any) -> dict[str, Any]:
    return made(kind, "kubeflow.org/v1", {"runPolicy": {"cleanPodPolicy": "None"}, field: specs, **more})


CASES: dict[str, tuple[dict[str, Any], str, dict[str, Any], int]] = {
    "Job": (TRAIN, JOBS, job(parallelism=4, completions=4), 32),
    "Job without parallelism": (TRAIN, JOBS, job(), 8),
    "Job of fewer completions": (TRAIN, JOBS, job(parallelism=4, completions=2), 16),
    "JobSet": (
        {"labels": JOBSET, "owners": owner("Job", "train-workers-0")},
        "/apis/jobset.x-k8s.io/v1alpha2/namespaces/research/jobsets/train",
        made(
            "JobSet",
            "jobset.x-k8s.io/v1alpha2",
            {
                "failurePolicy": {"maxRestarts": 3},
                "replicatedJobs": [
                    {"name": "driver", "replicas": 1, "template": {"spec": job(gpus=0)["spec"]}},
                    {
                        "name": "workers",
                        "replicas": 2,
                        "template": {"spec": job(parallelism=3, completions=3)["spec"]},
                    },
                ],
            },
        ),
        48,
    ),
    "PyTorchJob": (
        {"labels": KUBEFLOW, "owners": owner("PyTorchJob", "train", api_version="kubeflow.org/v1")},
        "/apis/kubeflow.org/v1/namespaces/research/pytorchjobs/train",
        of_kubeflow(
            "PyTorchJob", "pytorchReplicaSpecs", roles(Master=(1, 8), Worker=(3, 8)), nprocPerNode="8"
        ),
        32,
    ),
    "TFJob": (
        {"labels": KUBEFLOW, "owners": owner("TFJob", "train", api_version="kubeflow.org/v1")},
        "/apis/kubeflow.org/v1/namespaces/research/tfjobs/train",
        of_kubeflow("TFJob", "tfReplicaSpecs", roles(PS=(2, 0), Worker=(3, 8))),
        24,
    ),
    "MPIJob of the second version": (
        {"labels": {"training.kubeflow.org/job-name": "train", "training.kubeflow.org/job-role": "worker"}},
        "/apis/kubeflow.org/v2beta1/namespaces/research/mpijobs/train",
        of_kubeflow("MPIJob", "mpiReplicaSpecs", roles(Launcher=(1, 0), Worker=(2, 8)), slotsPerWorker=8),
        16,
    ),
    "MPIJob of the first version": (
        {"labels": {"training.kubeflow.org/job-name": "train", "training.kubeflow.org/job-role": "worker"}},
        "/apis/kubeflow.org/v1/namespaces/research/mpijobs/train",
        of_kubeflow("MPIJob", "mpiReplicaSpecs", roles(Launcher=(1, 0), Worker=(2, 8))),
        16,
    ),
    "Volcano": (
        {
            "labels": {"volcano.sh/job-name": "train"},
            "owners": owner("Job", "train", api_version="batch.volcano.sh/v1alpha1"),
        },
        "/apis/batch.volcano.sh/v1alpha1/namespaces/research/jobs/train",
        made(
            "Job",
            "batch.volcano.sh/v1alpha1",
            {
                "minAvailable": 3,
                "queue": "default",
                "plugins": {"pytorch": ["--master=master"]},
                "tasks": [
                    {"name": "master", "replicas": 1, "policies": [], "template": template()},
                    {"name": "worker", "replicas": 3, "minAvailable": 2, "template": template()},
                ],
            },
        ),
        32,
    ),
    "RayCluster": (
        {
            "labels": {"ray.io/cluster": "train"},
            "owners": owner("RayCluster", "train", api_version="ray.io/v1"),
        },
        "/apis/ray.io/v1/namespaces/research/rayclusters/train",
        made("RayCluster", "ray.io/v1", ray_cluster()),
        36,
    ),
    "RayJob": (
        {"labels": RAY_JOB, "owners": owner("RayCluster", "train-x", api_version="ray.io/v1")},
        "/apis/ray.io/v1/namespaces/research/rayjobs/train",
        made("RayJob", "ray.io/v1", {"entrypoint": "python t.py", "rayClusterSpec": ray_cluster()}),
        36,
    ),
    "LeaderWorkerSet": (
        {"labels": LEADERS, "owners": owner("StatefulSet", "train-0", api_version="apps/v1")},
        "/apis/leaderworkerset.x-k8s.io/v1/namespaces/research/leaderworkersets/train",
        made(
            "LeaderWorkerSet",
            "leaderworkerset.x-k8s.io/v1",
            {
                "replicas": 2,
                "leaderWorkerTemplate": {
                    "size": 4,
                    "leaderTemplate": template(4),
                    "workerTemplate": template(),
                },
            },
        ),
        56,
    ),
    "Workload of Kueue": (
        {"labels": {"kueue.x-k8s.io/pod-group-name": "train"}},
        "/apis/kueue.x-k8s.io/v1beta1/namespaces/research/workloads/train",
        made(
            "Workload",
            "kueue.x-k8s.io/v1beta1",
            {
                "queueName": "big",
                "podSets": [
                    {"name": "a", "count": 1, "template": template(0)},
                    {"name": "b", "count": 3, "template": template()},
                ],
            },
        ),
        24,
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_all_pods_of_an_owner_are_what_its_job_asks_for(case: str) -> None:
    of_pod, path, body, gpus = CASES[case]
    assert requested(cluster_of({path: body}), pod("a", created=2, bound=5, **of_pod)) == [gpus]


def test_a_pod_of_its_own_asks_for_what_it_holds() -> None:
    cluster = cluster_of({})
    assert requested(cluster, pod("a", created=2, bound=5, gpus="4")) == [4]
    assert not [each for each in cluster.server.requests if "/apis/" in each]


def test_every_event_of_an_attempt_says_it_and_the_owner_is_read_once() -> None:
    cluster = cluster_of({JOBS: job(parallelism=2, completions=2)})
    assert requested(cluster, pod("a", created=2, bound=5, **TRAIN)) == [16]
    found = requested(cluster, pod("b", created=2, bound=9, on="n2", **TRAIN))
    assert found == [16]
    assert cluster.last()["gpu_count"] == 16
    assert [each for each in cluster.server.requests if "/apis/" in each] == [JOBS]
    cluster.put("pods", *(pod(each, created=2, bound=5, ended=30, exit_code=1, **TRAIN) for each in "ab"))
    cluster.poll(40)
    cluster.server.bodies[JOBS] = json.dumps(job(parallelism=3, completions=3)).encode()
    assert requested(cluster, pod("c", created=50, bound=55, **TRAIN)) == [24], (
        "the next attempt may have another size"
    )


UNKNOWN: dict[str, tuple[dict[str, Any], str, Any]] = {
    "it is gone": (TRAIN, JOBS + "-2", job()),
    "it was made anew": (TRAIN, JOBS, made("Job", "batch/v1", job()["spec"], uid="uid-other")),
    "it is no object": (TRAIN, JOBS, [1]),
    "it has no spec": (TRAIN, JOBS, {"metadata": {"uid": "uid-train"}}),
    "a number is none": (TRAIN, JOBS, job(parallelism="many")),
    "more pods than there can be": (TRAIN, JOBS, job(parallelism=10**9)),
    "a negative number": (TRAIN, JOBS, job(parallelism=-1)),
    "a quantity is none": (
        TRAIN,
        JOBS,
        job(template=template(8, "nvidia.com/gpu.shared") | {"spec": {"containers": 7}}),
    ),
    "devices of claims": (TRAIN, JOBS, job(template=template(8, resourceClaims=[{"name": "gpu"}]))),
    "other devices than the pods hold": (TRAIN, JOBS, job(template=template(8, "amd.com/gpu"))),
    "an autoscaler": (
        CASES["RayCluster"][0],
        CASES["RayCluster"][1],
        made("RayCluster", "ray.io/v1", ray_cluster(enableInTreeAutoscaling=True)),
    ),
    "a RayJob in a cluster that is there": (
        CASES["RayJob"][0],
        CASES["RayJob"][1],
        made("RayJob", "ray.io/v1", {"clusterSelector": {"ray.io/cluster": "shared"}}),
    ),
    "an elastic PyTorchJob": (
        CASES["PyTorchJob"][0],
        CASES["PyTorchJob"][1],
        of_kubeflow(
            "PyTorchJob",
            "pytorchReplicaSpecs",
            roles(Worker=(2, 8)),
            elasticPolicy={"minReplicas": 1, "maxReplicas": 4},
        ),
    ),
    "a controller of another kind": (
        {"owners": owner("StatefulSet", "train", api_version="apps/v1")},
        JOBS,
        job(),
    ),
}


@pytest.mark.parametrize("case", UNKNOWN)
def test_what_cannot_be_read_is_left_out(case: str) -> None:
    of_pod, path, body = UNKNOWN[case]
    cluster = cluster_of({path: body})
    assert requested(cluster, pod("a", created=2, bound=5, **of_pod)) == [None]
    assert cluster.batches[-1].account.reasons == {}, "its cost is known all the same"


def test_parts_of_gpus_count_as_their_node_says() -> None:
    cluster = cluster_of({JOBS: job(parallelism=8, completions=8, template=template(1))})
    shared = node("n3")
    shared["metadata"]["labels"]["nvidia.com/gpu.replicas"] = "4"
    cluster.put("nodes", shared)
    cluster.poll(40)
    assert requested(cluster, pod("a", created=2, bound=5, gpus="1", on="n3", **TRAIN)) == [2]


def test_pods_of_several_owners_under_one_label_ask_for_all_of_them() -> None:
    label: dict[str, Any] = {"labels": {"trainfare.io/job-id": "run-7"}}
    second = JOBS.replace("train", "eval")
    cluster = cluster_of(
        {
            JOBS: job(parallelism=2, completions=2),
            second: made("Job", "batch/v1", job()["spec"], uid="uid-eval"),
        },
        job_id_label="trainfare.io/job-id",
    )
    assert requested(cluster, pod("a", created=2, bound=5, **TRAIN, **label)) == [16]
    assert requested(
        cluster, pod("b", created=3, bound=6, on="n2", owners=owner("Job", "eval"), **label)
    ) == [24]


def test_a_collector_that_may_not_read_owners_goes_on_and_says_so_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    cluster = cluster_of({})
    cluster.server.denied.update((JOBS, JOBS + "-2"))
    pods = (
        pod("a", created=2, bound=5, **TRAIN),
        pod("b", created=2, bound=5, on="n2", owners=owner("Job", "train-2")),
    )
    assert requested(cluster, *pods) == [None, None]
    (said,) = [each for each in caplog.records if each.levelname == "WARNING"]
    assert said.__dict__["resource"] == "jobs.batch"
    assert "allow get" in said.__dict__["remedy"]
    assert [each for each in cluster.server.requests if "/apis/" in each] == [JOBS], (
        "what is denied is not asked for again"
    )


def test_owners_are_not_read_where_the_options_say_so(caplog: pytest.LogCaptureFixture) -> None:
    cluster = cluster_of({JOBS: job()}, include_owners=False)
    assert requested(cluster, pod("a", created=2, bound=5, **TRAIN)) == [None]
    assert not [each for each in cluster.server.requests if "/apis/" in each]
    assert not caplog.records


def test_nothing_else_of_an_owner_is_kept() -> None:
    cluster = cluster_of({JOBS: job(parallelism=2, completions=2)})
    requested(cluster, pod("a", created=2, bound=5, **TRAIN))
    assert "secret" not in str(cluster.position)
    assert "secret" not in str(cluster.log.events)
