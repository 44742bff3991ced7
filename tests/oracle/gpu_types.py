"""Which names of GPU types mean the same product, by the words and the table of docs/prices.md."""

from __future__ import annotations

import re

SAYS_NOTHING = ["nvidia", "amd", "tesla", "geforce", "instinct", "tensor", "core", "gpu", "generation"]

# model -> form factor -> sizes in GB; the first form factor is the one that a name leaves out
SOLD: dict[str, dict[str, list[int]]] = {
    "h100": {"sxm": [80], "pcie": [80], "nvl": [94]},
    "h200": {"sxm": [141], "nvl": [141]},
    "h800": {"sxm": [80], "pcie": [80]},
    "h20": {"sxm": [96, 141]},
    "b200": {"sxm": [180]},
    "b300": {"sxm": [288]},
    "a100": {"sxm": [40, 80], "pcie": [40, 80]},
    "a800": {"sxm": [40, 80], "pcie": [40, 80]},
    "v100": {"sxm": [16, 32], "pcie": [16, 32]},
    "p100": {"": [], "sxm": [16], "pcie": [12, 16]},
    "mi250x": {"oam": [128]},
    "mi300x": {"oam": [192]},
    "mi325x": {"oam": [256]},
    **{
        name: {"pcie": [size]}
        for name, size in {
            "v100s": 32, "a2": 16, "a10": 24, "a10g": 24, "a16": 16, "a30": 24, "a40": 48, "l4": 24, "l40": 48,
            "l40s": 48, "t4": 16, "p4": 8, "p40": 24, "a6000": 48, "mi210": 64,
        }.items()
    },
}  # fmt: skip
STACKS = {
    **{key: ["hbm3"] for key in ("h100", "h800", "mi300x")},
    **{key: ["hbm3e"] for key in ("h200", "b200", "b300", "mi325x")},
    "h20": ["hbm3", "hbm3e"],
    **{key: ["hbm2", "hbm2e"] for key in ("a100", "a800")},
    **{key: ["hbm2"] for key in ("v100", "v100s", "p100", "a30")},
    **{key: ["hbm2e"] for key in ("mi210", "mi250x")},
    **{key: ["gddr6"] for key in ("a2", "a10", "a10g", "a16", "a40", "l4", "l40", "l40s", "t4", "a6000")},
}


def product(name: str) -> tuple[object, ...]:
    """Equal for two names if a price for one applies to usage that reports the other."""
    if len(name) > 128:
        return ("as it is", name)
    text = re.sub(r"rtx(?=a?[0-9])", "rtx ", name.lower())
    text = re.sub(r"([0-9])\s(gb|gib)\b", r"\1\2", text)
    words = re.sub(r"[\s_/-]+", " ", text).split()
    told = [word for word in words if word not in SAYS_NOTHING] or words
    for at in range(len(told) - 2, -1, -1):
        if told[at] == "rtx" and re.fullmatch(r"a[0-9]000", told[at + 1]):
            del told[at]
    models = [word for word in told if word in SOLD]
    if models:
        rest = list(told)
        rest.remove(models[0])
        found = _sold(models[0], rest)
        if found is not None:
            return found
    return ("words", *told)


def _sold(model: str, words: list[str]) -> tuple[object, ...] | None:
    forms, sizes = set(), set()
    for word in words:
        if re.fullmatch(r"(sxm|pcie|nvl|oam)[0-9]?", word):
            forms.add(word.rstrip("0123456789"))
        elif word == "nvlink":
            forms.add("sxm")
        elif re.fullmatch(r"[0-9]{1,4}(gb|gib|g)", word):
            sizes.add(int(word.rstrip("gib")))
        elif word not in STACKS.get(model, ()):
            return None
    if len(forms) > 1 or len(sizes) > 1:
        return None
    form = forms.pop() if forms else next(iter(SOLD[model]))
    if form not in SOLD[model]:
        return None
    sold = SOLD[model][form]
    size = sizes.pop() if sizes else (sold[0] if len(sold) == 1 else None)
    if size is not None and form and size not in sold:
        return None
    return (model, form, size)
