"""The rules by which entries of a source are free, and the reasons for which one is not understood, with what mends it.

Both are labels of metrics, and stand in docs/sources.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from schemas.reasons import Reason

_NAMELESS: Final = "collect NAME --config FILE"
_MAP: Final = f"change the rule of the map; trainfare {_NAMELESS} --check SAMPLE tries it"
#: Of events that the meter would refuse.
_REFUSED: Final = (
    "mend the option that gives the field this value, in the collector's table, or the value at its source"
)
#: The collectors whose records a map reads.
_WITH_MAP: Final = ("json-files", "kafka")
_REPORT: Final = (
    "it is left out and costs nothing until it is mended: mend the record, or the map that reads it, and read again; "
    "what was taken already is not counted twice. If the source's documentation has it so, report it"
)

#: Rule by which an entry costs nothing -> what it says.
FREE_RULES: Final[Mapping[str, str]] = {
    "above_first": "a price above a first amount",
    "after_until": "it was created after `until`",
    "before_since": "it was over before `since`",
    "capacity_block": "a capacity block: paid in advance, so that its hours are listed at $0; prices amortize makes a price of what was paid",
    "cloud_services": "Azure's Cloud Services",
    "commitment": "a reservation, savings plan, commitment or DevTest offer: what it covers stands in the bill",
    "copied": "an attempt of a run lists it again, as it was in an earlier one",
    "dedicated": "of dedicated hosts or tenancy",
    "drivers": "a driver that was not submitted as a job; include_drivers meters it",
    "empty": "it holds nothing yet",
    "expired": "an expired meter",
    "gateway": "neither end of the flow is a node",
    "host_parts": "CPU, memory or another part: of Google only GPUs have a price of their own",
    "in_between": "it changes at this moment, the next poll reads it",
    "lifecycle": "S3 moves the object to another class and charges its bucket: it is of no job",
    "low_priority": "of low priority, which is no spot price",
    "no_bytes": "the log of this version counts no bytes",
    "no_gpu": "it holds no GPU; include_cpu_only meters it",
    "no_gpus_named": "a run that is a job of its own and names no GPUs: trainfare.gpus or default_gpus does",
    "no_job": "nobody held the node then",
    "no_node": "no end is a node of the allocations",
    "no_record": "the map makes no event of it: a tombstone, `when` is false or `each` is empty",
    "no_traffic": "there was no traffic (NODATA)",
    "nodes_off": "include_nodes is off",
    "not_an_instance": "no instance by the hour",
    "not_settled": "it ended just now and may still change, the next poll reads it",
    "of_no_job": "it belongs to no job that is metered, or holds no GPU",
    "off": "the node is powered down, or is to come",
    "other_system": "of another system than Linux, or with software that is paid for",
    "rejected": "the flow was rejected",
    "same_gpu": "a smaller number of the same GPUs names their price",
    "secondary_region": "a meter of a secondary region",
    "standalone_runs": "it names no job, and standalone_runs is off",
    "unasked": "the source listed it beside what was asked for",
    "unchanged": "it is as it was at an earlier poll, which accounted for it",
    "unpaid": "S3 does not charge the request",
    "unsplit": "it stands for tasks of an array that have not begun",
    "unused": "reserved capacity that nobody uses",
    "without_gpus": "no label, tag or name of the job is in runner_gpus",
    "without_price": "the list names no price for it",
    "zero": "$0: it is charged elsewhere",
}

#: Reason for which an entry is not understood -> what mends it.
REMEDIES: Final[Mapping[str, str]] = {
    **{str(reason): _REFUSED for reason in Reason},
    **dict.fromkeys(("each", "expression", "id", "too_much_work", "value"), _MAP),
    "billable_time": "compare the job's times with its bill; report the job's document if they are right there",
    "cost_not_written": "see the meter's address and the tokens in the table [mlflow]",
    "gone": "let the topic keep records for longer, or poll more often (interval_s)",
    "discount": "no discount is taken off: load prices that have it in them, as a CSV",
    "gpu_annotation": "KAI reserves its GPU by a pod of its own, which is metered; let pods ask for resources (MIG, HAMi, time slicing) where each is to pay its share",
    "gpu_count": "let gpu-feature-discovery have the device plugin's configuration, so that nvidia.com/gpu.replicas says how GPUs are shared; of several models the labels of a node name one",
    "gpu_share": "name the price of a GPU-hour in a CSV: `gpus` of an instance are whole",
    "gpus_differ": "the list has another number of GPUs than the cloud: load its price by a CSV with gpus",
    "host_without_gpus": "the catalogue has no price for the host's GPUs: load one that has, or a CSV",
    "late_holdings": "raise dashboard_delay_s",
    "malformed": _REPORT,
    "malformed_json": "mend it where it is written: no map reads what is no JSON; of a record that is nested too deeply, raise max_depth",
    "mean_missing": "see nvidia-smi -q -d UTILIZATION; the last reading of each GPU is taken",
    "more_pages": "it is one page of several: load or collect the other pages, too",
    "no_allocations": "name allocations_file or node_aliases, so that nodes are known",
    "no_answer": "start the exporter, or take it out of targets",
    "no_direction": "let the log have the reporter or flow-direction",
    "no_end": "end it at its source (of Slurm see sacctmgr show runawayjobs, of MLflow MlflowClient.set_terminated), or publish its end; until then it is paid on",
    "no_gpu_metrics": "let the exporter report GPUs by metrics of DCGM or AMD's exporters, or take it out of targets",
    "not_offered": "see the device plugin of the node; of GPUs that are had by ResourceClaims alone no idle time is known",
    "no_plain_price": "the list sells its GPUs on other terms only: load a list that has the price, or a CSV",
    "no_suspend_times": "only squeue knows when: suspended time of the past is paid; set suspended_hold_gpus = true where that is right",
    "no_times": "let the document say when the job began and ended; nothing is paid, or for ever, without",
    "no_utilization": "let the exporter report DCGM_FI_PROF_GR_ENGINE_ACTIVE or DCGM_FI_DEV_GPU_UTIL; of MIG instances, sample them "
    "by dcgm or the SDK",
    "numbers_reused": "set another job_id_prefix from then on: jobs of one number are one job otherwise",
    str(Reason.nul_byte): "rename it at its source: names have no NUL byte",
    "out_of_range": "see that the source reports what can be: a driver or exporter that reports garbage is to be updated",
    "over_committed": "let shares of a GPU add up to one (HAMi counts cores and memory apart): the pod that came last is metered as what was left",
    "oversize": "raise max_record_kib, max_object_kib or max_file_mib, whichever the collector has",
    "partitions_disagree": "name the node's own fields in node_price_fields or feature_price_fields; see default_partition",
    "profiling_stopped": "restart the exporter: its profiling fields are 0 beside work, so that its other figures of use are wrong, too",
    str(Reason.reserved_name): "rename it at its source, see docs/names.md",
    "resource_claims": "let the ClusterRole get resourceclaims and list resourceslices; devices that pods share, and others than whole GPUs and MIG instances, are not read",
    "same_name": "name each node with ray start --node-name",
    "several_jobs": "let `collect kubernetes` write allocations_output_file, which tells pods of one node apart",
    "skipped_data": "AWS left flows out of the log: none can be had; log fewer fields or a longer aggregation interval",
    "truncated": "raise RAY_MAX_LIMIT_FROM_API_SERVER, or let Ray forget what is over",
    "two_prices": "the list has two prices for the same: see which is yours, and load it by a CSV",
    "uncounted_gpus": "set AccountingStorageTRES=gres/gpu in slurm.conf",
    "unit": "let the source say the unit, or the map: joules(energy, 'mJ'), unit = \"s->ms\"",
    "unknown_gres": "name in gres_gpus how many GPUs one is (of shards shards_per_gpu), or let jobs ask for it as gres/gpu",
    "unknown_instance": "name its GPUs in instance_gpus",
    "unknown_resource": "name in `resources` how many GPUs one is",
    "unknown_share": "let gpu-feature-discovery have the device plugin's configuration, so that the node's labels (.replicas) say how many pods share one, or name it in `resources`",
    "unlisted_gpu": "it is not read as the price of a GPU by the hour: load it by a CSV with gpu_type",
    "unlisted_instance": "how many GPUs it has is not known: load its price by a CSV with gpus",
    "unlisted_price": "it is a price of something that is not read: load it by a CSV where it is to be paid",
    "unlisted_label": "name its GPUs in runner_gpus, NAME=0 where it has none",
    "unnamed_gpus": "name the GPUs of the run in trainfare.gpus, or of all runs in default_gpus; or the job that it is a part of",
    "unreadable": "see that the file is whole, and that the collector may read it",
    "warm_pool": "read the job again when its instances are gone or used again: what they cost is metered then",
}


def remedy_of(reason: str, collector: str = "", config: str = "") -> str:
    """What mends a reason, empty for one of a newer version, with the names of the collector and its file where they are known.

    `collector`: what `trainfare sources` calls it, which may be another name.
    """
    text = REMEDIES.get(reason, "")
    known = next((each for each in _WITH_MAP if collector.split(" ")[0] == each), "")
    if not known:
        return text
    return (_MAP if text == _REFUSED else text).replace(
        _NAMELESS, f"collect {known} --config {config or 'FILE'}"
    )
