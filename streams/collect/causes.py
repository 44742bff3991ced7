"""The rules by which entries of a source are free, and the reasons for which one is not understood, with what mends it.

Both are labels of metrics, and stand in docs/sources.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from schemas.reasons import Reason

_MAP: Final = "change the rule of the map; trainfare collect kafka --check FILE tries it on a record"
_REPORT: Final = (
    "compare the record with the source's own documentation; if it is sound, report it with the record"
)

#: Rule by which an entry costs nothing -> what it says.
FREE_RULES: Final[Mapping[str, str]] = {
    "after_until": "it was created after `until`",
    "before_since": "it was over before `since`",
    "drivers": "a driver that was not submitted as a job; include_drivers meters it",
    "empty": "it holds nothing yet",
    "gateway": "neither end of the flow is a node",
    "in_between": "it changes at this moment, the next poll reads it",
    "no_bytes": "the log of this version counts no bytes",
    "no_gpu": "it holds no GPU; include_cpu_only meters it",
    "no_job": "nobody held the node then",
    "no_node": "no end is a node of the allocations",
    "no_record": "the map makes no event of it: a tombstone, `when` is false or `each` is empty",
    "no_traffic": "there was no traffic (NODATA)",
    "nodes_off": "include_nodes is off",
    "not_settled": "it ended just now and may still change, the next poll reads it",
    "of_no_job": "it belongs to no job that is metered, or holds no GPU",
    "off": "the node is powered down, or is to come",
    "rejected": "the flow was rejected",
    "standalone_runs": "it names no job, and standalone_runs is off",
    "unasked": "the source listed it beside what was asked for",
    "unchanged": "it is as it was at an earlier poll, which accounted for it",
    "unpaid": "S3 does not charge the request",
    "unsplit": "it stands for tasks of an array that have not begun",
    "without_gpus": "no label, tag or name of the job is in runner_gpus",
}

#: Reason for which an entry is not understood -> what mends it.
REMEDIES: Final[Mapping[str, str]] = {
    **{str(reason): _MAP for reason in Reason},
    **dict.fromkeys(("each", "expression", "id", "too_much_work", "unit", "value"), _MAP),
    "billable_time": "compare the job's times with its bill; report the job's document if they are right there",
    "cost_not_written": "see the meter's address and the tokens in the table [mlflow]",
    "gone": "let the topic keep records for longer, or poll more often (interval_s)",
    "late_holdings": "raise dashboard_delay_s",
    "malformed": _REPORT,
    "malformed_json": _MAP,
    "mean_missing": "see nvidia-smi -q -d UTILIZATION; the last reading of each GPU is taken",
    "no_allocations": "name allocations_file or node_aliases, so that nodes are known",
    "no_answer": "start the exporter, or take it out of targets",
    "no_direction": "let the log have the reporter or flow-direction",
    "no_end": "see sacctmgr show runawayjobs; until then it is paid on",
    "no_gpu_metrics": "let the exporter report GPUs by metrics of DCGM or AMD's exporters, or take it out of targets",
    "no_utilization": "let the exporter report DCGM_FI_PROF_GR_ENGINE_ACTIVE or DCGM_FI_DEV_GPU_UTIL; of MIG instances, sample them "
    "by dcgm or the SDK",
    str(Reason.nul_byte): "rename it at its source: names have no NUL byte",
    "out_of_range": "see that the source reports what can be: a driver or exporter that reports garbage is to be updated",
    "oversize": "raise max_record_kib, max_object_kib or max_file_mib, whichever the collector has",
    "partitions_disagree": "name the node's own fields in node_price_fields or feature_price_fields; see default_partition",
    str(Reason.reserved_name): "rename it at its source, see docs/names.md",
    "resource_claims": "let pods ask for the resource of a device plugin; device classes are not read",
    "same_name": "name each node with ray start --node-name",
    "several_jobs": "let `collect kubernetes` write allocations_output_file, which tells pods of one node apart",
    "skipped_data": "AWS left flows out of the log: none can be had; log fewer fields or a longer aggregation interval",
    "truncated": "raise RAY_MAX_LIMIT_FROM_API_SERVER, or let Ray forget what is over",
    "uncounted_gpus": "set AccountingStorageTRES=gres/gpu in slurm.conf",
    "unknown_gres": "let jobs ask for it as gres/gpu, or meter them by another collector",
    "unknown_instance": "name its GPUs in instance_gpus",
    "unknown_resource": "name in `resources` how many GPUs one is",
    "unlisted_label": "name its GPUs in runner_gpus, NAME=0 where it has none",
    "unreadable": "see that the file is whole, and that the collector may read it",
    "warm_pool": "read the job again when its instances are gone or used again: what they cost is metered then",
}
