"""Pods and nodes as the API has them, for tests of single cases."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

T0_S = 1_790_000_000


def at(seconds: int) -> str:
    """Return a time so many seconds after T0, as the API writes it."""
    return datetime.fromtimestamp(T0_S + seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def node(name: str = "n1", gpus: int = 8, **labels: str) -> dict[str, Any]:
    """Return a node with H100s, made at T0."""
    named = {
        "nvidia.com/gpu.product": "H100",
        **{key.replace("__", "/"): value for key, value in labels.items()},
    }
    return {
        "metadata": {"name": name, "uid": f"uid-{name}", "creationTimestamp": at(0), "labels": named},
        "spec": {},
        "status": {"capacity": {"cpu": "96", "nvidia.com/gpu": str(gpus)}},
    }


def owner(kind: str, name: str, uid: str = "", api_version: str = "batch/v1") -> list[dict[str, Any]]:
    """Return the references to one owner."""
    return [
        {
            "apiVersion": api_version,
            "kind": kind,
            "name": name,
            "uid": uid or f"uid-{name}",
            "controller": True,
        }
    ]


def pod(
    name: str,
    *,
    created: int = 0,
    bound: int | None = None,
    started: int | None = None,
    ended: int | None = None,
    exit_code: int = 0,
    word: str = "",
    status_reason: str = "",
    deleted: int | None = None,
    grace: int = 30,
    disruption: tuple[str, int] | None = None,
    on: str = "n1",
    gpus: str = "8",
    resource: str = "nvidia.com/gpu",
    labels: dict[str, str] | None = None,
    owners: list[dict[str, Any]] | None = None,
    namespace: str = "research",
) -> dict[str, Any]:
    """Return a pod; times are seconds after T0, `deleted` is when its deletion was asked for."""
    conditions: list[dict[str, Any]] = []
    meta: dict[str, Any] = {
        "name": name,
        "namespace": namespace,
        "uid": f"uid-{name}",
        "creationTimestamp": at(created),
        "labels": labels or {},
    }
    if owners:
        meta["ownerReferences"] = owners
    if deleted is not None:
        meta |= {"deletionTimestamp": at(deleted + grace), "deletionGracePeriodSeconds": grace}
    spec: dict[str, Any] = {"containers": [{"name": "main", "resources": {"limits": {resource: gpus}}}]}
    if not gpus:
        spec["containers"][0]["resources"] = {}
    status: dict[str, Any] = {"phase": "Pending", "conditions": conditions}
    if bound is not None:
        spec["nodeName"] = on
        conditions.append({"type": "PodScheduled", "status": "True", "lastTransitionTime": at(bound)})
    if started is not None:
        status["phase"] = "Running"
        status["containerStatuses"] = [{"name": "main", "state": {"running": {"startedAt": at(started)}}}]
    if ended is not None:
        status["phase"] = "Failed" if exit_code or status_reason else "Succeeded"
        ends = {"exitCode": exit_code, "reason": word or ("Error" if exit_code else "Completed")}
        times = {"startedAt": at(started or bound or created), "finishedAt": at(ended)}
        status["containerStatuses"] = [{"name": "main", "state": {"terminated": {**ends, **times}}}]
    if status_reason:
        status["reason"] = status_reason
    if disruption is not None:
        reason, when = disruption
        conditions.append(
            {"type": "DisruptionTarget", "status": "True", "reason": reason, "lastTransitionTime": at(when)}
        )
    return {"metadata": meta, "spec": spec, "status": status}
