"""How many GPUs types of instances have, and which."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final, NamedTuple

_GIVEN: Final = re.compile(r"([0-9]{1,4})x(\S{1,100})\Z")


class InstanceGpus(NamedTuple):
    """The GPUs of one instance."""

    gpu_count: int
    gpu_type: str  # empty where there are none


NO_GPUS: Final = InstanceGpus(0, "")

_SIZES: Final = ("xlarge", "2xlarge", "4xlarge", "8xlarge", "16xlarge")
_KNOWN: Final[dict[str, InstanceGpus]] = {
    **{f"{family}.{size}": InstanceGpus(1, gpu) for family, gpu in
       (("g4dn", "T4"), ("g5", "A10G"), ("g6", "L4"), ("g6e", "L40S")) for size in _SIZES},
    "g4dn.12xlarge": InstanceGpus(4, "T4"),
    **{f"{family}.{size}": InstanceGpus(count, gpu) for family, gpu in (("g5", "A10G"), ("g6", "L4"), ("g6e", "L40S"))
       for size, count in (("12xlarge", 4), ("24xlarge", 4), ("48xlarge", 8))},
    "p3.2xlarge": InstanceGpus(1, "V100"),
    "p3.8xlarge": InstanceGpus(4, "V100"),
    "p3.16xlarge": InstanceGpus(8, "V100"),
    "p3dn.24xlarge": InstanceGpus(8, "V100-32GB"),
    "p4d.24xlarge": InstanceGpus(8, "A100"),
    "p4de.24xlarge": InstanceGpus(8, "A100-80GB"),
    "p5.4xlarge": InstanceGpus(1, "H100"),
    "p5.48xlarge": InstanceGpus(8, "H100"),
    "p5e.48xlarge": InstanceGpus(8, "H200"),
    "p5en.48xlarge": InstanceGpus(8, "H200"),
    "p6-b200.48xlarge": InstanceGpus(8, "B200"),
    "trn1.2xlarge": InstanceGpus(1, "Trainium"),
    "trn1.32xlarge": InstanceGpus(16, "Trainium"),
    "trn1n.32xlarge": InstanceGpus(16, "Trainium"),
    "trn2.3xlarge": InstanceGpus(1, "Trainium2"),
    "trn2.48xlarge": InstanceGpus(16, "Trainium2"),
    **{f"inf1.{size}": InstanceGpus(count, "Inferentia") for size, count in (("xlarge", 1), ("2xlarge", 1), ("6xlarge", 4), ("24xlarge", 16))},
    **{f"inf2.{size}": InstanceGpus(count, "Inferentia2") for size, count in (("xlarge", 1), ("8xlarge", 1), ("24xlarge", 6), ("48xlarge", 12))},
    "dl1.24xlarge": InstanceGpus(8, "Gaudi"),
    "standard_nc6s_v3": InstanceGpus(1, "V100"),
    "standard_nc12s_v3": InstanceGpus(2, "V100"),
    "standard_nc24s_v3": InstanceGpus(4, "V100"),
    "standard_nd40rs_v2": InstanceGpus(8, "V100-32GB"),
    "standard_nc24ads_a100_v4": InstanceGpus(1, "A100-80GB"),
    "standard_nc48ads_a100_v4": InstanceGpus(2, "A100-80GB"),
    "standard_nc96ads_a100_v4": InstanceGpus(4, "A100-80GB"),
    "standard_nd96asr_v4": InstanceGpus(8, "A100"),
    "standard_nd96amsr_a100_v4": InstanceGpus(8, "A100-80GB"),
    "standard_nc40ads_h100_v5": InstanceGpus(1, "H100"),
    "standard_nc80adis_h100_v5": InstanceGpus(2, "H100"),
    "standard_nd96isr_h100_v5": InstanceGpus(8, "H100"),
    "standard_nd96isr_h200_v5": InstanceGpus(8, "H200"),
    "standard_nd96isr_mi300x_v5": InstanceGpus(8, "MI300X"),
}  # fmt: skip
#: Families of Google whose GPUs follow from the name, which ends in `-Ng`.
_GOOGLE: Final = {
    "a2-highgpu": "A100",
    "a2-megagpu": "A100",
    "a2-ultragpu": "A100-80GB",
    "a3-highgpu": "H100",
    "a3-edgegpu": "H100",
    "a3-megagpu": "H100-MEGA",
    "a3-ultragpu": "H200",
    "a4-highgpu": "B200",
    "a4x-highgpu": "GB200",
}
_GOOGLE_GPUS: Final = re.compile(r"(a\d[a-z]?-[a-z]+gpu)-([1-9][0-9]?)g\Z")
#: Families without GPUs, by the beginning of their names: of AWS, sizes of Azure, and of Google, where GPUs are said apart.
_WITHOUT: Final = re.compile(
    r"(?:[acdhimrtxz]\d|hpc\d|im\d|is\d|mac\d|u-|u\d)[^.]*\.|basic_|standard_[abdefghlm]"
    r"|(?:[cemn]\d[ad]?|t2[ad]|h[34]d?|x4|z3)-",
    re.IGNORECASE,
)


def parsed(text: str) -> InstanceGpus:
    """The GPUs that a text such as `8xH100` names; `0` is none.

    Raises:
        ValueError: It is no such text.
    """
    if text == "0":
        return NO_GPUS
    found = _GIVEN.match(text)
    if found is None or not int(found[1]):
        raise ValueError(f"{text[:80]!r} are no GPUs, expected e.g. 8xH100, or 0")
    return InstanceGpus(int(found[1]), found[2])


def gpus_of_google(machine_type: str) -> InstanceGpus | None:
    """The GPUs that the name of a type of machine of Google has in it; None if it has none."""
    named = _GOOGLE_GPUS.match(machine_type)
    gpu_type = _GOOGLE.get(named[1]) if named is not None else None
    return None if named is None or gpu_type is None else InstanceGpus(int(named[2]), gpu_type)


def gpus_of(instance_type: str, given: Mapping[str, str]) -> InstanceGpus | None:
    """The GPUs of a type of instance, by what is given before what is known; None if it is not known."""
    if instance_type in given:
        return parsed(given[instance_type])
    name = instance_type.removeprefix("ml.").lower()
    found = _KNOWN.get(name) or gpus_of_google(name)
    return NO_GPUS if found is None and _WITHOUT.match(name) else found
