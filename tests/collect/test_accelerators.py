"""Names of accelerators, as vendors, schedulers and labels of runners have them, and names that only look like one."""

from __future__ import annotations

import pytest

from streams.accounts.accelerators import is_accelerator, is_accelerator_resource


@pytest.mark.parametrize(
    "name",
    [
        *("gpu", "vgpu", "gpu-h100", "8xh100", "linux-8xA100", "h100x8", "gpu_a100", "gres/gpu:h100", "RTX4090", "mi300x", "dgx-1"),
        *("g5.xlarge", "linux.p4d.24xlarge", "a3-highgpu-8g", "a2-megagpu-16g", "Standard_ND40rs_v2", "trn1.32xlarge"),
        *("qgpu-core", "sgpu", "pgpu", "vcuda-core", "dcunum", "gcu", "xpu", "qaic", "cpx_nps4", "rngd", "accel", "fpga"),
        *("ppu", "lpu", "mig-1c.3g.20gb", "directx"),
        *("TPU", "tpuv5e", "neuron_cores", "NPU", "HPU", "RBLN", "GP102GL_Tesla_P40", "GH100_H100_SXM5_80GB"),
    ],
)  # fmt: skip
def test_names_of_accelerators(name: str) -> None:
    assert is_accelerator(name)


@pytest.mark.parametrize(
    "name",
    [
        *("ubuntu-latest", "self-hosted", "macos-m4", "x64", "c7g.xlarge", "m6g.large", "t3.large", "xlarge", "cpu", "vcpu", "4cpu"),
        *("craynetwork", "hca", "pod-eni", "efa", "kvm", "n2-standard-4", "license", "bandwidth", "nic", "mem", "energy", "a-1"),
    ],
)  # fmt: skip
def test_names_of_other_things(name: str) -> None:
    assert not is_accelerator(name)


def test_all_that_a_vendor_of_accelerators_has_is_one() -> None:
    assert is_accelerator_resource("rebellions.ai/ATOM")
    assert is_accelerator_resource("tke.cloud.tencent.com/qgpu-core")
    assert is_accelerator_resource("cloud-tpus.google.com/preemptible-v2")
    assert is_accelerator_resource("cerebras.net/cs2")
    assert not is_accelerator_resource("rdma/hca")
    assert not is_accelerator_resource("gpu"), "no resource without a domain"
