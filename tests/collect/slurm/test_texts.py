"""Slurm's texts about resources, as its programs print them, and as nobody should."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streams.collect.slurm.options import Options
from streams.collect.slurm.tres import (
    GpusOfNode,
    gpu_milli,
    gpu_type,
    gpus_of_node,
    named_type,
    node_gpu_milli,
    node_names,
    tres_counts,
)


@pytest.mark.parametrize(
    ("text", "counts"),
    [
        ("", {}),
        ("cpu=2,node=1", {"cpu": 2, "node": 1}),
        (
            "cpu=2,mem=2000M,gres/gpu=2,gres/gpu:h100=2",
            {"cpu": 2, "mem": 2000, "gres/gpu": 2, "gres/gpu:h100": 2},
        ),
        ("mem=62.50G", {"mem": 64_000}),
        ("mem=1T", {"mem": 2**20}),
        ("mem=512K", {"mem": 512 * 2**10}),
        ("cpu=1K", {"cpu": 1024}),
    ],
)
def test_counts(text: str, counts: dict[str, int]) -> None:
    assert tres_counts(text) == counts


@pytest.mark.parametrize(
    "text", ["cpu", "cpu=", "=3", "cpu=x", "cpu=-1", "cpu=1;rm", "cpu=1e9", "cpu=" + "9" * 19]
)
def test_what_is_no_count_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="no list of resources"):
        tres_counts(text)


@pytest.mark.parametrize(
    ("text", "gpus"),
    [
        ("gpu:h100:2(IDX:0-1)", [GpusOfNode("h100", 2, ("0", "1"))]),
        ("gpu:2(IDX:1,3)", [GpusOfNode("", 2, ("1", "3"))]),
        ("gpu:h100:1(IDX:N/A)", [GpusOfNode("h100", 1, ())]),
        (
            "gpu:h100:1(IDX:0),gpu:a100:1(IDX:1)",
            [GpusOfNode("h100", 1, ("0",)), GpusOfNode("a100", 1, ("1",))],
        ),
        ("gpu:h100:1", [GpusOfNode("h100", 1, ())]),
        ("nic:1(IDX:0)", []),
        ("", []),
    ],
)
def test_gpus_of_a_node(text: str, gpus: list[GpusOfNode]) -> None:
    assert gpus_of_node(text) == gpus


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("", []),
        ("n1", ["n1"]),
        ("n[1-3]", ["n1", "n2", "n3"]),
        ("n[08-10,12],login", ["n08", "n09", "n10", "n12", "login"]),
        ("r[1-2]n[1-2]-x", ["r1n1-x", "r1n2-x", "r2n1-x", "r2n2-x"]),
    ],
)
def test_names_of_nodes(text: str, names: list[str]) -> None:
    assert node_names(text) == names


@pytest.mark.parametrize(
    "text", ["n[1-99999999]", "n[2-1]", "n[a]", "n[1", "n]", "a[1-9999]b[1-9999]", "n[-1]", "n[]"]
)
def test_what_is_no_list_of_nodes_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        node_names(text)


def test_shares_of_gpus_are_thousandths() -> None:
    assert gpu_milli({"gres/gpu": 2}, Options()) == 2000
    assert gpu_milli({"gres/shard": 1}, Options(shards_per_gpu=8)) == 125
    assert gpu_milli({"gres/mps": 25}, Options()) == 250
    assert gpu_milli({"cpu": 4}, Options()) == 0


@pytest.mark.parametrize(
    ("tres", "gpus"),
    [
        ({"gres/gpu:a100": 2}, 2000),
        ({"gres/gpu": 2, "gres/gpu:a100": 2}, 2000),
        ({"gres/gpu:a100": 1, "gres/gpu:h100": 2}, 3000),
        ({"gres/gpu": 3, "gres/gpu:a100": 1}, 3000),  # only that type is tracked
        ({"gres/shard:a100": 2}, 250),
        ({"gres/mps:a100": 50}, 500),
        ({"gres/gpumem": 4096, "gres/gpuutil": 80}, 0),
    ],
)
def test_gpus_tracked_by_type_without_one_or_twice_count_once(tres: dict[str, int], gpus: int) -> None:
    assert gpu_milli(tres, Options(shards_per_gpu=8)) == gpus


def test_a_type_is_one_that_all_gpus_have() -> None:
    assert gpu_type({"gres/gpu": 2, "gres/gpu:h100": 2}, Options()) == "h100"
    assert gpu_type({"gres/gpu": 2, "gres/gpu:h100": 1, "gres/gpu:a100": 1}, Options()) == ""
    assert gpu_type({"gres/gpu": 2}, Options()) == ""


@given(st.text(max_size=200) | st.text(alphabet="gpu:h10(IDX-,)=[]n/A.KMG", max_size=200))
def test_any_text_is_read_or_refused(text: str) -> None:
    for read in (tres_counts, gpus_of_node, node_names):
        with suppress(ValueError):
            read(text)


@pytest.mark.parametrize(
    ("tres", "milli", "type_"),
    [
        ({"gres/gpu": 1, "gres/gpu:a100_3g.20gb": 1}, 428, "a100"),
        ({"gres/gpu:1g.10gb": 2}, 285, ""),
        ({"gres/gpu:nvidia_a30_2g.12gb": 1}, 500, "nvidia_a30"),
        ({"gres/gpu:NVIDIA_A30_2g.12gb": 1}, 500, "NVIDIA_A30"),
        ({"gres/gpu:nvidia_rtx_pro_6000_blackwell_1g.24gb": 1}, 250, "nvidia_rtx_pro_6000_blackwell"),
        ({"gres/gpu:1g.6gb": 1}, 250, ""),
        ({"gres/gpu:a100_1g.5gb+me": 7}, 1000, "a100"),
        ({"gres/gpu": 3, "gres/gpu:h100": 1, "gres/gpu:h100_7g.80gb": 1}, 3000, ""),
        ({"gres/gpu:a100g": 1}, 1000, "a100g"),
    ],
)
def test_a_mig_instance_is_a_part_of_a_gpu(tres: dict[str, int], milli: int, type_: str) -> None:
    """Slurm counts each as a GPU (neilmunday/slurm-mail#142)."""
    assert gpu_milli(tres, Options()) == milli
    assert named_type(gpu_type(tres, Options()), {}) == type_


def test_a_mig_instance_may_have_a_name_of_its_own() -> None:
    assert named_type("a100_3g.20gb", {"a100_3g.20gb": "A100 3g", "a100": "A100-40GB"}) == "A100 3g"
    assert named_type("a100_3g.20gb", {"a100": "A100-40GB"}) == "A100-40GB"


def test_a_count_of_what_is_not_read_may_be_anything() -> None:
    """Of energy that is not measured Slurm has 2^64 - 2: a job was left out for it."""
    found = tres_counts("cpu=4,energy=18446744073709551614,gres/gpumem=x,gres/gpu=2")
    assert found == {"cpu": 4, "gres/gpu": 2}
    with pytest.raises(ValueError, match="no list of resources"):
        tres_counts("cpu=4,gres/gpu=18446744073709551614")


@pytest.mark.parametrize(
    ("tres", "gpus"),
    [
        ({"gres/gpu": 4, "gres/shard": 16}, 4000),
        ({"gres/gpu": 4, "gres/gpu:a100": 4, "gres/mps": 400}, 4000),
        ({"gres/shard": 16, "gres/mps": 200}, 4000),
        ({"gres/gpu": 2, "gres/npu": 3}, 5000),
    ],
)
def test_shards_of_a_node_are_of_its_gpus(tres: dict[str, int], gpus: int) -> None:
    """thediymaker/slurm-node-dashboard#61: Slurm offers each GPU whole, or as tokens for it."""
    units = Options(shards_per_gpu=4, gres_gpus={"npu": 1})
    assert node_gpu_milli(tres, units) == gpus
