"""Exporters' text, as it is and as it should not be."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loadtest.dcgm_text import COUNTERS, measure, node_text
from streams.collect.dcgm.text import TextReader
from streams.collect.gpu_samples import GpuReading
from tests.collect import amd_world, dcgm_oracle

SHARED = Path(__file__).resolve().parents[3] / "shared" / "data" / "samples"


def readings(text: str | bytes, job_id_label: str = "hpc_job") -> list[GpuReading]:
    """What is read, which is what the slow reader reads."""
    data = text.encode() if isinstance(text, str) else text
    found = TextReader(job_id_label).read(data)
    assert found == dcgm_oracle.read(data, job_id_label)
    return found


@pytest.mark.parametrize(
    ("value", "read"),
    [
        ("9223372036854775794", None),
        ("9223372036854775792", None),
        ("1000000000000000", None),
        ("NaN", None),
        ("-1", None),
        ("+Inf", None),
        ("x", None),
        ("1_000", None),
        ("0x10", None),
        ("7,5", None),
        ("", None),
        ("7", 7.0),
        ("7\r", 7.0),
        ("7 1790000000000", 7.0),
        ("\t 7", 7.0),
        ("0.250000", 0.25),
        ("1.5e+03", 1500.0),
        ("123456.789012", 123456.789012),
        ("0.1234567890123456", 0.1234567890123456),
    ],
)
def test_blank_values_are_no_readings(value: str, read: float | None) -> None:
    text = f'DCGM_FI_DEV_GPU_UTIL{{gpu="0"}} 1\nDCGM_FI_DEV_FB_USED{{gpu="0"}} {value}\n'
    assert [each.memory_used_mib for each in readings(text)] == [read]


@pytest.mark.parametrize(
    "value", [" 9223372036854775794", " 18446744073709551615", " NaN", " -1", " +Inf", " N/A", " ", "", "5"]
)
def test_a_gpu_without_a_value_that_can_be_read_is_named_all_the_same(value: str) -> None:
    found = readings(f'DCGM_FI_DEV_GPU_UTIL{{gpu="0"}} 1\nDCGM_FI_DEV_GPU_UTIL{{gpu="1"}}{value}\n')
    assert [(each.gpu, each.util_ratio) for each in found] == [("0", 0.01), ("1", None)]


def test_gpus_of_two_nodes_in_one_text_are_apart_and_a_label_that_was_renamed_counts() -> None:
    """As a Prometheus that is scraped in place of the exporters has them (NVIDIA/dcgm-exporter#27)."""
    text = "".join(
        f'DCGM_FI_DEV_GPU_UTIL{{Hostname="{node}",exported_namespace="ml",exported_pod="train",gpu="0",namespace="ops",'
        f'pod="dcgm-{node}"}} {value}\nDCGM_FI_DEV_FB_USED{{Hostname="{node}",gpu="0",namespace="ops",pod="dcgm-{node}"}} 7\n'
        for node, value in (("n1", 50), ("n2", 75))
    )
    found = readings(text)
    assert [(each.node, each.gpu, each.pod, each.util_ratio, each.memory_used_mib) for each in found] == [
        ("n1", "0", "ml/train", 0.5, 7.0),
        ("n2", "0", "ml/train", 0.75, 7.0),
    ]


def test_a_gpu_is_of_the_first_pod_that_is_named() -> None:
    text = "".join(
        f'DCGM_FI_DEV_GPU_UTIL{{gpu="0",pod="{pod}",namespace="ml"}} 5\n' for pod in ("", "a", "b")
    )
    assert [each.pod for each in readings(text)] == ["ml/a"]


def test_a_blank_ratio_leaves_the_percentage() -> None:
    text = (
        'DCGM_FI_PROF_GR_ENGINE_ACTIVE{gpu="0"} 9223372036854775794\n'
        'DCGM_FI_DEV_GPU_UTIL{gpu="0"} 50\n'
        'DCGM_FI_DEV_GPU_UTIL{gpu="1"} 60\n'
        'DCGM_FI_PROF_GR_ENGINE_ACTIVE{gpu="1"} 0.75\n'
    )
    assert [each.util_ratio for each in readings(text)] == [0.5, 0.75]


def test_a_profile_of_0_beside_work_is_no_reading() -> None:
    """NVIDIA/dcgm-exporter#662: the profiling module has stopped; a percentage that no GPU has leaves the 0."""
    text = "".join(
        f'DCGM_FI_PROF_GR_ENGINE_ACTIVE{{gpu="{gpu}"}} {active}\nDCGM_FI_DEV_GPU_UTIL{{gpu="{gpu}"}} {percent}\n'
        for gpu, (active, percent) in enumerate([("0.000000", 99), (0, 0), (0.001, 99), (0, 200_000)])
    )
    found = readings(text)
    assert [each.util_ratio for each in found] == [0.99, 0.0, 0.001, 0.0]
    assert [bool(each.doubt) for each in found] == [True, False, False, False]


def test_a_percentage_of_a_mig_instance_is_no_reading() -> None:
    """NVIDIA/dcgm-exporter#216: it is 0 whatever runs there."""
    labels = 'gpu="0",GPU_I_PROFILE="3g.40gb",GPU_I_ID="1"'
    busy = f"DCGM_FI_DEV_GPU_UTIL{{{labels}}} 0\n"
    assert [each.util_ratio for each in readings(busy)] == [None]
    assert [
        each.util_ratio for each in readings(busy + f"DCGM_FI_PROF_GR_ENGINE_ACTIVE{{{labels}}} 0.5\n")
    ] == [0.5]


def test_slices_of_a_gpu_are_apart_and_have_no_utilisation_in_percent() -> None:
    text = (
        'DCGM_FI_PROF_GR_ENGINE_ACTIVE{gpu="0",GPU_I_PROFILE="3g.40gb",GPU_I_ID="1"} 0.5\n'
        'DCGM_FI_PROF_GR_ENGINE_ACTIVE{gpu="0",GPU_I_PROFILE="1g.10gb",GPU_I_ID="7"} 0.25\n'
    )
    assert [(each.slice_id, each.util_ratio) for each in readings(text)] == [("1", 0.5), ("7", 0.25)]


def test_an_empty_label_leaves_the_one_of_the_same_meaning() -> None:
    (found,) = readings('DCGM_FI_DEV_GPU_UTIL{hostname="",gpu="0",Hostname="n1"} 50\n')
    assert found.node == "n1"


def test_a_gpu_that_pods_share_is_one_gpu() -> None:
    """With time slicing the exporter repeats each line for each pod."""
    text = (
        'DCGM_FI_DEV_GPU_UTIL{gpu="0",namespace="n",pod="a",vgpu="0"} 50\n'
        'DCGM_FI_DEV_GPU_UTIL{gpu="0",namespace="n",pod="b",vgpu="1"} 50\n'
        'DCGM_FI_DEV_FB_USED{gpu="0",namespace="n",pod="a",vgpu="0"} 7\n'
    )
    assert [(each.pod, each.util_ratio, each.memory_used_mib) for each in readings(text)] == [
        ("n/a", 0.5, 7.0)
    ]


def test_labels_may_hold_braces_quotes_and_lines() -> None:
    text = r'DCGM_FI_DEV_GPU_UTIL{gpu="0",pod="a}b\"c\\d\ne", namespace="n",modelName="Grafik ü"} 50' + "\n"
    (found,) = readings(text)
    assert (found.gpu, found.pod, found.model, found.util_ratio) == (
        "0",
        'n/a}b"c\\d\ne',
        "Grafik ü",
        0.5,
    )


@pytest.mark.parametrize("prefix", ["", "amd_"])
def test_amds_exporter_is_recognised_by_its_names(prefix: str) -> None:
    found = readings(amd_world.text("n1", 4, prefix=prefix))
    assert [each.gpu for each in found] == ["0", "1"]
    assert found[1] == GpuReading(
        gpu="1",
        uuid="GPU-n1-1",
        slice_id="",
        node="n1",
        pod="",
        model="AMD Instinct MI300X OAM",
        job="",
        util_ratio=0.41,
        sm_ratio=None,
        tensor_ratio=None,
        memory_used_mib=287.0,
        power_w=114.0,
    )


@pytest.mark.parametrize(
    ("job_id_label", "job"), [("hpc_job", "17"), ("job_id", "17"), ("pod", "p"), ("", "")]
)
def test_amds_exporter_names_the_job_by_another_label(job_id_label: str, job: str) -> None:
    labels = amd_world.labels("n1", 0, job_id="17", pod="p", namespace="n")
    (found,) = readings(f"gpu_gfx_activity{{{labels}}} 40\n", job_id_label)
    assert (found.job, found.pod) == (job, "n/p")


def test_partitions_of_amd_are_apart_from_the_gpu() -> None:
    """The exporter tells the use of the first partition alone."""
    text = (
        "".join(
            f"gpu_used_vram{{{amd_world.labels('n1', 0, gpu_partition_id=str(k))}}} {k}\n" for k in range(3)
        )
        + f"gpu_gfx_activity{{{amd_world.labels('n1', 0)}}} 40\n"
    )
    assert [(each.slice_id, each.util_ratio, each.memory_used_mib) for each in readings(text)] == [
        ("", 0.4, 0.0),
        ("1", None, 1.0),
        ("2", None, 2.0),
    ]


def test_amds_smi_exporter_has_a_label_of_its_own_for_each_metric() -> None:
    text = 'amd_gpu_use_percent{gpu_use_percent="3",productname="MI210"} 40\namd_gpu_power{gpu_power="3"} 9\n'
    (found,) = readings(text)
    assert (found.gpu, found.model, found.util_ratio, found.power_w) == ("3", "MI210", 0.4, None)


@pytest.mark.parametrize(
    ("job_id_label", "job"), [("hpc_job", "17"), ("pod", "p"), ("team", "vision"), ("absent", ""), ("", "")]
)
def test_the_label_with_the_job_is_an_option(job_id_label: str, job: str) -> None:
    text = 'DCGM_FI_DEV_GPU_UTIL{gpu="0",hpc_job="17",pod="p",namespace="n",team="vision",job_id="9"} 50\n'
    (found,) = readings(text, job_id_label)
    assert (found.job, found.pod) == (job, "n/p")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "\n\n",
        "DCGM_FI_DEV_GPU_UTIL{",
        "DCGM_FI_DEV_GPU_UTIL 5",
        'DCGM_FI_DEV_GPU_UTIL{gpu="0} 5',
        'DCGM_FI_DEV_GPU_UTIL{gpu="0" UUID="x"} 5',
        "DCGM_FI_DEV_GPU_UTIL{gpu=0} 5",
        'DCGM_FI_DEV_GPU_UTIL{0gpu="0"} 5',
        'DCGM_FI_DEV_GPU_UTIL{,gpu="0"} 5',
        'DCGM_FI_DEV_GPU_UTIL{gpu="0\\',
        'DCGM_FI_DEV_GPU_UTIL{gpu="0\\\n"} 5',
        'DCGM_FI_DEV_GPU_UTIL{pod="p"} 5',
        "DCGM_FI_DEV_GPU_UTIL{} 5",
        ' DCGM_FI_DEV_GPU_UTIL{gpu="0"} 5',
        'XDCGM_FI_DEV_GPU_UTIL{gpu="0"} 5',
        'DCGM_FI_DEV_GPU_UTIL_{gpu="0"} 5',
        "\x00\xff",
        '{gpu="0"} 5',
    ],
)
def test_what_is_no_text_of_it_is_skipped(text: str) -> None:
    assert readings(text) == []


def test_a_hostile_line_takes_no_long_time() -> None:
    """A pattern that goes back would never end here."""
    assert TextReader("hpc_job").read(b"DCGM_FI_DEV_GPU_UTIL{" + b'a="' * 100_000) == []


def test_more_gpus_than_any_node_has_are_refused() -> None:
    text = "".join(f'DCGM_FI_DEV_GPU_UTIL{{gpu="{gpu}"}} 5\n' for gpu in range(3_000))
    with pytest.raises(ValueError, match="names over 2048 GPUs"):
        TextReader("hpc_job").read(text.encode())


def test_the_exporters_own_sample_is_read() -> None:
    sample = SHARED / "dcgm_exporter_metrics_sample.prom"
    if not sample.exists():
        pytest.skip("no shared data beside the checkout")
    text = sample.read_text() + 'DCGM_FI_DEV_GPU_UTIL{gpu="0", UUID="GPU-604ac76c",container="",pod=""} 100\n'
    assert [(each.gpu, each.uuid, each.util_ratio) for each in readings(text)] == [("0", "GPU-604ac76c", 1.0)]


def test_the_load_tests_text_has_the_exporters_default_counters() -> None:
    listed = SHARED / "dcgm_default_counters.csv"
    if not listed.exists():
        pytest.skip("no shared data beside the checkout")
    rows = [line.split(",") for line in listed.read_text().splitlines() if line and line[0] != "#"]
    assert {name.strip() for name, kind, *_ in rows if kind.strip() != "label"} == {
        each.name for each in COUNTERS
    }


def test_the_load_tests_text_is_read_as_the_slow_reader_does() -> None:
    found = readings(node_text(3, random.Random(3)))
    assert [each.gpu for each in found] == list("01234567")
    assert {each.node for each in found} == {"gpu-000003"}
    assert None not in {each.tensor_ratio for each in found}
    assert measure(2)["gpus"] == 16


names = st.sampled_from(
    [
        "gpu", "UUID", "GPU_I_ID", "hostname", "Hostname", "pod", "namespace", "modelName", "hpc_job", "err_code",
        "gpu_id", "gpu_uuid", "gpu_partition_id", "card_series", "job_id", "gpu_use_percent",
    ]
)  # fmt: skip
values = st.sampled_from(["", "0", "1", "n1", "a b", "ü", "}", "{", ",", r"\\", r"\"", r"\n"])
labels = st.builds(
    "{},{}".format,
    st.sampled_from(['gpu="0"', 'UUID="GPU-7"', 'gpu_id="0"', 'hostname="",gpu="1"']),
    st.lists(st.builds('{}="{}"'.format, names, values), max_size=6).map(",".join),
)
odd_labels = st.sampled_from(
    ['gpu="0" ,', 'gpu = "0",pod="\udcff"', 'gpu="0" pod="1"', 'gpu="0",,', '0a="0"', 'gpu="', "gpu=0"]
)
numbers = st.one_of(
    st.floats(0, 100).map("{:f}".format),
    st.floats(0, 1e16).map(repr),
    st.decimals(0, 10**16, places=6).map(str),
    st.integers(0, 10**20).map(str),
    st.sampled_from(["9223372036854775794", "NaN", "-1", "+1", "007", "1e", "1e22", "5e-23", ""]),
)


@st.composite
def texts(draw: st.DrawFn) -> str:
    """Lines of a few metrics for a few label sets, and some that are none."""
    sets = st.sampled_from(
        draw(st.lists(labels, min_size=1, max_size=3)) + draw(st.lists(odd_labels, max_size=1))
    )
    metrics = st.sampled_from(draw(st.lists(st.sampled_from(dcgm_oracle.METRICS), min_size=1, max_size=4)))
    blanks, rest = (
        st.sampled_from([" "] * 8 + ["\t ", ""]),
        st.sampled_from([""] * 8 + [" 1790000000000", "\r", "x"]),
    )
    line = st.builds("{}{{{}}}{}{}{}".format, metrics, sets, blanks, numbers, rest)
    other = st.one_of(
        st.sampled_from(["", "# HELP x", 'x{gpu="0"} 1']), st.text(st.characters(codec="utf-8"))
    )
    return "\n".join(draw(st.lists(st.one_of(line, line, line, other), max_size=12)))


@given(texts(), st.sampled_from(["hpc_job", "job_id", "pod", ""]))
def test_any_text_is_read_as_the_slow_reader_does(text: str, job_id_label: str) -> None:
    readings(text.encode("utf-8", "surrogateescape"), job_id_label)


@given(st.binary(max_size=60), st.integers(0, 60))
def test_damaged_text_is_read_as_the_slow_reader_does(damage: bytes, at: int) -> None:
    text = b'DCGM_FI_DEV_GPU_UTIL{gpu="0",UUID="GPU-7"} 50\nDCGM_FI_DEV_FB_USED{gpu="0",UUID="GPU-7"} 7\n'
    readings(text[:at] + damage + text[at:])
