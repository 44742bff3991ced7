"""Container images by digest: `python -m deploy.pin_images` asks a registry for them, `--check` refuses what has none."""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import tomllib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[1]
OURS: Final = "trainfare:local"
"""Built from this checkout and never fetched, so it has no digest to name."""

_DIGEST: Final = re.compile(r"sha256:[0-9a-f]{64}")
_PINNED: Final = re.compile(rf"[a-z0-9][a-z0-9./_:-]*@{_DIGEST.pattern}")
# `${NAME}` in the Dockerfile; compose must stop where the variable is not set, so there it is `${NAME:?why}`.
_VARIABLE: Final = re.compile(r"\$\{([A-Z_]+)\}")
_REQUIRED: Final = re.compile(r"\$\{([A-Z_]+):\?[^}]+\}")
_COMPOSE_IMAGE: Final = re.compile(
    r"""^[^#\n]*?\bimage["']?\s*:\s*["']?(\$\{[^}]*\}|[^\s"',}]*)""", re.MULTILINE
)
_ASK_TIMEOUT_S: Final = 120


class PinError(Exception):
    """An image has no digest; the message says which, and what to do."""


def digest_of(image: str) -> str:
    """Ask the registry for the digest of all platforms of an image, by Docker's client.

    Raises:
        PinError: Docker is not there, or nobody knows the image.
    """
    command = ["docker", "buildx", "imagetools", "inspect", image, "--format", "{{json .Manifest}}"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_ASK_TIMEOUT_S, check=True)
        digest = str(json.loads(done.stdout)["digest"])
    except FileNotFoundError:
        raise PinError("docker is not installed; pin where it is, and commit deploy/images.env") from None
    except subprocess.CalledProcessError as error:
        said = (str(error.stderr).strip().splitlines() or ["no reason given"])[0]
        raise PinError(
            f"{image}: {said} (docker buildx imagetools inspect: it needs buildx and a registry)"
        ) from None
    except subprocess.TimeoutExpired:
        raise PinError(
            f"{image}: no answer in {_ASK_TIMEOUT_S} s; is a registry reached from here?"
        ) from None
    except (ValueError, KeyError, TypeError):
        raise PinError(f"{image}: docker buildx answered without a digest") from None
    if not _DIGEST.fullmatch(digest):
        raise PinError(f"{image}: `{digest}` is no digest")
    return digest


def pinned(images: Mapping[str, str], ask: Callable[[str], str] = digest_of) -> str:
    """The text of `images.env`: each image with its release and its digest."""
    lines = [f"{name}={image}@{ask(image)}\n" for name, image in images.items()]
    return "# Written by `make pin` from deploy/images.toml.\n" + "".join(lines)


def faults_of_dockerfile(text: str, images: Mapping[str, str]) -> list[str]:
    """Say which images a Dockerfile takes without a digest: by FROM, COPY --from, RUN --mount, ARG or `# syntax=`."""
    text = re.sub(r"\\\n", " ", text)
    stages = {stage.lower() for stage in re.findall(r"(?im)^\s*FROM\s.*\sAS\s+(\S+)\s*$", text)}
    used = re.findall(r"(?im)^\s*FROM\s+(?:--\S+\s+)*(\S+)", text)
    used += re.findall(r"(?im)^\s*(?:COPY|ADD|RUN)\s[^\n]*?\bfrom=([^\s,]+)", text)
    used += re.findall(r"(?im)^#\s*syntax\s*=\s*(\S+)", text)
    faults = [
        f"Dockerfile: {each}"
        for each in used
        if each.lower() not in stages and not _is_pinned(each, _VARIABLE, images)
    ]
    given = re.findall(rf"(?im)^\s*ARG\s+({'|'.join(images)})\s*=\s*(\S+)", text)
    return faults + [
        f"Dockerfile: ARG {name}={value}" for name, value in given if not _PINNED.fullmatch(value)
    ]


def faults_of_compose(text: str, images: Mapping[str, str]) -> list[str]:
    """Say which images a compose file takes without a digest."""
    used = _COMPOSE_IMAGE.findall(text)
    return [
        f"compose: {each or '(nothing)'}"
        for each in used
        if each != OURS and not _is_pinned(each, _REQUIRED, images)
    ]


def faults_of_env(text: str, images: Mapping[str, str]) -> list[str]:
    """Say which images of `images.toml` the pinned file lacks, or has as another release or without a digest."""
    found = dict(line.split("=", 1) for line in text.splitlines() if "=" in line and not line.startswith("#"))
    return [
        f"images.env: {name}={found.get(name, '')}"
        for name, image in images.items()
        if not _PINNED.fullmatch(found.get(name, "")) or found[name].partition("@")[0] != image
    ]


def _is_pinned(reference: str, variable: re.Pattern[str], images: Mapping[str, str]) -> bool:
    match = variable.fullmatch(reference)
    return match[1] in images if match else _PINNED.fullmatch(reference) is not None


def check(root: Path) -> list[str]:
    """Say all that is taken without a digest, in Dockerfile, compose file and `images.env`."""
    images = images_of(root)
    env = root / "deploy" / "images.env"
    return [
        *faults_of_dockerfile((root / "Dockerfile").read_text(encoding="utf-8"), images),
        *faults_of_compose((root / "docker-compose.yml").read_text(encoding="utf-8"), images),
        *(
            faults_of_env(env.read_text(encoding="utf-8"), images)
            if env.exists()
            else ["images.env: not there"]
        ),
    ]


def images_of(root: Path) -> dict[str, str]:
    """The images by their variables."""
    return {
        name: str(image)
        for name, image in tomllib.loads((root / "deploy" / "images.toml").read_text()).items()
    }


def main(arguments: list[str] | None = None, root: Path = ROOT, ask: Callable[[str], str] = digest_of) -> int:
    """Pin, or with `--check` only look; return the exit code."""
    parser = argparse.ArgumentParser(prog="pin_images", description=__doc__)
    parser.add_argument("--check", action="store_true", help="refuse any image without a digest; ask nobody")
    if parser.parse_args(arguments).check:
        faults = check(root)
        sys.stderr.writelines(f"without a digest: {fault}\n" for fault in faults)
        if faults:
            sys.stderr.write("name images in deploy/images.toml and run: make pin\n")
        return 1 if faults else 0
    try:
        # All or nothing: a file with some of them would start some services.
        text = pinned(images_of(root), ask)
    except PinError as error:
        sys.stderr.write(f"pin_images: {error}\n")
        return 1
    (root / "deploy" / "images.env").write_text(text, encoding="utf-8")
    sys.stdout.write(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
