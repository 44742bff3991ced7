"""The collector against a real kube-apiserver on a real etcd, with the rights that the chart gives it alone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from streams.clock import SystemClock
from streams.collect.collector import Position, SourceUnavailableError
from streams.collect.kubernetes.collector import open_collector
from streams.collect.kubernetes.options import Options
from tests.collect.kubernetes.apiserver import ApiServerProcess, missing, running
from tests.collect.kubernetes.record import Player, play
from tests.collect.kubernetes.test_recorded import cost_nano, of_pods
from tests.collect.slurm.test_recorded import PRICE
from tests.collect.world import Log
from tests.deploy.chart import manifests
from tests.harness import meter
from tests.oracle.model import Line

_MISSING = missing()
pytestmark = [
    pytest.mark.long,
    pytest.mark.timeout(7_200),  # the first time the server is compiled
    pytest.mark.skipif(bool(_MISSING), reason=f"not installed: {', '.join(_MISSING)}; see README.md here"),
]
_PATHS = {
    "ClusterRole": "/apis/rbac.authorization.k8s.io/v1/clusterroles",
    "ClusterRoleBinding": "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings",
}


@pytest.fixture
def server(tmp_path: Path) -> Iterator[ApiServerProcess]:
    with running(tmp_path / "k") as found:
        for each in manifests():
            if each["kind"] in _PATHS:
                found.send("POST", _PATHS[each["kind"]], each)
        yield found


class Follower:
    """A collector that is made anew for each poll, as after a restart."""

    def __init__(self, server: ApiServerProcess, **others: Any) -> None:
        self.options = Options(
            url=server.url,
            token_file=server.token_file,
            ca_file=server.ca_file,
            gpu_types={"NVIDIA-H100-80GB-HBM3": "H100"},
            **{"interval_s": 1, **others},
        )
        self.log = Log()
        self.position: Position | None = None

    def poll(self) -> None:
        for batch in open_collector(self.options).poll(self.position, SystemClock().now_ms()):
            assert not batch.account.said
            self.log.publish(batch.events)
            self.position = batch.position

    def types(self) -> Counter[str]:
        return Counter(value["type"] for topic, value in self.log.events if topic == "jobs")


def test_jobs_cost_what_their_pods_held(server: ApiServerProcess) -> None:
    follower = Follower(server)
    follower.poll()
    found = play(server, follower.poll)
    follower.poll()
    assert not follower.log.refused()
    lines = [PRICE, *(Line(topic, dict(value)) for topic, value in follower.log.events if topic == "jobs")]
    tables = meter(lines, as_of_ms=SystemClock().now_ms())
    pods = [each["object"] for each in found if each.get("kind") == "pods" and each["type"] != "BOOKMARK"]
    assert cost_nano(tables) == of_pods(pods)
    assert len(pods) > 50


def test_it_may_read_pods_and_nodes_and_nothing_else(server: ApiServerProcess) -> None:
    follower = Follower(server)
    follower.poll()
    collector = open_collector(follower.options)
    for path in ("/api/v1/secrets", "/api/v1/configmaps", "/apis/batch/v1/jobs"):
        with pytest.raises(SourceUnavailableError, match=r"answered 403: .* cannot list resource"):
            next(collector._api.list(path, {}))
    server.token_file.write_text("another")
    with pytest.raises(SourceUnavailableError, match="answered 401: Unauthorized; the token is not accepted"):
        follower.poll()
    bad = follower.options.model_copy(update={"ca_file": None})
    with pytest.raises(SourceUnavailableError, match="certificate verify failed"):
        next(open_collector(bad).poll(None, SystemClock().now_ms()))


def test_a_server_that_was_away_and_has_no_history_is_listed_again(server: ApiServerProcess) -> None:
    server.send("POST", "/api/v1/namespaces", {"metadata": {"name": "research"}})
    player, follower = Player(server), Follower(server)
    player.node("n1", {}, {"nvidia.com/gpu": "8"}, "")
    for name in ("goes", "stays"):
        player.pod(name, 1)
        player.bind(name, "n1")
        player.start(name)
    follower.poll()
    assert follower.types() == {"queued": 2, "allocated": 2, "started": 2}
    server.kill()
    with pytest.raises(SourceUnavailableError):
        follower.poll()
    server.start()
    player.end("stays", 0)
    player.delete("goes", 0)
    server.forget_history()
    assert follower.position is not None
    before = follower.position["pods_version"]
    said = list(open_collector(follower.options)._api.watch("/api/v1/pods", {}, before, 1))
    assert [b'"code":410' in (line or b"") for line in said] == [True], said
    follower.poll()
    assert follower.types() == {"queued": 2, "allocated": 2, "started": 2, "completed": 1, "cancelled": 1}


def test_five_thousand_pods(server: ApiServerProcess) -> None:
    server.send("POST", "/api/v1/namespaces", {"metadata": {"name": "research"}})
    player, follower = Player(server), Follower(server, interval_s=5)
    player.node("n1", {}, {"nvidia.com/gpu": "8"}, "")
    names = [f"p{number}" for number in range(5_000)]

    def begin(name: str) -> None:
        player.pod(name, 1)
        player.bind(name, "n1")

    with ThreadPoolExecutor(4) as threads:
        list(threads.map(begin, names[:2_500]))
        follower.poll()
        assert follower.types() == {"queued": 2_500, "allocated": 2_500}
        list(threads.map(begin, names[2_500:]))
        list(threads.map(lambda name: player.delete(name, 0), names[:100]))
    while follower.types()["allocated"] < 5_000 or follower.types()["cancelled"] < 100:
        follower.poll()
    assert follower.types() == {"queued": 5_000, "allocated": 5_000, "cancelled": 100}
    assert len(follower.log.distinct) == len(follower.log.events)
