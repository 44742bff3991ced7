"""What pods hold that means money and is not read as GPUs: devices of ResourceClaims, other accelerators.

It must not decide what is metered: it only counts what is not.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from schemas.escaping import visible
from streams.collect.kubernetes.hami import SHARES
from streams.collect.kubernetes.node_facts import is_gpu
from streams.collect.kubernetes.objects import Pod
from streams.collect.kubernetes.options import Options

CLAIMS: Final = "resource_claims"
RESOURCE: Final = "unknown_resource"
_ENDED: Final = frozenset({"Succeeded", "Failed"})
#: Resources with a vendor's domain whose name is that of an accelerator.
_ACCELERATOR: Final = re.compile(
    r".+/(?:.*[^a-z])?(?:v?gpu|npu|tpu|neuron|gaudi|i915|xe(?![a-z])|ascend|mlu|dcu|accelerator).*"
)
_NAMES_AT_MOST: Final = 100
_SHOWN_AT_MOST: Final = 8


class NotRead:
    """Counts pods by what they hold, each pod once."""

    def __init__(self, options: Options) -> None:
        self._options = options
        self._claims: dict[str, str] = {}  # uid -> name
        self._resources: dict[str, dict[str, str]] = {}

    def look(self, pod: Pod) -> None:
        """Count what a pod on a node holds and nobody reads."""
        if not pod.spec.node_name or pod.status.phase in _ENDED:
            return
        uid, name = pod.metadata.uid, f"{pod.metadata.namespace}/{pod.metadata.name}"
        if pod.spec.resource_claims:
            self._claims[uid] = name
        for resource in set(_limits(pod)):
            if (
                not _ACCELERATOR.fullmatch(resource.lower()[:320])
                or resource in SHARES
                or is_gpu(resource, self._options)
            ):
                continue
            if resource in self._resources or len(self._resources) < _NAMES_AT_MOST:
                self._resources.setdefault(resource, {})[uid] = name

    def reasons(self) -> dict[str, int]:
        """Return how many pods there are, by reason."""
        found = {CLAIMS: len(self._claims), RESOURCE: sum(map(len, self._resources.values()))}
        return {reason: count for reason, count in found.items() if count}

    def said(self) -> list[str]:
        """Return a line with each cause, how many pods, one of them, and what mends it; nothing where there are none."""
        causes = dict(sorted(self._resources.items()))
        shown = [
            f"{len(pods)} {name[:100]} ({_first(pods)})" for name, pods in [*causes.items()][:_SHOWN_AT_MOST]
        ]
        if shown:
            more = f" and {len(causes) - len(shown)} more" if len(causes) > len(shown) else ""
            shown = [f"{', '.join(shown)}{more}: name in `resources` how many GPUs one is"]
        if self._claims:
            shown.append(
                f"{len(self._claims)} ResourceClaims ({_first(self._claims)}): they are not read, ask for resources"
            )
        return [visible(f"pods hold what is read as no GPU: {'; '.join(shown)}")] if shown else []


def _first(pods: dict[str, str]) -> str:
    return min(pods.values())[:200]


def _limits(pod: Pod) -> Iterator[str]:
    for each in (*(pod.spec.containers or ()), *(pod.spec.init_containers or ())):
        yield from (each.resources.limits if each.resources else None) or ()
