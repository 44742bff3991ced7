"""Devices of ResourceClaims (dynamic resource allocation): which GPUs a pod was allocated, by its claims and the node's ResourceSlices.

Only what both say is read: how many devices, and of each that it is a GPU or a MIG instance of one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from typing import Final, NamedTuple, Protocol
from urllib.parse import quote

import msgspec

from streams.accounts.accelerators import is_accelerator
from streams.collect.kubernetes.objects import Pod
from streams.collect.mig import slices_of
from streams.collect.values import event_text

#: Of resource.k8s.io, as clusters from 1.32 on have it.
_VERSIONS: Final = ("v1", "v1beta2", "v1beta1")
_WHOLE: Final = frozenset({"gpu", "amdgpu"})
_MIG: Final = re.compile(r"([1-8])g\..{1,40}")
_SAID: Final = ("type", "productName", "profile")
_CLAIMS_AT_MOST: Final = 32


class _Value(msgspec.Struct):
    string: str = ""


class _Basic(msgspec.Struct):
    attributes: dict[str, _Value] = {}


class _Device(msgspec.Struct):
    name: str
    attributes: dict[str, _Value] = {}
    basic: _Basic | None = None  # v1beta1

    @property
    def said(self) -> Mapping[str, _Value]:
        return self.attributes or (self.basic.attributes if self.basic else {})


class _ClaimPool(msgspec.Struct):
    name: str = ""


class _SliceSpec(msgspec.Struct):
    driver: str
    pool: _ClaimPool = msgspec.field(default_factory=_ClaimPool)
    devices: list[_Device] | None = None


class _Slice(msgspec.Struct):
    spec: _SliceSpec


class _Slices(msgspec.Struct):
    items: list[_Slice] | None = None


class _AllocatedDevice(msgspec.Struct, rename="camel"):
    driver: str
    pool: str
    device: str
    admin_access: bool | None = None
    share_id: str | None = msgspec.field(name="shareID", default=None)


class _Devices(msgspec.Struct):
    results: list[_AllocatedDevice] | None = None


class _Allocation(msgspec.Struct):
    devices: _Devices = msgspec.field(default_factory=_Devices)


class _ClaimStatus(msgspec.Struct, rename="camel"):
    allocation: _Allocation | None = None
    reserved_for: list[dict[str, object]] | None = None


class _Claim(msgspec.Struct):
    status: _ClaimStatus = msgspec.field(default_factory=_ClaimStatus)


class Claimed(NamedTuple):
    """What a pod's claims are: thousandths of GPUs and their type; `fault` is what is not understood of them."""

    share: Fraction = Fraction(0)
    gpu_type: str = ""
    fault: str = ""


class _ObjectReader(Protocol):
    def get(self, path: str) -> bytes | None: ...


class ClaimReader:
    """Reads claims of one poll; slices of a node are read once."""

    def __init__(self, api: _ObjectReader) -> None:
        self._api = api
        self._slices: dict[str, Mapping[tuple[str, str, str], _Device]] = {}

    def claimed(self, pod: Pod) -> Claimed:
        """What the claims of a pod on a node are.

        Raises:
            SourceUnavailableError: The API server does not answer.
        """
        share, types = Fraction(0), set[str]()
        names = list(_claim_names(pod))
        if len(names) > _CLAIMS_AT_MOST:
            return Claimed(fault=f"more than {_CLAIMS_AT_MOST} claims")
        for called, name in names:
            status = None if name is None else self._status(pod.metadata.namespace, name)
            if status is None or status.allocation is None:
                return Claimed(fault=f"claim {called[:63]}: it cannot be read, or is not allocated")
            if len(status.reserved_for or ()) > 1:
                return Claimed(fault=f"claim {called[:63]}: several pods share its devices")
            for result in status.allocation.devices.results or ():
                if result.admin_access:
                    continue  # it only watches the device
                found, said = self._device(pod.spec.node_name or "", result)
                if found is None:
                    return Claimed(fault=f"claim {called[:63]}: {said}")
                share += found
                if found:
                    types.add(said)
        return Claimed(share, types.pop() if len(types) == 1 else "")

    def _device(self, node: str, result: _AllocatedDevice) -> tuple[Fraction | None, str]:
        """Thousandths of a GPU and its type; 0 for what is none by its driver; None and what is not understood."""
        what = f"device {result.driver}/{result.pool}/{result.device}"[:200]
        device = self._of_node(node).get((result.driver, result.pool, result.device))
        said = {} if device is None else device.said
        kind, product, profile = (said[name].string if name in said else "" for name in _SAID)
        mig = _MIG.fullmatch(profile) if kind == "mig" else None
        if result.share_id is None and kind in _WHOLE:
            return Fraction(1000), event_text(product)
        if result.share_id is None and mig is not None:
            return Fraction(int(mig[1]) * 1000, slices_of(product, profile)), event_text(product)
        if not (kind in _WHOLE or kind == "mig" or is_accelerator(result.driver) or is_accelerator(kind)):
            return Fraction(0), ""
        if device is None:
            return None, f"{what} is in no ResourceSlice of the node that can be read"
        if result.share_id is not None:
            return None, f"a share of {what}"
        return None, f"{what} is of type {kind[:40]!r}"

    def _status(self, namespace: str, name: str) -> _ClaimStatus | None:
        place = f"namespaces/{quote(namespace, safe='')}/resourceclaims/{quote(name, safe='')}"
        body = self._first(place)
        try:
            return None if body is None else msgspec.json.decode(body, type=_Claim).status
        except (ValueError, RecursionError):
            return None

    def _of_node(self, node: str) -> Mapping[tuple[str, str, str], _Device]:
        known = self._slices.get(node)
        if known is None:
            body = self._first(f"resourceslices?fieldSelector=spec.nodeName%3D{quote(node, safe='')}")
            known = self._slices[node] = {} if body is None else _by_place(body)
        return known

    def _first(self, place: str) -> bytes | None:
        """An object under the first version of the API that has it."""
        found = (self._api.get(f"/apis/resource.k8s.io/{version}/{place}") for version in _VERSIONS)
        return next((body for body in found if body is not None), None)


def _claim_names(pod: Pod) -> Iterator[tuple[str, str | None]]:
    """Yield the pod's claims: what it calls each, and its name; None: it is made from a template, and not named yet."""
    made = {each.name: each.resource_claim_name for each in pod.status.resource_claim_statuses or ()}
    for each in pod.spec.resource_claims or ():
        name = each.resource_claim_name or made.get(each.name)
        if name or each.name not in made:  # else the cluster found that none is needed
            yield each.name, name


def _by_place(body: bytes) -> Mapping[tuple[str, str, str], _Device]:
    try:
        slices: Sequence[_Slice] = msgspec.json.decode(body, type=_Slices).items or ()
    except (ValueError, RecursionError):
        return {}
    return {
        (each.spec.driver, each.spec.pool.name, device.name): device
        for each in slices
        for device in each.spec.devices or ()
    }
