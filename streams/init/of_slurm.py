"""Looks at Slurm: GPU types, partitions and accounts, and whether Slurm counts GPUs as the meter needs it.

Only commands that read are run: sinfo, scontrol show, sacctmgr list, sacct.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple

import msgspec

from schemas.counting import how_many
from schemas.escaping import visible
from streams.collect.collector import SourceUnavailableError
from streams.collect.slurm.command import asking
from streams.collect.slurm.options import Options
from streams.collect.slurm.records import raw_entries
from streams.collect.slurm.tres import gpus_of_node
from streams.collect.values import event_text
from streams.errors import TrainfareError
from streams.init.surroundings import KindCount, Surroundings, allowed

Ask = Callable[[Sequence[str]], bytes]
"""Runs a command and returns what it answers."""

_SETTING: Final = re.compile(r"(\w+)\s*= (.*)")
_VERSION: Final = re.compile(r"(\d{1,4})\.(\d{1,4})(?:\.\d{1,4})?")
#: Up to this version sinfo lists all that a node has; later scontrol does.
_SINFO_UNTIL: Final = (22, 5)
_NODES: Final[Mapping[bool, Sequence[str]]] = {
    True: ["sinfo", "--json"],
    False: ["scontrol", "show", "nodes", "--json"],
}

ask: Final[Ask] = asking(Options())
"""Runs a command of Slurm on this machine, within the limits that its collector has."""


class _GresNode(msgspec.Struct):
    name: str
    gres: str | None = None
    partitions: list[str] | None = None


class _GpusFound(NamedTuple):
    """The GPUs of nodes: by type, and which types each partition has."""

    counted: KindCount
    types_of: Mapping[str, set[str]]
    nodes: int


def look(run: Ask = ask) -> Surroundings:
    """What Slurm says.

    Raises:
        SourceUnavailableError: A command of Slurm does not answer.
        TrainfareError: Slurm does not count GPUs; the message says what slurm.conf needs.
    """
    notes: list[str] = []
    version = visible(run(["sinfo", "--version"]).decode("utf-8", "replace").strip()[:80])
    settings = _settings(run(["scontrol", "show", "config"]))
    found = _VERSION.search(version)
    nodes_command = _NODES[found is None or (int(found[1]), int(found[2])) <= _SINFO_UNTIL]
    cluster = settings.get("ClusterName", "")
    held = _held(run(nodes_command), cluster, notes)
    kinds = held.counted.kinds()
    types = sorted({kind.gpu_type for kind in kinds} - {""})
    options: dict[str, Any] = {"nodes_command": nodes_command}
    tracked = [each.strip() for each in settings.get("AccountingStorageTRES", "").split(",")]
    if kinds and not any(each.startswith("gres/gpu") for each in tracked):
        wanted = ",".join(["gres/gpu", *(f"gres/gpu:{visible(each)}" for each in types)])
        raise TrainfareError(
            f"Slurm does not count GPUs: set AccountingStorageTRES={wanted} in slurm.conf and restart slurmctld"
        )
    if untracked := [each for each in types if f"gres/gpu:{each}" not in tracked]:
        options |= _types_by_partition(held, types, untracked, notes)
    if not kinds:
        notes.append("no node of Slurm has GPUs (Gres=gpu:TYPE:COUNT in slurm.conf): nothing will be metered")
    if "" in {kind.gpu_type for kind in kinds}:
        notes.append("some nodes name no type of their GPUs (Gres=gpu:COUNT): name it, gpu:TYPE:COUNT")
    if settings.get("PrivateData", "none") not in ("none", ""):
        notes.append(
            f"PrivateData={visible(settings['PrivateData'][:80])}: run the collector as an operator of Slurm"
        )
    options |= _accounting(run, settings, notes)
    return Surroundings(
        "slurm",
        f"{version}, cluster {visible(cluster[:80]) or 'without a name'}, {how_many(held.nodes, 'node')}",
        kinds,
        {
            "partitions": tuple(allowed(held.types_of, "partitions", notes)),
            "accounts": _accounts(run, notes),
        },
        {"slurm": options},
        tuple(notes),
    )


def _settings(answer: bytes) -> dict[str, str]:
    """What `scontrol show config` says: name -> value; of `(null)` nothing."""
    found = {}
    for line in answer.decode("utf-8", "replace").splitlines():
        match = _SETTING.fullmatch(line.strip())
        if match and match[2] != "(null)":
            found[match[1]] = match[2].strip()
    return found


def _held(answer: bytes, cluster: str, notes: list[str]) -> _GpusFound:
    counted, types_of, nodes, faults = KindCount(notes), dict[str, set[str]](), 0, 0
    for raw in raw_entries(answer, "nodes", "sinfo"):
        try:
            node = msgspec.json.decode(raw, type=_GresNode)
            gpus = gpus_of_node(event_text(node.gres or ""))
        except (ValueError, RecursionError):
            faults += 1
            continue
        nodes += 1
        for each in gpus:
            counted.add({"gpu_type": each.type, "cluster": cluster}, each.number)
        for partition in node.partitions or ():
            types_of.setdefault(partition, set()).update(each.type for each in gpus)
    if faults:
        notes.append(f"{faults} nodes cannot be read, and are left out")
    return _GpusFound(counted, types_of, nodes)


def _types_by_partition(
    held: _GpusFound, types: Sequence[str], untracked: Sequence[str], notes: list[str]
) -> dict[str, Any]:
    """Options that name the GPU type of jobs where Slurm's accounting does not."""
    mend = f"AccountingStorageTRES=gres/gpu,{','.join(f'gres/gpu:{visible(each)}' for each in types)}"
    if len(types) == 1:
        notes.append(
            f"accounting has GPUs without their type: all are taken for {visible(types[0])}; {mend} in slurm.conf names them"
        )
        return {"price_fields": {"gpu_type": types[0]}}
    single = {partition: min(of) for partition, of in held.types_of.items() if len(of - {""}) == 1}
    mixed = [partition for partition, of in held.types_of.items() if len(of - {""}) > 1]
    said = f"accounting has no type for {', '.join(map(visible, untracked[:5]))}; set {mend} in slurm.conf"
    if mixed:
        said += f"; until then jobs of {', '.join(map(visible, mixed[:5]))} that end between two polls may be unpriced"
    notes.append(said)
    return {"partition_price_fields": {each: {"gpu_type": single[each]} for each in sorted(single) if each}}


def _accounting(run: Ask, settings: Mapping[str, str], notes: list[str]) -> dict[str, Any]:
    """Options for a cluster without slurmdbd."""
    try:
        if settings.get("AccountingStorageType", "").endswith("/none"):
            raise SourceUnavailableError("AccountingStorageType=accounting_storage/none")
        run(["sacct", "--noheader", "--parsable2", "--allocations", "--format=JobIDRaw", "--starttime=now"])
    except SourceUnavailableError as fault:
        notes.append(f"no accounting ({fault}): jobs that come and go between two polls are missed")
        return {"use_sacct": False}
    return {}


def _accounts(run: Ask, notes: list[str]) -> tuple[str, ...]:
    try:
        answer = run(["sacctmgr", "--noheader", "--parsable2", "list", "account", "format=Account"])
    except SourceUnavailableError as fault:
        notes.append(f"accounts are not listed: {fault}")
        return ()
    return tuple(allowed(answer.decode("utf-8", "replace").splitlines(), "accounts", notes))
