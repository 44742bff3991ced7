"""Looks at this machine: its GPUs by nvidia-smi (NVML), and by its firmware the cloud that it is of."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Final

from streams.accounts.account import Account
from streams.collect.command import answer_of
from streams.collect.nvidia_smi.answers import GPU_QUERY, read_names
from streams.init.surroundings import KindCount, Surroundings

Ask = Callable[[Sequence[str]], bytes]
"""Takes the arguments of nvidia-smi and returns its answer."""

_COMMAND: Final = "nvidia-smi"
_VENDOR_FILE: Final = Path("/sys/class/dmi/id/sys_vendor")
_VENDORS: Final[Mapping[str, str]] = {
    "Amazon EC2": "aws",
    "Google": "gcp",
    "Microsoft Corporation": "azure",
    "OracleCloud": "oci",
}
_VENDOR_BYTES: Final = 256
_NOTE: Final = (
    "no scheduler says which jobs there are: the SDK does, in each training script (docs/sources/sdk.md)"
)


def ask(arguments: Sequence[str]) -> bytes:
    """Run nvidia-smi within limits.

    Raises:
        SourceUnavailableError: It cannot be run, fails or takes too long.
    """
    return partial(answer_of, timeout_s=30.0, bytes_at_most=2**20)([_COMMAND, *arguments])


def look(run: Ask = ask, vendor_file: Path = _VENDOR_FILE) -> Surroundings:
    """What nvidia-smi says.

    Raises:
        SourceUnavailableError: It does not answer.
    """
    notes = [_NOTE]
    counted, account = KindCount(notes), Account()
    cloud = cloud_of(vendor_file)
    names = read_names(run(GPU_QUERY), account)
    for name in names:
        counted.add({"gpu_type": name, "cloud": cloud}, 1)
    # The GPUs of one machine are one node, whatever their types.
    kinds = tuple(kind._replace(nodes=1) for kind in counted.kinds())
    notes += (said[0] for said in account.examples.values() if said)
    options = {"price_fields": {"cloud": cloud}} if cloud else {}
    return Surroundings(
        _COMMAND,
        f"this machine, {len(names)} GPUs",
        kinds,
        {"clouds": (cloud,) if cloud else ()},
        {_COMMAND: options},
        tuple(notes),
    )


def cloud_of(vendor_file: Path = _VENDOR_FILE) -> str:
    """The cloud that a machine's firmware names; empty: none that is known."""
    try:
        with vendor_file.open("rb") as file:
            vendor = file.read(_VENDOR_BYTES).decode("utf-8", "replace").strip()
    except OSError:
        return ""
    return _VENDORS.get(vendor, "")
