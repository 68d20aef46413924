"""The response of the only operation that shows the value of a stored secret."""

from typing import Annotated, Any, Literal

from pydantic import Field

from runtime.domain.kinds.marks import Example
from runtime.domain.kinds.values import Id, Part, Timestamp


class SecretToken(Part):
    """A stored token."""

    type: Literal["token"]
    token: str = Field(repr=False)


class SecretPassword(Part):
    """A stored user name and password."""

    type: Literal["password"]
    username: str
    password: str = Field(repr=False)


class SecretWithData(Part):
    """A secret with its value."""

    id: Id
    created_at: Timestamp
    data: Annotated[SecretToken | SecretPassword, Field(discriminator="type")]
    description: Annotated[str | None, Example("Books meetings for whoever asks")] = None
    entity_id: Id
    metadata: dict[str, Any] | None = None
    name: Annotated[str, Example("Calendar agent")]
    updated_at: Timestamp
    version: int
    zone_id: Id
