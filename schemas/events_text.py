"""The text of the pages of events about whole topics: introductions, rules that several fields share, reasons of refusals."""

from __future__ import annotations

from typing import Any, Final

from schemas.reasons import Reason

HEAD: Final = """# Events

What trainfare reads from Kafka, field by field, and why it refuses a record. What events cost is in the [cost model](cost_model.md).

Fields: <a id="jobs"></a>[`jobs`](usage_events.md#jobs) · <a id="gpu"></a>[`gpu`](usage_events.md#gpu) · <a id="network"></a>[`network`](usage_events.md#network) · <a id="storage"></a>[`storage`](usage_events.md#storage) ·
<a id="nodes"></a>[`nodes`](usage_events.md#nodes) · <a id="prices"></a>[`prices`](reference_events.md#prices) · <a id="controls"></a>[`controls`](reference_events.md#controls)

This page is generated from the code, and so are those of the fields: `make docs`.

## Topics

Before each name stands `kafka.topic_prefix` (`trainfare.`). `trainfare topics create` makes them; a worker refuses to run on others.

| topic | partitions | cleanup | key | what |
|---|---|---|---|---|
| [`jobs`](usage_events.md#jobs) | `kafka.partitions` | delete | `job_id` | what happens to jobs |
| [`gpu`](usage_events.md#gpu) | `kafka.partitions` | delete | `job_id`, of idle GPUs `node` | samples of GPUs |
| [`network`](usage_events.md#network) | `kafka.partitions` | delete | `job_id` | bytes that jobs moved |
| [`storage`](usage_events.md#storage) | `kafka.partitions` | delete | `job_id` | bytes kept and requests made |
| [`nodes`](usage_events.md#nodes) | `kafka.partitions` | delete | `node` | nodes that come and go |
| [`prices`](reference_events.md#prices) | 1 | compact | `sku`, `@`, `effective_ms` | prices |
| [`controls`](reference_events.md#controls) | 1 | compact | `kind`, `/`, `name` | owners, silences, acknowledgements, planned rates, rules, budgets; what sources say |
| [`deadletter`](#deadletter) | 1 | delete | topic, partition and offset of the record | records that were refused; written by the workers |

The first seven have `LogAppendTime`: the order of the log is Kafka's, not that of the senders' clocks. Retention must be longer than the longest outage
that you want to survive without a gap; a worker that finds records gone that it has not metered stops and says which.

### Keys and partitioners

The key of a record is what it speaks of. All producers place keys as Kafka's Java client does, by murmur2, so that all that is said of a job meets in
one worker. A record of the first five topics that came in another partition than that of its job (or node) is dead-lettered, `wrong_partition`: taken
in, a job would be metered in two halves. `trainfare publish` sets keys and partitions right by itself; other clients:

| client | setting |
|---|---|
| Kafka's Java client, Kafka Connect, kafka-python, aiokafka, franz-go | their default |
| librdkafka: confluent-kafka (Python, Go, .NET), node-rdkafka, php-rdkafka, rdkafka (Rust), Fluent Bit | `partitioner=murmur2_random` (its default is CRC32) |
| sarama (Go) | `config.Producer.Partitioner = sarama.NewCustomPartitioner(sarama.WithAbsFirst(), sarama.WithCustomHashFunction(murmur2))`, a `hash.Hash32` of murmur2; its default is FNV-1a |
| segmentio/kafka-go | `Balancer: kafka.Murmur2Balancer{}` (its default is round robin) |
| KafkaJS | `createPartitioner: Partitioners.DefaultPartitioner` (version 2 on) |
| Vector, Telegraf and others | see which of these they are built on |

More partitions later would move keys: a worker refuses to run when the count is not `kafka.partitions`.
"""

RECORDS: Final = """
## Records

- **The value** is one JSON object in UTF-8, of 1 MiB and 256 levels of nesting at most. Unknown fields are ignored, and counted by name on
  stderr by `publish` and `replay`. A field that is not required may be absent or null, which is the same.
- **Numbers** follow JSON strictly: an integer field takes 5, but neither 5.0 nor 5e0. NaN and infinity are refused. Counts have three decimals at most.
- **Money** is a decimal string with at most nine decimals, or where a field says so a number, which is rounded to nano-dollars, half to even.
- **Names, ids and labels** have [limits of length](names.md#limits).
- **A refused record stops nothing.** It becomes a dead letter [with its reason](#reasons-of-dead-letters).

### Identity and duplicates

Senders may send an event twice. Two events of equal topic, `job_id` (of `nodes`: `node`), `source` and `id` are one event, and the first valid one in
the log counts.

| topic | a duplicate is known | so |
|---|---|---|
| `jobs` | as long as the job, [finished jobs](state.md) included | a retry at any time is harmless |
| `nodes` | for good | the same |
| `network`, `storage` | for `meter.dedupe_horizon_ms` (1 h) of log time at least, from the first copy on | retry within the hour |
| `gpu` | always: of all samples of a second [the largest](cost_model.md#samples) counts | no `id` is needed; two different samples of one `id` both count |
| `prices` | by `sku` and `effective_ms`, not by `id` | of two, the later by `time_ms`, then `source`, then `id` stands |
| `controls` | by `kind` and `name` | the last in the log stands |

Log time is the instant at which Kafka appended the record. In `trainfare replay` it is the newest event time so far of
clocks that go with the others': one that is more than 5 min ahead, while records of others go on behind it, moves nothing, and
`replay` names it on stderr.

### Lateness

Within these bounds the result does not depend on the order of events.

![What is more than 24 h older than the newest record is too late, what is more than 5 min ahead is refused](images/lateness.svg)

- **`too_late`, any of the first five topics**: `time_ms` is more than `meter.job_horizon_ms` (24 h) older than the newest `time_ms` before it in its
  topic and partition.
- **`too_late`, `gpu`**: the sample begins more than `meter.late_horizon_ms` (10 min) before the newest second that was seen of that job, attempt (without a job: node) and
  GPU. This is judged for each GPU of a record; the record is refused only if all its GPUs are late.
- **`future`**: `time_ms` is more than 5 min later than the log time of the record; in `replay`, later than the start of the run.
- **`prices` and `controls`** are never late. A price that comes after the usage restates what that usage cost.
"""

ENVELOPE: Final = """
### CloudEvents

A CloudEvents 1.0 event is taken, too. One record of Kafka is one event; [HTTP](sources/http.md) takes batches, too.

| mode | known by | payload |
|---|---|---|
| structured | header `content-type: application/cloudevents+json`, or `specversion` at the top level | `data`, or `data_base64` |
| binary | headers `ce_specversion`, `ce_id`, `ce_source` | the value |

`id`, `source` and `time` (RFC 3339, becomes `time_ms`) of the envelope replace those of the payload; without `time` the payload must have `time_ms`.
`specversion` must be `1.0`. The `type` of the envelope is not read.

```json
{"specversion": "1.0", "id": "e1", "source": "slurm/main", "type": "job", "time": "2026-06-01T10:00:00Z", "data": {"job_id": "run-7", "type": "started", "gpu_count": 8}}
```
"""

#: How each page of fields begins.
PAGE_HEADS: Final = {
    "usage_events.md": """# Fields: jobs, GPUs, traffic, nodes

What happens to jobs and nodes, and what they use, field by field. [Topics, times, duplicates, reasons of refusals](events.md) · [Fields of prices and controls](reference_events.md)
""",
    "reference_events.md": """# Fields: prices and controls

What things cost, and what people set, field by field. [Topics, times, duplicates, reasons of refusals](events.md) · [Fields of jobs and what they use](usage_events.md)
""",
}

TOPICS: Final[dict[str, str]] = {
    "jobs": """
What happens to an attempt of a job. Besides these fields it takes the [common](events.md#common-fields) and the [price fields](events.md#price-fields).

| type | the attempt is then | its GPUs are |
|---|---|---|
| `queued` | `queued` | not held |
| `allocated` | `starting`: provisioning, image pull, start-up | held and paid |
| `started`, `resumed` | `running` | held and paid |
| `scaled` | as before, with the new counts | as before |
| `checkpointed`, `heartbeat`, `updated` | as before | as before |
| `suspended` | `suspended` | released, unless `holds_gpus` is true |
| `preempted`, `failed`, `completed`, `cancelled` | ended, in the state of that name | released |

- Two more states are shown: `superseded` (a later attempt began) and `metered` ([no `started` event ever came](cost_model.md#samples)).
- Counts, nodes and price fields hold from any event that names them; a `scaled` is only the event that does nothing else. `owner`, `team`, `project`,
  `experiment`, `run_id`, `work_dir` and `labels` belong to the whole job. [What holds when](cost_model.md#timeline).
- `quality` and `progress` belong to the whole job too. Of each name the last value counts: by attempt, then in the order of the timeline, whatever came
  first; a name that an event leaves out keeps its value. Of more than 64 names of a job the first 64 by name are kept.
- `resumed` counts as `started` everywhere. A `scaled` while no GPU is held changes the count for later. `queued` or `allocated` after `started` mean
  what the table says. `updated` may come at any time, after the end too.
- A job needs two events to be paid: one when it gets its GPUs, one when it ends. Send `heartbeat` now and then: then a lost end
  [is noticed](rules.md#rules).
""",
    "gpu": """
Utilisation of GPUs of one node over an interval. Besides these fields it takes the [common](events.md#common-fields) and the [price fields](events.md#price-fields).
All arrays of a record have the same length. [What a sample stands for](cost_model.md#samples). A sample without a job is counted as `unattributed`, and kept.
""",
    "network": """
Bytes that a job moved over an interval. Besides these fields it takes the [common fields](events.md#common-fields). An amount is
[spread over its interval](cost_model.md#traffic); an interval of 0 puts it all into its instant.
""",
    "storage": """
Requests and bytes of a job over an interval. Besides these fields it takes the [common fields](events.md#common-fields). Each `op` books, and needs:

| op | books | required |
|---|---|---|
| `read`, `write` | bytes and requests, each at its own price | `bytes` or `requests` |
| `list`, `delete` | requests | `requests` |
| `stored` | whole MiB x ms of the interval | `bytes` |
""",
    "nodes": """
A node of the fleet, with GPUs or without. It is [paid](cost_metrics.md#idle-time) from `provisioned`, or its first event, to `terminated`. Besides these fields it takes the
[common](events.md#common-fields) and the [price fields](events.md#price-fields).
""",
    "prices": """
A revision of a price. Besides these fields it takes the [common fields](events.md#common-fields). The [price fields](events.md#price-fields), `team`, `project`, `path`,
`direction`, `op`, `storage_class` and `label` are match fields: they say what the price applies to, and one that is absent or null means any. A price of `compliance` names a
`label`, as `key=value`, and no other price does: [prices by label](cost_model.md#prices-by-label). Each revision has
match fields, `component` and `per` of its own. An `instance_hour` names `gpus`; of `compute` it is the price of the instance itself and names none.
[Which price wins](cost_model.md#which-price).
""",
    "controls": """
What people set, and what collectors say of their sources. Besides these fields it takes the [common fields](events.md#common-fields). A record without a value removes the control of its key. Further
fields are kept as they are: 64 at most, of 256 bytes ([more for a comment and addresses](names.md#limits)).

| kind | further fields | does |
|---|---|---|
| `owner` | `webhook`, `slack`, `email` | where the owner's alerts are sent |
| `silence` | match fields, `comment` | keeps messages of alerts from being sent |
| `planned` | match fields, `comment` | says what matching jobs will cost per hour |
| `budget` | match fields or `subject`, `actions`, `grace_s`, `webhook`, `contact`, `comment` | [limits](budgets.md) what matching jobs may use |
| `ack` | `comment` | [acknowledges](silences.md#acknowledge-silence-plan) an alert |
| `rule` | match fields, `rule`, `enabled`, `severity`, `thresholds`, `comment` | [changes a rule](own_rules.md#rules-as-data) for matching jobs |
| `override` | match fields, `budget`, `reason` | [suspends the actions](budgets.md#overrides) of budgets |
| `receipt` | `on`, `owner`, `team`, `comment` | switches [receipts and digests](receipts.md) on or off |
| `operator` | `owner`, `comment` | names [who gets alerts](messages.md#operators) about `prices`, `sources` or `nodes`, the record's name |
| `source` | `polls`, `entries`, `examples`, `standing` | says [what became of all that a source was read for](sources.md#all-sources) |
| `token` | `hash`, `scopes`, `teams`, `owners`, `sources`, `job_prefixes`, `topics`, `expires_ms`, `former_hash`, `former_until_ms`, `revoked`, `person`, `comment` | issues [an access token](company.md#tokens), or ends it; written by `trainfare tokens create` |
| `request` | `control`, `until_ms`, `confirmed_by`, `person`, `subject`, `comment` | a control that [waits for a second person](company.md#two-persons); written by a worker, in force for nobody |
| `deed` | `act`, `what`, `count` | puts on record [what was done beside such records](audit.md#audit-trail), or was refused: `prices`, `backfill`, `undo`, `repair`, `refused`; in force for nobody |

A `source` has no other fields than these: `entries` are numbers by `metered`, `free/RULE` and `not_understood/REASON`, summed over `polls` polls; `examples` a text by reason; `standing` the reasons that stand now; 64 of
each at most. Its key is `source/NAME`; under another one it says nothing. It is in force for nobody: workers keep it in [`sources`](tables.md#sources).

What they do, and their match fields, is described with [the alerts](silences.md#silences-planned-rates), [their receivers](receivers.md#owners) and [budgets](budgets.md).
""",
}
#: Fields left out of the example record, as they contradict others.
LEFT_OUT: Final[dict[str, frozenset[str]]] = {
    "jobs": frozenset({"reason", "holds_gpus", "quality", "progress"}),
    "gpu": frozenset({"gpu"}),
    "network": frozenset(),
    "storage": frozenset(),
    "nodes": frozenset(),
    "prices": frozenset(
        {"zone", "cluster", "team", "project", "path", "direction", "op", "storage_class", "label"}
    ),
    "controls": frozenset(
        {"usd", "gpu_hours", "wall_clock_hours", "per", "period", "action", "alert_id", "by"}
    ),
}
#: Fields of the example record that are in no wire struct.
FREE_FIELDS: Final[dict[str, dict[str, Any]]] = {
    "controls": {"job_id": "run-7", "comment": "64 GPUs until the deadline"}
}

TAIL: Final = """
## deadletter

What the workers write: each refused record as one JSON object, under the key `topic/partition/offset`. The same stands in the table
[`dead_letters`](tables.md#dead_letters). A message may come twice; of a flood there is [a sample](dead_letters.md#floods).

| field | meaning |
|---|---|
| `topic`, `partition`, `offset` | where the record is, the topic without its prefix |
| `time_ms` | log time of the record, ms since 1970 UTC |
| `reason` | one of those below |
| `detail` | for people: the field, its value (shortened), what was expected |
| `raw` | the record's value, or `raw_base64` where it is not UTF-8; at most 64 KiB. Values of `controls` [are withheld](names.md#addresses) |

### Reasons of dead letters

What to do about each is in [dead letters](dead_letters.md#dead-letters).
"""

REASONS: Final[dict[Reason, str]] = {
    Reason.not_an_object: "the value, or the payload of an envelope, is no JSON object",
    Reason.malformed_json: "the value is no JSON, not UTF-8, or nested more than 256 levels deep",
    Reason.unknown_topic: "a line of a file names a topic that there is not",
    Reason.unknown_type: "`type` is none of the topic's types",
    Reason.unknown_value: "another field with a list of values has none of them",
    Reason.missing_field: "a required field is absent or null",
    Reason.wrong_type: "a field has another JSON type, or `usd` is no decimal string",
    Reason.out_of_range: "a number is negative, too large, or has too many decimals; a time is before 2000; "
    "a required string is empty; a `job_id` is too long",
    Reason.too_long: "a name, id or label is too long, or an object has too many entries ([limits](names.md#limits))",
    Reason.nul_byte: "a name, id or label has a NUL byte",
    Reason.reserved_name: "a name is [the meter's own](names.md#reserved-names): one of its canary, without the canary's proof, or a word of its tables",
    Reason.not_finite: "a number is NaN, infinite, or too large for a double",
    Reason.unequal_lengths: "the arrays of a sample differ in length",
    Reason.inconsistent: "fields do not fit together: `gpu_count` and `nodes`; `component`, `per` and `gpus`",
    Reason.oversize: "the record has more than 1 MiB, or a sample more than 1,024 GPUs",
    Reason.future: "the event is [later than it can have been known](#lateness)",
    Reason.too_late: "the event is [older than the horizon](#lateness)",
    Reason.bad_envelope: "the envelope is not as CloudEvents 1.0 has it",
    Reason.unread_batch: "a compressed batch holds more than 64 MiB or a million records; one dead letter stands for all of it",
    Reason.beyond_token: "over HTTP alone, where it is refused and no dead letter: the event names what [its sender's token](company.md#tokens) may not",
    Reason.wrong_partition: "the record came in another partition than [that of its key](#keys-and-partitioners)",
}
