"""What becomes of pods: each way in which a pod or a job can go, and the events of it."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from streams.collect.allocations import JobHolder, read_allocations, stored_allocations
from streams.topics import Topic
from tests.collect.kubernetes.cluster import Cluster
from tests.collect.kubernetes.objects import T0_S, node, owner, pod


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    found = Cluster()
    found.put("nodes", node("n1"), node("n2"), node("spot", purchase="", karpenter__sh="x"))
    found.poll(1)
    yield found
    found.server.close()


#: A ms after all that happens here.
LATER_MS = (4_102_444_800_000, 4_102_444_800_001)
TRAIN: dict[str, Any] = {"owners": owner("Job", "train")}


def test_a_job_is_paid_from_binding_to_the_end_of_its_container(cluster: Cluster) -> None:
    cluster.put("pods", pod("a", created=10, **TRAIN))
    assert cluster.jobs(11) == [(1, "queued", 10, None)]
    cluster.put("pods", pod("a", created=10, bound=13, **TRAIN))
    cluster.put("pods", pod("a", created=10, bound=13, started=20, **TRAIN))
    cluster.put("pods", pod("a", created=10, bound=13, started=20, ended=50, **TRAIN))
    assert cluster.jobs(60) == [
        (1, "queued", 10, None),
        (1, "allocated", 13, 8),
        (1, "started", 20, None),
        (1, "completed", 50, None),
    ]


def test_an_event_says_whose_job_it_is_and_what_it_runs_on(cluster: Cluster) -> None:
    labels = {"trainfare.io/owner": "ada", "kueue.x-k8s.io/queue-name": "big"}
    cluster.put("pods", pod("a", created=10, bound=13, labels=labels, **TRAIN))
    cluster.poll(20)
    assert cluster.last() == {
        "id": "research/uid-trai/train.1.allocated.1790000013.000001",
        "source": "kubernetes",
        "time_ms": 1_790_000_013_000,
        "job_id": "research/uid-trai/train",
        "attempt": 1,
        "type": "allocated",
        "owner": "ada",
        "team": "research",
        "project": "big",
        "experiment": "train",
        "labels": {
            "namespace": "research",
            "kind": "Job",
            "name": "train",
            "uid": "uid-train",
            "queue": "big",
        },
        "gpu_type": "H100",
        "gpu_count": 8,
        "nodes": {"n1": 8},
        "instance_count": 1,
        "cpu_count": 0,
        "memory_gib": 0.0,
    }


@pytest.mark.parametrize(
    ("ends", "type_", "reason", "word"),
    [
        ({"exit_code": 137, "word": "OOMKilled"}, "failed", "out_of_memory", "OOMKilled"),
        ({"exit_code": 1}, "failed", "unknown", "Error"),
        ({"exit_code": 137, "status_reason": "DeadlineExceeded"}, "failed", "timeout", "DeadlineExceeded"),
        ({"exit_code": 137, "status_reason": "Evicted"}, "failed", "unknown", "Evicted"),
        ({"status_reason": "NodeLost"}, "failed", "node_failure", "NodeLost"),
        ({"exit_code": 143, "disruption": ("PreemptionByScheduler", 45)}, "preempted", "preemption", None),
        ({"exit_code": 143, "disruption": ("EvictionByEvictionAPI", 45)}, "preempted", "preemption", None),
        ({"exit_code": 143, "disruption": ("DeletionByTaintManager", 45)}, "preempted", "node_failure", None),
        ({"exit_code": 143, "disruption": ("DeletionByPodGC", 45)}, "preempted", "node_failure", None),
        ({"exit_code": 143, "disruption": ("Another", 45)}, "preempted", "unknown", "Another"),
        ({"exit_code": 0, "deleted": 40}, "cancelled", "unknown", "Deleted"),
        ({"exit_code": 143, "deleted": 40}, "cancelled", "unknown", "Deleted"),
        ({"exit_code": 0, "deleted": 51}, "completed", None, None),
        ({"exit_code": 2, "deleted": 51}, "failed", "unknown", "Error"),
    ],
)
def test_how_a_pod_ends_is_how_its_attempt_ends(
    cluster: Cluster, ends: dict[str, Any], type_: str, reason: str | None, word: str | None
) -> None:
    cluster.put("pods", pod("a", created=10, bound=13, started=20, **TRAIN))
    cluster.put("pods", pod("a", created=10, bound=13, started=20, ended=50, **ends, **TRAIN))
    cluster.poll(60)
    last = cluster.last()
    assert (last["type"], last["time_ms"], last.get("reason")) == (type_, 1_790_000_050_000, reason)
    assert word is None or last["labels"]["end_reason"] == word
    if type_ == "failed" and ends.get("exit_code"):
        assert last["labels"]["exit_code"] == str(ends["exit_code"])


def test_a_spot_node_that_goes_is_a_reclaim(cluster: Cluster) -> None:
    labels = {"karpenter.sh/capacity-type": "spot"}
    cluster.put("nodes", {**node("s1"), "metadata": {**node("s1")["metadata"], "labels": labels}})
    cluster.put("pods", pod("a", created=10, bound=13, started=20, on="s1", **TRAIN))
    cluster.poll(30)
    cluster.delete("nodes", node("s1"))
    taint = ("DeletionByTaintManager", 45)
    cluster.put("pods", pod("a", created=10, bound=13, on="s1", disruption=taint, deleted=45, **TRAIN))
    cluster.delete("pods", pod("a", created=10, bound=13, on="s1", disruption=taint, deleted=45, **TRAIN))
    cluster.poll(90)
    jobs = [each.value for each in cluster.log.events if each.topic == Topic.JOBS]
    assert (jobs[-1]["type"], jobs[-1]["reason"]) == ("preempted", "spot_reclaim")
    assert jobs[-1]["time_ms"] == 1_790_000_075_000  # no container says when it ended: its grace is over


def test_a_pod_after_all_have_failed_is_the_next_attempt(cluster: Cluster) -> None:
    cluster.put("pods", pod("a", created=10, bound=13, started=20, **TRAIN))
    cluster.put("pods", pod("a", created=10, bound=13, started=20, ended=50, exit_code=1, **TRAIN))
    cluster.put("pods", pod("b", created=52, bound=53, **TRAIN))
    assert cluster.jobs(60)[-3:] == [
        (1, "failed", 50, None),
        (2, "queued", 52, None),
        (2, "allocated", 53, 8),
    ]


def test_a_pod_made_while_the_former_one_still_terminates_is_the_next_attempt(cluster: Cluster) -> None:
    cluster.put("pods", pod("a", created=10, bound=13, started=20, **TRAIN))
    leaves: dict[str, Any] = {"deleted": 40, "disruption": ("PreemptionByScheduler", 40), **TRAIN}
    cluster.put("pods", pod("a", created=10, bound=13, started=20, **leaves))
    cluster.put("pods", pod("b", created=40, **TRAIN))
    cluster.put("pods", pod("a", created=10, bound=13, started=20, ended=55, exit_code=143, **leaves))
    cluster.put("pods", pod("b", created=40, bound=56, on="n2", **TRAIN))
    assert cluster.jobs(60) == [
        (1, "queued", 10, None),
        (1, "allocated", 13, 8),
        (1, "started", 20, None),
        (1, "preempted", 55, None),
        (2, "queued", 40, None),
        (2, "allocated", 56, 8),
    ]


def indexed(index: int) -> dict[str, Any]:
    return {**TRAIN, "labels": {"batch.kubernetes.io/job-completion-index": str(index)}}


def test_a_replaced_index_is_no_new_attempt_and_does_not_fail_the_job(cluster: Cluster) -> None:
    cluster.put("pods", pod("a-0", created=10, bound=12, started=15, gpus="4", **indexed(0)))
    cluster.put("pods", pod("a-1", created=10, bound=14, started=16, gpus="4", on="n2", **indexed(1)))
    failed = pod(
        "a-1", created=10, bound=14, started=16, ended=30, exit_code=1, gpus="4", on="n2", **indexed(1)
    )
    cluster.put("pods", failed)
    cluster.put("pods", pod("b-1", created=31, bound=33, started=35, gpus="4", on="n2", **indexed(1)))
    cluster.put("pods", pod("a-0", created=10, bound=12, started=15, ended=60, gpus="4", **indexed(0)))
    cluster.put(
        "pods", pod("b-1", created=31, bound=33, started=35, ended=70, gpus="4", on="n2", **indexed(1))
    )
    assert cluster.jobs(80) == [
        (1, "queued", 10, None),
        (1, "allocated", 12, 4),
        (1, "scaled", 14, 8),
        (1, "started", 15, None),
        (1, "scaled", 30, 4),
        (1, "scaled", 33, 8),
        (1, "scaled", 60, 4),
        (1, "completed", 70, None),
    ]


def test_the_first_failure_is_the_cause_of_the_others(cluster: Cluster) -> None:
    ends = [(52, 1, ""), (50, 137, "OOMKilled"), (51, 1, "")]
    each: list[dict[str, Any]] = [
        {"gpus": "2", "bound": 12, "started": 15, **indexed(index)} for index in (0, 1, 2)
    ]
    for index in (0, 1, 2):
        cluster.put("pods", pod(f"a-{index}", created=10, **each[index]))
    for index, (ended, code, word) in enumerate(ends):
        cluster.put(
            "pods", pod(f"a-{index}", created=10, ended=ended, exit_code=code, word=word, **each[index])
        )
    cluster.poll(60)
    last = cluster.last()
    assert (last["type"], last["reason"], last["time_ms"]) == ("failed", "out_of_memory", 1_790_000_052_000)


def jobset(restart: int) -> dict[str, str]:
    return {
        "jobset.sigs.k8s.io/jobset-name": "set",
        "jobset.sigs.k8s.io/jobset-uid": "0c1d2e3f-aaaa",
        "jobset.sigs.k8s.io/restart-attempt": str(restart),
    }


def test_a_jobset_counts_its_own_attempts(cluster: Cluster) -> None:
    """The collector starts after the first two, whose pods are gone."""
    cluster.put("pods", pod("w", created=90, bound=91, labels=jobset(2), owners=owner("Job", "set-w-0")))
    cluster.poll(95)
    assert (cluster.last()["job_id"], cluster.last()["attempt"]) == ("research/0c1d2e3f/set", 3)


def test_a_jobset_that_begins_anew_while_pods_of_the_former_run_is_the_next_attempt(cluster: Cluster) -> None:
    for name in ("w0", "w1"):
        cluster.put("pods", pod(name, created=10, bound=11, gpus="4", labels=jobset(0)))
    cluster.put("pods", pod("w0", created=10, bound=11, ended=30, exit_code=1, gpus="4", labels=jobset(0)))
    cluster.put("pods", pod("x0", created=31, labels=jobset(1)))
    cluster.put("pods", pod("w1", created=10, bound=11, gpus="4", deleted=31, labels=jobset(0)))
    cluster.delete("pods", pod("w1", created=10, bound=11, gpus="4", deleted=31, ended=35, labels=jobset(0)))
    assert [each for each in cluster.jobs(60) if each[1] != "scaled"] == [
        (1, "queued", 10, None),
        (1, "allocated", 11, 4),
        (1, "started", 11, None),
        (1, "failed", 35, None),
        (2, "queued", 31, None),
    ]


def test_a_counter_that_begins_again_goes_on_from_the_last_attempt(cluster: Cluster) -> None:
    labels = {name: value for name, value in jobset(1).items() if not name.endswith("uid")}
    cluster.put("pods", pod("w", created=10, bound=11, labels=labels))
    cluster.put("pods", pod("w", created=10, bound=11, ended=30, labels=labels))
    cluster.put("pods", pod("v", created=40, bound=41, labels={**labels, **restart(0)}))
    cluster.poll(50)
    assert (cluster.last()["job_id"], cluster.last()["attempt"]) == ("research/JobSet/set", 3)
    assert cluster.last()["run_id"] == "research/set"


def test_a_pod_that_names_an_attempt_that_is_over_is_paid_in_the_next_one(cluster: Cluster) -> None:
    """Whoever makes pods chooses their labels; what comes after an attempt's end would cost nothing."""
    cluster.put("pods", pod("w", created=10, bound=11, labels=jobset(0)))
    cluster.put("pods", pod("w", created=10, bound=11, ended=30, labels=jobset(0)))
    for name in ("v0", "v1"):
        cluster.put("pods", pod(name, created=40, bound=41, gpus="4", labels=jobset(0)))
    cluster.poll(50)
    assert (cluster.last()["attempt"], cluster.last()["gpu_count"]) == (2, 8)


def restart(number: int) -> dict[str, str]:
    return {"jobset.sigs.k8s.io/restart-attempt": str(number)}


RAY: dict[str, Any] = {
    "labels": {"ray.io/cluster": "ray"},
    "owners": owner("RayCluster", "ray", "77777777-b", "ray.io/v1"),
}


def test_a_head_without_gpus_keeps_the_job_open_while_workers_come_and_go(cluster: Cluster) -> None:
    cluster.put("pods", pod("head", created=10, bound=11, started=12, gpus="", **RAY))
    assert cluster.jobs(13) == []
    cluster.put("pods", pod("w1", created=14, bound=15, started=16, **RAY))
    gone = pod("w1", created=14, bound=15, started=16, ended=42, exit_code=143, deleted=40, **RAY)
    cluster.put("pods", gone)
    cluster.delete("pods", gone)
    cluster.put("pods", pod("w2", created=60, bound=61, started=62, **RAY))
    last: dict[str, Any] = {"ended": 90, "exit_code": 143, "deleted": 80, **RAY}
    cluster.put("pods", pod("w2", created=60, bound=61, started=62, **last))
    cluster.put("pods", pod("head", created=10, bound=11, started=12, gpus="", **last))
    assert cluster.jobs(95) == [
        (1, "queued", 14, None),
        (1, "allocated", 15, 8),
        (1, "started", 16, None),
        (1, "scaled", 42, 0),
        (1, "scaled", 61, 8),
        (1, "scaled", 90, 0),
        (1, "cancelled", 90, None),
    ]


def test_workers_that_are_deleted_once_the_master_is_done_do_not_cancel_the_job(cluster: Cluster) -> None:
    torch: dict[str, Any] = {
        "owners": owner("PyTorchJob", "bert", "12345678-c", "kubeflow.org/v1"),
        "labels": {"training.kubeflow.org/job-name": "bert"},
    }
    for name in ("master", "worker"):
        cluster.put("pods", pod(name, created=10, bound=11, started=12, gpus="4", **torch))
    cluster.put("pods", pod("master", created=10, bound=11, started=12, ended=50, gpus="4", **torch))
    deleted: dict[str, Any] = {"ended": 55, "exit_code": 137, "deleted": 51, "gpus": "4", **torch}
    cluster.delete("pods", pod("worker", created=10, bound=11, started=12, **deleted))
    assert cluster.jobs(60)[-2:] == [(1, "scaled", 50, 4), (1, "completed", 55, None)]


def test_a_pod_that_is_deleted_before_it_has_a_node_costs_nothing(cluster: Cluster) -> None:
    cluster.put("pods", pod("a", created=10, **TRAIN))
    cluster.poll(20)
    cluster.delete("pods", pod("a", created=10, deleted=25, grace=0, **TRAIN))
    assert cluster.jobs(30) == [(1, "queued", 10, None), (1, "cancelled", 25, None)]


def test_a_pod_that_is_removed_by_force_ends_when_all_was_read_last(cluster: Cluster) -> None:
    cluster.put("pods", pod("a", created=10, bound=13, started=20, **TRAIN))
    cluster.poll(30)
    cluster.delete("pods", pod("a", created=10, bound=13, started=20, **TRAIN))
    assert cluster.jobs(40)[-1] == (1, "cancelled", 30, None)
    assert cluster.last()["labels"]["end_reason"] == "Gone"


def test_what_became_known_late_is_said_again(cluster: Cluster) -> None:
    """A kubelet reports an end after another pod was bound: at the binding, the first pod was gone already."""
    ray = {**RAY, "gpus": "4"}
    cluster.put("pods", pod("head", created=1, bound=2, **{**RAY, "gpus": ""}))
    cluster.put("pods", pod("a", created=10, bound=11, started=12, **ray))
    cluster.put("pods", pod("b", created=29, bound=31, started=32, on="n2", **ray))
    cluster.put("pods", pod("a", created=10, bound=11, started=12, ended=30, **ray))
    assert cluster.jobs(40)[-3:] == [(1, "scaled", 30, 0), (1, "scaled", 31, 8), (1, "scaled", 31, 4)]
    both = [each.value["id"] for each in cluster.log.events if each.value["id"].count("scaled.1790000031")]
    assert both == sorted(both)  # the meter takes the last by id


def test_what_ran_before_is_paid_from_since_on() -> None:
    cluster = Cluster()
    cluster.options = cluster.options.model_copy(update={"since": None})
    day = -51_200  # T0 is at 14:13:20
    cluster.put("nodes", node())
    cluster.put("pods", pod("a", created=day - 500, bound=day - 400, started=day - 300, **TRAIN))
    before = pod("b", created=day - 90, bound=day - 80, ended=day - 10, owners=owner("Job", "old"))
    cluster.put("pods", before)
    waits = pod("c", created=day - 90, owners=owner("Job", "waits"))
    cluster.put("pods", waits)
    assert cluster.jobs(0) == [
        (1, "allocated", -51_200, 8),
        (1, "started", -51_200, None),
        (1, "queued", -51_200, None),
    ]
    cluster.server.close()


@pytest.mark.parametrize("is_killed", [False, True])
def test_a_job_that_ends_in_the_second_of_since_has_an_end(cluster: Cluster, is_killed: bool) -> None:
    """It was seen to run in that second, by a collector that may not have stored its position."""
    since = datetime.fromtimestamp(T0_S + 50, UTC)
    cluster.options = cluster.options.model_copy(update={"since": since})
    cluster.position = None
    cluster.put("pods", pod("a", created=10, bound=13, started=20, **TRAIN))
    cluster.poll(50)
    if is_killed:
        cluster.position = None
    cluster.put("pods", pod("a", created=10, bound=13, started=20, ended=50, **TRAIN))
    assert cluster.jobs(60) == [
        (1, "allocated", 50, 8),
        (1, "started", 50, None),
        (1, "completed", 50, None),
    ]


def test_a_list_makes_the_events_that_a_watch_would_have_made(cluster: Cluster) -> None:
    steps = [
        pod("a", created=10, bound=13, started=20, **TRAIN),
        pod("a", created=10, bound=13, started=20, ended=50, exit_code=1, **TRAIN),
        pod("b", created=52, bound=53, started=60, **TRAIN),
        pod("c", created=52, bound=57, started=61, gpus="2", on="n2", **TRAIN),
    ]
    other = Cluster()
    other.put("nodes", node("n1"), node("n2"))
    for each in steps:
        cluster.put("pods", each)
        other.put("pods", each)
        cluster.poll(70)
    assert cluster.jobs(71) == other.jobs(71)
    later = {(each.topic, each.value["id"]) for each in other.log.events}
    assert later <= {(each.topic, each.value["id"]) for each in cluster.log.events}
    other.server.close()


def test_pods_without_gpus_are_no_events(cluster: Cluster) -> None:
    cluster.put("pods", pod("web", created=10, bound=11, gpus=""))
    assert cluster.jobs(20) == []
    assert cluster.position is not None
    assert cluster.position["jobs"] == {}


def test_jobs_without_gpus_are_events_if_asked_for() -> None:
    cluster = Cluster(include_cpu_only=True)
    cluster.put("pods", pod("web", created=10, bound=11, gpus=""))
    assert cluster.jobs(20) == [(1, "queued", 10, None), (1, "allocated", 11, 0)]
    cluster.server.close()


def test_a_job_is_forgotten_when_its_pods_are_gone_but_not_its_number(cluster: Cluster) -> None:
    cluster.put("pods", pod("a", created=10, bound=13, **TRAIN))
    ended = pod("a", created=10, bound=13, ended=50, exit_code=1, **TRAIN)
    cluster.put("pods", ended)
    cluster.delete("pods", ended)
    cluster.poll(60)
    assert cluster.position is not None
    assert cluster.position["jobs"]["research/uid-trai/train"]["attempts"] == {}
    cluster.put("pods", pod("b", created=70, bound=71, **TRAIN))
    assert cluster.jobs(80)[-1] == (2, "allocated", 71, 8)
    ended = pod("b", created=70, bound=71, ended=90, **TRAIN)
    cluster.delete("pods", ended)
    cluster.poll(100)
    cluster.poll(100 + 8 * 86_400)
    assert cluster.position["jobs"] == {}


def test_allocations_name_the_job_of_a_pod(tmp_path: Path) -> None:
    path = tmp_path / "allocations.json"
    cluster = Cluster(allocations_output_file=path)
    runs = pod("a", created=10, bound=13, **TRAIN)
    runs["status"]["podIPs"] = [{"ip": "10.0.3.77"}, {"ip": "fd00::7"}]
    shares = pod("b", created=10, bound=13, **TRAIN)
    shares["spec"]["hostNetwork"] = True
    shares["status"]["podIPs"] = [{"ip": "192.168.0.1"}]
    cluster.put("pods", runs, shares, pod("z", created=10, **TRAIN))
    cluster.poll(20)
    held = read_allocations(path)
    assert (
        held.of_pod("research/a", *LATER_MS)
        == held.of_pod("research/b", *LATER_MS)
        == JobHolder("research/uid-trai/train", 1)
    )
    assert held.of_pod("research/z", *LATER_MS) is None
    ended = pod("a", created=10, bound=13, ended=30, **TRAIN)
    cluster.put("pods", ended)
    for seconds in (40, 3_000):
        cluster.poll(seconds)
        assert read_allocations(path).of_pod("research/a", *LATER_MS) is None
        past = {each.pod: each for each in stored_allocations(path)}
        assert set(past) == {"research/a", "research/b"}
        assert list(past["research/a"].addresses) == ["10.0.3.77", "fd00::7"]
        assert past["research/b"].addresses == []
        assert (past["research/a"].from_ms, past["research/a"].until_ms) == (
            1_790_000_013_000,
            1_790_000_030_000,
        )
        cluster.delete("pods", ended)
    cluster.poll(100_000)
    assert [each.pod for each in stored_allocations(path)] == ["research/b"]
    cluster.server.close()


@pytest.mark.parametrize(("gpus", "is_its"), [("8", True), ("4", False)])
def test_a_pod_with_all_gpus_of_its_node_has_samples_that_name_no_pod(
    gpus: str, is_its: bool, tmp_path: Path
) -> None:
    path = tmp_path / "allocations.json"
    cluster = Cluster(allocations_output_file=path, include_nodes=True)
    cluster.put("nodes", node("n1"))
    cluster.put("pods", pod("a", created=10, bound=13, gpus=gpus, **TRAIN))
    cluster.poll(20)
    held = read_allocations(path)
    (entry,) = stored_allocations(path)
    found = held.of_gpu(entry.node, ["0"], *LATER_MS)
    assert found == (JobHolder("research/uid-trai/train", 1) if is_its else None)
