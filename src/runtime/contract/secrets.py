"""Secrets on the wire: what a body gives, and the one answer that shows a value."""

from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field, PlainSerializer, SecretStr

from runtime.domain.kinds.values import Id, Part, Timestamp

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
    """A token to keep."""

    type: Literal["token"]
    token: _Given


class PasswordInput(_Input):
    """A user name with a password to keep."""

    type: Literal["password"]
    username: _UserName
    password: _Given


SecretInput = Annotated[TokenInput | PasswordInput, Field(discriminator="type")]


class SecretToken(Part):
    """A token that was kept."""

    type: Literal["token"]
    token: str = Field(repr=False)


class SecretPassword(Part):
    """A user name with a password that were kept."""

    type: Literal["password"]
    username: str
    password: str = Field(repr=False)


class SecretWithData(Part):
    """A secret with its value."""

    id: Id
    created_at: Timestamp
    data: Annotated[SecretToken | SecretPassword, Field(discriminator="type")]
    description: str | None = None
    entity_id: Id
    metadata: dict[str, Any] | None = None
    name: str
    updated_at: Timestamp
    version: int
    zone_id: Id
