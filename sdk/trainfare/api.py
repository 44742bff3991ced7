"""Opens a run from the script's arguments and the environment; `metered` does so for each call of a function.

It must not raise, and is the only place that looks for the token.
"""

from __future__ import annotations

import functools
import inspect
import os
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar, overload

from trainfare import environment
from trainfare.attempts import current_attempt, launched_attempt, next_attempt, state_dir
from trainfare.endpoint import Endpoint
from trainfare.names import fault_of
from trainfare.runs import HEARTBEAT_S, Run
from trainfare.sender import Sender, encoded
from trainfare.spool import Spool

DEFAULT_URL = "http://127.0.0.1:8787"
_JOB_ID_BYTES = 200
_Result = TypeVar("_Result")


def run(
    job_id: str | None = None,
    *,
    gpus: float | None = None,
    owner: str | None = None,
    url: str | None = None,
    token: str | None = None,
    attempt: int | None = None,
    heartbeat_s: float = HEARTBEAT_S,
    spool: str | os.PathLike[str] | bool | None = None,
    samples: bool = True,
    lifecycle: bool = True,
    handle_sigterm: bool = True,
    is_main_process: bool | None = None,
    **fields: Any,
) -> Run:
    """A run to use in a `with` statement.

    Args:
        job_id: The job; `TRAINFARE_JOB_ID` or the scheduler's id if absent.
        gpus: GPUs that it holds; as Slurm or `CUDA_VISIBLE_DEVICES` says if absent. Where these say nothing, `fault` does.
        owner: Who gets its alerts; the user if absent.
        url: Of a worker; `TRAINFARE_URL`, else this machine's.
        token: With the scope `write`; `TRAINFARE_TOKEN`.
        attempt: Counted if absent.
        heartbeat_s: Seconds between two heartbeats, and between two samples.
        spool: Keep events on disk until they are sent: a folder, or True for one in the state directory; `TRAINFARE_SPOOL`.
        samples: Sample the GPUs of this process.
        lifecycle: False where a collector says when the job starts and ends; progress, checkpoints and samples are sent.
        handle_sigterm: End the run at SIGTERM, where nobody else handles it.
        is_main_process: Whether this process reports for the job, or only samples its GPUs; as its rank says if absent.
        **fields: Other fields of `started`: team, project, experiment, run_id, labels, gpu_type, region, purchase,
                expected_usd_per_hour...
    """
    try:
        environ = os.environ
        if environment.is_off(environ, "TRAINFARE_ENABLED"):
            return _unmetered("disabled by TRAINFARE_ENABLED")
        name = _job_id(job_id, environ)
        reports = environment.is_main_process(environ) if is_main_process is None else bool(is_main_process)
        has_lifecycle = lifecycle and not environment.is_off(environ, "TRAINFARE_LIFECYCLE")
        has_samples = samples and not environment.is_off(environ, "TRAINFARE_SAMPLES")
        given = {**fields, "gpu_count": gpus, "owner": owner}
        job = {
            **environment.fields_of(environ),
            **{key: value for key, value in given.items() if _is_sendable(value)},
        }
        job.update(
            {
                "job_id": name,
                "attempt": _attempt(attempt, name, environ, is_main_process=reports, counts=has_lifecycle),
            }
        )
        if found := fault_of(job):
            return _unmetered(f"not metered: {found}")
        address = str(url or environ.get("TRAINFARE_URL") or DEFAULT_URL)
        endpoint = Endpoint(address, str(token or environ.get("TRAINFARE_TOKEN", "")))
        return Run(
            Sender(endpoint, _spool(spool, address, environ)),
            job,
            _now_ms,
            heartbeat_s=float(heartbeat_s),
            node=environment.node_of(environ),
            is_main_process=reports,
            counts_attempts=has_lifecycle and _number(attempt) is None,
            has_lifecycle=has_lifecycle,
            has_samples=has_samples and not environment.is_sampled_by_another(environ),
            handles_sigterm=handle_sigterm and reports,
        )
    except Exception as fault:  # a meter that cannot be set up meters nothing
        return _unmetered(f"not set up: {type(fault).__name__}")


@overload
def metered(function: Callable[..., _Result]) -> Callable[..., _Result]: ...


@overload
def metered(**options: Any) -> Callable[[Callable[..., _Result]], Callable[..., _Result]]: ...


def metered(function: Callable[..., Any] | None = None, **options: Any) -> Any:
    """Decorate a function: each call of it is a run, with the options of `run`.

    A parameter named `run` gets the run. Both `@metered` and `@metered(job_id="run-7")` decorate.
    """

    def decorated(inner: Callable[..., Any]) -> Callable[..., Any]:
        wants_run = "run" in inspect.signature(inner).parameters

        def passed(opened: Run, named: dict[str, Any]) -> dict[str, Any]:
            return {"run": opened, **named} if wants_run else named

        if inspect.iscoroutinefunction(inner):

            @functools.wraps(inner)
            async def awaited(*args: Any, **named: Any) -> Any:
                with run(**options) as opened:
                    return await inner(*args, **passed(opened, named))

            return awaited

        @functools.wraps(inner)
        def called(*args: Any, **named: Any) -> Any:
            with run(**options) as opened:
                return inner(*args, **passed(opened, named))

        return called

    return decorated if function is None else decorated(function)


def _job_id(given: object, environ: Mapping[str, str]) -> str:
    name = str(given) if given not in (None, "") else environment.job_id_of(environ)
    return name.encode("utf-8", "replace")[:_JOB_ID_BYTES].decode("utf-8", "ignore")


def _attempt(
    given: object, job_id: str, environ: Mapping[str, str], *, is_main_process: bool, counts: bool
) -> int:
    """This attempt's number. A collector numbers attempts as the scheduler does."""
    if (number := _number(given)) is not None:
        return number
    if not counts:
        return launched_attempt(environ, counts_restarts_within_job=False) or 1
    return next_attempt(job_id, environ) if is_main_process else current_attempt(job_id, environ)


def _number(given: object) -> int | None:
    return given if isinstance(given, int) and given >= 1 else None


def _spool(given: object, url: str, environ: Mapping[str, str]) -> Spool | None:
    chosen = environ.get("TRAINFARE_SPOOL", "") if given is None else given
    if chosen in ("", False) or str(chosen).lower() in ("0", "false", "no", "off"):
        return None
    is_default = chosen is True or str(chosen).lower() in ("1", "true", "yes", "on")
    return Spool(state_dir(environ) / "spool" if is_default else Path(str(chosen)), url)


def _is_sendable(value: object) -> bool:
    try:
        return value is not None and bool(encoded({"value": value}))
    except Exception:
        return False


def _unmetered(fault: str) -> Run:
    return Run(None, {"job_id": "", "attempt": 1}, _now_ms, fault=fault)


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
