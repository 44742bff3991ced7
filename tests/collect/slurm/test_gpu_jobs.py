"""The prolog and epilog that write down which job has which GPU, run as slurmd runs them."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Final

import pytest

_SCRIPT: Final = Path(__file__).parents[3] / "examples/slurm/gpu-jobs.sh"


class Node:
    def __init__(self, directory: Path) -> None:
        self.files = directory / "gpu-jobs"
        self._script = directory / "script.sh"
        self._script.write_text(_SCRIPT.read_text().replace("dir=/run/gpu-jobs\n", f"dir={self.files}\n"))
        self._script.chmod(0o755)

    def run(self, context: str, job: str, gpus: str | None) -> None:
        env = {"PATH": "/usr/bin:/bin", "SLURM_SCRIPT_CONTEXT": context, "SLURM_JOB_ID": job}
        if gpus is not None:
            env["SLURM_JOB_GPUS"] = gpus
        done = subprocess.run([str(self._script)], env=env, capture_output=True, text=True, check=False)
        assert (done.returncode, done.stdout, done.stderr) == (0, "", "")

    def held(self) -> dict[str, str]:
        return {path.name: path.read_text() for path in self.files.glob("[0-9]*")}


def test_gpus_are_a_jobs_from_its_prolog_to_its_epilog(tmp_path: Path) -> None:
    node = Node(tmp_path)
    node.run("prolog_slurmd", "17", "0,1")
    node.run("prolog_slurmd", "18", "2")
    assert node.held() == {"0": "17\n", "1": "17\n", "2": "18\n"}
    node.run("prolog_slurmd", "17", "0,1")  # slurmd tried it again
    node.run("epilog_slurmd", "17", "0,1")
    node.run("epilog_slurmd", "17", "0,1")
    assert node.held() == {"2": "18\n"}


def test_jobs_that_share_a_gpu_have_a_line_each(tmp_path: Path) -> None:
    node = Node(tmp_path)
    node.run("prolog_slurmd", "17", "0")
    node.run("prolog_slurmd", "170", "0")
    assert node.held() == {"0": "17\n170\n"}
    node.run("epilog_slurmd", "17", "0")
    assert node.held() == {"0": "170\n"}


@pytest.mark.parametrize(
    ("job", "gpus"), [("17", None), ("17", ""), ("$(id)", "0"), ("17", "../x,GPU-1"), ("", "0")]
)
def test_what_is_no_gpu_of_a_job_leaves_no_file(job: str, gpus: str | None, tmp_path: Path) -> None:
    node = Node(tmp_path)
    node.run("prolog_slurmd", job, gpus)
    assert node.held() == {}
    assert not (tmp_path / "x").exists()
