"""Prints what jobs cost by Ray's own times: `ray_figures.py ADDRESS USD_PER_GPU_HOUR`, one line for each job.

A job's GPUs are those of its entry point, from when that runs, and those of its placement groups, from when they are
created; both until the job ends. Money is computed in fractions.
"""

import json
import sys
import urllib.request
from fractions import Fraction

END_STATES = {"SUCCEEDED": "completed", "FAILED": "failed", "STOPPED": "cancelled"}
SUPERVISOR = "_ray_internal_job_actor_"


def main(address, usd_per_gpu_hour):
    """Print job, state, attempts and dollars."""

    def ask(path):
        with urllib.request.urlopen(address + path, timeout=30) as answer:  # noqa: S310 - the address is the caller's
            return json.load(answer)

    actors = ask("/logical/actors")["data"]["actors"].values()
    groups = ask("/api/v0/placement_groups?detail=1")["data"]["result"]["result"]
    found = {}
    for job in sorted(ask("/api/jobs/"), key=lambda job: job["start_time"]):
        gpu_ms = Fraction(0)
        for actor in actors:
            if actor["name"] == SUPERVISOR + job["submission_id"]:
                gpus = Fraction(str(actor["requiredResources"].get("GPU", 0)))
                gpu_ms += gpus * (job["end_time"] - actor["startTime"])
        for group in groups:
            if group["creator_job_id"] == job["job_id"]:
                stats = group["stats"]
                created_us = int(stats["creation_request_received_ns"]) // 1000 + int(
                    stats["end_to_end_creation_latency_us"]
                )
                gpus = sum(
                    Fraction(str(bundle["unit_resources"].get("GPU", 0))) for bundle in group["bundles"]
                )
                gpu_ms += gpus * (job["end_time"] - created_us // 1000)
        name = job["metadata"]["trainfare.job_id"]
        attempts, before = found.get(name, ("", 0, 0))[1:]
        usd = gpu_ms * Fraction(usd_per_gpu_hour) / 3_600_000
        found[name] = (END_STATES[job["status"]], attempts + 1, before + usd)
    for name, (state, attempts, usd) in sorted(found.items()):
        sys.stdout.write(f"{name}\t{state}\t{attempts}\t{float(usd):.9f}\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
