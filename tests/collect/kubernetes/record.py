"""Records what a real kube-apiserver says while jobs go through each thing that can happen to one.

`KUBE_APISERVER=... python -m tests.collect.kubernetes.record 1.34` writes `1.34.jsonl.xz`: the lines of one watch of pods and
one of nodes, each with the step in which it came; and for each step its time. Controllers, scheduler and kubelets are
played: pods get the labels and owners that these write, are bound by POSTing a binding, and their status is patched.
"""

from __future__ import annotations

import json
import lzma
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import urllib3

from tests.collect.kubernetes.apiserver import ADMIN, ApiServerProcess, running

_HERE: Final = Path(__file__).parent
_STEP_S: Final = 2.1  # times are in whole seconds: steps fall into different ones
_PODS: Final = "/api/v1/namespaces/research/pods"
SET_UID: Final = "9b2f7c1e-52b1-4f0a-9d43-1c6a5e0f7a10"


def now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def owner(kind: str, name: str, uid: str, api_version: str = "batch/v1") -> dict[str, Any]:
    return {"apiVersion": api_version, "kind": kind, "name": name, "uid": uid, "controller": True}


class Player:
    """Does to the API server what controllers, scheduler and kubelets do."""

    def __init__(self, server: ApiServerProcess) -> None:
        self.server = server

    def node(self, name: str, labels: dict[str, str], capacity: dict[str, str], provider: str) -> None:
        meta = {"name": name, "labels": {"kubernetes.io/hostname": name, **labels}}
        self.server.send("POST", "/api/v1/nodes", {"metadata": meta, "spec": {"providerID": provider}})
        self.server.merge(f"/api/v1/nodes/{name}/status", {"status": {"capacity": capacity}})

    def pod(
        self,
        name: str,
        gpus: int,
        labels: dict[str, str] | None = None,
        owners: list[dict[str, Any]] | None = None,
    ) -> None:
        container = {
            "name": "main",
            "image": "train",
            "env": [{"name": "API_KEY", "value": "secret-of-the-pod"}],
            "resources": {
                "limits": {"nvidia.com/gpu": str(gpus)} if gpus else {},
                "requests": {"cpu": "2", "memory": "8Gi"},
            },
        }
        meta: dict[str, Any] = {"name": name, "labels": labels or {}, "ownerReferences": owners or []}
        spec = {"containers": [container], "restartPolicy": "Never"}
        self.server.send("POST", _PODS, {"metadata": meta, "spec": spec})

    def bind(self, name: str, node: str) -> None:
        target = {"apiVersion": "v1", "kind": "Node", "name": node}
        self.server.send("POST", f"{_PODS}/{name}/binding", {"metadata": {"name": name}, "target": target})

    def status(self, name: str, **status: Any) -> None:
        self.server.merge(f"{_PODS}/{name}/status", {"status": status})

    def start(self, name: str) -> None:
        running_ = {
            "name": "main",
            "state": {"running": {"startedAt": now()}},
            "ready": True,
            "restartCount": 0,
        }
        self.status(name, phase="Running", containerStatuses=[{**running_, "image": "train", "imageID": "x"}])

    def end(self, name: str, code: int, word: str = "", **status: Any) -> None:
        """End the only container of a pod now, as its kubelet reports it."""
        found = self.server.send("GET", f"{_PODS}/{name}")["status"]["containerStatuses"][0]
        ended = {
            "exitCode": code,
            "reason": word or ("Error" if code else "Completed"),
            "startedAt": found["state"]["running"]["startedAt"],
            "finishedAt": now(),
        }
        report = {**found, "ready": False, "state": {"running": None, "terminated": ended}}
        self.status(name, phase="Failed" if code else "Succeeded", containerStatuses=[report], **status)

    def delete(self, name: str, grace_s: int | None = None) -> None:
        body = {} if grace_s is None else {"gracePeriodSeconds": grace_s}
        self.server.send("DELETE", f"{_PODS}/{name}", body)

    def disrupt(self, name: str, reason: str) -> None:
        disruption = {
            "type": "DisruptionTarget",
            "status": "True",
            "reason": reason,
            "lastTransitionTime": now(),
        }
        self.status(name, conditions=[disruption])


def _jobset(restart: int, index: int) -> tuple[dict[str, str], list[dict[str, Any]]]:
    prefix = "jobset.sigs.k8s.io/"
    labels = {
        f"{prefix}jobset-name": "pretrain",
        f"{prefix}jobset-uid": SET_UID,
        f"{prefix}replicatedjob-name": "workers",
        f"{prefix}job-index": "0",
        f"{prefix}restart-attempt": str(restart),
        "batch.kubernetes.io/job-completion-index": str(index),
        "trainfare.io/owner": "ada",
    }
    uid = f"00000000-0000-4000-8000-00000000000{restart}"
    return labels, [owner("Job", "pretrain-workers-0", uid)]


def _steps(play: Player) -> list[Callable[[], object]]:
    """Return what happens, step by step; what is in one step falls into the same second or two."""
    train = [owner("Job", "train", "11111111-1111-4111-8111-111111111111")]
    index = [owner("Job", "sweep", "22222222-2222-4222-8222-222222222222")]
    torch = [owner("PyTorchJob", "bert", "33333333-3333-4333-8333-333333333333", "kubeflow.org/v1")]
    ray = [owner("RayCluster", "ray", "44444444-4444-4444-8444-444444444444", "ray.io/v1")]
    bert = {"training.kubeflow.org/job-name": "bert", "kueue.x-k8s.io/queue-name": "nlp"}
    rays = {"ray.io/cluster": "ray"}
    zone = "topology.kubernetes.io/zone"
    kind = "node.kubernetes.io/instance-type"
    eight = {"nvidia.com/gpu": "8"}

    def several(*calls: Callable[[], object]) -> Callable[[], object]:
        return lambda: [call() for call in calls]

    def sweep(n: int, name: str) -> None:
        play.pod(name, 2, {"batch.kubernetes.io/job-completion-index": str(n)}, index)

    return [
        several(
            lambda: play.node(
                "eks-1",
                {
                    kind: "p5.48xlarge",
                    zone: "us-east-1a",
                    "topology.kubernetes.io/region": "us-east-1",
                    "karpenter.sh/capacity-type": "on-demand",
                    "nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3",
                },
                {"cpu": "192", "memory": "2Ti", **eight},
                "aws:///us-east-1a/i-0123456789",
            ),
            lambda: play.node(
                "eks-spot",
                {
                    kind: "p5.48xlarge",
                    zone: "us-east-1b",
                    "topology.kubernetes.io/region": "us-east-1",
                    "eks.amazonaws.com/capacityType": "SPOT",
                    "nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3",
                },
                {"cpu": "192", "memory": "2Ti", **eight},
                "aws:///us-east-1b/i-0987654321",
            ),
            lambda: play.node(
                "cpu-1", {kind: "m7i.large"}, {"cpu": "2", "memory": "8Gi"}, "aws:///us-east-1a/i-1"
            ),
            lambda: play.pod("train-a", 4, {}, train),
            lambda: play.pod("web", 0, {}, []),
        ),
        several(
            lambda: play.bind("train-a", "eks-1"),
            lambda: play.pod("pretrain-0-a", 4, *_jobset(0, 0)),
            lambda: play.pod("pretrain-1-a", 4, *_jobset(0, 1)),
        ),
        several(
            lambda: play.start("train-a"),
            lambda: play.bind("pretrain-0-a", "eks-1"),
            lambda: play.bind("pretrain-1-a", "eks-spot"),
        ),
        several(lambda: play.start("pretrain-0-a"), lambda: play.start("pretrain-1-a")),
        lambda: play.end("train-a", 137, "OOMKilled"),
        several(
            lambda: play.pod("train-b", 4, {}, train),
            lambda: play.bind("train-b", "eks-1"),
        ),
        several(lambda: play.start("train-b"), lambda: sweep(0, "sweep-0"), lambda: sweep(1, "sweep-1")),
        several(
            lambda: play.bind("sweep-0", "eks-spot"),
            lambda: play.bind("sweep-1", "eks-spot"),
            lambda: play.end("pretrain-1-a", 1),
        ),
        several(
            lambda: play.start("sweep-0"),
            lambda: play.start("sweep-1"),
            lambda: play.delete("pretrain-0-a"),
            lambda: play.pod("pretrain-0-b", 4, *_jobset(1, 0)),
            lambda: play.pod("pretrain-1-b", 4, *_jobset(1, 1)),
        ),
        several(
            lambda: play.end("pretrain-0-a", 143),
            lambda: play.delete("pretrain-0-a", 0),
            lambda: play.delete("pretrain-1-a"),
        ),
        several(lambda: play.bind("pretrain-0-b", "eks-1"), lambda: play.bind("pretrain-1-b", "eks-spot")),
        several(
            lambda: play.start("pretrain-0-b"),
            lambda: play.start("pretrain-1-b"),
            lambda: play.end("sweep-1", 2),
        ),
        several(lambda: sweep(1, "sweep-1-again"), lambda: play.end("train-b", 0)),
        several(lambda: play.bind("sweep-1-again", "eks-spot"), lambda: play.pod("ray-head", 0, rays, ray)),
        several(
            lambda: play.start("sweep-1-again"),
            lambda: play.bind("ray-head", "cpu-1"),
            lambda: play.pod("ray-w1", 4, rays, ray),
            lambda: play.end("sweep-0", 0),
        ),
        several(
            lambda: play.start("ray-head"),
            lambda: play.bind("ray-w1", "eks-1"),
            lambda: play.end("sweep-1-again", 0),
        ),
        several(
            lambda: play.start("ray-w1"),
            lambda: play.pod("bert-master", 1, bert, torch),
        ),
        several(
            lambda: play.bind("bert-master", "eks-spot"),
            lambda: play.pod("bert-worker", 1, bert, torch),
            lambda: play.pod("pending", 8, {}, []),
        ),
        several(
            lambda: play.bind("bert-worker", "eks-spot"),
            lambda: play.start("bert-master"),
            lambda: play.delete("ray-w1"),
        ),
        several(
            lambda: play.start("bert-worker"),
            lambda: play.end("ray-w1", 143),
            lambda: play.delete("ray-w1", 0),
            lambda: play.delete("pending"),
            lambda: play.server.merge("/api/v1/nodes/eks-spot", {"spec": {"unschedulable": True}}),
        ),
        several(
            lambda: play.end("bert-master", 0),
            lambda: play.disrupt("pretrain-1-b", "DeletionByTaintManager"),
            lambda: play.delete("pretrain-1-b"),
        ),
        several(
            lambda: play.delete("bert-worker"),
            lambda: play.end("pretrain-1-b", 143),
            lambda: play.end("pretrain-0-b", 1),
        ),
        several(
            lambda: play.end("bert-worker", 137),
            lambda: play.delete("bert-worker", 0),
            lambda: play.delete("pretrain-1-b", 0),
            lambda: play.end("ray-head", 0),
        ),
        several(
            lambda: play.server.send("DELETE", "/api/v1/nodes/eks-spot"),
            lambda: play.delete("ray-head"),
            lambda: play.delete("web"),
        ),
    ]


def _watch(server: ApiServerProcess, path: str, take: Callable[[bytes], object]) -> None:
    pool = urllib3.PoolManager(ca_certs=str(server.ca_file))
    version = server.send("GET", path)["metadata"]["resourceVersion"]
    fields = {
        "watch": "1",
        "resourceVersion": version,
        "allowWatchBookmarks": "true",
        "timeoutSeconds": "600",
    }
    headers = {"Authorization": f"Bearer {ADMIN}"}
    with (
        suppress(urllib3.exceptions.ProtocolError),  # the server is killed in the end
        pool.request(
            "GET", server.url + path, fields=fields, headers=headers, preload_content=False
        ) as response,
    ):
        rest = b""
        for part in response.stream(65_536):
            *lines, rest = (rest + part).split(b"\n")
            for line in lines:
                take(line)


def play(server: ApiServerProcess, after_step: Callable[[], object]) -> Sequence[dict[str, Any]]:
    """Take jobs through all steps; return what the watches said, a line each, and of each step its time."""
    found: list[dict[str, Any]] = []
    step = 0
    server.send("POST", "/api/v1/namespaces", {"metadata": {"name": "research"}})
    for kind in ("pods", "nodes"):

        def take(line: bytes, kind: str = kind) -> None:
            found.append({"step": step, "kind": kind, **json.loads(line)})

        threading.Thread(target=_watch, args=(server, f"/api/v1/{kind}", take), daemon=True).start()
    time.sleep(2)
    said = server.send("GET", "/version")["gitVersion"]
    for step, act in enumerate(_steps(Player(server))):
        act()
        time.sleep(_STEP_S)
        found.append({"step": step, "time": int(time.time()), "server": said})
        after_step()
    return found


def main(version: str) -> None:
    """Record, and write the file."""
    with tempfile.TemporaryDirectory() as directory, running(Path(directory)) as server:
        found = play(server, lambda: None)
    with lzma.open(_HERE / f"{version}.jsonl.xz", "wt", encoding="utf-8") as file:
        file.writelines(json.dumps(each) + "\n" for each in found)


if __name__ == "__main__":
    main(sys.argv[1])
