"""Generic resources of other names than gpu: read where `gres_gpus` says what one is, else named."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from streams.collect.slurm.options import Options
from streams.collect.slurm.tres import gpu_milli, gpu_type, unknown_accelerators

NPUS = Options(gres_gpus={"npu": 1, "neuroncore": 0.5})


@pytest.mark.parametrize(
    ("tres", "milli", "type_"),
    [
        ({"gres/npu": 8}, 8000, "npu"),
        ({"gres/npu": 8, "gres/npu:910b": 8}, 8000, "910b"),
        ({"gres/npu:910b": 4}, 4000, "910b"),
        ({"gres/neuroncore": 3}, 1500, "neuroncore"),
        ({"gres/npu": 2, "gres/gpu:h100": 1}, 3000, ""),
        ({"gres/gpu": 2, "gres/gpu:h100": 2}, 2000, "h100"),
        ({"gres/gpu": 2, "gres/npu": 0}, 2000, ""),
    ],
)
def test_named_resources_are_gpus(tres: dict[str, int], milli: int, type_: str) -> None:
    assert (gpu_milli(tres, NPUS), gpu_type(tres, NPUS)) == (milli, type_)
    assert unknown_accelerators(tres, NPUS) == ""


def test_others_are_named() -> None:
    tres = {"gres/npu": 8, "gres/tpu": 4, "gres/craynetwork": 1}
    assert unknown_accelerators(tres, NPUS) == "4 gres/tpu"
    assert unknown_accelerators(tres, Options()) == "8 gres/npu, 4 gres/tpu"
    assert gpu_milli(tres, Options()) == 0


@pytest.mark.parametrize(
    "gres_gpus",
    [{"gpu": 1}, {"shard": 1}, {"mps": 1}, {"": 1}, {"npu": 0}, {"npu": 1001}, {"a,b": 1}, {"npu:910b": 1}],
)
def test_what_is_no_resource_of_another_name_is_refused(gres_gpus: dict[str, float]) -> None:
    with pytest.raises(ValidationError):
        Options(gres_gpus=gres_gpus)
