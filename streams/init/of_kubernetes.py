"""Looks at Kubernetes: GPU products, clouds, regions and instance types of nodes, and where DCGM's exporter runs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

import msgspec

from schemas.counting import how_many
from schemas.escaping import visible
from streams.clock import Clock
from streams.collect.collector import SourceUnavailableError
from streams.collect.kubernetes.api import ApiServer, login_of
from streams.collect.kubernetes.node_facts import node_facts
from streams.collect.kubernetes.objects import Node
from streams.collect.kubernetes.options import Options
from streams.init.surroundings import KindCount, Surroundings, allowed

#: Labels of the pods of DCGM's exporter: of NVIDIA's GPU operator, of its own chart, and of older ones.
_EXPORTERS: Final = (
    "app=nvidia-dcgm-exporter",
    "app.kubernetes.io/name=dcgm-exporter",
    "app=dcgm-exporter",
)
_EXPORTER_PORT: Final = 9400
_EXPORTERS_AT_MOST: Final = 5_000
_LISTED: Final = ("clouds", "regions", "instance types")
_FIELDS: Final = ("cloud", "region", "instance_type")


class _ExporterPod(msgspec.Struct):
    status: _ExporterAddress


class _ExporterAddress(msgspec.Struct, rename={"pod_ip": "podIP"}):
    pod_ip: str = ""


def look(options: Options, clock: Clock) -> Surroundings:
    """What the API server says.

    Raises:
        SourceUnavailableError: It does not answer.
        WrongUseError: Neither is the server named, nor does this run in a cluster.
    """
    api = ApiServer(
        login_of(options), clock, timeout_s=options.timeout_s, object_bytes=options.max_object_kib * 1024
    )
    notes: list[str] = []
    counted, nodes, faults = KindCount(notes), 0, 0
    for node in _nodes(api):
        nodes += 1
        try:
            facts = node_facts(msgspec.json.decode(node, type=Node), options)
        except (ValueError, RecursionError):
            faults += 1
            continue
        fields = {
            name: value for name, value in facts.fields.items() if name not in ("zone", "cluster", "account")
        }
        if facts.gpu_milli:
            counted.add(fields, max(facts.gpu_milli // 1000, 1))
    if faults:
        notes.append(f"{faults} nodes cannot be read, and are left out")
    kinds = counted.kinds()
    if not kinds:
        notes.append(
            "no node has GPUs (nvidia.com/gpu and the like in its capacity): nothing will be metered"
        )
    given = {name: str(getattr(options, name)) for name in _login_fields(options)}
    tables: dict[str, Mapping[str, Any]] = {"kubernetes": given}
    if exporters := _exporters(api, notes):
        tables["dcgm"] = {"targets": exporters}
    names = {
        title: tuple(allowed((kind.fields.get(field, "") for kind in kinds), title, notes))
        for title, field in zip(_LISTED, _FIELDS, strict=True)
    }
    where = options.url or "the cluster that this runs in"
    return Surroundings(
        "kubernetes",
        f"Kubernetes at {visible(where)}, {how_many(nodes, 'node')}",
        kinds,
        names,
        tables,
        tuple(notes),
    )


def _nodes(api: ApiServer) -> Iterator[msgspec.Raw]:
    for page in api.list("/api/v1/nodes", {}):
        yield from page.objects


def _login_fields(options: Options) -> list[str]:
    """The options by which the server was reached, where they were given."""
    logins = ("url", "token_file", "ca_file", "client_cert_file", "client_key_file")
    return [name for name in logins if getattr(options, name)]


def _exporters(api: ApiServer, notes: list[str]) -> list[str]:
    """The addresses of DCGM's exporters now."""
    try:
        for selector in _EXPORTERS:
            found: list[str] = []
            for page in api.list("/api/v1/pods", {"labelSelector": selector}):
                for raw in page.objects:
                    address = msgspec.json.decode(raw, type=_ExporterPod).status.pod_ip
                    host = f"[{address}]" if ":" in address else address
                    if address and len(found) < _EXPORTERS_AT_MOST:
                        found.append(f"http://{host}:{_EXPORTER_PORT}/metrics")
            if found:
                return found
    except (SourceUnavailableError, ValueError, RecursionError) as fault:
        notes.append(f"DCGM's exporters are not looked for: {visible(str(fault)[:200])}")
        return []
    notes.append("no pod of DCGM's exporter: costs are metered, GPU utilization is not")
    return []
