"""What alerts of one cause have in common: equal for these, and for no others."""

from __future__ import annotations

import pytest

from streams.engine.rules.shared_cause import cause_text, of_silence, of_sweep, parts_of
from streams.engine.state.dimensions import AlertDimensions

RUN_8 = AlertDimensions("run-8", owner="ada", team="vision")


@pytest.mark.parametrize(
    "other",
    [
        RUN_8._replace(job_id="eval-9"),
        RUN_8._replace(job_id="run-9", owner="bob"),
        RUN_8._replace(job_id="run-9", team="nlp"),
        RUN_8._replace(job_id="run-9", experiment="lr"),
    ],
)
def test_a_sweep_is_of_one_owner_and_one_numbered_name(other: AlertDimensions) -> None:
    assert of_sweep("burn_fast", RUN_8) == of_sweep("burn_fast", RUN_8._replace(job_id="run-9")) != ""
    assert of_sweep("burn_fast", other) != of_sweep("burn_fast", RUN_8) != of_sweep("idle_gpus", RUN_8)


def test_an_experiment_is_one_sweep_whatever_its_jobs_are_called() -> None:
    trials = (
        AlertDimensions(name, owner, "vision", experiment="lr")
        for name, owner in (("a", "ada"), ("b", "bob"))
    )
    first, second = (of_sweep("idle_gpus", each) for each in trials)
    assert first == second != ""


def test_jobs_without_a_number_are_known_by_their_run() -> None:
    first, second, other = (
        of_sweep("idle_gpus", RUN_8._replace(job_id=job_id, run_id=run_id))
        for job_id, run_id in (("4711", "llama"), ("4720", "llama"), ("4711", "mistral"))
    )
    assert first == second != other != ""
    assert of_sweep("idle_gpus", RUN_8._replace(run_id="a")) == of_sweep(
        "idle_gpus", RUN_8._replace(run_id="b")
    )


@pytest.mark.parametrize(
    "job", [RUN_8._replace(owner=""), RUN_8._replace(job_id="run"), RUN_8._replace(job_id="8")]
)
def test_what_has_no_number_or_no_owner_is_no_sweep(job: AlertDimensions) -> None:
    assert of_sweep("burn_fast", job) == ""


POOL = RUN_8._replace(cluster="c1", instance_type="p5", gpu_type="h100")


def test_silence_is_of_who_sent_the_last_sign_on_whatever_pool() -> None:
    assert of_silence("dcgm/a", POOL) == of_silence("dcgm/a", RUN_8._replace(cluster="c2")) != ""
    assert of_silence("dcgm/a", POOL) != of_silence("dcgm/b", POOL)


@pytest.mark.parametrize("source", ["", "sdk", "nvidia-smi"])
def test_where_each_job_or_node_has_a_source_of_its_own_it_is_of_a_pool_of_nodes(source: str) -> None:
    assert of_silence(source, POOL) == of_silence(source, POOL._replace(job_id="x", gpu_type="")) != ""
    assert of_silence(source, POOL) != of_silence(source, POOL._replace(instance_type="p4"))
    assert of_silence(source, RUN_8) == ""


def test_a_cause_of_any_names_is_read_back() -> None:
    names = ("a/b", '"', "\ud800", "")
    assert parts_of(cause_text("price", *names)) == ("price", *names)
