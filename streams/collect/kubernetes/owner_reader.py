"""Reads the objects that pods belong to, once for each attempt, and says which of them may not be read."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final, Protocol
from urllib.parse import quote

from streams.collect.kubernetes.api import ObjectAnswer
from streams.collect.kubernetes.node_facts import is_gpu
from streams.collect.kubernetes.objects import Pod
from streams.collect.kubernetes.options import Options
from streams.collect.kubernetes.owners import identity_of
from streams.collect.kubernetes.requests import requests_of
from streams.collect.kubernetes.sizes import OWNER_KINDS, Devices, OwnerKind, size_of

logger = logging.getLogger(__name__)

#: What may not be read is asked for again so much later: somebody may have allowed it.
_DENIED_S: Final = 600


class ObjectReader(Protocol):
    """Reads single objects of an API server."""

    def read(self, path: str) -> ObjectAnswer:
        """The object at a path, or why there is none."""


class OwnerReader:
    """The owners of one cluster's pods; it lasts from poll to poll."""

    def __init__(self, options: Options, api: ObjectReader) -> None:
        self._options = options
        self._api = api
        self._denied: dict[str, int] = {}  # path of a kind -> until when
        self._said: set[str] = set()

    def devices(self, pod: Pod, now_s: int) -> Devices:
        """The devices that all pods of the owner of a pod ask for; empty where that is not known.

        Raises:
            SourceUnavailableError: The API server does not answer.
        """
        identity = identity_of(pod.metadata, self._options)
        is_device = self._is_device()
        if identity.kind == "Pod":
            return {} if pod.spec.resource_claims else requests_of(pod.spec, is_device).devices
        kind = OWNER_KINDS.get(identity.kind)
        if kind is None or not self._options.include_owners:
            return {}
        body = self._body(kind, pod.metadata.namespace, identity.name, now_s)
        try:
            return {} if body is None else size_of(body, kind, identity.uid, is_device)
        except (ValueError, RecursionError):
            return {}

    def _is_device(self) -> Callable[[str], bool]:
        return lambda name: is_gpu(name, self._options)

    def _body(self, kind: OwnerKind, namespace: str, name: str, now_s: int) -> bytes | None:
        for version in kind.versions:
            of_kind = f"/apis/{kind.group}/{version}/namespaces/{quote(namespace, safe='')}/{kind.plural}"
            if self._denied.get(of_kind, 0) > now_s:
                continue
            answer = self._api.read(f"{of_kind}/{quote(name, safe='')}")
            if answer.body is not None:
                return answer.body
            if answer.is_denied:
                self._denied[of_kind] = now_s + _DENIED_S
                self._say_denied(kind)
        return None

    def _say_denied(self, kind: OwnerKind) -> None:
        if kind.plural not in self._said:
            self._said.add(kind.plural)
            logger.warning(
                "owners of pods may not be read, so the size of their jobs is not known until they have started",
                extra={
                    "resource": f"{kind.plural}.{kind.group}",
                    "remedy": "allow get of it in the ClusterRole, or set include_owners = false",
                    "runbook": "docs/trouble.md#owners-not-read",
                },
            )
