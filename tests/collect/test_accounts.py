"""The account of each poll: inputs made by hand, with what became of each of their entries, counted by hand.

The sums follow from the inputs alone: an account that leaves a class out, or counts an entry twice, is another one.
"""

from __future__ import annotations

import ast
import inspect
import json
import re
import sys
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from itertools import product
from pathlib import Path
from typing import Any, Final

import pytest

import streams.collect
from schemas.reasons import Reason
from streams.accounts.account import Account, EntryClass, KeyedAccount
from streams.accounts.causes import FREE_RULES, REMEDIES
from streams.collect.collector import SourceUnavailableError
from streams.collect.dcgm.collector import DcgmCollector
from streams.collect.dcgm.options import Options as DcgmOptions
from streams.collect.json_files.collector import open_collector as open_json_files
from streams.collect.json_files.options import Options as JsonFilesOptions
from streams.collect.kafka.collector import KafkaRelay
from streams.collect.nvidia_smi.answers import GPU_QUERY, REPORT_QUERY
from streams.collect.nvidia_smi.collector import NvidiaSmiCollector
from streams.collect.nvidia_smi.options import Options as NvidiaSmiOptions
from streams.collect.slurm.collector import SlurmCollector
from streams.collect.slurm.history import history
from streams.collect.slurm.options import Options as SlurmOptions
from tests.collect import test_accounts_of_jobs
from tests.collect.accounts import accounted, counted, of_files
from tests.collect.kafka.world import MemoryTopics, of_rule
from tests.collect.kubernetes.cluster import Cluster
from tests.collect.kubernetes.objects import node as kube_node
from tests.collect.kubernetes.objects import pod

WORDS: Final = ("metered", "free", "not_understood")


def with_allocations(folder: Path) -> str:
    held: list[dict[str, Any]] = [
        {"node": "10.0.1.5", "job_id": "a"},
        *({"node": "10.0.1.6", "job_id": each} for each in "bc"),
    ]
    held.append({"node": "10.0.1.7", "job_id": "d", "from_ms": 1, "until_ms": 2})
    (folder / "held.json").write_text(json.dumps({"allocations": held}))
    return f'allocations_file = "{folder / "held.json"}"\n'


def aws_line(source: str = "10.0.1.5", size: str = "100", action: str = "ACCEPT", status: str = "OK") -> str:
    return f"2 1 eni-1 {source} 8.8.8.8 1 2 6 9 {size} 1780300800 1780300860 {action} {status}\n"


def test_lines_of_flow_logs(tmp_path: Path) -> None:
    lines = [
        aws_line() * 3, aws_line("10.0.1.6"), aws_line("10.0.1.7"), aws_line("1.1.1.1"), aws_line(action="REJECT"),
        aws_line(status="NODATA"), aws_line(status="SKIPDATA"), aws_line(size="x"), "x\n",
        aws_line(size=str(2**53 + 1)), aws_line(size=str(2**53)),
    ]  # fmt: skip
    found = of_files("aws-flow-logs", "".join(lines), tmp_path, with_allocations(tmp_path))
    assert counted(found) == {
        "metered": 3, "several_jobs": 1, "no_job": 1, "no_node": 1, "rejected": 1, "no_traffic": 1, "skipped_data": 1,
        "malformed": 2, "out_of_range": 2,
    }  # fmt: skip
    assert found.read == len("".join(lines).splitlines())
    header = "version srcaddr dstaddr start end\n" + "5 10.0.1.5 8.8.8.8 1 2\n" * 4
    assert counted(of_files("aws-flow-logs", header, tmp_path)) == {"malformed": 4}
    assert counted(of_files("aws-flow-logs", aws_line() * 2, tmp_path)) == {"no_allocations": 2}


def test_flows_of_azure(tmp_path: Path) -> None:
    there = "1780300800000,10.0.1.5,8.8.8.8,1,2,6,O,{},NX,1,{},1,{}"
    tuples = [
        there.format("E", 100, 50), there.format("E", 100, 0), there.format("D", 0, 0), there.format("B", 0, 0),
        "1780300800,a,b,1,2,T,O,A", "x",
    ]  # fmt: skip
    record = {"flowRecords": {"flows": [{"flowGroups": [{"flowTuples": tuples}]}]}}
    without: dict[str, object] = {"flowRecords": {"flows": []}}
    text = json.dumps({"records": [record, without, {"flowRecords": 7}]})
    found = of_files("azure-flow-logs", text, tmp_path, with_allocations(tmp_path))
    # Both ways of the first tuple are flows.
    assert counted(found) == {"metered": 3, "rejected": 1, "no_traffic": 2, "no_bytes": 1, "malformed": 2}


def test_entries_of_google(tmp_path: Path) -> None:
    def entry(reporter: str, size: str = "100") -> str:
        payload = {
            "connection": {"src_ip": "10.0.1.5", "dest_ip": "8.8.8.8"}, "bytes_sent": size, "reporter": reporter,
            "start_time": "2026-06-01T10:00:00Z", "end_time": "2026-06-01T10:00:05Z",
        }  # fmt: skip
        return json.dumps({"jsonPayload": payload}) + "\n"

    text = entry("SRC") * 2 + entry("SRC_GATEWAY") + entry("SRC", "x")
    found = of_files("gcp-flow-logs", text, tmp_path, with_allocations(tmp_path))
    assert counted(found) == {"metered": 2, "gateway": 1, "malformed": 1}


def test_a_file_that_ends_early_is_an_entry_beside_its_lines(tmp_path: Path) -> None:
    found = of_files("sagemaker", '{"TrainingJobName": 7}{"x', tmp_path)
    assert counted(found) == {"malformed": 2}


def s3_line(
    status: int = 200, op: str = "REST.GET.OBJECT", address: str = "10.0.1.5", size: str = "10"
) -> str:
    return (
        f'o bucket [01/Jun/2026:10:00:00 +0000] {address} arn r {op} key "GET /key HTTP/1.1" {status} - {size} 10 1 1 '
        '"-" "agent" -\n'
    )


def test_requests_to_buckets(tmp_path: Path) -> None:
    text = s3_line() * 4 + s3_line(503) + s3_line(address="1.1.1.1") + "x\n" + s3_line(size=str(2**53))
    text += s3_line(op="S3.TRANSITION_SIA.OBJECT")
    found = of_files("s3-access-logs", text, tmp_path, with_allocations(tmp_path))
    assert counted(found) == {
        "metered": 4, "unpaid": 1, "no_node": 1, "malformed": 1, "out_of_range": 1, "lifecycle": 1
    }  # fmt: skip


def test_gpus_of_exporters(tmp_path: Path) -> None:
    del tmp_path

    def gpu(number: int, value: str) -> str:
        return f'DCGM_FI_DEV_GPU_UTIL{{gpu="{number}",UUID="GPU-{number}"}} {value}\n'

    power = 'DCGM_FI_DEV_POWER_USAGE{gpu="4",UUID="GPU-4"} 300\n'
    stopped = 'DCGM_FI_PROF_GR_ENGINE_ACTIVE{gpu="5",UUID="GPU-5"} 0\n' + gpu(5, "99")
    answers = {
        "http://a/": gpu(0, "50") + gpu(1, "7") + gpu(2, "4294967") + power + stopped,
        "http://b/": "habanalabs_utilization 7\n",
    }

    def fetch(target: str) -> bytes:
        if target not in answers:
            raise TimeoutError("too slow")
        return answers[target].encode()

    found = accounted(DcgmCollector(DcgmOptions(targets=[*answers, "http://c/"]), fetch))
    assert counted(found) == {
        "metered": 2, "out_of_range": 1, "no_utilization": 1, "no_gpu_metrics": 1, "no_answer": 1, "profiling_stopped": 1,
    }  # fmt: skip


def test_gpus_of_nvidia_smi(tmp_path: Path) -> None:
    del tmp_path
    rows = (
        "0, GPU-0, H100, 50, 10, 300\n1, GPU-1, H100, [N/A], 10, 300\n2, GPU-2, H100, 4294967, 10, 300\nx\n"
    )

    def ask(arguments: Any) -> bytes:
        return rows.encode() if arguments == GPU_QUERY else b"GPU 0\n" if arguments == REPORT_QUERY else b""

    found = accounted(NvidiaSmiCollector(NvidiaSmiOptions(), ask, "n1"))
    assert counted(found) == {
        "metered": 1, "no_utilization": 1, "out_of_range": 1, "malformed": 1, "mean_missing": 1,
    }  # fmt: skip

    def refuses(arguments: Any) -> bytes:
        if arguments == REPORT_QUERY:
            raise SourceUnavailableError("nvidia-smi failed (3)")
        return ask(arguments)

    assert counted(accounted(NvidiaSmiCollector(NvidiaSmiOptions(), refuses, "n1"))) == counted(found)


def test_jobs_of_slurm(tmp_path: Path) -> None:
    del tmp_path
    t_s = 1_795_622_400

    def queued(number: int, **changes: Any) -> dict[str, Any]:
        times = {"submit_time": t_s, "start_time": t_s, "end_time": 0}
        return {
            "job_id": number,
            "job_state": "RUNNING",
            **times,
            "tres_alloc_str": "cpu=4,gres/gpu=2",
            **changes,
        }

    def ended(number: int, at_s: int, gpus: int = 1) -> dict[str, Any]:
        tres = {"allocated": [{"type": "gres", "name": "gpu", "count": gpus}], "requested": []}
        times = {"submission": t_s - 100, "start": t_s - 50, "end": at_s}
        return {
            "job_id": number,
            "state": {"current": "COMPLETED"},
            "time": times,
            "tres": tres,
            "restart_cnt": 0,
        }

    squeue = [
        queued(1), queued(2, tres_alloc_str="cpu=4"), queued(3, tres_alloc_str="cpu=4,gres/npu:910b=8"),
        queued(4, job_state="COMPLETING"), queued(5, array_job_id=5), queued(6, job_state="TELEPORTED"), {"job_id": "x"},
        queued(7, tres_alloc_str="cpu=4", nodes="n1", gres_detail=["gpu:2(IDX:0-1)"]),
        queued(2**26 + 9, submit_time=t_s - 9000, restart_cnt=0), queued(2**26 + 1, restart_cnt=0),
    ]  # fmt: skip
    sacct = [
        ended(11, t_s + 10),
        ended(12, t_s + 10, 0),
        ended(13, t_s - 10),
        ended(14, t_s + 95),
        {"job_id": "x"},
    ]
    nodes = [
        {"name": "n1", "state": "IDLE", "tres": "cpu=8,gres/gpu=2"}, {"name": "n2", "state": "IDLE", "tres": "cpu=8"},
        {"name": "n3", "state": "IDLE", "tres": "cpu=8,gres/npu=8"}, {"name": "n4", "state": "POWERED_DOWN", "tres": "gres/gpu=2"},
        {"name": "n5", "state": "IDLE", "tres": "gres/gpu=2", "partitions": ["a", "b"]}, {"name": ""},
    ]  # fmt: skip
    said: dict[str, dict[str, Any]] = {
        "squeue": {"jobs": squeue},
        "sacct": {"jobs": sacct},
        "sinfo": {"nodes": nodes},
        "tasks": {"jobs": []},
    }

    def ask(command: Sequence[str]) -> bytes:
        if command[0] not in said:
            raise SourceUnavailableError("scontrol is away")
        return json.dumps(said["tasks" if "--jobs" in command else command[0]]).encode()

    options = SlurmOptions(
        since=datetime.fromtimestamp(t_s, UTC), nodes_command=["sinfo"], partitions_command=["scontrol"],
        partition_price_fields={"a": {"purchase": "spot"}},
    )  # fmt: skip
    collector = SlurmCollector(options, ask)
    batches = list(collector.poll(None, (t_s + 100) * 1000))
    assert counted(batches[-1].account) == {
        "metered": 3, "numbers_reused": 1, "no_gpu": 2, "unknown_gres": 1, "in_between": 1, "unsplit": 1, "malformed": 3, "uncounted_gpus": 1,
        "before_since": 1, "not_settled": 1,
    }  # fmt: skip
    assert counted(batches[-2].account) == {
        "metered": 1, "no_gpu": 1, "unknown_gres": 1, "off": 1, "partitions_disagree": 2, "malformed": 1,
    }, "that the default partition is not known is said beside the node"  # fmt: skip
    said["squeue"]["jobs"], said["sinfo"]["nodes"], said["sacct"]["jobs"] = [], [], [ended(21, t_s + 10)]
    said["tasks"]["jobs"] = [ended(22, t_s + 10)]  # asked for one job of an array, sacct adds others
    for _ in range(2):
        batches = list(collector.poll(batches[-1].position, (t_s + 200) * 1000))
    found = counted(batches[-1].account)
    assert (found["no_end"], found["unasked"]) == (3, 1), "three jobs are lost"


def test_history_of_slurm(tmp_path: Path) -> None:
    del tmp_path
    t_s = 1_795_622_400

    def ended(number: int, gpus: int = 1, gres: str = "gpu", **changes: Any) -> dict[str, Any]:
        tres = {"allocated": [{"type": "gres", "name": gres, "count": gpus}], "requested": []}
        times = {"submission": t_s, "start": t_s + 10, "end": t_s + 60, **changes.pop("time", {})}
        found = {"job_id": number, "state": {"current": "COMPLETED"}, "time": times, "tres": tres}
        return {**found, "restart_cnt": 0, "user": "ada", **changes}

    jobs = [
        ended(900), ended(901), ended(902, 0), ended(903, gres="npu"), ended(904, 10**9), ended(905, time={"end": 0}),
        ended(906, time={"suspended": 20}), ended(907, time={"submission": t_s - 900, "start": t_s - 800, "end": t_s - 700}),
        ended(908, account="idle"), {"job_id": "x"},
        ended(17, time={"submission": t_s + 7200, "start": t_s + 7300, "end": t_s + 7400}),
    ]  # fmt: skip
    options = SlurmOptions(suspended_hold_gpus=False)
    (part,) = history(options, lambda _: json.dumps({"jobs": jobs}).encode(), t_s, t_s + 9000)
    assert counted(part.account) == {
        "metered": 2, "no_gpu": 1, "unknown_gres": 1, "malformed": 2, "no_times": 1, "no_suspend_times": 1,
        "before_since": 1, "reserved_name": 1, "numbers_reused": 1,
    }  # fmt: skip


def test_records_of_topics(tmp_path: Path) -> None:
    del tmp_path
    log = MemoryTopics()
    good = b'{"id": 1, "keep": true, "at": 1780308000000, "what": "started"}'
    log.append(
        "t",
        0,
        b"gone",
        b"gone",
        good,
        good,
        good.replace(b"true", b"false"),
        None,
        b"{",
        b'{"id": 1, "keep": true}',
    )
    log.begins["t", 0] = 2
    fields = {"job_id": "'a'", "time_ms": "at", "type": "what"}
    relay = KafkaRelay(of_rule({"when": "keep", "fields": fields}), log)
    found = accounted(relay, position={"next": {"t": {"0": 0}}})
    assert counted(found) == {
        "gone": 2,
        "metered": 2,
        "no_record": 2,
        "malformed_json": 1,
        "missing_field": 1,
    }


def test_lines_of_json(tmp_path: Path) -> None:
    (tmp_path / "log").write_text(
        '{"id": 1, "at": 1780308000000}\n{"id": 2, "at": 7, "off": true}\n{"id": 3}\n'
    )
    rule = {"name": "r", "target": "jobs", "id": ["id"], "when": "!off", "constants": {"type": "started"}}
    fields = {"job_id": "'a'", "time_ms": "at"}
    given = {"files": [str(tmp_path / "log")], "min_file_age_s": 0, "rules": [{**rule, "fields": fields}]}
    found = accounted(open_json_files(JsonFilesOptions.model_validate(given)))
    assert counted(found) == {"metered": 1, "no_record": 1, "missing_field": 1}


def test_objects_of_a_cluster_and_what_is_not_understood_stays_so_until_it_changes(tmp_path: Path) -> None:
    del tmp_path
    cluster = Cluster()
    claims = pod("dra", bound=1, gpus="")
    claims["spec"]["resourceClaims"] = [{"name": "gpu", "resourceClaimName": "x"}]
    odd_node = kube_node("n2", gpus=0)
    odd_node["status"]["capacity"]["gpu.intel.com/i915"] = "8"
    tpu = pod("tpu", bound=1, resource="gpu.intel.com/xe")
    cluster.put("nodes", kube_node(), kube_node("cpu", gpus=0), odd_node)
    cluster.put("pods", pod("a", bound=1), pod("web", bound=1, gpus=""), claims, tpu)
    cluster.put("pods", pod("bad", bound=1, gpus="x"))
    unnamed = kube_node("no-name")
    unnamed["status"] = 7
    cluster.put("nodes", unnamed)
    wanted = {"metered": 2, "no_gpu": 2, "unknown_resource": 2, "resource_claims": 1, "malformed": 2}
    cluster.poll(10)
    assert counted(cluster.batches[-1].account) == wanted
    cluster.poll(20)
    standing = {"unknown_resource": 2, "resource_claims": 1, "malformed": 1}
    assert counted(cluster.batches[-1].account) == standing, "nothing changed, and nothing was mended"
    cluster.delete("pods", tpu)
    cluster.poll(30)
    assert counted(cluster.batches[-1].account) == {**standing, "unknown_resource": 1, "no_gpu": 1}


def test_more_objects_that_are_not_understood_than_are_remembered(tmp_path: Path) -> None:
    del tmp_path
    cluster = Cluster()
    cluster.put("pods", *(pod(f"p{number}", bound=1, resource="gpu.intel.com/xe") for number in range(1_001)))
    cluster.poll(10)
    assert counted(cluster.batches[-1].account)["unknown_resource"] == 1_001


def test_accounts_are_added_and_read_by_people() -> None:
    total, part = Account(), Account()
    part.metered(3)
    part.free("no_gpu", 2)
    part.not_understood("unknown_resource", "pod a/b\x1b holds x")
    total.add(part)
    total.add(part)
    total.refuse("reserved_name", "field `team`: idle")
    assert str(total).splitlines() == [
        "read 12: 5 metered, 4 free, 3 not understood",
        f"free: 4 no_gpu ({FREE_RULES['no_gpu']})",
        f"not understood: 1 reserved_name; first: field `team`: idle; {REMEDIES['reserved_name']}",
        f"not understood: 2 unknown_resource; first: pod a/b\\x1b holds x; {REMEDIES['unknown_resource']}",
    ]


def test_an_entry_that_is_seen_again_is_what_was_said_last() -> None:
    account = KeyedAccount()
    account.free(1, "not_settled")
    account.metered(1)
    account.not_understood(2, "malformed", "x")
    assert (counted(account.total()), account.has(1), account.has(3)) == (
        {"metered": 1, "malformed": 1},
        True,
        False,
    )


@pytest.mark.parametrize("say", [lambda a: a.free("x"), lambda a: a.not_understood("x", "y")])
def test_a_reason_without_a_remedy_is_none(say: Callable[[Account], None]) -> None:
    with pytest.raises(KeyError):
        say(Account())


def test_every_rule_and_reason_has_words() -> None:
    assert all(FREE_RULES.values())
    assert all(REMEDIES.values())
    assert not FREE_RULES.keys() & REMEDIES.keys()
    page = (Path(__file__).resolve().parents[2] / "docs" / "source_reasons.md").read_text()
    rows = dict(re.findall(r"^\| (?:free|not understood) \| `(\w+)` \| (.+) \|$", page, re.MULTILINE))
    words = {**REMEDIES, **FREE_RULES}
    assert rows == {name: words.get(name) for name in rows}
    assert words.keys() - rows.keys() <= {*Reason}, "those of dead letters have a page of their own"
    assert list(EntryClass) == ["metered", "free", "not_understood"]


CASES: Final = [
    case
    for name, case in {**globals(), **vars(test_accounts_of_jobs)}.items()
    if name.startswith("test_")
    and inspect.isfunction(case)
    and [*inspect.signature(case).parameters] == ["tmp_path"]
]


def sites(folder: Path) -> set[tuple[str, int]]:
    """Where collectors say what became of an entry: the lines of calls to an account."""
    found = set()
    for path in sorted({*folder.rglob("*.py")} - {folder / "account.py"}):
        for each in ast.walk(ast.parse(path.read_text())):
            if not (isinstance(each, ast.Call) and isinstance(each.func, ast.Attribute)):
                continue
            if each.func.attr in WORDS and ast.unparse(each.func.value).endswith("account"):
                found.add((str(path), each.lineno))
    return found


def test_whoever_removes_a_line_of_an_account_sees_a_case_fail(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each of them, one after the other: those of the three classes, in all collectors."""
    reached: dict[tuple[str, int], list[Callable[[Path], None]]] = {}
    muted: list[tuple[str, int]] = []
    running: list[Callable[[Path], None]] = []

    def watched(kind: type, word: str) -> None:
        said = getattr(kind, word)

        def saying(self: Any, *given: Any) -> None:
            caller = sys._getframe(1)
            place = (caller.f_code.co_filename, caller.f_lineno)
            reached.setdefault(place, [])
            if running[-1] not in reached[place]:
                reached[place].append(running[-1])
            if place not in muted:
                said(self, *given)

        monkeypatch.setattr(kind, word, saying)

    def passes(case: Callable[[Path], None], folder: Path) -> bool:
        folder.mkdir()
        running.append(case)
        try:
            case(folder)
        except Exception:  # noqa: BLE001 - however it fails, the line was missed
            return False
        return True

    for kind, word in product((Account, KeyedAccount), WORDS):
        watched(kind, word)
    assert all(passes(case, tmp_path / str(number)) for number, case in enumerate(CASES))
    folder = Path(streams.collect.__path__[0]).resolve()
    unmissed = []
    for number, place in enumerate(sorted(sites(folder))):
        muted[:] = [place]
        cases = list(reached.get(place, ()))
        if all(passes(case, tmp_path / f"{number}-{at}") for at, case in enumerate(cases)):
            unmissed.append(f"{Path(place[0]).relative_to(folder)}:{place[1]}")
    assert unmissed == []
