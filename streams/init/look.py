"""Finds out what is there to be metered: a scheduler that the user names, or the one that answers."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from pydantic import ValidationError

from streams.clock import Clock
from streams.collect.collector import SourceUnavailableError
from streams.collect.http_source import OutsideApi
from streams.collect.kubernetes.options import Options as KubernetesOptions
from streams.collect.ray.options import Options as RayOptions
from streams.errors import TrainfareError, WrongUseError
from streams.init import of_kubernetes, of_machine, of_ray, of_slurm
from streams.init.names import NAMES
from streams.init.surroundings import Surroundings


class _Command(NamedTuple):
    """What a source is asked by, and where it is to be had."""

    name: str
    where: str


_COMMANDS: Final = {
    "slurm": _Command(
        "sinfo", "a command of Slurm: run this where users submit jobs, or put Slurm's commands on the PATH"
    ),
    "local": _Command(
        "nvidia-smi", "which comes with NVIDIA's driver: without it there is no GPU here to be metered"
    ),
}
_RAY_TIMEOUT_S: Final = 2.0
_RAY_VERSION_BYTES: Final = 65_536


def look(name: str, login: Mapping[str, Any], clock: Clock) -> Surroundings:
    """What a scheduler says; `login`: how it is reached, as options of its collector.

    Raises:
        SourceUnavailableError: It does not answer.
        TrainfareError: The command that asks it is not here.
        WrongUseError: An option is wrong, or not one of it.
    """
    lookers: Mapping[str, Callable[[], Surroundings]] = {
        "slurm": of_slurm.look,
        "kubernetes": lambda: of_kubernetes.look(_options(KubernetesOptions, name, login), clock),
        "ray": lambda: of_ray.look(_options(RayOptions, name, login)),
        "local": of_machine.look,
    }
    if name in ("slurm", "local") and login:
        raise WrongUseError(
            f"init {name} asks commands of this machine: leave out --url and files of a login"
        )
    if (needed := _COMMANDS.get(name)) and shutil.which(needed.name) is None:
        raise TrainfareError(f"init {name}: this machine has no {needed.name}, {needed.where}")
    try:
        return lookers[name]()
    except SourceUnavailableError as fault:
        if name != "slurm":
            raise
        raise SourceUnavailableError(
            f"{fault}. Slurm's own commands must work here first: run this where users submit jobs; "
            "SLURM_CONF names another slurm.conf"
        ) from None


def detected(environment: Mapping[str, str] = os.environ) -> str:
    """The one scheduler that is there; the machine's own GPUs where there is none.

    Raises:
        WrongUseError: There are several, or nothing.
    """
    found = []
    if shutil.which("sinfo") and shutil.which("scontrol"):
        found.append("slurm")
    if environment.get("KUBERNETES_SERVICE_HOST"):
        found.append("kubernetes")
    if _has_ray():
        found.append("ray")
    if len(found) > 1:
        raise WrongUseError(f"several are here: {', '.join(found)}; name one: trainfare init {found[0]}")
    if found:
        return found[0]
    if shutil.which("nvidia-smi"):
        return "local"
    raise WrongUseError(
        "nothing to meter is found here: no sinfo of Slurm, not in a pod of Kubernetes, no dashboard of Ray at "
        "127.0.0.1:8265, no nvidia-smi. Name what you have, and where: trainfare init kubernetes --url ...; "
        f"it knows {', '.join(NAMES)}"
    )


def _has_ray() -> bool:
    url = RayOptions().url
    try:
        answer = OutsideApi(url, timeout_s=_RAY_TIMEOUT_S, bytes_at_most=_RAY_VERSION_BYTES).get(
            "/api/version"
        )
    except SourceUnavailableError:
        return False
    return b"ray_version" in answer


def _options(model: type[Any], name: str, login: Mapping[str, Any]) -> Any:
    try:
        return model(**login)
    except ValidationError as faults:
        said = "; ".join(
            f"--{str(fault['loc'][0]).replace('_', '-') if fault['loc'] else 'url'}: {fault['msg']}"
            for fault in faults.errors(include_url=False, include_input=False)
        )
        raise WrongUseError(f"init {name}: {said}") from None


def unknown(name: str, names: Sequence[str] = NAMES) -> WrongUseError:
    """The refusal of a name."""
    return WrongUseError(f"init {name[:80]!a}: expected one of {', '.join(names)}, or no name to find out")
