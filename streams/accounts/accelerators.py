"""Tells by its name whether something is an accelerator: a resource, a generic resource of Slurm, a label of a runner."""

from __future__ import annotations

import re
from typing import Final

_CHARS: Final = 320
#: What vendors and those who share GPUs call them.
_KINDS: Final = (
    r"[a-z]?gpus?|(?:high|mega|ultra|edge)gpu|gpu(?:share|num|core|mem)s?|v?cuda|v?gcu|npus?|tpu(?:v\d\w*)?s?|[ihlprx]pu|mig-\w+|directx|dcu(?:num)?|accel|accelerators?"
    r"|neuron(?:core|device)?s?|gaudi\d?|i915|xe|ascend\w*|mlu\w*|qaic\w*|rbln\w*|rngd|fpgas?|[sdqct]px_nps\d"
)
#: Types of them.
_TYPES: Final = (
    r"a(?:2|10g?|16|30|40|100|800)|b[123]00|h(?:20|100|200|800)|l(?:4|20|40s?)|t4|gb[123]00|gh200|mi\d{3}[a-z]?|[pv]100|p40|k80|m60"
    r"|rtx\w*|gtx\w*|[dh]gx\w*|tesla|quadro|geforce|nvidia"
)
#: Types of instances that have them.
_INSTANCES: Final = (
    r"(?:g\d[a-z]*|p\d[a-z]*|trn\d[a-z]*|inf\d|dl\d[a-z]?)\.\d*(?:xlarge|large|metal)|standard_n[cdv]\w*"
)
_WORDS: Final = re.compile(
    rf"(?:.*[^a-z])?(?:\d{{1,3}}x)?(?:{_KINDS}|{_TYPES}|{_INSTANCES})(?:x\d{{1,3}})?(?:[^a-z].*)?"
)
#: Those whose resources are all of accelerators, whatever they call them.
_VENDORS: Final = (
    "birentech.com", "cambricon.com", "cerebras.net", "cloud-tpus.google.com", "d-matrix.ai", "enflame.com", "furiosa.ai", "graphcore.ai",
    "groq.com", "hygon.com", "iluvatar.ai", "kunlunxin.com", "metax-tech.com", "mthreads.com", "qualcomm.com", "rebellions.ai",
    "sambanova.ai", "tenstorrent.com", "vastaitech.com",
)  # fmt: skip


def is_accelerator(name: str) -> bool:
    """Whether a name has the word for an accelerator in it, or a common type of one."""
    return _WORDS.fullmatch(name.lower()[:_CHARS]) is not None


def is_accelerator_resource(resource: str) -> bool:
    """Whether a resource of Kubernetes with a domain is an accelerator by its vendor or its name."""
    vendor, slash, name = resource.partition("/")
    return bool(slash) and (vendor in _VENDORS or is_accelerator(name))
