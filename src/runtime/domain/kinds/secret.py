"""Secrets stored for another entity: encrypted, and shown by one operation."""

import json
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, ConfigDict, Field, PlainSerializer, SecretStr

from runtime.domain.kinds.base import Kind, Verb, ZoneEntity
from runtime.domain.kinds.marks import Mark
from runtime.domain.kinds.values import Description, Id, Name, Part, SecretType
from runtime.domain.kinds.zone import ZONE

_MAX_METADATA_BYTES = 4_096


def _little(metadata: dict[str, Any] | None) -> dict[str, Any] | None:
    if metadata is not None and len(json.dumps(metadata)) > _MAX_METADATA_BYTES:
        raise ValueError(f"must have at most {_MAX_METADATA_BYTES} bytes as JSON")
    return metadata


_MAX_CHARS = 16_384

# Does not show in a repr or in an error; comes out as text when a body is read.
_Given = Annotated[
    SecretStr,
    Field(min_length=1, max_length=_MAX_CHARS),
    PlainSerializer(lambda secret: secret.get_secret_value(), return_type=str),
]
_UserName = Annotated[str, Field(min_length=1, max_length=2048)]


class _Input(Part):
    model_config = ConfigDict(hide_input_in_errors=True)


class TokenInput(_Input):
    """A token to store."""

    type: Literal["token"]
    token: _Given


class PasswordInput(_Input):
    """A user name and password to store."""

    type: Literal["password"]
    username: _UserName
    password: _Given


SecretInput = Annotated[TokenInput | PasswordInput, Field(discriminator="type")]


class NewSecret(Part):
    """What the body of a new secret has besides: its value, and the zone once more."""

    data: SecretInput
    zone_id: Id | None = None


class NewSecretData(Part):
    """What the body of an update has besides: another value."""

    data: SecretInput | None = None


class Secret(ZoneEntity):
    """A token or a password that belongs to an entity of the zone; everything about it but its value.

    Attributes:
        resource_identifier: of the resource that it belongs to, when the value was given: token exchange
            hands out no value that was given for another address. None for what belongs to no resource.
    """

    organization_id: Annotated[Id, Mark.INTERNAL]
    description: Annotated[Description | None, Mark.KEPT] = None
    entity_id: Annotated[Id, Mark.FIXED]
    metadata: Annotated[dict[str, Any] | None, Mark.KEPT, AfterValidator(_little)] = None  # not sealed
    name: Name
    type: Annotated[SecretType, Mark.SERVER]
    version: Annotated[int, Mark.SERVER] = 1  # grows when the value changes
    data: Annotated[bytes, Mark.INTERNAL]  # sealed
    resource_identifier: Annotated[str | None, Mark.INTERNAL] = None


# Listing is a bare array without pages, and retrieving answers the value in place of `type`: both by hand.
SECRET = Kind(
    entity=Secret,
    collection="secrets",
    operations="secrets",
    parent=ZONE,
    verbs=frozenset({Verb.CREATE, Verb.UPDATE, Verb.DELETE}),
    indexes=(("entity_id",),),
    inputs={Verb.CREATE: NewSecret, Verb.UPDATE: NewSecretData},
)
