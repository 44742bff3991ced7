"""The columns of every stored table, as Arrow schemas, and the key under which a newer version replaces a row.

Producers build `pa.Table`s from it, sinks store them.
"""

from typing import Final

import pyarrow as pa

from schemas import (
    balance_table,
    bill_tables,
    budget_tables,
    change_tables,
    clock_table,
    commitment_tables,
    control_table,
    job_days_table,
    receipt_table,
    source_table,
    token_use_table,
)
from schemas.column_types import (
    BY_SHARD,
    BYTES,
    COUNT,
    INSTANTS,
    LABELS,
    MEASURES,
    MILLI,
    MONEY,
    NAMES,
    OFFSETS,
    PRICED,
    SECOND,
    TEXT,
    schema_of,
)

JOB_MINUTES: Final = "job_minutes"
JOB_HOURS: Final = "job_hours"
JOB_USAGE_MINUTES: Final = "job_usage_minutes"
UNATTRIBUTED_MINUTES: Final = "unattributed_minutes"
JOBS: Final = "jobs"
ATTEMPTS: Final = "attempts"
JOB_CHECKPOINTS: Final = "job_checkpoints"
ATTEMPT_GPUS: Final = "attempt_gpus"
NODE_MINUTES: Final = "node_minutes"
NODE_HOURS: Final = "node_hours"
BURN_RATES: Final = "burn_rates"
ALERTS: Final = "alerts"
DELIVERIES: Final = "deliveries"
PRICES: Final = "prices"
DEAD_LETTERS: Final = "dead_letters"
DEAD_LETTER_REPLAYS: Final = "dead_letter_replays"
ARCHIVE: Final = "archive"
SNAPSHOTS: Final = "snapshots"
META: Final = "meta"
BOOKS: Final = "books"
DEAD_LETTER_COUNTS: Final = "dead_letter_counts"
LEDGER_SUMS: Final = "ledger_sums"
CANARY: Final = "canary"

SCHEMAS: Final[dict[str, pa.Schema]] = {
    JOB_MINUTES: schema_of(
        minute=SECOND,
        job_id=TEXT,
        attempt=pa.uint32(),
        node=TEXT,
        component=TEXT,
        phase=TEXT,
        sku=TEXT,
        price_effective=MILLI,
        price_usd=MONEY,
        quantity=pa.int64(),
        unit=TEXT,
        # Of traffic; empty otherwise.
        path=TEXT,
        direction=TEXT,
        region=TEXT,
        dst_region=TEXT,
        op=TEXT,
        storage_class=TEXT,
        cost_usd=MONEY,
        lost_quantity=pa.int64(),
        lost_cost_usd=MONEY,
        **BY_SHARD,
    ),
    JOB_HOURS: schema_of(
        hour=SECOND,
        job_id=TEXT,
        attempt=pa.uint32(),
        cloud=TEXT,  # the price fields as they held then
        region=TEXT,
        zone=TEXT,
        cluster=TEXT,
        account=TEXT,
        instance_type=TEXT,
        gpu_type=TEXT,
        purchase=TEXT,
        # The time of this attempt that no lower-numbered attempt covers; with samples only, its sampled seconds.
        wall_clock_ms=pa.int64(),
        wall_clock_from_ms=OFFSETS,  # its spans since the hour began; with samples only, from each minute's beginning
        wall_clock_until_ms=OFFSETS,
        queued_ms=pa.int64(),
        starting_ms=pa.int64(),  # part of the wall-clock time
        gpu_milli_ms=pa.int64(),
        lost_gpu_milli_ms=pa.int64(),
        unpriced_gpu_milli_ms=pa.int64(),
        sampled_gpu_ms=pa.int64(),
        productive_gpu_ms=pa.int64(),
        tensor_gpu_ms=pa.int64(),
        tensor_sampled_gpu_ms=pa.int64(),
        gpu_cost_usd=MONEY,
        compute_cost_usd=MONEY,
        network_cost_usd=MONEY,
        storage_cost_usd=MONEY,
        license_cost_usd=MONEY,
        labor_cost_usd=MONEY,
        overhead_cost_usd=MONEY,
        compliance_cost_usd=MONEY,
        lost_cost_usd=MONEY,
        starting_lost_cost_usd=MONEY,  # part of it: of rows with phase `starting`
        **BY_SHARD,
    ),
    JOB_USAGE_MINUTES: schema_of(
        minute=SECOND,
        job_id=TEXT,
        attempt=pa.uint32(),
        node=TEXT,
        sampled_gpu_s=pa.int64(),
        productive_gpu_ms=pa.int64(),
        sm_gpu_ms=pa.int64(),
        sm_sampled_gpu_s=pa.int64(),
        tensor_gpu_ms=pa.int64(),
        tensor_sampled_gpu_s=pa.int64(),
        memory_used_mib_max=pa.int64(),
        power_w_max=pa.int64(),
        **BY_SHARD,
    ),
    UNATTRIBUTED_MINUTES: schema_of(
        minute=SECOND,
        node=TEXT,
        gpu=TEXT,
        sampled_s=pa.int64(),
        productive_ms=pa.int64(),
        **BY_SHARD,
    ),
    JOBS: schema_of(
        job_id=TEXT,
        owner=TEXT,
        team=TEXT,
        project=TEXT,
        experiment=TEXT,
        run_id=TEXT,
        work_dir=TEXT,
        labels=LABELS,
        quality=MEASURES,
        progress=MEASURES,
        state=TEXT,
        attempts=pa.uint32(),
        first_event=MILLI,
        last_event=MILLI,
        started=MILLI,
        ended=MILLI,
        cluster=TEXT,
        region=TEXT,
        cloud=TEXT,
        purchase=TEXT,
        gpu_type=TEXT,
        instance_type=TEXT,
        gpu_count=COUNT,
        wall_clock_ms=pa.int64(),
        budget=LABELS,  # its own, by the names of the event
        deadline=MILLI,
        declared_usd_per_hour=MONEY,  # by the end of its first five whole minutes
        **BY_SHARD,
    ),
    ATTEMPTS: schema_of(
        job_id=TEXT,
        attempt=pa.uint32(),
        state=TEXT,
        reason=TEXT,
        # Of the events that say what it holds: two collectors may meter one job.
        sources=NAMES,
        started=MILLI,
        ended=MILLI,
        **PRICED,
        gpu_count=COUNT,
        # The time of this attempt that no lower-numbered attempt covers, so that sums over attempts are unions.
        wall_clock_ms=pa.int64(),
        **BY_SHARD,
    ),
    JOB_CHECKPOINTS: schema_of(
        time=MILLI,
        job_id=TEXT,
        attempt=pa.uint32(),
        duration_ms=pa.int64(),
        source=TEXT,
        id=TEXT,
        **BY_SHARD,
    ),
    ATTEMPT_GPUS: schema_of(
        job_id=TEXT,
        attempt=pa.uint32(),
        node=TEXT,
        gpu=TEXT,
        **BY_SHARD,
    ),
    NODE_MINUTES: schema_of(
        minute=SECOND,
        node=TEXT,
        sku=TEXT,
        price_effective=MILLI,
        price_usd=MONEY,
        quantity=pa.int64(),
        unit=TEXT,
        cost_usd=MONEY,
        **BY_SHARD,
    ),
    NODE_HOURS: schema_of(
        hour=SECOND,
        node=TEXT,
        cloud=TEXT,  # what it had last in the hour
        region=TEXT,
        zone=TEXT,
        cluster=TEXT,
        account=TEXT,
        instance_type=TEXT,
        gpu_type=TEXT,
        purchase=TEXT,
        team=TEXT,
        paid_ms=pa.int64(),
        starting_ms=pa.int64(),  # of it, from `provisioned` to `ready`
        gpu_milli_ms=pa.int64(),
        unpriced_gpu_milli_ms=pa.int64(),
        cost_usd=MONEY,
        **BY_SHARD,
    ),
    BURN_RATES: schema_of(
        time=MILLI,
        job_id=TEXT,
        usd_per_hour=MONEY,  # of the last 5 minutes
        usd_per_hour_15m=MONEY,
        usd_per_hour_1h=MONEY,
        usd_per_hour_6h=MONEY,
        expected_usd_per_hour=MONEY,
        usd_per_hour_now=MONEY,
        ratio_15m=pa.float64(),  # 0: not judged
        **BY_SHARD,
    ),
    ALERTS: schema_of(
        alert_id=TEXT,
        rule=TEXT,
        severity=TEXT,
        status=TEXT,
        subject_kind=TEXT,
        subject_name=TEXT,
        owner=TEXT,
        team=TEXT,
        project=TEXT,
        started=MILLI,
        resolved=MILLI,
        ratio=pa.float64(),
        usd_per_hour=MONEY,
        expected_usd_per_hour=MONEY,
        cost_usd=MONEY,
        window_ms=pa.int64(),
        summary=TEXT,
        evidence_sql=TEXT,
        held=MILLI,
        changed=MILLI,
        firings=pa.uint32(),
        silenced=pa.bool_(),
        budget_usd=MONEY,
        exhausted_in_s=pa.int64(),
        shared_cause=TEXT,
        opened_usd_per_hour=MONEY,
        margins=TEXT,
        ticket_since=MILLI,
        page_since=MILLI,
        openings=INSTANTS,  # of its rule for its subject, the last ones: whether it flaps
        quiet_since=MILLI,
        stood_since=MILLI,
        **BY_SHARD,
    ),
    DELIVERIES: schema_of(
        time=MILLI,
        alert_id=TEXT,
        webhook_id=TEXT,
        status=TEXT,
        receiver=TEXT,
        attempt=pa.uint32(),
        outcome=TEXT,
        http_status=pa.uint16(),  # 0: no answer
        detail=TEXT,
        version=pa.uint64(),
    ),
    PRICES: schema_of(
        sku=TEXT,
        component=TEXT,
        usd=MONEY,
        per=TEXT,
        gpus=pa.uint32(),
        effective=MILLI,
        match=LABELS,
        source=TEXT,
        id=TEXT,
        time=MILLI,
        version=pa.uint64(),
    ),
    DEAD_LETTERS: schema_of(
        topic=TEXT,
        partition=pa.int32(),
        offset=pa.int64(),
        reason=TEXT,
        detail=TEXT,
        raw=BYTES,
        time=MILLI,
        version=pa.uint64(),
    ),
    DEAD_LETTER_REPLAYS: schema_of(
        topic=TEXT,
        partition=pa.int32(),
        offset=pa.int64(),
        time=MILLI,  # when it was sent again
        to_partition=pa.int32(),
        to_offset=pa.int64(),
        version=pa.uint64(),
    ),
    ARCHIVE: schema_of(
        shard=pa.uint16(),
        job_id=TEXT,
        blob=BYTES,
        first_ms=pa.int64(),
        last_ms=pa.int64(),
        version=pa.uint64(),
    ),
    SNAPSHOTS: schema_of(
        **BY_SHARD,
        parent=pa.uint64(),  # the version that it increments, 0: none
        root=pa.uint64(),  # the oldest version that a restore needs, 0: a version without a parent
        chunk=pa.uint32(),
        chunks=pa.uint32(),
        checksum=pa.uint64(),  # xxh3_64 of the whole blob
        blob=BYTES,
    ),
    META: schema_of(key=TEXT, value=TEXT, version=pa.uint64()),
    BOOKS: schema_of(
        topic=TEXT,
        partition=pa.int32(),
        first_offset=pa.int64(),  # first offset counted
        next_offset=pa.int64(),  # end of the offsets counted
        records_in=pa.int64(),
        applied=pa.int64(),
        unattributed=pa.int64(),  # samples of GPUs that no job holds
        duplicate=pa.int64(),
        too_late=pa.int64(),
        dead_lettered=pa.int64(),
        trimmed=pa.int64(),
        time=MILLI,
        read_to=MILLI,  # log time
        **BY_SHARD,
    ),
    DEAD_LETTER_COUNTS: schema_of(
        topic=TEXT,
        partition=pa.int32(),
        reason=TEXT,
        records=pa.int64(),
        stored=pa.int64(),  # as rows of `dead_letters`
        version=pa.uint64(),
    ),
    LEDGER_SUMS: schema_of(
        table_name=TEXT,
        month=pa.uint32(),  # 202611: November 2026, UTC
        quantity=pa.int64(),  # of all units, modulo 2**64
        cost_nano=pa.int64(),
        **BY_SHARD,
    ),
    CANARY: schema_of(
        time=MILLI,  # when the run was due
        job_id=TEXT,
        shard=pa.uint16(),
        expected_usd=MONEY,
        found_usd=MONEY,
        delay_ms=pa.int64(),  # from the last acknowledged event until the cost could be read
        outcome=TEXT,
        detail=TEXT,
        version=pa.uint64(),
    ),
    **budget_tables.SCHEMAS,
    **control_table.SCHEMAS,
    **receipt_table.SCHEMAS,
    **source_table.SCHEMAS,
    **clock_table.SCHEMAS,
    **balance_table.SCHEMAS,
    **job_days_table.SCHEMAS,
    **change_tables.SCHEMAS,
    **token_use_table.SCHEMAS,
    **bill_tables.SCHEMAS,
    **commitment_tables.SCHEMAS,
}

# Rows with equal values of these columns are one row, of which the greatest `version` counts. Snapshots are never
# replaced; equal keys there are equal rows (a retried insert).
KEYS: Final[dict[str, tuple[str, ...]]] = {
    JOB_MINUTES: (
        "job_id",
        "attempt",
        "minute",
        "node",
        "component",
        "phase",
        "sku",
        "price_effective",
        "unit",
        "path",
        "direction",
        "region",
        "dst_region",
        "op",
        "storage_class",
    ),
    JOB_HOURS: (
        "job_id",
        "attempt",
        "hour",
        "cloud",
        "region",
        "zone",
        "cluster",
        "account",
        "instance_type",
        "gpu_type",
        "purchase",
    ),
    JOB_USAGE_MINUTES: ("job_id", "attempt", "minute", "node"),
    UNATTRIBUTED_MINUTES: ("node", "gpu", "minute"),
    JOBS: ("job_id",),
    ATTEMPTS: ("job_id", "attempt"),
    JOB_CHECKPOINTS: ("job_id", "attempt", "time", "source", "id"),
    ATTEMPT_GPUS: ("job_id", "attempt", "node", "gpu"),
    NODE_MINUTES: ("node", "minute", "sku", "price_effective", "unit"),
    NODE_HOURS: ("node", "hour"),
    BURN_RATES: ("job_id", "time"),
    ALERTS: ("alert_id",),
    DELIVERIES: ("alert_id", "webhook_id", "receiver", "attempt"),
    PRICES: ("sku", "effective"),
    DEAD_LETTERS: ("topic", "partition", "offset"),
    DEAD_LETTER_REPLAYS: ("topic", "partition", "offset"),
    ARCHIVE: ("shard", "job_id", "version"),
    SNAPSHOTS: ("shard", "version", "chunk"),
    META: ("key",),
    BOOKS: ("topic", "partition"),
    DEAD_LETTER_COUNTS: ("topic", "partition", "reason"),
    LEDGER_SUMS: ("shard", "table_name", "month"),
    CANARY: ("time", "job_id"),
    **budget_tables.KEYS,
    **control_table.KEYS,
    **receipt_table.KEYS,
    **source_table.KEYS,
    **clock_table.KEYS,
    **balance_table.KEYS,
    **job_days_table.KEYS,
    **change_tables.KEYS,
    **token_use_table.KEYS,
    **bill_tables.KEYS,
    **commitment_tables.KEYS,
}

# Tables partitioned by month: an insert may touch fewer than 100 of them.
MONTHLY: Final = {
    JOB_MINUTES: "minute",
    JOB_HOURS: "hour",
    JOB_USAGE_MINUTES: "minute",
    UNATTRIBUTED_MINUTES: "minute",
    JOB_CHECKPOINTS: "time",
    NODE_MINUTES: "minute",
    NODE_HOURS: "hour",
    balance_table.BALANCE_HOURS: "hour",
    job_days_table.JOB_DAYS: "day",
    BURN_RATES: "time",
    bill_tables.BILL_LINES: "billing_period_start",
    bill_tables.BILL_PARTS: "month",
}
