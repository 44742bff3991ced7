"""Names of GPU types: which mean one product, which never do, and which price wins among several names."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streams.engine.pricing.book import PriceBook
from streams.engine.pricing.context import usage_context
from streams.engine.pricing.gpu_types import product
from streams.engine.pricing.kinds import Kind
from streams.engine.repricing.price_changes import PriceChanges
from streams.engine.repricing.price_index import PriceIndex
from tests.engine.pricing.test_book import price, sku_at
from tests.oracle.gpu_types import product as product_by_the_docs

SAME = [
    ["H100", "h100", "NVIDIA H100 80GB HBM3", "nvidia_h100_80gb", "H100-SXM", "H100 SXM5", "nvidia-h100-80gb",
     "NVIDIA-H100-80GB-HBM3", "H100_NVLINK_80GB", "NVIDIA H100 Tensor Core GPU", "H100 80 GB", "nvidia_h100"],
    ["H100-PCIE", "NVIDIA H100 PCIe", "h100_pcie_80gb"],
    ["H100 NVL", "NVIDIA-H100-NVL", "h100-nvl-94gb"],
    ["A100-80GB", "NVIDIA-A100-SXM4-80GB", "nvidia-a100-80gb", "a100_80g", "A100-SXM-80GB"],
    ["A100-40GB", "NVIDIA-A100-SXM4-40GB"],
    ["NVIDIA A100 80GB PCIe", "a100-pcie-80gb"],
    ["A100", "nvidia-tesla-a100", "a100", "A100-SXM4"],
    ["V100-32GB", "Tesla V100-SXM2-32GB"],
    ["V100-16GB", "Tesla V100-SXM2-16GB"],
    ["Tesla V100-PCIE-16GB", "V100-PCIE-16GB"],
    ["T4", "Tesla T4", "nvidia-tesla-t4"],
    ["L40S", "NVIDIA L40S", "l40s-48gb"],
    ["H200", "NVIDIA H200", "nvidia-h200-141gb"],
    ["RTX A6000", "NVIDIA RTX A6000", "A6000", "RTXA6000"],
    ["NVIDIA GeForce RTX 4090", "RTX4090", "rtx-4090"],
    ["MI300X", "AMD Instinct MI300X", "AMD_Instinct_MI300X_OAM"],
    ["H100 MIG 1g.10gb", "NVIDIA-H100-MIG-1g.10gb"],
    ["NVIDIA-H100-80GB-HBM3-SHARED"],
    ["nvidia-h100-mega-80gb"],
    ["A10"], ["A10G"], ["L4"], ["L40"], ["P100"], ["Tesla P100-PCIE-16GB"], ["H100-96GB"], ["H800"],
    ["RTX 6000 Ada", "NVIDIA RTX 6000 Ada Generation"], ["Quadro RTX 6000"], ["GH200"], ["a100-3g-20gb"],
    ["H100 PCIe SXM"], ["H100/2"], ["bigchip", "BigChip", "NVIDIA_bigchip"], ["nvidia"], [""],
]  # fmt: skip


def test_names_of_one_product_are_equal_and_of_two_never() -> None:
    found = [{product(name) for name in names} for names in SAME]
    assert [len(each) for each in found] == [1] * len(SAME)
    assert len({next(iter(each)) for each in found}) == len(SAME)


@given(
    st.lists(
        st.sampled_from(
            [
                "nvidia",
                "Tesla",
                "H100",
                "h100",
                "A100",
                "V100",
                "P100",
                "L40S",
                "rtx",
                "RTX",
                "A6000",
                "4090",
                "sxm",
                "SXM5",
                "PCIe",
                "nvl",
                "nvlink",
                "40GB",
                "80gb",
                "80",
                "GB",
                "80G",
                "16gb",
                "HBM3",
                "hbm2e",
                "mig",
                "1g.10gb",
                "shared",
                "x",
            ]
        ),
        max_size=6,
    ),
    st.lists(st.sampled_from([" ", "-", "_", "", " / "]), min_size=6, max_size=6),
)
def test_any_name_is_the_same_product_as_by_the_documented_rule(words: list[str], gaps: list[str]) -> None:
    name = "".join(f"{word}{gap}" for word, gap in zip(words, gaps, strict=False))
    for names in SAME:
        assert (product(name) == product(names[0])) == (
            product_by_the_docs(name) == product_by_the_docs(names[0])
        )


def test_a_long_name_is_not_taken_apart() -> None:
    assert product("H100 " * 30) != product("h100 " * 30)


@pytest.mark.parametrize("reported", ["h100", "NVIDIA H100 80GB HBM3", "nvidia_h100_80gb", "H100-SXM"])
def test_a_price_applies_to_any_name_of_its_product(reported: str) -> None:
    events = [price("list", gpu_type="H100"), price("catch-all", "0.01")]
    assert sku_at(events, gpu_type=reported) == "list"
    assert sku_at([price("list", gpu_type=reported)], gpu_type="H100") == "list"


@pytest.mark.parametrize(
    "reported", ["NVIDIA H100 PCIe", "NVIDIA H100 NVL", "H100 MIG 1g.10gb", "H200", None]
)
def test_a_price_applies_to_no_other_product(reported: str | None) -> None:
    assert sku_at([price("list", gpu_type="H100")], gpu_type=reported) is None


def test_a_name_that_leaves_the_memory_open_is_not_guessed() -> None:
    events = [price("forty", gpu_type="A100-40GB"), price("eighty", "2", gpu_type="A100-80GB")]
    assert sku_at(events, gpu_type="NVIDIA A100") is None
    assert sku_at([price("open", gpu_type="A100")], gpu_type="NVIDIA-A100-SXM4-80GB") is None


def test_the_very_name_wins_over_an_alias_with_more_match_fields() -> None:
    events = [price("alias", gpu_type="H100", region="eu"), price("same", gpu_type="NVIDIA H100 80GB HBM3")]
    assert sku_at(events, gpu_type="NVIDIA H100 80GB HBM3", region="eu") == "same"
    assert sku_at(events, gpu_type="H100", region="eu") == "alias"


def test_two_other_names_with_different_prices_are_not_chosen_between() -> None:
    events = [price("a", "2", gpu_type="H100"), price("b", "3", gpu_type="H100-SXM")]
    assert sku_at(events, gpu_type="nvidia_h100_80gb") is None
    assert sku_at([*events, price("any", "1")], gpu_type="nvidia_h100_80gb") is None
    assert sku_at(events, gpu_type="H100-SXM") == "b"
    equal = [
        price("a", "2", gpu_type="H100"),
        price("b", "16", gpu_type="H100-SXM", per="instance_hour", gpus=8),
    ]
    assert sku_at(equal, gpu_type="nvidia_h100_80gb") == "a"


def test_of_one_name_the_usual_order_decides_between_aliases() -> None:
    events = [
        price("b", "2", gpu_type="H100"),
        price("a", "3", gpu_type="H100"),
        price("c", "4", gpu_type="H100", zone="z"),
    ]
    assert sku_at(events, gpu_type="h100") == "a"
    assert sku_at(events, gpu_type="h100", zone="z") == "c"


def test_a_price_by_another_name_reprices_those_that_look_it_up() -> None:
    context = usage_context((*[None] * 6, "nvidia_h100_80gb", None), "t", None)
    index = PriceIndex()
    index.set_lookups("job", frozenset({(False, context)}))
    old = PriceBook.empty()
    new = old.with_events([price("list", gpu_type="H100")])
    changes = PriceChanges(old, new)
    assert changes.asking(index) == {"job"}
    rival = new.with_events([price("rival", "9", gpu_type="H100-SXM", effective_ms=50)])
    assert PriceChanges(new, rival).asking(index) == {"job"}
    assert [at and at.sku for _, at in rival.steps(context, "gpu", Kind.GPU_TIME)] == [None, "list", None]
    index.drop("job")
    assert not index.asking(changes._forms)
