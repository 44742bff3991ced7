"""The API server's answers, good and bad: logins, pages, watches that break off or are too old, objects that are hostile."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from streams.clock import ManualClock
from streams.collect.collector import SourceUnavailableError
from streams.collect.kubernetes.api import ApiServer, Login, login_of
from streams.collect.kubernetes.collector import open_collector
from streams.collect.kubernetes.lines import Lines
from streams.collect.kubernetes.options import Options
from streams.errors import WrongUseError
from tests.collect.kubernetes.cluster import Cluster
from tests.collect.kubernetes.objects import node, owner, pod
from tests.collect.kubernetes.server import TOKEN

TRAIN: dict[str, Any] = {"owners": owner("Job", "train")}


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    found = Cluster()
    found.put("nodes", node("n1"))
    yield found
    found.server.close()


def api(cluster: Cluster, token_file: Path | None = None) -> ApiServer:
    login = Login(cluster.server.url, token_file, None, None, None)
    return ApiServer(login, ManualClock(), timeout_s=5, object_bytes=65_536)


def test_a_list_is_read_page_by_page(cluster: Cluster) -> None:
    cluster.server.page_objects = 2
    for number in range(5):
        cluster.put(
            "pods", pod(f"p{number}", created=10, bound=11, gpus="1", owners=owner("Job", f"j{number}"))
        )
    cluster.poll(20)
    assert len(cluster.batches[-1].position["jobs"]) == 5
    pages = [each for each in cluster.server.requests if each.startswith("/api/v1/pods?")]
    assert len(pages) == 3
    assert "continue=4" in pages[2]


def test_a_watch_goes_on_from_where_the_last_one_stopped(cluster: Cluster) -> None:
    cluster.put("pods", pod("a", created=10, **TRAIN))
    cluster.poll(20)
    cluster.put("pods", pod("a", created=10, bound=22, **TRAIN))
    cluster.poll(30)
    cluster.poll(40)
    watches = [each for each in cluster.server.requests if "watch=1" in each and "/pods" in each]
    assert ["resourceVersion=2" in watches[0], "resourceVersion=3" in watches[1]] == [True, True]
    assert all("allowWatchBookmarks=true" in each and "timeoutSeconds=5" in each for each in watches)


def test_a_bookmark_moves_the_version_where_nothing_happens(cluster: Cluster) -> None:
    cluster.poll(20)
    cluster.server.shown += 1_000
    cluster.poll(30)
    assert cluster.position is not None
    assert cluster.position["pods_version"] == str(cluster.server.shown)


@pytest.mark.parametrize("in_the_stream", [True, False])
def test_where_history_is_gone_all_is_listed_again_and_what_is_missing_has_ended(
    cluster: Cluster, in_the_stream: bool
) -> None:
    cluster.put("pods", pod("a", created=10, bound=11, started=12, **TRAIN))
    cluster.put("pods", pod("b", created=10, bound=11, gpus="1", owners=owner("Job", "other")))
    cluster.poll(20)
    cluster.delete("pods", pod("a", created=10, bound=11, started=12, ended=25, **TRAIN))
    cluster.put("pods", pod("c", created=26, bound=27, gpus="1", owners=owner("Job", "third")))
    cluster.delete("nodes", node("n1"))
    cluster.put("nodes", node("n2"))
    if in_the_stream:
        cluster.server.oldest = cluster.server.shown + 1
    else:
        cluster.server.gone = True
    events = cluster.poll(50)
    found = [(each.get("job_id", each.get("node")), each["type"]) for each in events]
    assert found == [
        ("n2", "provisioned"),
        ("n1", "terminated"),
        ("research/uid-thir/third", "queued"),
        ("research/uid-thir/third", "allocated"),
        ("research/uid-trai/train", "cancelled"),
    ]
    assert events[-1]["time_ms"] == 1_790_000_020_000  # when all was read last
    cluster.server.oldest, cluster.server.gone = 0, False
    assert cluster.poll(60) == []


def test_a_watch_that_breaks_off_within_an_object_loses_nothing(cluster: Cluster) -> None:
    cluster.put("pods", pod("a", created=10, **TRAIN))
    cluster.poll(20)
    cluster.put("pods", pod("a", created=10, bound=21, **TRAIN))
    whole = len(json.dumps({"type": "MODIFIED", "object": cluster.server.objects("pods")[0]})) + 1
    cluster.put("pods", pod("a", created=10, bound=21, started=25, **TRAIN))
    cluster.server.cut_bytes = whole + 100
    with pytest.raises(SourceUnavailableError, match="the watch broke off"):
        cluster.poll(30)
    assert cluster.last()["type"] == "allocated"
    cluster.server.cut_bytes = None
    assert [each["type"] for each in cluster.poll(31)] == ["started"]


def test_an_object_that_is_too_large_is_left_out_and_the_rest_is_read(cluster: Cluster) -> None:
    cluster.options = cluster.options.model_copy(update={"max_object_kib": 16})
    cluster.poll(20)
    large = pod("large", created=21, bound=22, **TRAIN)
    large["metadata"]["annotations"] = {"a": "x" * 20_000}
    cluster.put("pods", large, pod("b", created=21, bound=22, gpus="1", owners=owner("Job", "other")))
    assert {each["job_id"] for each in cluster.poll(30)} == {"research/uid-othe/other"}
    assert list(cluster.batches[-1].account.said) == ["/api/v1/pods: an object is larger than max_object_kib"]


HOSTILE: list[Any] = [
    {"metadata": {"name": "x", "uid": "", "creationTimestamp": "2026-09-21T14:13:30Z"}},
    {"metadata": {"name": "x", "uid": "u" * 500, "creationTimestamp": "2026-09-21T14:13:30Z"}},
    {"metadata": {"name": "x", "uid": "u"}},
    {"metadata": {"name": "x", "uid": "u", "creationTimestamp": "0001-01-01T00:00:00Z"}},
    {"metadata": {"name": "x", "uid": "u", "creationTimestamp": "9999-01-01T00:00:00Z"}},
    {"metadata": {"name": "x", "uid": "u", "creationTimestamp": "yesterday"}},
    {"metadata": {"name": "\x1b[31m\u202e", "uid": 7}},
    {"metadata": []},
    [],
    None,
]


@pytest.mark.parametrize("hostile", HOSTILE)
def test_a_pod_that_cannot_be_read_is_said_and_stops_nothing(cluster: Cluster, hostile: Any) -> None:
    cluster.poll(20)
    if isinstance(hostile, dict) and isinstance(hostile["metadata"], dict):
        hostile = {**pod("x"), **hostile}
    good = {**pod("b", created=21, bound=22), "kind": "Pod"}
    good["metadata"]["resourceVersion"] = "7"
    cluster.server.lines = [
        json.dumps({"type": "ADDED", "object": each}).encode() for each in (hostile, good)
    ]
    assert [each["type"] for each in cluster.poll(30)] == ["queued", "allocated"]
    assert len(cluster.batches[-1].account.said) == 1
    assert cluster.batches[-1].account.said[0].isprintable()


def test_a_pod_that_is_gone_ends_even_if_its_last_state_cannot_be_read(cluster: Cluster) -> None:
    cluster.put("pods", pod("a", created=10, bound=11, started=12, **TRAIN))
    cluster.poll(20)
    broken = pod("a", created=10, bound=11, started=12, ended=15, **TRAIN)
    ended = broken["status"]["containerStatuses"][0]["state"]["terminated"]
    ended["finishedAt"] = "1901-01-01T00:00:00Z"
    cluster.put("pods", broken)
    assert cluster.poll(30) == []
    cluster.delete("pods", broken)
    events = cluster.poll(40)
    assert [(each["type"], each["time_ms"]) for each in events] == [("cancelled", 1_790_000_030_000)]
    assert len(cluster.batches[-1].account.said) == 1


@pytest.mark.parametrize("hostile", HOSTILE)
def test_a_pod_of_a_list_that_cannot_be_read_stops_nothing(cluster: Cluster, hostile: Any) -> None:
    if isinstance(hostile, dict) and isinstance(hostile["metadata"], dict):
        hostile = {**pod("x"), **hostile}
    page = {"metadata": {"resourceVersion": "7"}, "items": [hostile, pod("b", created=10, bound=11)]}
    cluster.server.bodies["/api/v1/pods"] = json.dumps(page).encode()
    assert [each["type"] for each in cluster.poll(30) if "job_id" in each] == ["queued", "allocated"]
    assert len(cluster.batches[-1].account.said) == 1


@pytest.mark.parametrize(
    "meta",
    [
        {"name": ""},
        {"name": "x" * 300},
        {"name": "n2", "creationTimestamp": "9999-01-01T00:00:00Z"},
        {"name": "n2", "deletionTimestamp": "1901-01-01T00:00:00Z"},
        {"name": 7},
    ],
)
def test_a_node_that_cannot_be_read_stops_nothing(cluster: Cluster, meta: dict[str, Any]) -> None:
    broken = node("n2")
    broken["metadata"] |= meta
    page = {"metadata": {"resourceVersion": "7"}, "items": [broken, node("n1")]}
    cluster.server.bodies["/api/v1/nodes"] = json.dumps(page).encode()
    assert [(each["node"], each["type"]) for each in cluster.poll(30)] == [("n1", "provisioned")]
    assert len(cluster.batches[-1].account.said) == 1


def test_a_bookmark_that_is_none_is_tried_again_later(cluster: Cluster) -> None:
    cluster.poll(20)
    cluster.server.lines = [b'{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":7}}}']
    with pytest.raises(SourceUnavailableError, match="no bookmark"):
        cluster.poll(30)


def test_a_page_that_is_too_large_is_asked_for_in_smaller_ones(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(60):
        cluster.put(
            "pods", pod(f"p{number}", created=10, bound=11, gpus="1", owners=owner("Job", f"j{number}"))
        )
    one = len(json.dumps(cluster.server.objects("pods")[0]))
    monkeypatch.setattr("streams.collect.kubernetes.api._PAGE_BYTES", 55 * one)
    assert len(list(api(cluster).list("/api/v1/pods", {}))) == 2
    assert [each.count("limit=50&") + each.endswith("limit=50") for each in cluster.server.requests] == [
        0,
        1,
        1,
    ]
    monkeypatch.setattr("streams.collect.kubernetes.api._PAGE_BYTES", 100)
    with pytest.raises(SourceUnavailableError, match="answers more than 100 bytes"):
        list(api(cluster).list("/api/v1/pods", {}))


@pytest.mark.parametrize("quantity", ["-1", "1e99", "NaN", "9" * 30, "1.5.5", "", "8 ", "1e18"])
def test_a_quantity_that_is_none_leaves_the_pod_out(cluster: Cluster, quantity: str) -> None:
    cluster.put("pods", pod("a", created=10, bound=11, gpus=quantity or "x", **TRAIN))
    cluster.put("pods", pod("b", created=10, bound=11, gpus="1", owners=owner("Job", "other")))
    found = {each.get("job_id") for each in cluster.poll(20)} - {None}
    assert found == {"research/uid-othe/other"}
    assert len(cluster.batches[-1].account.said) == 1


@pytest.mark.parametrize("line", [b"{", b"[]", b'{"type":1}', b"\xff", b"[" * 100_000])
def test_a_line_that_is_no_event_is_tried_again_later(cluster: Cluster, line: bytes) -> None:
    cluster.poll(20)
    cluster.server.lines = [line]
    with pytest.raises(SourceUnavailableError, match=r"/api/v1/pods: no watch"):
        cluster.poll(30)


@pytest.mark.parametrize("body", [b"", b"{}", b"[]", b'{"metadata":{},"items":7}', b"\xff", b"[" * 100_000])
def test_a_list_that_is_none_is_tried_again_later(cluster: Cluster, body: bytes) -> None:
    cluster.server.bodies["/api/v1/pods"] = body
    with pytest.raises(SourceUnavailableError, match="/api/v1/pods: no list"):
        cluster.poll(20)


@pytest.mark.parametrize(
    ("status", "said"),
    [
        (401, "the token is not accepted"),
        (403, "the ClusterRole must allow get, list and watch"),
        (404, "no such namespace"),
        (429, "try again later"),
        (500, "try again later"),
        (302, "answered 302"),
    ],
)
def test_a_refusal_is_explained_in_one_line(cluster: Cluster, status: int, said: str) -> None:
    cluster.server.status = status
    with pytest.raises(SourceUnavailableError, match=said) as fault:
        cluster.poll(20)
    assert "\n" not in str(fault.value)


def test_a_token_is_read_anew_and_never_shown(
    cluster: Cluster, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    path = tmp_path / "token"
    server = api(cluster, path)
    said = []
    for token in (TOKEN, "another-secret"):
        path.write_text(token + "\n")
        list(server.list("/api/v1/pods", {}))
        assert f"Bearer {token}" in cluster.server.tokens
    for status in (401, 403, 500):
        cluster.server.status = status
        with pytest.raises(SourceUnavailableError) as fault:
            list(server.list("/api/v1/pods", {}))
        said.append(str(fault.value))
    for token in ("two words secret", "secret\nX-Header: 1", "s\u00e9cret", "", "x" * 70_000):
        path.write_text(token)
        with pytest.raises(SourceUnavailableError, match="expected one token and nothing else") as fault:
            list(server.list("/api/v1/pods", {}))
        said.append(str(fault.value))
    cluster.server.close()
    path.write_text(TOKEN)
    with pytest.raises(SourceUnavailableError, match="no answer") as fault:
        list(api(cluster, path).list("/api/v1/pods", {}))
    assert not any("secret" in each for each in (*said, str(fault.value), caplog.text))


def test_without_a_url_it_logs_in_as_the_pod_that_it_runs_in() -> None:
    found = login_of(Options(), {"KUBERNETES_SERVICE_HOST": "fd00::1", "KUBERNETES_SERVICE_PORT": "6443"})
    assert found.url == "https://[fd00::1]:6443"
    assert str(found.token_file).endswith("/serviceaccount/token")
    assert str(found.ca_file).endswith("/serviceaccount/ca.crt")
    with pytest.raises(WrongUseError, match="name the API server"):
        login_of(Options(), {})


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"url": "10.0.0.1:6443"}, "no address of an API server"),
        ({"url": "https://user:pw@host"}, "no address of an API server"),
        ({"url": "http://10.0.0.1:8001"}, "use https"),
        ({"url": "http://localhost:8001", "token_file": "t"}, "needs https"),
        ({"url": "https://a", "client_cert_file": "c"}, "go together"),
        ({"price_fields": {"colour": "red"}}, "is no price field"),
        ({"resources": {"x/y": 0}}, "expected GPUs from 0.001"),
        ({"unknown": 1}, "extra"),
    ],
)
def test_wrong_options_are_refused(options: dict[str, Any], said: str) -> None:
    with pytest.raises(ValidationError, match=said):
        Options(**options)


def test_only_the_named_namespace_and_labels_are_asked_for(cluster: Cluster) -> None:
    update = {"namespace": "ml/../x", "label_selector": "team=vision,a!=b", "include_nodes": False}
    cluster.options = cluster.options.model_copy(update=update)
    cluster.poll(20)
    assert cluster.server.requests == [
        "/api/v1/namespaces/ml%2F..%2Fx/pods?labelSelector=team%3Dvision%2Ca%21%3Db&limit=500"
    ]


def test_a_node_that_is_not_known_yet_is_asked_for_by_name(cluster: Cluster) -> None:
    cluster.poll(20)
    cluster.put("nodes", node("new"))
    cluster.put("pods", pod("a", created=21, bound=22, on="new", **TRAIN))
    cluster.put("pods", pod("b", created=21, bound=22, on="absent", owners=owner("Job", "other")))
    events = cluster.poll(25)
    assert [each["type"] for each in events] == ["provisioned", "queued", "allocated", "queued", "allocated"]
    assert (events[2]["gpu_type"], "gpu_type" in events[4]) == ("H100", False)
    assert cluster.poll(60) == []


def test_a_position_of_another_kind_is_refused(cluster: Cluster) -> None:
    collector = open_collector(cluster.options)
    with pytest.raises(Exception, match="not one of kubernetes"):
        next(collector.poll({"since_s": 1}, 1_790_000_000_000))


def test_lines_are_cut_wherever_the_parts_end() -> None:
    text = b"ab\n\ncdef\n" + b"x" * 50 + b"\ngh\ni"
    for size in range(1, len(text)):
        lines = Lines(10)
        found = [each for at in range(0, len(text), size) for each in lines.add(text[at : at + size])]
        assert found == [b"ab", b"cdef", None, b"gh"]
        assert lines.is_inside
