"""Two nodes with the text of AMD's Device Metrics Exporter.

Made by hand after the exporter's source (v1.5: names, labels and units of its metrics), not recorded.
"""

from __future__ import annotations

from tests.collect.dcgm_world import DcgmWorld

_SERIES = "AMD Instinct MI300X OAM"


def labels(node: str, gpu: int, **others: str) -> str:
    """The labels of a GPU, in the order in which the exporter writes them."""
    named = {
        "card_model": "102-G30211-0C",
        "card_series": _SERIES,
        "card_vendor": "AMD",
        "container": "",
        "deployment_mode": "baremetal",
        "driver_version": "6.12.12",
        "gpu_compute_partition_type": "spx",
        "gpu_id": str(gpu),
        "gpu_memory_partition_type": "nps1",
        "gpu_partition_id": "0",
        "gpu_uuid": f"GPU-{node}-{gpu}",
        "hostname": node,
        "job_id": "",
        "job_partition": "",
        "job_user": "",
        "namespace": "",
        "pod": "",
        "serial_number": f"6924400{gpu}",
        **others,
    }
    return ",".join(f'{name}="{value}"' for name, value in sorted(named.items()))


def text(node: str, state: int, *, prefix: str = "") -> str:
    """What the exporter of a node answers; that of n2 does not tell the power of its GPUs."""
    lines = ["# HELP gpu_nodes_total Number of GPUs", f'gpu_nodes_total{{hostname="{node}"}} 2']
    for gpu in range(2):
        of_gpu = labels(node, gpu)
        lines += [
            f"{prefix}gpu_gfx_activity{{{of_gpu}}} {(state * 10 + gpu) % 101}",
            f"{prefix}gpu_umc_activity{{{of_gpu}}} 3",
            f"{prefix}gpu_used_vram{{{of_gpu}}} {283 + state}",
            f"{prefix}gpu_total_vram{{{of_gpu}}} 196592",
        ]
        if node == "n1":
            lines.append(f"{prefix}gpu_package_power{{{of_gpu}}} 1.{gpu}4e+02")
            lines.append(f"{prefix}gpu_average_package_power{{{of_gpu}}} 0")
    return "\n".join(lines) + "\n"


class AmdWorld(DcgmWorld):
    """The same jobs as on the nodes with dcgm-exporter."""

    text = staticmethod(text)
