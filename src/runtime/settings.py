"""Every setting of the service, with its default and description.

A setting comes from the environment (`ZONED_DATABASE_URL`), then from the file given with `--config` (YAML,
lower-case names), then from the default here.
"""

import re
import stat
from collections.abc import Iterable
from difflib import get_close_matches
from os import environ
from pathlib import Path
from typing import Any, Literal, Self
from urllib.parse import parse_qs, urlsplit

import yaml
from pydantic import Field, PrivateAttr, SecretStr
from pydantic_settings import BaseSettings, SettingsConfigDict

from runtime import files


class InvalidSettings(ValueError):
    """The settings file is not what it should be; the message says how."""


_MAX_DAYS = 36_500  # a hundred years: what is longer is for ever


def _days(default: int, description: str) -> Any:
    """A time that records are kept, in days; 0 is for ever."""
    return Field(default, ge=0, le=_MAX_DAYS, description=f"{description}; 0 keeps them for ever")


class Settings(BaseSettings):
    """The service's settings; a value once built, never changed."""

    model_config = SettingsConfigDict(env_prefix="ZONED_", extra="forbid", frozen=True)

    data_dir: Path = Field(
        Path(".zonewright"), description="directory of the embedded database and the local keys"
    )
    database_url: str | None = Field(None, description="SQLAlchemy URL; SQLite in `data_dir` when unset")
    redis_url: str | None = Field(
        None, description="Redis for short-lived state; kept in this process when unset"
    )
    listen: str = Field("127.0.0.1:8080", description="address and port to listen on")
    public_url: str = Field(
        "http://127.0.0.1:8080",
        description="base address of the management API, as callers see it; set before `zoned init`",
    )
    zone_url_template: str = Field(
        "{public_url}/z/{zone_id}",
        description="issuer of a new zone; may have {public_url}, {zone_id}, {slug}",
    )
    proxies: int = Field(
        0,
        ge=0,
        description="trusted reverse proxies in front; with some, `X-Forwarded-For` gives the client address",
    )
    sign_ins_a_minute: int = Field(
        1200,
        ge=0,
        description="rate limit of sign-ins and of passwords tried, by address and zone in a minute; "
        "half of it by application; 0 for no limit",
    )
    refusals_a_minute: int = Field(
        600,
        ge=0,
        description="rate limit of refused requests of unauthenticated clients, by address and zone in a "
        "minute; 0 for no limit",
    )
    recorded_refusals_a_minute: int = Field(
        60,
        ge=1,
        description="refusals of unauthenticated requests, by address and zone in a minute and process, that "
        "have a decision record each; further ones are only counted",
    )
    zone_recorded_refusals_a_minute: int = Field(
        240,
        ge=1,
        description="the same of a whole zone, whatever the address",
    )
    token_events_days: int = _days(90, "days that token events are kept")
    replayed_decisions: int = Field(
        default=100_000,
        ge=0,
        le=1_000_000,
        description="recorded decisions of the last 30 days that one dry run decides again, to tell whom it "
        "would refuse or allow; 0 to leave that out",
    )
    ended_sessions_days: int = _days(
        90, "days that a session or a refresh token family is kept after its expiry"
    )
    ended_credentials_days: int = _days(
        30,
        "days that tokens of a connected account are kept after their provider has ended them or their grant "
        "has expired",
    )
    ended_invitations_days: int = _days(90, "days that an invitation is kept after its expiry")
    audit_events_days: int = _days(0, "days that the audit trail is kept, whole days of UTC")
    changesets_days: int = _days(
        365, "days that receipts of changesets are kept; the newest of a configuration always is"
    )
    tombstones_days: int = _days(365, "days that a configuration can be told what others have deleted of it")
    dead_letters_days: int = _days(30, "days that a message is kept whose delivery was abandoned")
    workers: int = Field(
        1, ge=1, description="number of worker processes; more than one requires `redis_url`"
    )
    drain_seconds: int = Field(
        0,
        ge=0,
        le=300,
        description="seconds between SIGTERM and the end of listening: `/readyz` answers 503 meanwhile, so "
        "that a balancer takes the node out of service; 0 for none",
    )
    jobs: bool = Field(
        True,
        description="run periodic jobs (key rotation and the like) here; at least one process must run them",
    )
    allow_private_addresses: bool = Field(
        False,
        description="allow outbound requests to loopback and private addresses; for development and tests",
    )
    key_rotation_days: int = Field(
        90,
        ge=0,
        description="days that a zone's key signs until it is rotated; 0 leaves rotation to `zoned keys`",
    )
    log_format: Literal["text", "json"] = Field("text", description="format of log lines: `text` or `json`")
    access_log: Literal["off", "json"] = Field(
        "off",
        description="access log on standard output: `off`, or `json`, one object for each answered request",
    )
    log_level: Literal["debug", "info", "warning", "error"] = Field(
        "info", description="lowest level that is logged: `debug`, `info`, `warning` or `error`"
    )
    traces_endpoint: str | None = Field(
        None,
        description="OpenTelemetry collector that traces are sent to, OTLP over HTTP, as in "
        "`http://127.0.0.1:4318/v1/traces`; no traces when unset; requires the extra `otel`",
    )
    traces_ratio: float = Field(1.0, ge=0, le=1, description="share of the requests that are traced")
    traces_hosts: str = Field(
        "",
        description="hosts, separated by commas, to which outbound requests carry the trace context "
        "(`traceparent`); no others learn of it",
    )
    key_encryption_key: SecretStr | None = Field(
        None,
        description="key-encryption key: 32 bytes in base64, `aws-kms:` with the ARN of a key, or "
        "`vault-transit:` with mount and name of one; a file in `data_dir` when unset",
    )
    other_key_encryption_keys: SecretStr | None = Field(
        None,
        description="further keys that stored keys may be wrapped with, written as `key_encryption_key`, "
        "separated by commas; for replacing the key-encryption key",
    )
    zone_encryption_keys: str = Field(
        "",
        description="ARNs of AWS KMS keys that zones may have as `encryption_key`, separated by commas; with "
        "`*` in place of the key's id, all keys of that account and region; none when empty",
    )
    encryption_key_check_seconds: int = Field(
        300,
        ge=5,
        le=3600,
        description="seconds after which a key-management service is asked again whether a key in use may "
        "still be used",
    )
    encryption_key_grace_seconds: int = Field(
        3600,
        ge=0,
        le=86_400,
        description="seconds beyond that for which zones are served while their key-management service "
        "cannot be reached",
    )
    transit_address: str | None = Field(
        None, description="address of the Vault or OpenBao of `vault-transit:` keys, https"
    )
    transit_token: SecretStr | None = Field(None, description="token for it")
    transit_token_file: Path | None = Field(
        None, description="file with the token, as an agent renews it; read again when Vault refuses a token"
    )
    transit_namespace: str | None = Field(None, description="namespace of the transit engine")
    transit_ca_file: Path | None = Field(
        None, description="certificates (PEM) that its TLS is checked with, in place of the system's"
    )
    token_lifetime_seconds: int = Field(
        3600, ge=60, le=86_400, description="default lifetime of access tokens"
    )
    session_lifetime_seconds: int = Field(
        43_200, ge=300, description="lifetime of a session; no token of the session outlives it"
    )
    refresh_lifetime_seconds: int = Field(
        2_592_000, ge=300, description="seconds after which an unused refresh token family expires"
    )
    mail_transport: Literal["file", "smtp"] = Field(
        "file",
        description="mail transport: `file`, into `data_dir`/mail, or `smtp`",
    )
    mail_from: str = Field(
        "zonewright@localhost", description="sender of mail, with or without a name: `Name <address>`"
    )
    mail_smtp_host: str | None = Field(None, description="host of the SMTP server; required for `smtp`")
    mail_smtp_port: int | None = Field(
        None,
        ge=1,
        le=65_535,
        description="port of the SMTP server; 587, 465 or 25 by `mail_smtp_security` when unset",
    )
    mail_smtp_security: Literal["starttls", "tls", "none"] = Field(
        "starttls",
        description="TLS of SMTP: `starttls`, `tls` or `none`; never falls back to plain text",
    )
    mail_smtp_username: str | None = Field(None, description="SMTP user name; no authentication when unset")
    mail_smtp_password: SecretStr | None = Field(None, description="SMTP password of `mail_smtp_username`")
    invitation_lifetime_seconds: int = Field(604_800, ge=300, description="lifetime of an invitation")

    _secret_file: Path | None = PrivateAttr(None)

    @classmethod
    def load(cls, config: Path | None = None, **overrides: Any) -> Self:
        """The settings in force; overrides come before the environment.

        Raises:
            SettingsUnreadable: the file is not YAML, or not a mapping.
            pydantic.ValidationError: a setting is unknown or has a wrong value.
        """
        written = _read(config) if config else {}
        unset = {name: value for name, value in written.items() if f"ZONED_{name.upper()}" not in environ}
        loaded = cls(**(unset | overrides))
        loaded._secret_file = config if any(map(_is_secret, written.items())) else None
        return loaded

    @property
    def secret_file(self) -> Path | None:
        """The settings file, when it has what nobody else may read; None for one that anybody may."""
        return self._secret_file

    @property
    def resolved_database_url(self) -> str:
        """The URL of the database, the embedded default spelled out."""
        return self.database_url or f"sqlite+aiosqlite:///{self.database_file.resolve()}"

    @property
    def database_file(self) -> Path:
        """Where the embedded database is."""
        return self.data_dir / "zonewright.db"

    @property
    def key_file(self) -> Path:
        """Where the key that wraps all data keys is, when no setting has it."""
        return self.data_dir / "key-encryption.key"

    @property
    def mail_folder(self) -> Path:
        """Where mail goes that no server carries."""
        return self.data_dir / "mail"


# https://kubernetes.io/docs/tutorials/services/connect-applications-service/#environment-variables
_OF_KUBERNETES = re.compile(
    r"ZONED_(SERVICE_(HOST|PORT(_\w+)?)|PORT(_\d+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)?)"
)


def meant(name: str, cutoff: float = 0.6) -> str | None:
    """The setting that an unknown name, in either spelling, was probably meant to be."""
    close = get_close_matches(name.lower().removeprefix("zoned_"), Settings.model_fields, n=1, cutoff=cutoff)
    return close[0] if close else None


def misspelt(variables: Iterable[str]) -> list[tuple[str, str | None]]:
    """Variables that are named like a setting and are none, each with the one that was probably meant.

    What Kubernetes makes for a service `zoned` is left alone.
    """
    known = {f"ZONED_{name.upper()}" for name in Settings.model_fields}
    unknown = sorted(name for name in variables if name.startswith("ZONED_") and name not in known)
    found = [(name, meant(name)) for name in unknown if not _OF_KUBERNETES.fullmatch(name)]
    return [(name, f"ZONED_{setting.upper()}" if setting else None) for name, setting in found]


_KEYS = ("key_encryption_key", "other_key_encryption_keys")


def _is_secret(setting: tuple[str, Any]) -> bool:
    """Tell whether a setting of a file is a secret, or an address with a password in it."""
    name, value = setting
    if name in (*_KEYS, "mail_smtp_password", "transit_token"):
        return value is not None
    if name not in ("database_url", "redis_url") or not isinstance(value, str):
        return False
    try:
        address = urlsplit(value)
    except ValueError:
        return True  # none that can be read: nobody can tell what is in it
    return bool(address.password) or "password" in parse_qs(address.query)


def _read(config: Path) -> dict[str, Any]:
    try:
        mode = stat.S_IMODE(config.stat().st_mode)
        written = yaml.safe_load(config.read_text("utf-8")) or {}
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as failure:
        raise InvalidSettings(f"`{config}` cannot be read: {failure}") from None
    if not isinstance(written, dict):
        raise InvalidSettings(f"`{config}`: expected settings, as in `listen: 127.0.0.1:8080`")
    if not written.keys().isdisjoint(_KEYS) and mode & files.NOT_FOR_A_KEY:
        raise InvalidSettings(
            f"`{config}` has the key-encryption key and is open to others (mode {mode:o}); `chmod 600` it"
        )
    return {str(name): value for name, value in written.items()}
