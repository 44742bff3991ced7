"""Images by digest: what the check refuses, and that pinning writes what a registry says and nothing else."""

from __future__ import annotations

import re
import stat
from pathlib import Path

import pytest
import yaml

from deploy.pin_images import (
    OURS,
    PinError,
    digest_of,
    faults_of_compose,
    faults_of_dockerfile,
    faults_of_env,
    images_of,
    main,
)
from tests.meta.tree import ROOT

DIGEST = "sha256:" + "0123456789abcdef" * 4
IMAGES = {"PYTHON_IMAGE": "python:3.13-slim", "KAFKA_IMAGE": "apache/kafka:4.1.1"}


def test_dockerfile_and_compose_name_no_image_without_a_digest() -> None:
    images = images_of(ROOT)
    assert faults_of_dockerfile((ROOT / "Dockerfile").read_text(), images) == []
    assert faults_of_compose((ROOT / "docker-compose.yml").read_text(), images) == []


def test_pinned_images_are_those_of_the_list() -> None:
    path = ROOT / "deploy" / "images.env"
    if not path.exists():
        pytest.skip("deploy/images.env is not there: make pin writes it, where a registry is reached")
    assert faults_of_env(path.read_text(), images_of(ROOT)) == []


def test_every_service_has_an_image_of_the_list_or_one_that_is_built_here() -> None:
    """The check reads lines; here is what the file means."""
    services = yaml.safe_load((ROOT / "docker-compose.yml").read_text())["services"]
    for name, service in services.items():
        if "build" in service:
            assert (service["image"], service["pull_policy"]) == (OURS, "build"), name
        else:
            variable = re.fullmatch(r"\$\{(\w+):\?[^}]+\}", service["image"])
            assert variable is not None, name
            assert variable[1] in images_of(ROOT)


def test_every_image_of_the_list_has_a_release() -> None:
    for image in images_of(ROOT).values():
        assert re.fullmatch(r"[a-z0-9./_-]+:v?\d+(\.\d+)+(-slim)?", image)


@pytest.mark.parametrize(
    "text",
    [
        "FROM python:3.13-slim\n",
        "FROM python\n",
        "FROM --platform=linux/amd64 python:3.13-slim AS build\n",
        "from python:3.13-slim\n",
        "FROM \\\n  python:3.13-slim\n",
        "FROM python@sha256:0123\n",
        "FROM ${OTHER_IMAGE}\n",
        "FROM ${PYTHON_IMAGE:-python:3.13-slim}\n",
        "ARG PYTHON_IMAGE=python:3.13-slim\nFROM ${PYTHON_IMAGE}\n",
        "FROM ${PYTHON_IMAGE}\nCOPY --from=busybox:1 /bin/sh /sh\n",
        "FROM ${PYTHON_IMAGE}\nRUN --mount=type=bind,from=busybox:1,target=/b true\n",
        "# syntax=docker/dockerfile:1\nFROM ${PYTHON_IMAGE}\n",
    ],
)
def test_a_dockerfile_with_a_tag_is_refused(text: str) -> None:
    assert faults_of_dockerfile(text, IMAGES)


@pytest.mark.parametrize(
    "text",
    [
        "ARG PYTHON_IMAGE\nFROM ${PYTHON_IMAGE} AS build\nFROM build\nCOPY --from=build /a /a\n",
        f"FROM python:3.13-slim@{DIGEST}\n",
        f"ARG PYTHON_IMAGE=python:3.13-slim@{DIGEST}\nFROM ${{PYTHON_IMAGE}}\n",
    ],
)
def test_a_dockerfile_with_digests_or_variables_passes(text: str) -> None:
    assert faults_of_dockerfile(text, IMAGES) == []


@pytest.mark.parametrize(
    "image",
    [
        "apache/kafka:4.1.1",
        "apache/kafka",
        '"apache/kafka:4.1.1"',
        "${KAFKA_IMAGE}",
        "${KAFKA_IMAGE:-apache/kafka:4.1.1}",
        "${OTHER_IMAGE:?run make pin}",
        "apache/kafka:4.1.1@sha256:0123",
        "trainfare:latest",
        "",
    ],
)
@pytest.mark.parametrize(
    "form", ["services:\n  kafka:\n    image: {}\n", "services: {{kafka: {{'image': {}}}}}\n"]
)
def test_a_compose_file_with_a_tag_is_refused(image: str, form: str) -> None:
    assert faults_of_compose(form.format(image), IMAGES)


@pytest.mark.parametrize(
    "image", [f"apache/kafka:4.1.1@{DIGEST}", "${KAFKA_IMAGE:?run make pin}", "trainfare:local"]
)
def test_a_compose_file_with_digests_or_variables_passes(image: str) -> None:
    assert faults_of_compose(f"services:\n  kafka:\n    image: {image}\n", IMAGES) == []


def test_pinning_writes_what_the_registry_says_and_the_check_agrees(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("Dockerfile", "docker-compose.yml", "deploy/images.toml"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text((ROOT / name).read_text())
    assert main(["--check"], tmp_path) == 1
    assert "images.env: not there" in capsys.readouterr().err
    assert main([], tmp_path, lambda _: DIGEST) == 0
    written = (tmp_path / "deploy/images.env").read_text()
    assert f"KAFKA_IMAGE={images_of(ROOT)['KAFKA_IMAGE']}@{DIGEST}\n" in written
    assert main(["--check"], tmp_path) == 0
    (tmp_path / "deploy/images.env").write_text(written.replace("kafka:4", "kafka:3"))
    assert main(["--check"], tmp_path) == 1


def test_one_image_that_nobody_knows_writes_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "deploy").mkdir()
    (tmp_path / "deploy/images.toml").write_text('A = "a:1.0"\nB = "b:1.0"\n')

    def ask(image: str) -> str:
        if image == "b:1.0":
            raise PinError("b:1.0: not found")
        return DIGEST

    assert main([], tmp_path, ask) == 1
    assert capsys.readouterr().err == "pin_images: b:1.0: not found\n"
    assert not (tmp_path / "deploy/images.env").exists()


def fake_docker(folder: Path, script: str, monkeypatch: pytest.MonkeyPatch) -> None:
    docker = folder / "docker"
    docker.write_text(f"#!/bin/sh\n{script}\n")
    docker.chmod(stat.S_IRWXU)
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")


def test_dockers_answer_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    answer = f'{{"schemaVersion": 2, "digest": "{DIGEST}", "size": 1609}}'
    fake_docker(tmp_path, f"[ \"$4\" = python:3.13-slim ] && echo '{answer}'", monkeypatch)
    assert digest_of("python:3.13-slim") == DIGEST


@pytest.mark.parametrize(
    ("script", "words"),
    [
        ("echo no such image >&2; exit 1", "no such image"),
        ("echo '{}'", "without a digest"),
        ("echo 3.13", "without a digest"),
        ("""echo '{"digest": "sha256:0; rm"}'""", "is no digest"),
    ],
)
def test_dockers_failures_are_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str, words: str
) -> None:
    fake_docker(tmp_path, script, monkeypatch)
    with pytest.raises(PinError, match=words):
        digest_of("python:3.13-slim")


def test_no_docker_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(PinError, match="docker is not installed"):
        digest_of("python:3.13-slim")
