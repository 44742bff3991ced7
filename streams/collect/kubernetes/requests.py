"""What a pod holds on its node: devices, CPUs and memory. Pure functions of its containers.

As the scheduler counts: containers and sidecars together, or the largest of the init containers that run before them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Final, NamedTuple

from streams.collect.kubernetes import hami
from streams.collect.kubernetes.objects import Container, PodSpec, Quantity
from streams.collect.kubernetes.quantities import mebibytes, milli

#: They may be shares: one in thousands of a GPU, or one of its MiB.
_DEVICES_AT_MOST: Final = 1_000_000
_COUNT_AT_MOST: Final = 10**9


class PodRequests(NamedTuple):
    """Devices by resource (whole ones), shares of them by `hami.HELD`, thousandths of CPUs, MiB."""

    devices: Mapping[str, int]
    cpu_milli: int
    memory_mib: int


def requests_of(spec: PodSpec, is_device: Callable[[str], bool]) -> PodRequests:
    """What a pod holds.

    Raises:
        ValueError: A quantity is none, or beyond what a node can have.
    """
    names = sorted({name for each in _containers(spec) for name in _limits(each) if is_device(name)})
    devices = {name: _held(spec, partial(_devices, name=name)) for name in names}
    shares = {name: _held(spec, partial(_share, what=name)) for name in hami.HELD}
    found = PodRequests(
        {name: count for name, count in (devices | shares).items() if count},
        _held(spec, lambda each: milli(_requested(each, "cpu"))),
        _held(spec, lambda each: mebibytes(_requested(each, "memory"))),
    )
    amounts = (found.cpu_milli, found.memory_mib, *shares.values())
    if sum(devices.values()) > _DEVICES_AT_MOST or max(amounts) > _COUNT_AT_MOST:
        raise ValueError("more devices, CPUs or memory than a node can have")
    return found


def _held(spec: PodSpec, count: Callable[[Container], int]) -> int:
    sidecars, largest = 0, 0
    for each in spec.init_containers or ():
        if each.restart_policy == "Always":
            sidecars += count(each)
            largest = max(largest, sidecars)
        else:
            largest = max(largest, sidecars + count(each))
    return max(largest, sidecars + sum(map(count, spec.containers or ())))


def _containers(spec: PodSpec) -> Iterable[Container]:
    return (*(spec.containers or ()), *(spec.init_containers or ()))


def _limits(container: Container) -> Mapping[str, Quantity]:
    return (container.resources.limits if container.resources else None) or {}


def _devices(container: Container, name: str) -> int:
    limits = _limits(container)
    if (name in hami.NUMBERS or name in hami.SHARES) and hami.is_split(limits):
        return 0  # a share of it is held
    return milli(limits.get(name, 0)) // 1000


def _share(container: Container, what: str) -> int:
    return hami.held(_limits(container), what)


def _requested(container: Container, name: str) -> Quantity:
    """What is set aside: where only a limit is named, that is asked for."""
    requests = (container.resources.requests if container.resources else None) or {}
    return requests.get(name, _limits(container).get(name, 0))
