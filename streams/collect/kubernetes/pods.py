"""Takes what the API says of a pod into the state: of which attempt of which job it is, where it runs, how it ended.

Each fact is taken once, as it is first known. It makes no events.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from streams.collect.kubernetes.claims import Claimed
from streams.collect.kubernetes.ends import PodEnd, end_of, leaving_s
from streams.collect.kubernetes.hami import gpus_of
from streams.collect.kubernetes.node_facts import CLAIMED, NodeFacts, first_label, gpu_share, is_gpu
from streams.collect.kubernetes.objects import Pod, condition, seconds
from streams.collect.kubernetes.options import Options
from streams.collect.kubernetes.owners import Identity, identity_of
from streams.collect.kubernetes.requests import requests_of
from streams.collect.kubernetes.shares import hold, hold_claimed
from streams.collect.kubernetes.state import ClusterState, KubernetesAttempt, KubernetesJob, PodState
from streams.collect.values import event_text

#: Two machines' clocks: a pod made as another one ends is the next one's.
_SKEW_S: Final = 1
#: An attempt that goes on for ever forgets pods that are gone.
_PODS_KEPT: Final = 2_000
_GPU_MILLI_AT_MOST: Final = 1_024_000
_NO_CHANGE_S: Final = 2**62


class Touched(NamedTuple):
    """What a pod has changed: the attempt's holdings may differ from `from_s` on."""

    job_id: str
    attempt: int
    from_s: int


def is_of_interest(pod: Pod, options: Options) -> bool:
    """Whether a pod may be part of a job that is metered."""
    if (
        options.include_cpu_only
        or pod.spec.resource_claims
        or any(is_gpu(name, options) for name in _limits_of(pod))
    ):
        return True
    return identity_of(pod.metadata, options).is_grouped


def lacks_claims(pod: Pod, state: ClusterState) -> bool:
    """Whether a pod is on a node with ResourceClaims of which no GPUs are taken yet."""
    if not (pod.spec.node_name and pod.spec.resource_claims):
        return False
    place = state.job_of.get(pod.metadata.uid)
    return (
        place is None or CLAIMED not in state.jobs[place[0]].attempts[place[1]].pods[pod.metadata.uid].devices
    )


def take(
    pod: Pod,
    node: NodeFacts,
    state: ClusterState,
    options: Options,
    *,
    is_gone: bool,
    now_s: int,
    claimed: Claimed | None = None,
) -> Touched | None:
    """Take what is known of a pod; None where nothing of it is new, or it is of no interest. `share_out` has to follow.

    `claimed`: what its ResourceClaims are; None: that is not known, or was taken before.

    Raises:
        ValueError: The pod contradicts itself, or is beyond what an event may hold.
    """
    uid = pod.metadata.uid
    if not uid or len(uid) > 64:
        raise ValueError("a pod without a uid")
    place = state.job_of.get(uid)
    if place is None:
        if not is_of_interest(pod, options) or (is_gone and not pod.spec.node_name):
            return None
        place = _new_pod(pod, state, options)
    job_id, number = place
    attempt = state.jobs[job_id].attempts[number]
    known = attempt.pods[uid]
    changed_s = _take_facts(pod, known, attempt, node, options)
    if claimed is not None:
        changed_s = min(changed_s, _take_claims(claimed, known, attempt))
    if changed_s != _NO_CHANGE_S:
        state.on_node.setdefault(known.node, set()).add(uid)
        state.unshared.add(uid)
    fields = attempt.nodes.get(known.node, {})
    end = end_of(
        pod,
        asked_s=known.leaving_s,
        is_gone=is_gone,
        is_spot=fields.get("purchase") == "spot",
        seen_s=state.read_s,
        now_s=now_s,
    )
    if end is not None and not known.end_s:
        _end(known, attempt, end)
        changed_s = min(changed_s, known.end_s)
    known.is_gone = known.is_gone or is_gone
    return Touched(job_id, number, changed_s)


def vanish(uid: str, state: ClusterState) -> Touched:
    """Take that a pod is gone, of which no more is known: it ended when all was read last."""
    job_id, number = state.job_of[uid]
    attempt = state.jobs[job_id].attempts[number]
    pod = attempt.pods[uid]
    pod.is_gone = True
    if pod.end_s:
        return Touched(job_id, number, pod.end_s)
    at_s = max(state.read_s, pod.leaving_s, pod.bound_s, pod.created_s)
    _end(pod, attempt, PodEnd(at_s, "cancelled", "unknown", "Gone"))
    return Touched(job_id, number, at_s)


def _new_pod(pod: Pod, state: ClusterState, options: Options) -> tuple[str, int]:
    """Add a pod to the attempt that it is of; return its job and the attempt's number."""
    identity = identity_of(pod.metadata, options)
    requests = requests_of(pod.spec, lambda name: is_gpu(name, options))
    created_s = seconds(pod.metadata.creation_timestamp)
    if not created_s:
        raise ValueError("a pod without a time of creation")
    known = PodState(
        name=event_text(pod.metadata.name),
        slot=event_text(identity.slot),
        created_s=created_s,
        devices=dict(requests.devices),
        cpu_milli=requests.cpu_milli,
        memory_mib=requests.memory_mib,
    )
    job = state.jobs.get(identity.job_id)
    if job is None:
        described = _description(pod, identity, options)
        job = state.jobs[identity.job_id] = KubernetesJob(event_text(pod.metadata.namespace), described)
    number = _attempt_of(known, identity, job)
    attempt = job.attempts.setdefault(number, KubernetesAttempt())
    _replace(known, attempt)
    attempt.pods[pod.metadata.uid] = known
    _forget_gone(attempt, state)
    state.job_of[pod.metadata.uid] = (identity.job_id, number)
    return identity.job_id, number


def _attempt_of(pod: PodState, identity: Identity, job: KubernetesJob) -> int:
    """The number of a new pod's attempt.

    A controller that counts its restarts says it, unless that attempt is over. Else the next attempt begins with a pod that
    is made when every pod of the newest one has ended or was asked to: one that replaces some of them is of the same attempt.
    """
    if identity.restarts is None:
        number = job.attempt + _is_left(job.attempts.get(job.attempt), pod)
    else:
        number = job.before + identity.restarts + 1
        if number <= job.attempt and _is_left(job.attempts.get(number), pod):
            number = job.attempt + 1  # made anew under the same name
            job.before = job.attempt - identity.restarts
    job.attempt = max(job.attempt, number)
    return number


def _is_left(attempt: KubernetesAttempt | None, pod: PodState) -> bool:
    """Whether all pods of an attempt had ended, or were asked to, when another one was made."""
    others = () if attempt is None else attempt.pods.values()
    return all(each.left_s and each.left_s <= pod.created_s + _SKEW_S for each in others)


def _replace(pod: PodState, attempt: KubernetesAttempt) -> None:
    """Mark the pod that a new one stands for, so that its failure is not the attempt's."""
    for each in attempt.pods.values():
        if each.left_s and not each.is_replaced and each.slot == pod.slot and each.end_type != "completed":
            each.is_replaced = True
            return


def _forget_gone(attempt: KubernetesAttempt, state: ClusterState) -> None:
    if len(attempt.pods) <= _PODS_KEPT:
        return
    for uid, pod in list(attempt.pods.items()):
        if pod.is_gone and pod.end_s < state.read_s and (pod.is_replaced or pod.end_type == "completed"):
            state.forget_pod(uid)
            del attempt.pods[uid]
            attempt.forgotten += 2  # it came and went
            for at_s in [each for each in attempt.sent if each < pod.end_s]:
                del attempt.sent[at_s]


def _take_facts(
    pod: Pod, known: PodState, attempt: KubernetesAttempt, node: NodeFacts, options: Options
) -> int:
    """Take where it runs and since when; return from when on the attempt's holdings may be others."""
    changed_s = _NO_CHANGE_S
    if pod.spec.node_name and not known.bound_s:
        share = gpu_share(known.devices, node, options)
        if share > _GPU_MILLI_AT_MOST:
            raise ValueError("more GPUs than a node can have")
        known.node = event_text(pod.spec.node_name)
        known.bound_s = _bound_s(pod)
        hold(known, share, gpus_of(pod.metadata.annotations or {}))
        attempt.nodes[known.node] = {**node.fields}
        changed_s = known.bound_s
    if not known.started_s:
        known.started_s = _started_s(pod)
    if not known.leaving_s:
        known.leaving_s = leaving_s(pod)
    if not known.addresses and not pod.spec.host_network:
        known.addresses = [each.ip[:45] for each in (pod.status.pod_ips or ())[:2] if each.ip]
    return changed_s


def _take_claims(claimed: Claimed, known: PodState, attempt: KubernetesAttempt) -> int:
    """Take the devices of claims, held since it was bound; return from when on the attempt's holdings may be others."""
    if not claimed.share:
        return _NO_CHANGE_S
    hold_claimed(known, claimed.share)
    fields = attempt.nodes.setdefault(known.node, {})
    if claimed.gpu_type and not fields.get("gpu_type"):
        fields["gpu_type"] = claimed.gpu_type
    return known.bound_s


def _end(pod: PodState, attempt: KubernetesAttempt, end: PodEnd) -> None:
    pod.end_s = max(end.at_s, pod.bound_s, pod.created_s)
    pod.end_type, pod.reason, pod.word, pod.exit_code = end.type, end.reason, end.word, end.exit_code
    attempt.has_completed = attempt.has_completed or end.type == "completed"


def _bound_s(pod: Pod) -> int:
    scheduled = condition(pod.status.conditions, "PodScheduled")
    return (
        (seconds(scheduled.last_transition_time) if scheduled else 0)
        or seconds(pod.status.start_time)
        or seconds(pod.metadata.creation_timestamp)
    )


def _started_s(pod: Pod) -> int:
    """Return when the first container began; 0: none has."""
    begun = [
        seconds(each.started_at)
        for status in pod.status.container_statuses or ()
        for state in (status.state, status.last_state)
        if state is not None
        for each in (state.running, state.terminated)
        if each is not None
    ]
    return min(filter(None, begun), default=0)


def _limits_of(pod: Pod) -> list[str]:
    containers = (*(pod.spec.containers or ()), *(pod.spec.init_containers or ()))
    return [name for each in containers if each.resources for name in each.resources.limits or ()]


def _description(pod: Pod, identity: Identity, options: Options) -> dict[str, Any]:
    labels = pod.metadata.labels or {}
    namespace = pod.metadata.namespace
    shown = {
        "namespace": namespace,
        "kind": identity.kind,
        "name": identity.name,
        "uid": identity.uid,
        "queue": labels.get("kueue.x-k8s.io/queue-name") or labels.get("volcano.sh/queue-name", ""),
        "priority_class": pod.spec.priority_class_name,
    }
    named = {
        "owner": first_label(labels, options.owner_labels),
        "team": first_label(labels, options.team_labels) or options.teams.get(namespace, namespace),
        "project": first_label(labels, options.project_labels),
        "experiment": first_label(labels, options.experiment_labels) or identity.name,
        "run_id": f"{namespace}/{identity.name}" if identity.is_run else "",
    }
    return {
        **{name: event_text(value) for name, value in named.items() if value},
        "labels": {name: event_text(value) for name, value in shown.items() if value},
    }
