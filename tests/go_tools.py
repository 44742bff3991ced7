"""Helm, kubeconform, a kube-apiserver and the parser of Compose for tests, built once from their modules and kept in the cache of tests."""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import subprocess
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Final

HELM: Final = "helm.sh/helm/v3/cmd/helm@v3.22.0"
KUBECONFORM: Final = "github.com/yannh/kubeconform/cmd/kubeconform@v0.8.0"
#: What `docker compose` reads its files by.
_COMPOSE: Final = "github.com/compose-spec/compose-go/v2 v2.16.2"
KUBERNETES: Final = "1.34.2"
PROMETHEUS_OPERATOR: Final = "github.com/prometheus-operator/prometheus-operator@v0.85.0"
_KUBERNETES: Final = f"k8s.io/kubernetes@v{KUBERNETES}"
_CACHE: Final = Path.home() / ".cache/trainfare/go"
_BUILD_S: Final = 5_400


@lru_cache
def go() -> str | None:
    """The Go compiler, on the PATH or where its installer puts it."""
    return shutil.which("go") or shutil.which("go", path="/usr/local/go/bin")


def installed(package: str) -> Path:
    """The program of a package, which is built if it is not there yet.

    Raises:
        AssertionError: It cannot be built.
    """
    # A major version at the end is no part of the program's name.
    name = re.sub(r"/v\d+$", "", package.partition("@")[0]).rpartition("/")[2]
    folder = _CACHE / package.replace("/", "+")
    return _built(folder / name, lambda: _go("install", package, GOBIN=str(folder)))


def kube_apiserver() -> Path:
    """A kube-apiserver: that of KUBE_APISERVER or the PATH, or one that is built.

    Raises:
        AssertionError: It cannot be built.
    """
    found = os.environ.get("KUBE_APISERVER") or shutil.which("kube-apiserver")
    target = _CACHE / f"kube-apiserver@v{KUBERNETES}" / "kube-apiserver"
    return Path(found) if found else _built(target, lambda: _build_apiserver(target))


def compose_parser() -> Path:
    """A program that prints a Compose file as `docker compose` understands it; of compose-go's own one no variable has a value.

    Raises:
        AssertionError: It cannot be built.
    """
    target = _CACHE / _COMPOSE.replace("/", "+").replace(" ", "@") / "parsed"
    return _built(target, lambda: _build_compose_parser(target))


def module(name: str) -> Path:
    """The directory of a module's sources, which are fetched if they are not there yet.

    Raises:
        AssertionError: They cannot be had.
    """
    said = _go("mod", "download", "-json", name)
    found = re.search(r'"Dir": "([^"]+)"', said)
    assert found is not None, said
    return Path(found[1])


def openapi() -> Path:
    """What the API server says of its objects (OpenAPI 2), from its sources.

    Raises:
        AssertionError: They cannot be had.
    """
    return module(_KUBERNETES) / "api/openapi-spec/swagger.json"


def _build_apiserver(target: Path) -> None:
    """Build it with the published modules of its staging area, which its own go.mod finds beside it."""
    ours = (module(_KUBERNETES) / "go.mod").read_text()
    staged = f"v0.{KUBERNETES.partition('.')[2]}"
    text = re.sub(r"(?s)\nreplace \(.*?\n\)", "", ours)
    text = re.sub(r"(k8s\.io/[\w.-]+) v0\.0\.0(?=\s)", rf"\1 {staged}", text)
    text = text.replace("module k8s.io/kubernetes", "module trainfare.test/apiserver")
    replaced = [
        f"replace {name} => {name} {staged}" for name in re.findall(r"(k8s\.io/[\w.-]+) => \./staging", ours)
    ]
    target.parent.mkdir(parents=True, exist_ok=True)
    (target.parent / "go.mod").write_text(
        "\n".join((text, f"require {_KUBERNETES.replace('@', ' ')}", *replaced, ""))
    )
    (target.parent / "main.go").write_text(
        'package main\n\nimport _ "k8s.io/kubernetes/cmd/kube-apiserver/app"\n\nfunc main() {}\n'
    )
    package = "k8s.io/kubernetes/cmd/kube-apiserver"
    major, minor, _ = KUBERNETES.split(".")
    said = {"gitVersion": f"v{KUBERNETES}", "gitMajor": major, "gitMinor": minor}
    flags = " ".join(f"-X k8s.io/component-base/version.{name}={each}" for name, each in said.items())
    _go(
        "build", "-mod=mod", f"-ldflags=-s -w {flags}", "-o", str(target), package, cwd=target.parent
    )  # fmt: skip


_PARSED: Final = """\
package main

import (
	"context"
	"os"

	"github.com/compose-spec/compose-go/v2/cli"
)

func must(err error) {
	if err != nil {
		os.Stderr.WriteString(err.Error() + "\\n")
		os.Exit(1)
	}
}

func main() {
	options, err := cli.NewProjectOptions(os.Args[1:], cli.WithOsEnv)
	must(err)
	project, err := options.LoadProject(context.Background())
	must(err)
	text, err := project.MarshalYAML()
	must(err)
	os.Stdout.Write(text)
}
"""


def _build_compose_parser(target: Path) -> None:
    (target.parent / "go.mod").write_text(f"module trainfare.test/compose\n\ngo 1.24\n\nrequire {_COMPOSE}\n")
    (target.parent / "main.go").write_text(_PARSED)
    _go("build", "-mod=mod", "-o", str(target), ".", cwd=target.parent)


def _built(path: Path, build: Callable[[], object]) -> Path:
    """A file that one process at a time builds."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with (path.parent / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not path.exists():
            build()
    return path


def _go(*words: str, cwd: Path | None = None, **variables: str) -> str:
    program = go()
    assert program is not None, "no `go` on the PATH"
    _CACHE.mkdir(parents=True, exist_ok=True)
    done = subprocess.run(
        [program, *words],
        cwd=cwd or _CACHE,
        env={**os.environ, "GOFLAGS": "-buildvcs=false", "GOTOOLCHAIN": "local", **variables},
        capture_output=True,
        text=True,
        timeout=_BUILD_S,
    )
    assert done.returncode == 0, done.stderr[-4_000:]
    return done.stdout
