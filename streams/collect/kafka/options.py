"""The options of `trainfare collect kafka`: the map."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, Final, Literal, Self

import msgspec
from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    SecretStr,
    ValidationError,
    field_validator,
    model_validator,
)

from schemas.decode import WIRES
from schemas.field_values import fault_of_value
from streams.collect.allocations import Allocations, read_allocations
from streams.collect.kafka.expressions import EXPRESSION_CHARS, compiled
from streams.collect.kafka.units import conversion
from streams.collect.options import CollectorOptions
from streams.config.settings import KafkaSettings
from streams.topics import SHARD_TOPICS, Topic

_PASSWORD_BYTES: Final = 4_096
_STRICT: Final = ConfigDict(extra="forbid", frozen=True, populate_by_name=True)

ExpressionText = Annotated[str, Field(min_length=1, max_length=EXPRESSION_CHARS)]


def _compiles(text: str) -> str:
    compiled(text)
    return text


class FieldMap(BaseModel):
    """How one field is made."""

    model_config = _STRICT

    from_: ExpressionText = Field(alias="from", description="JMESPath that finds the value in the record.")
    unit: str | None = Field(default=None, max_length=40, description="Conversion, e.g. s->ms.")
    values: dict[str, Any] | None = Field(
        default=None, min_length=1, max_length=1_000, description="Table: what is found -> the field's value."
    )
    otherwise: Any = Field(default=None, description="The value for what is not in `values`.")
    default: Any = Field(default=None, description="The value where nothing is found.")

    _checked = field_validator("from_")(_compiles)

    @field_validator("unit")
    @classmethod
    def _is_known(cls, unit: str | None) -> str | None:
        if unit is not None:
            conversion(unit)
        return unit

    @model_validator(mode="after")
    def _fit(self) -> Self:
        if self.otherwise is not None and self.values is None:
            raise ValueError("`otherwise` is for what is not in `values`, and there are none")
        return self


class MapRule(BaseModel):
    """Makes one event of a record, or of each entry of a list in it."""

    model_config = _STRICT

    name: str = Field(pattern=r"^[A-Za-z0-9_-]{1,64}$", description="Its name, the beginning of ids.")
    topic: str = Field(pattern=r"^[A-Za-z0-9._-]{1,249}$", description="Topic that is read.")
    target: Topic = Field(description="Which events they are: jobs, gpu, network, storage, nodes.")
    when: ExpressionText | None = Field(default=None, description="Condition: which records count.")
    each: ExpressionText | None = Field(default=None, description="List in the record whose entries count.")
    id: list[ExpressionText] = Field(default=[], max_length=8, description="What makes the event's id.")
    constants: dict[str, Any] = Field(default={}, description="Fields with a value that is always the same.")
    fields: dict[str, FieldMap] = Field(min_length=1, description="Field -> how it is made.")

    @field_validator("target")
    @classmethod
    def _is_of_events(cls, target: Topic) -> Topic:
        if target not in SHARD_TOPICS:
            raise ValueError(f"expected one of {', '.join(SHARD_TOPICS)}")
        return target

    @field_validator("when", "each")
    @classmethod
    def _is_expression(cls, text: str | None) -> str | None:
        return None if text is None else _compiles(text)

    @field_validator("id")
    @classmethod
    def _are_expressions(cls, texts: list[str]) -> list[str]:
        return [_compiles(text) for text in texts]

    @field_validator("fields", mode="before")
    @classmethod
    def _texts_are_expressions(cls, fields: Any) -> Any:
        if not isinstance(fields, dict):
            return fields
        return {name: {"from": each} if isinstance(each, str) else each for name, each in fields.items()}

    @model_validator(mode="after")
    def _names_fields(self) -> Self:
        known = {each.name for each in msgspec.structs.fields(WIRES[self.target])} - {"specversion", "id"}
        for name in (*self.fields, *self.constants):
            if name not in known:
                raise ValueError(
                    f"{name[:80]!r} is no field to map of {self.target}; see docs/usage_events.md"
                )
        twice = self.fields.keys() & self.constants.keys()
        if twice:
            raise ValueError(f"{min(twice)!r} is in `fields` and in `constants`")
        for name, value in self._given():
            if fault := fault_of_value(WIRES[self.target], name, value):
                raise ValueError(fault)
        if not self.id and self.target is not Topic.GPU:
            raise ValueError("`id`: name what tells one event from another, e.g. id = ['job_id', 'state']")
        return self

    def _given(self) -> Iterator[tuple[str, Any]]:
        """Yield the values that the rule itself gives to fields, whatever a record has."""
        yield from self.constants.items()
        for name, field in self.fields.items():
            tabled = () if field.values is None else (*field.values.values(), field.otherwise)
            # A unit is applied to what a table says, never to a default.
            given = (field.default, *(tabled if field.unit is None else ()))
            yield from ((name, each) for each in given if each is not None)


class SourceConnection(BaseModel):
    """Another Kafka than the meter's own."""

    model_config = _STRICT

    bootstrap_servers: str = Field(description="Brokers to begin with.")
    security_protocol: Literal["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"] = "PLAINTEXT"
    sasl_mechanism: Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"] | None = None
    sasl_username: str | None = None
    sasl_password_file: Path | None = Field(default=None, description="File that holds the password.")
    ssl_ca_location: Path | None = None

    @field_validator("bootstrap_servers")
    @classmethod
    def _are_brokers(cls, text: str) -> str:
        try:
            return KafkaSettings(bootstrap_servers=text).bootstrap_servers
        except ValidationError:
            raise ValueError("expected host:port[,host:port...], e.g. kafka-1:9092,kafka-2:9092") from None

    @model_validator(mode="after")
    def _is_complete(self) -> Self:
        if self.security_protocol.startswith("SASL") and not (
            self.sasl_mechanism and self.sasl_username and self.sasl_password_file
        ):
            raise ValueError("SASL needs sasl_mechanism, sasl_username and sasl_password_file")
        return self

    def settings(self) -> KafkaSettings:
        """Return it as settings of a client; reads the password.

        Raises:
            OSError, ValueError: The file cannot be read, or is too long.
        """
        password = None
        if self.sasl_password_file is not None:
            with self.sasl_password_file.open("rb") as file:
                text = file.read(_PASSWORD_BYTES + 1)
            if len(text) > _PASSWORD_BYTES:
                raise ValueError(f"{self.sasl_password_file}: expected at most {_PASSWORD_BYTES} bytes")
            password = SecretStr(text.decode().rstrip("\r\n"))
        return KafkaSettings(
            bootstrap_servers=self.bootstrap_servers,
            security_protocol=self.security_protocol,
            sasl_mechanism=self.sasl_mechanism,
            sasl_username=self.sasl_username,
            sasl_password=password,
            ssl_ca_location=self.ssl_ca_location,
        )


class MapOptions(CollectorOptions):
    """A map, wherever its records come from."""

    source: str = Field(min_length=1, max_length=256, description="The events' `source`.")
    max_record_kib: int = Field(default=256, ge=1, le=1024, description="Larger records are left out, KiB.")
    max_depth: int = Field(default=32, ge=1, le=200, description="Records nested more deeply are left out.")
    allocations_file: Path | None = Field(
        default=None,
        description="File of allocations: samples that name no job get the one that held the GPU then.",
    )
    rules: list[MapRule] = Field(min_length=1, max_length=100, description="What is made of which topic.")

    @field_validator("rules")
    @classmethod
    def _have_names(cls, rules: list[MapRule]) -> list[MapRule]:
        names = [rule.name for rule in rules]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise ValueError(f"two rules are called {twice[0]!r}; ids begin with the name")
        return rules

    @property
    def topics(self) -> list[str]:
        """The topics that are read, each once."""
        return list(dict.fromkeys(rule.topic for rule in self.rules))

    def gpu_allocations(self) -> Allocations | None:
        """Who held which GPUs; None where no file is named.

        Raises:
            SourceUnavailableError: The file cannot be read.
        """
        return None if self.allocations_file is None else read_allocations(self.allocations_file)


class Options(MapOptions):
    """The table `[kafka]`."""

    interval_s: float = Field(default=2.0, ge=1, le=3600, description="Seconds between two polls.")
    source: str = Field(default="kafka", min_length=1, max_length=256, description="The events' `source`.")
    initial_offset: Literal["earliest", "latest"] = Field(
        default="earliest", description="Where a topic is read from without a position."
    )
    connection: SourceConnection | None = Field(
        default=None, description="Another Kafka than the meter's own."
    )
