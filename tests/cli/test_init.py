"""`trainfare init` as a user calls it, beside a Slurm whose commands are stood for; nothing is started here."""

from __future__ import annotations

import os
import shlex
import tomllib
from pathlib import Path

import pytest
import yaml

from deploy.helm.values import Values
from streams.collect.registry import options_of
from streams.init.price_file import rows_in
from tests.cli.command import Done, trainfare
from tests.collect.kubernetes import objects
from tests.collect.kubernetes.server import Change, ReplayServer
from tests.init.slurm_site import SlurmSite, node


class Site:
    """A machine with Slurm's commands, and a place for the files."""

    def __init__(self, folder: Path, slurm: SlurmSite) -> None:
        self.directory = folder / "live"
        self._path = f"{slurm.programs(folder / 'bin')}:{os.environ['PATH']}"
        self._cwd = folder

    def init(self, *words: object, name: str = "slurm", env: dict[str, str] | None = None) -> Done:
        return trainfare("init", name, *words, env={"PATH": self._path, **(env or {})}, cwd=self._cwd)

    def text(self, name: str) -> str:
        return (self.directory / name).read_text()


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path, SlurmSite())


def test_files_are_written_once_and_a_second_call_changes_nothing(site: Site) -> None:
    done = site.init("--yes", "--no-start")
    assert done.code == 0, done.err
    names = ["collect.toml", "prices.csv", "systemd/trainfare-collect-slurm.service"]
    names += ["systemd/trainfare.service", "token", "trainfare.toml"]
    before = {name: site.text(name) for name in names}
    options = options_of("slurm", site.directory / "collect.toml").model_dump()
    assert options["gpu_types"] == {"h100": "H100"}
    assert "gpu.h100,H100,6.88,gpu_hour" in before["prices.csv"]
    assert len(before["token"].strip()) >= 32
    assert before["token"].strip() not in done.out
    again = site.init("--yes", "--no-start")
    assert again.code == 0
    assert [line for line in again.out.splitlines() if line.endswith(": unchanged")] == [
        f"{name}: unchanged"
        for name in ("trainfare.toml", "collect.toml", "prices.csv", "token", names[3], names[2])
    ]
    assert {name: site.text(name) for name in names} == before


def test_what_a_person_has_changed_stays_and_the_difference_is_shown(site: Site) -> None:
    site.init("--yes", "--no-start", "--price", "h100=3.60")
    collect = site.directory / "collect.toml"
    collect.write_text(collect.read_text() + '\n[nvidia-smi]\nnode = "n1"\n')
    prices = site.directory / "prices.csv"
    prices.write_text(prices.read_text().replace("3.60", "4.10"))
    kept = collect.read_text(), prices.read_text()
    done = site.init("--yes", "--no-start", "--price", "h100=5")
    assert done.code == 0
    assert "collect.toml: kept, as you changed it" in done.out
    assert "prices.csv: kept, as you changed it" in done.out
    assert "    -gpu.h100,H100,4.10,gpu_hour,,,as given" in done.out
    assert "    +gpu.h100,H100,5,gpu_hour,,,as given" in done.out
    assert (collect.read_text(), prices.read_text()) == kept


def test_a_new_type_is_added_to_files_that_nobody_has_changed(tmp_path: Path) -> None:
    site = Site(tmp_path, SlurmSite())
    site.init("--yes", "--no-start", "--price", "h100=3.60")
    since = tomllib.loads(site.text("collect.toml"))["slurm"]["since"]
    (tmp_path / "later").mkdir()
    more = Site(tmp_path / "later", SlurmSite(node("n1"), node("n3", "gpu:l40s:8")))
    more.directory = site.directory
    done = more.init("--yes", "--no-start", "--dir", site.directory)
    assert done.code == 0, done.err
    assert "prices.csv: updated" in done.out
    assert "gpu.h100,H100,3.60,gpu_hour,,,as given" in site.text("prices.csv")
    assert "gpu.l40s,L40S,1.5484,gpu_hour" in site.text("prices.csv")
    table = tomllib.loads(site.text("collect.toml"))["slurm"]
    assert table["gpu_types"] == {"h100": "H100", "l40s": "L40S"}
    assert table["since"] == since


def test_print_writes_nothing_and_shows_no_token(site: Site) -> None:
    done = site.init("--print")
    assert done.code == 0
    assert not site.directory.exists()
    assert "==> " in done.out
    assert "(a token, which is not shown)" in done.out


def test_it_does_not_end_well_while_a_type_has_no_price(tmp_path: Path) -> None:
    site = Site(tmp_path, SlurmSite(node("n1", "gpu:a100:4"), tracked="gres/gpu,gres/gpu:a100"))
    done = site.init("--yes", "--no-start")
    assert done.code == 1
    assert "4 GPUs: gpu_type=a100" in done.out
    assert "--alias a100=NAME with NAME A100-80GB, A100-40GB" in done.out
    assert "trainfare init slurm --price a100=USD" in done.out
    assert "a100,a100,USD,gpu_hour," in done.out
    assert "# without a price yet: a100,a100,USD,gpu_hour," in site.text("prices.csv")
    mended = site.init("--yes", "--no-start", "--alias", "a100=A100-80GB")
    assert mended.code == 0, mended.out
    assert "gpu.a100-80gb,A100-80GB,3.430875,gpu_hour" in site.text("prices.csv")


def test_a_command_that_is_shown_is_safe_to_paste(tmp_path: Path) -> None:
    """Whoever names a type of GPU in slurm.conf may be somebody else than who runs what `init` shows."""
    odd = "h100'; touch pwned; '"
    site = Site(tmp_path, SlurmSite(node("n1", f"gpu:{odd}:4"), tracked=f"gres/gpu,gres/gpu:{odd}"))
    done = site.init("--yes", "--no-start", "--dir", tmp_path / "a 'b")
    assert done.code == 1
    shown = {
        line.split(":", 1)[0].strip(): line.split(": ", 1)[1]
        for line in done.out.splitlines()
        if ": " in line
    }
    words = shlex.split(shown["dollars of a GPU-hour"])
    assert words == ["trainfare", "init", "slurm", "--price", f"{odd}=USD"]
    assert shlex.split(shown["it may be one of these"])[:2] == ["--alias", f"{odd}=NAME"]
    units = shlex.split(shown["not started; to start it now and at each boot"])[4:]
    assert all(Path(unit).is_file() for unit in units), units


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--price", "h10=3.60"], "--price 'h10': no GPU here has that type; there are 'h100'"),
        (["--alias", "a100=A100-80GB"], "--alias 'a100': no GPU here has that type; there are 'h100'"),
    ],
)
def test_an_answer_about_a_type_that_is_not_here_is_refused(site: Site, words: list[str], said: str) -> None:
    """Else a typing error would leave the type that was meant at the price of the catalogue, and nobody would know."""
    done = site.init("--yes", "--no-start", *words)
    assert done.code == 2
    assert said in done.err
    assert not site.directory.exists()


def test_an_answer_about_a_type_of_the_price_list_stays_good(site: Site) -> None:
    """The same command again, once the nodes of a type are gone."""
    assert site.init("--yes", "--no-start").code == 0
    prices = site.directory / "prices.csv"
    prices.write_text(prices.read_text() + "old,A100-80GB,2,gpu_hour,,,\n")
    assert site.init("--yes", "--no-start", "--price", "a100-80gb=3").code == 0


def test_the_case_of_an_answer_does_not_matter(tmp_path: Path) -> None:
    site = Site(tmp_path, SlurmSite(node("n1", "gpu:H100:4"), tracked="gres/gpu,gres/gpu:H100"))
    assert site.init("--yes", "--no-start", "--price", "h100=3.60").code == 0
    assert "H100,3.60,gpu_hour,,,as given" in site.text("prices.csv")


@pytest.mark.parametrize("words", [("--price", "h100=0"), ("--prices", "free.csv")])
def test_a_price_of_nothing_is_said(site: Site, tmp_path: Path, words: tuple[str, str]) -> None:
    (tmp_path / "free.csv").write_text("sku,gpu_type,usd,per,from\ngpu.h100,H100,0,gpu_hour,\n")
    done = site.init("--print", *words)
    assert done.code == 0
    assert "note: gpu.h100 is $0: GPU-time that it matches costs nothing" in done.out
    assert "costs nothing" not in site.init("--print").out


def test_nothing_is_said_to_be_written_that_is_not(site: Site, tmp_path: Path) -> None:
    (tmp_path / "shared").mkdir()
    (tmp_path / "shared").chmod(0o1777)
    done = site.init("--yes", "--no-start", "--dir", tmp_path / "shared")
    assert done.code == 1
    assert "is shared with other users" in done.err
    assert ": written" not in done.out


def test_a_line_that_a_person_adds_prices_it(tmp_path: Path) -> None:
    site = Site(tmp_path, SlurmSite(node("n1", "gpu:odd:4"), tracked="gres/gpu,gres/gpu:odd"))
    assert site.init("--yes", "--no-start").code == 1
    prices = site.directory / "prices.csv"
    prices.write_text(prices.read_text() + "mine,odd,1.25,gpu_hour,,,\n")
    assert site.init("--yes", "--no-start").code == 0
    prices.write_text(prices.read_text() + "worse,odd,dear,gpu_hour,,,\n")
    done = site.init("--yes", "--no-start")
    assert done.code == 2
    assert "prices.csv line 6" in done.err


def test_hostile_names_are_shown_harmless_and_stay_names(tmp_path: Path) -> None:
    odd = 'x"|$HOME`%h#'
    site = Site(
        tmp_path,
        SlurmSite(
            node("n1", f"gpu:{odd}:4", ['p"]\n[web]', "\x1b[2J"]),
            tracked=f"gres/gpu,gres/gpu:{odd}",
            accounts="\x1b]0;x\x07\n",
        ),
    )
    done = site.init("--yes", "--no-start", "--price", f"{odd}=2")
    assert done.code == 0, done.out + done.err
    assert "\x1b" not in done.out + done.err
    assert options_of("slurm", site.directory / "collect.toml").model_dump()["gpu_types"] == {}
    assert [row["gpu_type"] for row in rows_in("p.csv", site.text("prices.csv"))] == [odd]
    assert tomllib.loads(site.text("trainfare.toml")).keys() == {"clickhouse", "web"}


def test_nothing_is_written_through_a_link(site: Site, tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_text("whole")
    site.directory.mkdir(mode=0o700)
    (site.directory / "token").symlink_to(victim)
    done = site.init("--yes", "--no-start")
    assert done.code == 1
    assert "is a link" in done.err
    assert victim.read_text() == "whole"
    assert sorted(path.name for path in site.directory.iterdir()) == ["token"]


def test_price_lists_of_the_user_are_read(site: Site, tmp_path: Path) -> None:
    (tmp_path / "mine.csv").write_text("sku,gpu_type,usd,per,gpus,from\nh100,H100,28.80,instance_hour,8,\n")
    done = site.init("--yes", "--no-start", "--prices", tmp_path / "mine.csv")
    assert done.code == 0, done.err
    assert "h100,H100,28.8,instance_hour,8,,from your list" in site.text("prices.csv")


def test_price_fields_are_of_all_jobs(site: Site) -> None:
    done = site.init(
        "--yes", "--no-start", "--price-field", "cloud=gcp", "--price-field", "region=us-central1"
    )
    assert done.code == 0, done.err
    table = tomllib.loads(site.text("collect.toml"))["slurm"]
    assert table["price_fields"] == {"cloud": "gcp", "region": "us-central1"}
    assert "gpu.h100.gcp,gcp,H100,5.38327,gpu_hour" in site.text("prices.csv")


def test_settings_of_the_environment_go_into_the_file_and_secrets_do_not(site: Site) -> None:
    secret = "a-token-of-32-characters-at-least"
    done = site.init(
        "--yes",
        "--no-start",
        env={"TRAINFARE_KAFKA_BOOTSTRAP_SERVERS": "kafka-1:9092", "TRAINFARE_WEB_TOKEN": secret},
    )
    assert done.code == 0, done.err
    assert tomllib.loads(site.text("trainfare.toml"))["kafka"] == {"bootstrap_servers": "kafka-1:9092"}
    assert '"worker"' in site.text("systemd/trainfare.service")
    assert "--to" not in site.text("systemd/trainfare-collect-slurm.service")
    assert secret not in "".join(path.read_text() for path in site.directory.rglob("*") if path.is_file())


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--price", "h100"], "--price 'h100': expected NAME=VALUE"),
        (["--price", "h100=dear"], "--price 'h100'"),
        (["--price", "h100=-1"], "--price 'h100'"),
        (["--alias", "=H100"], "--alias '=H100': expected NAME=VALUE"),
        (["--price-field", "planet=mars"], "--price-field 'planet': expected one of cloud"),
        (["--prices", "none.csv"], "no such file"),
        (["--url", "http://127.0.0.1:1"], "leave out --url"),
        ([], "nobody can be asked here: --yes takes all proposals, --print shows them"),
    ],
)
def test_a_wrong_use_is_one_line_and_writes_nothing(site: Site, words: list[str], said: str) -> None:
    done = site.init(*words, *([] if not words else ["--yes"]))
    assert done.code == 2
    assert said in done.err
    assert "Traceback" not in done.err
    assert not site.directory.exists()


def test_an_unknown_name_is_refused(site: Site) -> None:
    done = site.init(name="pbs")
    assert done.code == 2
    assert "init 'pbs': expected one of slurm, kubernetes, ray, local" in done.one_line()


def test_a_directory_with_a_line_break_is_refused(site: Site, tmp_path: Path) -> None:
    done = site.init("--yes", "--no-start", "--dir", tmp_path / "a\nb")
    assert done.code == 2
    assert "printable ASCII" in done.err
    assert not (tmp_path / "a\nb").exists()


def test_a_damaged_collect_file_is_named(site: Site) -> None:
    site.init("--yes", "--no-start")
    (site.directory / "collect.toml").write_text("[slurm\n")
    done = site.init("--yes", "--no-start")
    assert done.code == 2
    assert "collect.toml" in done.one_line()


def test_a_cluster_of_kubernetes_gets_values_of_its_own(site: Site) -> None:
    odd = objects.node("n1", topology='x: y\n- "z')
    odd["spec"] = {"providerID": "aws:///us-east-1a/i-0"}
    server = ReplayServer({"nodes": [Change(1, "ADDED", odd)], "pods": []})
    server.shown = 1
    try:
        done = site.init("--yes", "--no-start", "--url", server.url, name="kubernetes")
        again = site.init("--yes", "--no-start", name="kubernetes")
    finally:
        server.close()
    assert (done.code, again.code) == (0, 0), done.err + again.err
    assert "  clouds: aws" in done.out
    assert "gpu.h100.aws,aws,H100,6.88,gpu_hour" in site.text("prices.csv")
    table = tomllib.loads(site.text("collect.toml"))["kubernetes"]
    assert table["url"] == server.url
    collectors = yaml.safe_load(site.text("kubernetes/values.yaml"))["collectors"]
    Values.model_validate({"collectors": collectors})
    inside = collectors["tables"]["kubernetes"]
    assert not inside.keys() & {"url", "allocations_output_file"}
    assert inside["since"] == table["since"].isoformat().replace("+00:00", "Z")
    secret = yaml.safe_load(site.text("kubernetes/collector-token.yaml"))
    assert secret["stringData"]["token"] == site.text("token").strip()
    assert collectors["token"] == {"name": secret["metadata"]["name"], "key": "token"}
    assert "kubernetes/values.yaml: unchanged" in again.out
