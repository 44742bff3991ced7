"""Which names of GPU types mean the same product, so that a price for one of them applies to usage that reports another.

`product` is a pure function of one name: whether a price fits never depends on which other prices there are.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final, NamedTuple


class _Form(NamedTuple):
    """A form factor of a model, with all its memory sizes in GB."""

    name: str
    memory_gb: tuple[int, ...]


class _Model(NamedTuple):
    """A model with its form factors; a name without a form factor means `usual`, or leaves it open (None)."""

    forms: tuple[_Form, ...]
    usual: str | None
    stacks: frozenset[str] = frozenset()  # names of its memory technology, which say nothing more


def _one(memory_gb: int, *stacks: str, form: str = "") -> _Model:
    return _Model((_Form(form, (memory_gb,)),), form, frozenset(stacks))


def _both(sxm: tuple[int, ...], pcie: tuple[int, ...], *stacks: str, usual: str | None = "sxm") -> _Model:
    return _Model((_Form("sxm", sxm), _Form("pcie", pcie)), usual, frozenset(stacks))


#: Datacenter GPUs are sold by form factor. Drivers name PCIe and NVL, and often not SXM: "NVIDIA H100 80GB HBM3".
_MODELS: Final[dict[str, _Model]] = {
    "h100": _Model(
        (_Form("sxm", (80,)), _Form("pcie", (80,)), _Form("nvl", (94,))), "sxm", frozenset({"hbm3"})
    ),
    "h200": _Model((_Form("sxm", (141,)), _Form("nvl", (141,))), "sxm", frozenset({"hbm3e"})),
    "h800": _both((80,), (80,), "hbm3"),
    "h20": _Model((_Form("sxm", (96, 141)),), "sxm", frozenset({"hbm3", "hbm3e"})),
    "b200": _one(180, "hbm3e", form="sxm"),
    "b300": _one(288, "hbm3e", form="sxm"),
    "a100": _both((40, 80), (40, 80), "hbm2", "hbm2e"),
    "a800": _both((40, 80), (40, 80), "hbm2", "hbm2e"),
    "v100": _both((16, 32), (16, 32), "hbm2"),
    "v100s": _one(32, "hbm2", form="pcie"),
    "p100": _both((16,), (12, 16), "hbm2", usual=None),  # sold by the hour mostly as PCIe, yet never named so
    "a2": _one(16, "gddr6", form="pcie"),
    "a10": _one(24, "gddr6", form="pcie"),
    "a10g": _one(24, "gddr6", form="pcie"),
    "a16": _one(16, "gddr6", form="pcie"),
    "a30": _one(24, "hbm2", form="pcie"),
    "a40": _one(48, "gddr6", form="pcie"),
    "l4": _one(24, "gddr6", form="pcie"),
    "l40": _one(48, "gddr6", form="pcie"),
    "l40s": _one(48, "gddr6", form="pcie"),
    "t4": _one(16, "gddr6", form="pcie"),
    "p4": _one(8, form="pcie"),
    "p40": _one(24, form="pcie"),
    "a6000": _one(48, "gddr6", form="pcie"),
    "mi210": _one(64, "hbm2e", form="pcie"),
    "mi250x": _one(128, "hbm2e", form="oam"),
    "mi300x": _one(192, "hbm3", form="oam"),
    "mi325x": _one(256, "hbm3e", form="oam"),
}

#: Words that tell no product from another.
_NOISE: Final = frozenset(
    {"nvidia", "amd", "tesla", "geforce", "instinct", "tensor", "core", "gpu", "generation"}
)
_SEPARATORS: Final = re.compile(r"[\s_\-/]+")
_RTX: Final = re.compile(r"rtx(?=a?[0-9])")
_APART: Final = re.compile(r"([0-9])\s(gb|gib)\b")
_A_SERIES: Final = re.compile(r"a[0-9]000")
_MEMORY: Final = re.compile(r"([0-9]{1,4})(?:gb|gib|g)")
_FORM_WORD: Final = re.compile(r"(sxm|pcie|nvl|oam)[0-9]?")
#: A longer name is no product's, and is not taken apart.
_LONGEST: Final = 128


@lru_cache(maxsize=4096)
def product(gpu_type: str) -> str:
    """What all names of one product have in common, e.g. `h100/sxm/80gb` for "NVIDIA H100 80GB HBM3".

    A name that leaves open which product is meant ("A100": 40 or 80 GB), and one of an unknown product, has only its
    other spellings in common: case, separators and vendor do not matter, everything else does.
    """
    if len(gpu_type) > _LONGEST:
        return gpu_type
    text = _APART.sub(r"\1\2", _RTX.sub("rtx ", gpu_type.lower()))
    words = [word for word in _SEPARATORS.split(text) if word]
    words = [word for word in words if word not in _NOISE] or words
    words = [word for at, word in enumerate(words) if not _is_prefix(words[at : at + 2])]
    at = next((at for at, word in enumerate(words) if word in _MODELS), None)
    if at is None:
        return " ".join(words)
    return _known(words[at], words[:at] + words[at + 1 :]) or " ".join(words)


def _is_prefix(words: list[str]) -> bool:
    """Whether the first word only repeats what the second says: `rtx a6000` is sold as A6000, too."""
    return len(words) == 2 and words[0] == "rtx" and _A_SERIES.fullmatch(words[1]) is not None


def _known(name: str, words: list[str]) -> str | None:
    """Form factor and memory of a model in one form; None: a word is not understood, or contradicts."""
    model = _MODELS[name]
    forms: set[str] = set()
    sizes: set[int] = set()
    for word in words:
        form, memory = _FORM_WORD.fullmatch(word), _MEMORY.fullmatch(word)
        if form is not None:
            forms.add(form[1])
        elif word == "nvlink":
            forms.add("sxm")
        elif memory is not None:
            sizes.add(int(memory[1]))
        elif word not in model.stacks:
            return None
    if len(forms) > 1 or len(sizes) > 1:
        return None
    return _named(name, model, next(iter(forms), model.usual), next(iter(sizes), None))


def _named(name: str, model: _Model, form: str | None, memory_gb: int | None) -> str | None:
    if form is None:
        return f"{name}/{memory_gb}gb" if memory_gb is not None else f"{name}/"
    sold = next((each.memory_gb for each in model.forms if each.name == form), None)
    if sold is None or (memory_gb is not None and memory_gb not in sold):
        return None
    if memory_gb is None and len(sold) == 1:
        memory_gb = sold[0]
    return f"{name}/{form}/{memory_gb}gb" if memory_gb is not None else f"{name}/{form}"
