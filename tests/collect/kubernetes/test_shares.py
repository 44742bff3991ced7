"""Shares of GPUs: of one GPU they add up to one at most, to the thousandth, in whatever order pods come and go."""

from __future__ import annotations

from collections import Counter
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streams.collect.kubernetes.hami import gpus_of
from streams.collect.kubernetes.node_facts import NodeFacts
from streams.collect.kubernetes.shares import hold, share_out
from streams.collect.kubernetes.state import (
    ClusterState,
    KubernetesAttempt,
    KubernetesJob,
    PodState,
    SeenNode,
)
from tests.collect.kubernetes.cluster import Cluster
from tests.collect.kubernetes.objects import node, pod

REGISTER = "GPU-1,10,46068,100,NVIDIA-A40,0,true:GPU-2,10,46068,100,NVIDIA-A40,0,true:"
SHARED = "nvidia.com/gpu.shared"


def split_pod(name: str, given: str = "GPU-1", gpus: str = "1", **limits: str) -> dict[str, Any]:
    """A pod that HAMi gave shares of some GPUs."""
    found = pod(name, bound=5, started=6)
    asked = {f"nvidia.com/{each}": value for each, value in limits.items()}
    found["spec"]["containers"][0]["resources"]["limits"] = {"nvidia.com/gpu": gpus, **asked}
    if given:
        entries = "".join(f"{each},NVIDIA,1,1:" for each in given.split())
        found["metadata"]["annotations"] = {"hami.io/vgpu-devices-allocated": f"{entries};"}
    return found


def split_node(offered: int = 20) -> dict[str, Any]:
    found = node(gpus=offered)
    found["metadata"]["annotations"] = {"hami.io/node-nvidia-register": REGISTER}
    return found


def held(cluster: Cluster, seconds: int = 10) -> dict[str, float]:
    """What each job holds by its newest event that says it."""
    cluster.poll(seconds)
    return {
        str(event.value["job_id"]).rpartition("/")[2]: event.value["gpu_count"]
        for event in cluster.log.events
        if event.value.get("gpu_count") is not None and event.topic == "jobs"
    }


@pytest.mark.parametrize("at_once", [True, False])
def test_thirds_of_a_gpu_add_up_to_one(at_once: bool) -> None:
    cluster = Cluster()
    shared = node(gpus=0)
    shared["metadata"]["labels"] |= {"nvidia.com/gpu.replicas": "3"}
    shared["status"]["capacity"] = {SHARED: "6"}
    cluster.put("nodes", shared)
    for number, name in enumerate("abcdef"):
        cluster.put("pods", pod(name, bound=5 + number, gpus="1", resource=SHARED))
        if not at_once:
            cluster.poll(6 + number)
    found = held(cluster, 20)
    assert Counter(found.values()) == {0.333: 4, 0.334: 2}
    assert sum(found.values()) == pytest.approx(2)
    cluster.put("pods", pod("c", bound=7, started=8, ended=30, gpus="1", resource=SHARED))
    cluster.put("pods", pod("g", bound=31, gpus="1", resource=SHARED))
    assert held(cluster, 40)["g"] == found["c"]


def test_who_comes_later_holds_what_is_left_of_the_gpu_and_it_is_said() -> None:
    cluster = Cluster()
    cluster.put("nodes", split_node())
    cluster.put("pods", split_pod("a", **{"gpucores": "25", "gpumem-percentage": "60"}))
    cluster.put("pods", split_pod("b", **{"gpucores": "75", "gpumem-percentage": "40"}))
    cluster.put("pods", split_pod("c", "GPU-2", gpucores="75"))
    assert held(cluster) == {"a": 0.6, "b": 0.4, "c": 0.75}
    account = cluster.batches[-1].account
    assert account.reasons["over_committed"] == 1
    said = "pod b asks for 0.75 GPUs of node n1, of which others left 0.4: that is metered"
    assert account.said == [said]
    cluster.poll(20)
    assert cluster.batches[-1].account.reasons["over_committed"] == 1, "it stays so until the pod ends"
    gone = split_pod("b", **{"gpucores": "75", "gpumem-percentage": "40"})
    gone["status"] |= pod("b", bound=5, started=6, ended=25)["status"]
    cluster.put("pods", gone)
    cluster.poll(30)
    assert not cluster.batches[-1].account.reasons.get("over_committed")


def test_a_full_gpu_leaves_nothing() -> None:
    cluster = Cluster()
    cluster.put("nodes", split_node())
    for name in "abcde":
        cluster.put("pods", split_pod(name, gpucores="25"))
    assert held(cluster) == {"a": 0.25, "b": 0.25, "c": 0.25, "d": 0.25, "e": 0}
    assert "which others left 0:" in cluster.batches[-1].account.said[0]


def test_without_the_gpus_names_a_node_is_not_held_more_than_once() -> None:
    cluster = Cluster()
    cluster.put("nodes", split_node())
    for name in "abc":
        cluster.put("pods", split_pod(name, "", gpucores="80"))
    assert held(cluster) == {"a": 0.8, "b": 0.8, "c": 0.4}


def test_shares_of_two_gpus_are_taken_from_both() -> None:
    cluster = Cluster()
    cluster.put("nodes", split_node())
    cluster.put("pods", split_pod("a", "GPU-1 GPU-2", gpus="2", gpucores="70"))
    cluster.put("pods", split_pod("b", "GPU-2", gpucores="50"))
    assert held(cluster) == {"a": 1.4, "b": 0.3}


def test_a_place_that_becomes_free_is_not_taken_for_full_though_clocks_differ() -> None:
    cluster = Cluster()
    cluster.put("nodes", split_node())
    cluster.put("pods", split_pod("a", gpucores="100"))
    cluster.poll(8)
    ended = split_pod("a", gpucores="100")
    ended["status"] |= pod("a", bound=5, started=6, ended=12)["status"]
    cluster.put("pods", ended)
    late = split_pod("b", gpucores="100")
    late["status"]["conditions"] = pod("b", bound=10)["status"]["conditions"]
    cluster.put("pods", late)
    assert held(cluster, 20)["b"] == 1


def test_whole_gpus_are_never_reduced() -> None:
    cluster = Cluster()
    cluster.put("nodes", node(gpus=1))
    for name in "ab":
        cluster.put("pods", pod(name, bound=5, gpus="1"))
    assert held(cluster) == {"a": 1, "b": 1}
    assert "over_committed" not in cluster.batches[-1].account.reasons


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("GPU-1,NVIDIA,11517,25:;", {"GPU-1": 1}),
        ("GPU-1,NVIDIA,1,25:GPU-2,NVIDIA,1,25:;GPU-1,NVIDIA,1,0:;", {"GPU-1": 2, "GPU-2": 1}),
        (";", {}),
        ("GPU-1", {}),
        ("GPU-1,NVIDIA,x,25:;", {}),
        ("GPU-1,NVIDIA,1,-25:;", {}),
        ("\x00,,1,1:", {"\x00": 1}),
        ("," * 100_000, {}),
    ],
)
@pytest.mark.parametrize("name", ["hami.io/vgpu-devices-allocated", "volcano.sh/vgpu-ids-new"])
def test_the_schedulers_annotation(name: str, text: str, found: dict[str, int]) -> None:
    assert gpus_of({name: text}) == found


def test_names_that_are_not_all_of_a_pods_gpus_reduce_nothing() -> None:
    found = PodState("a", "", 1, {}, 0, 0)
    hold(found, Fraction(2000), Counter({"GPU-1": 1}))
    assert (found.gpus, found.asked_milli) == ({}, 2000)


def test_a_position_of_version_0_1_counts_what_it_published() -> None:
    old = PodState("a", "", 1, {SHARED: 1}, 0, 0, node="n1", gpu_milli=333, bound_s=1)
    state = _state_of([old], 1)
    new = PodState("b", "", 2, {SHARED: 1}, 0, 0, node="n1", bound_s=2)
    _bind(state, "u1", new, Fraction(1000, 3), "")
    assert (int(old.exact), new.gpu_milli) == (333, 333)


GPUS = ("GPU-1", "GPU-2")
#: A pod: what it asks for (a third, a slice, a percentage), of which GPU if that is said, when it is bound, how long it is there.
_POD = st.tuples(
    st.one_of(
        st.sampled_from([Fraction(1000, 3), Fraction(3000, 7), Fraction(1000, 7)]),
        st.integers(1, 99).map(lambda percent: Fraction(percent * 10)),
    ),
    st.sampled_from(["", *GPUS]),
    st.integers(1, 100),
    st.integers(10, 60),
)


@given(st.lists(_POD, max_size=12))
def test_at_no_instant_is_more_held_than_there_is(asked: list[tuple[Fraction, str, int, int]]) -> None:
    state = _state_of([], len(GPUS))
    found: list[tuple[PodState, str]] = []
    for number, (share, gpu, bound_s, length_s) in enumerate(sorted(asked, key=lambda each: each[2])):
        for other, _ in found:  # the API server hears of ends before a place is given again
            other.end_s = other.end_s or (other.leaving_s if other.leaving_s <= bound_s else 0)
        added = PodState(f"p{number}", "", 1, {"g": 1}, 0, 0, node="n1", bound_s=bound_s)
        added.leaving_s = bound_s + length_s
        _bind(state, f"u{number}", added, share, gpu)
        found.append((added, gpu))
        there = [(each, of) for each, of in found if not each.end_s]
        for name in GPUS:
            assert sum(each.gpus.get(name, 0) for each, _ in there) <= 1000
        assert sum(each.gpu_milli for each, _ in there) <= 2000
        assert sum(each.exact for each, _ in there) <= 2000
        assert -1 <= added.gpu_milli - added.exact < 1, (
            "next to the share, but for the last thousandth of a full node"
        )
        if not gpu and sum(each.exact for each, _ in there) < 1999:
            assert added.exact == share, "nothing is reduced that fits"


def _state_of(pods: list[PodState], gpus: int) -> ClusterState:
    state = ClusterState(1)
    state.nodes["n1"] = SeenNode(NodeFacts("u", 1, {}, gpu_milli=gpus * 1000, replicas=3))
    state.jobs["j"] = KubernetesJob("ns", {}, attempts={1: KubernetesAttempt()})
    for number, each in enumerate(pods):
        _add(state, f"old{number}", each)
    return state


def _add(state: ClusterState, uid: str, added: PodState) -> None:
    state.jobs["j"].attempts[1].pods[uid] = added
    state.job_of[uid] = ("j", 1)
    state.on_node.setdefault("n1", set()).add(uid)


def _bind(state: ClusterState, uid: str, added: PodState, share: Fraction, gpu: str) -> None:
    hold(added, share, Counter([gpu] if gpu else []))
    _add(state, uid, added)
    state.unshared.add(uid)
    assert share_out(state) == [uid]
