"""The values of the Helm chart: what each means, its default and what it may be.

The chart's values.yaml and values.schema.json and the page docs/helm_values.md are written from here (`make docs`).
"""

from __future__ import annotations

from importlib import import_module
from typing import Annotated, Any, Final, Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, Field, WithJsonSchema
from pydantic.json_schema import SkipJsonSchema

from streams.collect.registry import COLLECTORS
from streams.config.load import groups, is_secret

#: Settings that the chart gives itself, and those of a store on a worker's own disk, of which a pod has none.
_SETTLED: Final = {
    ("clickhouse", "data_dir"),
    ("kafka", "group_instance_id"),
    ("meter", "as_of_ms"),
    ("web", "enabled"),
    ("web", "port"),
}
_NOT_IN_PODS: Final = {"serve", "alerts.owner_secrets_dir"}
#: Collectors that ask over the network, so that one pod of the cluster suffices; the port of each one's metrics.
METRICS_PORTS: Final = {"dcgm": 9109, "kubernetes": 9113, "mlflow": 9115, "ray": 9114}
#: What the chart gives itself: in a pod the API server is reached by its ServiceAccount, and files have their places.
_OF_CHART: Final = {
    "kubernetes": {
        "url",
        "token_file",
        "ca_file",
        "client_cert_file",
        "client_key_file",
        "allocations_output_file",
    },
    "dcgm": {"allocations_file"},
}
_DNS_NAME: Final = r"^[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?$"
#: With a dot, which no secret setting has.
_FILE_NAME: Final = r"^[a-z0-9][a-z0-9._-]{0,60}\.[a-z0-9]{1,8}$"
_QUANTITY: Final = r"^[0-9]+(\.[0-9]+)?(m|k|M|G|T|Ki|Mi|Gi|Ti)?$"


def _without_what_is_not_given(schema: dict[str, Any]) -> dict[str, Any]:
    """The schema of one option without title, default and null: a value that is null is one that is not given."""
    schema = {key: each for key, each in schema.items() if key not in ("title", "default")}
    if "anyOf" in schema:
        kept = [_without_what_is_not_given(each) for each in schema.pop("anyOf") if each != {"type": "null"}]
        schema |= kept[0] if len(kept) == 1 else {"anyOf": kept}
    # Of paths and times the format is for readers; some validators do not know them, others refuse what we take.
    schema.pop("format", None)
    return schema


def _options_schema(model: type[BaseModel], left_out: set[str]) -> dict[str, Any]:
    """The schema of a table: options that are not known are refused, and so are secrets."""
    found = model.model_json_schema()
    properties = {
        name: _without_what_is_not_given(found["properties"][name])
        for name, field in model.model_fields.items()
        if name not in left_out and not is_secret(field)
    }
    return {
        "type": "object",
        "additionalProperties": False,
        "properties": properties,
        **({"$defs": found["$defs"]} if "$defs" in found else {}),
    }


def settings_schema() -> dict[str, Any]:
    """The schema of `settings`: those of docs/settings.md but for secrets and what the chart gives itself."""
    tables = {}
    for group, model in groups().items():
        left_out = {name for table, name in _SETTLED if table == group}
        left_out |= {each.partition(".")[2] for each in _NOT_IN_PODS if each.startswith(f"{group}.")}
        if group not in _NOT_IN_PODS:
            tables[group] = _options_schema(model, left_out)
    return {"type": "object", "additionalProperties": False, "properties": tables}


def tables_schema() -> dict[str, Any]:
    """The schema of `collectors.tables`."""
    tables = {
        name: _options_schema(
            import_module(f"streams.collect.{COLLECTORS[name].package}.options").Options,
            _OF_CHART.get(name, set()),
        )
        for name in METRICS_PORTS
    }
    return {"type": "object", "additionalProperties": False, "properties": tables}


def secret_settings() -> list[str]:
    """The settings that are secrets, as `GROUP_NAME`."""
    return sorted(
        f"{group}_{name}"
        for group, model in groups().items()
        for name, field in model.model_fields.items()
        if is_secret(field) and group not in _NOT_IN_PODS
    )


class Table(BaseModel):
    """A table of values; one that is not known is refused."""

    model_config = ConfigDict(extra="forbid")


DnsName: TypeAlias = Annotated[str, Field(pattern=_DNS_NAME)]
Quantity: TypeAlias = Annotated[
    str | int,
    WithJsonSchema({"anyOf": [{"type": "string", "pattern": _QUANTITY}, {"type": "integer", "minimum": 0}]}),
]
#: Without control characters, which YAML would not keep as they are.
Labels: TypeAlias = dict[str, Annotated[str, Field(pattern=r"^[^\x00-\x1f\x7f-\x9f]*$")]]
SecretSetting: TypeAlias = Annotated[str, Field(pattern=f"^({'|'.join(secret_settings())})$")]


class KeyOfSecret(Table):
    """A key of a Secret."""

    name: DnsName = Field(description="Name of the Secret.")
    key: str = Field(pattern=r"^[-._a-zA-Z0-9]{1,253}$", description="Key in it.")


class Selector(Table):
    """Labels that all must match; none would be everything, and is refused."""

    matchLabels: Labels = Field(min_length=1, description="Labels.")


class IpBlock(Table):
    """Addresses."""

    cidr: str = Field(pattern=r"^[0-9a-fA-F.:]+/[0-9]{1,3}$", description="Network.")
    except_: list[str] = Field(default=[], alias="except", description="Networks in it that are not meant.")


class Peer(Table):
    """One that may talk, or be talked to: a peer of a NetworkPolicy. An empty one would be everybody, and is refused."""

    model_config = ConfigDict(extra="forbid", json_schema_extra={"minProperties": 1})

    namespaceSelector: Selector | SkipJsonSchema[None] = Field(default=None, description="Its namespace.")
    podSelector: Selector | SkipJsonSchema[None] = Field(default=None, description="Its pod.")
    ipBlock: IpBlock | SkipJsonSchema[None] = Field(default=None, description="Its addresses.")


Port: TypeAlias = Annotated[int, Field(ge=1, le=65_535)]


class Rule(Table):
    """A rule of egress."""

    to: list[Peer] = Field(min_length=1, description="Whom.")
    ports: list[Port] = Field(min_length=1, description="At which TCP ports.")


class Resources(Table):
    """Requests and limits of a container."""

    requests: dict[str, Quantity] = Field(default={}, description="What is kept for it.")
    limits: dict[str, Quantity] = Field(default={}, description="What it may not exceed.")


class Image(Table):
    """The image of all pods; nothing but this image runs."""

    repository: str = Field(
        default="trainfare",
        pattern=r"^[a-z0-9][a-z0-9._:/-]{0,254}$",
        description="Name of the image in your registry.",
    )
    tag: str = Field(default="local", pattern=r"^[\w][\w.-]{0,127}$", description="Its tag.")
    digest: str = Field(
        default="",
        pattern=r"^(sha256:[0-9a-f]{64})?$",
        description="Its digest. Set it: under the same tag there may be another image tomorrow.",
    )
    pullPolicy: Literal["IfNotPresent", "Always", "Never"] = Field(
        default="IfNotPresent", description="When a node asks the registry."
    )
    pullSecrets: list[DnsName] = Field(
        default=[], description="Names of Secrets by which nodes log in to the registry."
    )


class Secrets(Table):
    """Where passwords and tokens are: in Secrets that you make. No value of this chart is a secret."""

    name: DnsName = Field(
        default="trainfare", description="The Secret whose keys are named as the settings, see `keys`."
    )
    keys: list[SecretSetting] = Field(
        default=[
            "clickhouse_password",
            "clickhouse_reader_password",
            "web_token",
            "web_metrics_token",
            "web_write_token",
        ],
        description="Which secret settings that Secret has, as `GROUP_NAME`. Workers get them as files.",
    )
    others: dict[SecretSetting, KeyOfSecret] = Field(
        default={},
        description="Secret settings that are in other Secrets, as of an operator: "
        "`{kafka_sasl_password: {name: kafka-user, key: password}}`.",
    )
    files: dict[Annotated[str, Field(pattern=_FILE_NAME)], KeyOfSecret] = Field(
        default={},
        description="More files in `/run/secrets/trainfare`, as the certificate that `settings.kafka.ssl_ca_location` names: "
        "`{kafka-ca.crt: {name: kafka-cluster-ca-cert, key: ca.crt}}`.",
    )


class Placed(Table):
    """Where pods run."""

    nodeSelector: Labels = Field(default={}, description="Labels of nodes on which they may run.")
    tolerations: list[dict[str, Any]] = Field(default=[], description="Taints that they tolerate.")
    affinity: dict[str, Any] = Field(default={}, description="Their affinity.")
    priorityClassName: str = Field(
        default="", pattern=r"^([a-z0-9][a-z0-9.-]{0,252})?$", description="Their priority class."
    )
    podAnnotations: Labels = Field(default={}, description="Annotations of the pods.")
    serviceAccountAnnotations: Labels = Field(
        default={}, description="Annotations of their ServiceAccount, as for a cloud's identities."
    )


class Workers(Placed):
    """`trainfare worker`, a StatefulSet."""

    replicas: int = Field(
        default=2,
        ge=0,
        le=4096,
        description="How many. They share partitions: no more than `settings.kafka.partitions`.",
    )
    updateStrategy: Literal["OnDelete", "RollingUpdate"] = Field(
        default="RollingUpdate",
        description="`RollingUpdate`: an upgrade replaces them [one after the other](upgrade.md#workers-one-by-one), each when the one before is ready. "
        "`OnDelete`: it takes effect when you delete the pods, as across several minor versions.",
    )
    terminationGracePeriodSeconds: int = Field(
        default=60, ge=10, le=600, description="A worker stores what it has metered before it leaves."
    )
    resources: Resources = Field(
        default=Resources(requests={"cpu": "1", "memory": "2Gi"}, limits={"memory": "4Gi"}),
        description="Requests and limits of a worker.",
    )
    scratchSize: Quantity = Field(
        default="256Mi", description="Most that compiled kernels take. They may be lost."
    )
    tmpSize: Quantity = Field(default="512Mi", description="Most that queries of users put on disk.")


class Topics(Table):
    """A Job that creates the topics, and leaves those that exist as they are."""

    enabled: bool = Field(
        default=True,
        description="Without it run `trainfare topics create` yourself: workers wait for the topics.",
    )


class Volume(Table):
    """Positions and allocations of collectors: a restart goes on where the last one stopped."""

    existingClaim: str = Field(
        default="",
        pattern=r"^([a-z0-9][a-z0-9.-]{0,252})?$",
        description="A PersistentVolumeClaim of yours; none: the chart makes one, and uninstalling keeps it.",
    )
    storageClassName: str = Field(
        default="", pattern=r"^([a-z0-9][a-z0-9.-]{0,252})?$", description="Its class; none: the cluster's."
    )
    size: Quantity = Field(default="1Gi", description="Its size.")


class Collectors(Placed):
    """`trainfare collect`: one pod with a container for each table."""

    enabled: bool = Field(default=True, description="Whether collectors run.")
    tables: Annotated[dict[str, dict[str, Any]], WithJsonSchema(tables_schema())] = Field(
        default={"kubernetes": {}},
        description="Which collectors run (`dcgm`, `kubernetes`, `mlflow`, `ray`), each with its options as in "
        "[sources](sources.md#collectors). How the API server is reached and where `dcgm` finds allocations is settled.",
    )
    to: str = Field(
        default="",
        pattern=r"^(https?://[A-Za-z0-9._:/\[\]-]+)?$",
        description="Where events go; none: to the workers of this release.",
    )
    token: KeyOfSecret = Field(
        default=KeyOfSecret(name="trainfare", key="web_write_token"),
        description="The token with the scope `write` that collectors show.",
    )
    files: dict[Annotated[str, Field(pattern=_FILE_NAME)], KeyOfSecret] = Field(
        default={},
        description="Files in `/run/secrets/trainfare`, as the token that `tables.mlflow.token_file` names.",
    )
    rbac: bool = Field(
        default=True,
        description="Whether the chart makes the ClusterRole of `kubernetes`, which may read pods, nodes, devices of claims and what "
        "made the pods; a Role, if `tables.kubernetes` has `namespace` and `include_nodes: false`. Without: bind the ServiceAccount yourself.",
    )
    resources: Resources = Field(
        default=Resources(requests={"cpu": "100m", "memory": "256Mi"}, limits={"memory": "1Gi"}),
        description="Requests and limits of each container.",
    )
    volume: Volume = Field(default=Volume(), description="Where positions are kept.")


def _namespace(name: str) -> Selector:
    return Selector(matchLabels={"kubernetes.io/metadata.name": name})


_PRIVATE: Final = [
    "10.0.0.0/8",
    "100.64.0.0/10",
    "127.0.0.0/8",
    "169.254.0.0/16",
    "172.16.0.0/12",
    "192.168.0.0/16",
]
#: Metadata of clouds, which have credentials.
_LINK_LOCAL: Final = ["169.254.0.0/16"]


def _block(cidr: str, *left_out: str) -> Peer:
    return Peer(ipBlock=IpBlock.model_validate({"cidr": cidr, "except": list(left_out)}))


class NetworkPolicy(Table):
    """Who may talk to whom: nobody, but for what is listed. It needs a network plugin that enforces policies."""

    enabled: bool = Field(default=True, description="Whether the policies are made.")
    dns: list[Peer] = Field(
        default=[
            Peer(
                namespaceSelector=_namespace("kube-system"),
                podSelector=Selector(matchLabels={"k8s-app": "kube-dns"}),
            )
        ],
        min_length=1,
        description="Who answers for names, at port 53.",
    )
    kafka: list[Peer] = Field(
        default=[Peer(namespaceSelector=_namespace("kafka"))],
        min_length=1,
        description="Your Kafka; the ports are those of `settings.kafka.bootstrap_servers`.",
    )
    clickhouse: list[Peer] = Field(
        default=[Peer(namespaceSelector=_namespace("clickhouse"))],
        min_length=1,
        description="Your ClickHouse; the port is that of `settings.clickhouse.url`.",
    )
    people: list[Peer] = Field(
        default=[Peer(namespaceSelector=_namespace("ingress-nginx"))],
        description="Who opens the page and the API: your ingress controller, with TLS.",
    )
    prometheus: list[Peer] = Field(
        default=[
            Peer(
                namespaceSelector=_namespace("monitoring"),
                podSelector=Selector(matchLabels={"app.kubernetes.io/name": "prometheus"}),
            )
        ],
        description="Who reads metrics.",
    )
    senders: list[Peer] = Field(
        default=[
            Peer(namespaceSelector=Selector(matchLabels={"trainfare.io/sends-events": "true"})),
        ],
        description="Who sends events to workers: training pods with the SDK or OpenTelemetry. Label the namespaces that run them: "
        "`kubectl label namespace NAME trainfare.io/sends-events=true`.",
    )
    receivers: list[Rule] = Field(
        default=[
            Rule(
                to=[_block("0.0.0.0/0", *_PRIVATE), _block("::/0", "::1/128", "fc00::/7", "fe80::/10")],
                ports=[443],
            )
        ],
        description="Receivers of alerts: Slack, PagerDuty, webhooks on the internet by https. Not the cluster's own addresses, nor a "
        "cloud's metadata. A receiver of `settings.alerts.allow_hosts`, an Alertmanager or a mail server needs a rule of its own here.",
    )
    collectors: list[Rule] = Field(
        default=[Rule(to=[_block("0.0.0.0/0", *_LINK_LOCAL)], ports=[443, 6443, 9400])],
        description="What collectors ask: the API server, and dcgm-exporter of each GPU node. Addresses of nodes are named by no "
        "selector: narrow the block to those of your nodes.",
    )


class DisruptionBudget(Table):
    """A PodDisruptionBudget of the workers."""

    enabled: bool = Field(default=True, description="Whether there is one.")
    maxUnavailable: int = Field(
        default=1, ge=1, le=4096, description="How many workers may be evicted at a time."
    )


class ServiceMonitor(Table):
    """Objects of the Prometheus operator: a ServiceMonitor of the workers, a PodMonitor of the collectors."""

    enabled: bool = Field(
        default=False, description="Whether they are made; the operator's definitions must be there."
    )
    interval: str = Field(default="15s", pattern=r"^[0-9]{1,4}(s|m)$", description="How often it reads.")
    labels: Labels = Field(default={}, description="Labels by which your Prometheus chooses them.")


class Ingress(Table):
    """An Ingress before the Service. The page has tokens and live streams: TLS is not optional."""

    enabled: bool = Field(default=False, description="Whether there is one.")
    className: str = Field(
        default="",
        pattern=r"^([a-z0-9][a-z0-9.-]{0,252})?$",
        description="Its class; none: the cluster's.",
    )
    host: str = Field(
        default="trainfare.example.com",
        pattern=_DNS_NAME,
        description="Its host. Name it in `settings.web.public_url` too.",
    )
    tlsSecret: DnsName = Field(
        default="trainfare-tls", description="The Secret with its certificate and key."
    )
    annotations: Labels = Field(default={}, description="Its annotations, as for cert-manager.")


class Values(Table):
    """All values. Those that are not known are refused, and so is what cannot be."""

    fullnameOverride: str = Field(
        default="",
        pattern=r"^([a-z]([a-z0-9-]{0,38}[a-z0-9])?)?$",
        description="What names of objects begin with; none: the release's name, with `-trainfare` if that is not in it.",
    )
    image: Image = Field(default=Image(), description="The image of all pods.")
    settings: Annotated[dict[str, dict[str, Any]], WithJsonSchema(settings_schema())] = Field(
        default={
            "kafka": {
                "bootstrap_servers": "kafka.kafka.svc:9092",
                "partitions": 8,
                "replication_factor": 3,
                "session_timeout_ms": 60_000,
            },
            "clickhouse": {
                "url": "http://clickhouse.clickhouse.svc:8123",
                "user": "trainfare",
                "reader_user": "trainfare_reader",
            },
            "web": {"bind": "0.0.0.0"},  # noqa: S104 - a pod's own address; tokens let in who may
            "log": {"format": "json"},
        },
        description="[Settings](settings.md) of the workers, a table for each group; no secrets. "
        "`kafka.partitions` is not to be changed once there are events; `kafka.session_timeout_ms` is how long a pod may be away "
        "and find its shards again.",
    )
    secrets: Secrets = Field(default=Secrets(), description="Where passwords and tokens are.")
    workers: Workers = Field(default=Workers(), description="The workers.")
    topics: Topics = Field(default=Topics(), description="The Job that creates the topics.")
    collectors: Collectors = Field(default=Collectors(), description="The collectors.")
    networkPolicy: NetworkPolicy = Field(default=NetworkPolicy(), description="Who may talk to whom.")
    disruptionBudget: DisruptionBudget = Field(
        default=DisruptionBudget(), description="A PodDisruptionBudget of the workers."
    )
    serviceMonitor: ServiceMonitor = Field(
        default=ServiceMonitor(), description="For the Prometheus operator."
    )
    ingress: Ingress = Field(default=Ingress(), description="An Ingress before the Service.")
