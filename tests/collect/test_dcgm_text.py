"""dcgm-exporter's text, as it is and as it should not be."""

from __future__ import annotations

from pathlib import Path

import pytest

from streams.collect.dcgm.text import LabelCache, read

SAMPLE = (
    Path(__file__).resolve().parents[3] / "shared" / "data" / "samples" / "dcgm_exporter_metrics_sample.prom"
)


def values(text: str) -> list[tuple[str, dict[str, float]]]:
    return [(each.labels["gpu"], each.values) for each in read(text.encode(), LabelCache())]


def test_blank_values_are_no_readings() -> None:
    text = "".join(
        f'DCGM_FI_DEV_FB_USED{{gpu="{gpu}"}} {value}\n'
        for gpu, value in enumerate(
            ["9223372036854775794", "9223372036854775792", "NaN", "-1", "+Inf", "x", "7"]
        )
    )
    assert values(text) == [("6", {"memory_used_mib": 7.0})]


def test_slices_of_a_gpu_are_apart_and_have_no_utilisation_in_percent() -> None:
    text = (
        'DCGM_FI_PROF_GR_ENGINE_ACTIVE{gpu="0",GPU_I_PROFILE="3g.40gb",GPU_I_ID="1"} 0.5\n'
        'DCGM_FI_PROF_GR_ENGINE_ACTIVE{gpu="0",GPU_I_PROFILE="1g.10gb",GPU_I_ID="7"} 0.25\n'
    )
    assert [(each.labels["GPU_I_ID"], each.util_ratio) for each in read(text.encode(), LabelCache())] == [
        ("1", 0.5),
        ("7", 0.25),
    ]


def test_labels_may_hold_braces_quotes_and_lines() -> None:
    text = r'DCGM_FI_DEV_GPU_UTIL{gpu="0",pod="a}b\"c\\d\ne", namespace="n"} 50' + "\n"
    (found,) = read(text.encode(), LabelCache())
    assert found.labels == {"gpu": "0", "pod": 'a}b"c\\d\ne', "namespace": "n"}
    assert found.util_ratio == 0.5


@pytest.mark.parametrize(
    "text",
    [
        "",
        "DCGM_FI_DEV_GPU_UTIL{",
        "DCGM_FI_DEV_GPU_UTIL 5",
        'DCGM_FI_DEV_GPU_UTIL{gpu="0} 5',
        "\x00\xff",
        '{gpu="0"} 5',
    ],
)
def test_what_is_no_text_of_it_is_skipped(text: str) -> None:
    assert values(text) == []


def test_a_hostile_line_takes_no_long_time() -> None:
    """A pattern that goes back would never end here."""
    text = "DCGM_FI_DEV_GPU_UTIL{" + 'a="' * 100_000
    assert values(text) == []


def test_the_exporters_own_sample_is_read() -> None:
    if not SAMPLE.exists():
        pytest.skip("no shared data beside the checkout")
    text = SAMPLE.read_text() + 'DCGM_FI_DEV_GPU_UTIL{gpu="0", UUID="GPU-604ac76c",container="",pod=""} 100\n'
    assert values(text) == [("0", {"util_percent": 100.0})]


def test_the_cache_of_labels_is_bounded() -> None:
    cache = LabelCache(at_most=10)
    for gpu in range(100):
        read(f'DCGM_FI_DEV_GPU_UTIL{{gpu="{gpu}"}} 1\n'.encode(), cache)
    assert len(cache._known) <= 10
