"""The image: two stages, a user that is not root, and nothing in the second one that installs or builds."""

from __future__ import annotations

import re

import pytest

from tests.meta.tree import ROOT

LINES = re.sub(r"\\\n\s*", "", (ROOT / "Dockerfile").read_text(encoding="utf-8")).splitlines()
STARTS = [number for number, line in enumerate(LINES) if line.startswith("FROM ")]
BUILD, FINAL = LINES[STARTS[0] : STARTS[1]], LINES[STARTS[1] :]


def test_the_user_is_a_number_and_not_root() -> None:
    users = [line.removeprefix("USER ") for line in FINAL if line.startswith("USER ")]
    assert users == ["10001:10001"]
    assert FINAL.index("USER 10001:10001") < FINAL.index('ENTRYPOINT ["trainfare"]')


def test_every_package_is_installed_by_hash_from_the_small_locks() -> None:
    runs = (line for line in BUILD if line.startswith("RUN "))
    installs = [part for line in runs for part in line.split("&&") if "pip" in part and " install " in part]
    assert len(installs) == 3
    for install in installs[:2]:
        assert "--require-hashes" in install
        assert re.search(r"-r requirements-(build|runtime)\.lock", install)
    assert "--no-index" in installs[2]
    assert "--no-deps" in installs[2]


def test_the_final_stage_takes_the_environment_and_nothing_else_of_the_build() -> None:
    assert [line for line in FINAL if line.startswith(("COPY", "ADD"))] == [
        "COPY --from=build /opt/trainfare /opt/trainfare"
    ]
    assert any("venv --without-pip /opt/trainfare" in line for line in BUILD)


@pytest.mark.parametrize(
    "tool", ["pip", "ensurepip", "setuptools", "numba", "pytest", "mypy", "ruff", "uv", "playwright"]
)
def test_the_build_fails_where_a_tool_is_left(tool: str) -> None:
    (check,) = [line for line in FINAL if "find_spec" in line]
    program = check.removeprefix('RUN python -c "').removesuffix('"')

    def run(found: set[str]) -> None:
        fake = type("Util", (), {"find_spec": staticmethod(lambda name: name in found)})
        exec(program.replace("import importlib.util as u; ", ""), {"u": fake})

    run(set())
    with pytest.raises(AssertionError, match=tool):
        run({tool})


def test_the_image_says_what_it_is_what_is_in_it_and_how_it_is() -> None:
    (labels,) = [line for line in FINAL if line.startswith("LABEL ")]
    for name in ("title", "description", "licenses", "version", "revision"):
        assert f'org.opencontainers.image.{name}="' in labels
    assert any("sbom.py" in line and "sbom.cdx.json" in line for line in FINAL)
    (health,) = [line for line in FINAL if line.startswith("HEALTHCHECK ")]
    assert "/healthz" in health


def test_no_argument_brings_a_secret_into_a_layer() -> None:
    named = [line for line in LINES if re.match(r"(ARG|ENV) ", line)]
    assert not [line for line in named if re.search(r"(?i)passw|secret|token", line)]
