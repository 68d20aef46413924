"""Manifest files, and the command that reads them."""

from collections.abc import Callable
from typing import Any

HEAD = "apiVersion: zonewright/v1\n"
ZONE = HEAD + "kind: Zone\nmetadata: {name: workforce}\nspec: {name: workforce}\n"
ROLE = HEAD + "kind: Role\nmetadata: {zone: workforce, name: reader}\nspec: {description: reads}\n"
AGENT = HEAD + "kind: Application\nmetadata: {zone: workforce, name: agent}\nspec: {name: Agent}\n"
KEY = (
    HEAD + "kind: ApplicationCredential\nmetadata: {zone: workforce, name: agent-key}\n"
    "spec: {application: agent, type: password}\n"
)
PROVIDER = (
    HEAD + "kind: Provider\nmetadata: {zone: workforce, name: okta}\n"
    "spec: {name: Okta, identifier: https://okta.example, client_secret: {from_env: OKTA, version: '1'}}\n"
)
CREDENTIAL = f"{ZONE}---\n{AGENT}---\n{KEY}"
Zonectl = Callable[..., Any]
