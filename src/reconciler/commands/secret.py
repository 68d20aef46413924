"""`zonectl secret`: keys of resources that all applications share, in a zone's vault.

Nothing of a repository is read: which key goes to which resource, only the command line says.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from reconciler.apply.secrets import MAX_SECRET_BYTES, SHORTEST_OWN, SecretValue
from reconciler.client import Api, ApiError, Connection
from reconciler.exit_codes import FAILED, REFUSED, USAGE, CommandFailed, Declined
from reconciler.files import FileRefused, Root, check_place, read_named
from reconciler.output_documents import SECRETS, SecretDocument
from reconciler.report.secrets import secret_lines
from reconciler.terminal import is_interactive, print_json, print_lines, read_input

from .context import open_secrets, open_zones
from .options import SecretOptions

_TOKEN = "token"  # the type of a secret that exchanges hand out
_VAULT = "service-vault"  # type and identifier of the provider that hands them out


def set_command(resource: str, options: SecretOptions) -> int:
    """`zonectl secret set`: store a value, or replace the one there is. Raises CommandFailed."""
    value = _read_value(options.get("value_file"))  # before anything is sent
    with open_secrets(options) as (api, connection):
        _require_foreign(value, connection)
        zone = api.zone(options.get("zone"), is_exact=True)
        target = api.resource(str(zone["id"]), resource)
        before = _find_secret(api, zone, target, options.get("name"))
        data = {"type": _TOKEN, "token": value.reveal()}
        if before is None:
            name = options.get("name") or str(target["name"])
            stored = api.create_secret(str(zone["id"]), str(target["id"]), name, data)
        else:
            stored = api.replace_secret(str(zone["id"]), str(before["id"]), data)
        done = "stored" if before is None else "replaced"
        message = f"{done}{_handed_out(api, str(zone['id']), target)}"
    _report(options, zone, [_document(stored, target)], message)
    return 0


def list_command(options: SecretOptions) -> int:
    """`zonectl secret list`: the secrets of a zone, without their values. Raises CommandFailed."""
    with open_zones(options) as api:
        zone = api.zone(options.get("zone"), is_exact=True)
        found = api.secrets(str(zone["id"]))
        resources = api.resources_by_id(str(zone["id"]), (str(each["entity_id"]) for each in found))
    documents = [_document(each, resources.get(str(each["entity_id"]))) for each in found]
    _report(options, zone, documents, "" if documents else "there are no secrets in this zone")
    return 0


def delete_command(resource: str, options: SecretOptions, *, approve: Callable[[str], bool]) -> int:
    """`zonectl secret delete`. Raises CommandFailed.

    Args:
        approve: asks the user a question; false cancels.
    """
    with open_secrets(options) as (api, _):
        zone = api.zone(options.get("zone"), is_exact=True)
        target = api.resource(str(zone["id"]), resource)
        found = _find_secret(api, zone, target, options.get("name"))
        if found is None:
            raise CommandFailed(FAILED, f"no key is stored for the resource `{target['identifier']}`")
        question = f"Delete the secret `{found['name']}` of `{target['identifier']}`?"
        if not options.get("yes") and not approve(question):
            raise Declined
        api.delete_secret(str(zone["id"]), str(found["id"]))
    _report(
        options,
        zone,
        [_document(found, target)],
        "deleted; exchanges for the resource do not get it any more",
    )
    return 0


def _handed_out(api: Api, zone_id: str, resource: Mapping[str, Any]) -> str:
    """Whether applications get the key of a resource: its credential provider decides that.

    Empty where the caller may not read the provider.
    """
    provider_id = resource.get("credential_provider_id")
    try:
        provider = api.provider(zone_id, str(provider_id)) if provider_id is not None else None
    except ApiError:  # the key is stored all the same
        return ""
    if provider is not None and provider["type"] == _VAULT:
        return "; applications get it with their next exchange"
    has = f"is `{provider['identifier']}`" if provider is not None else "is not set"
    return (
        f"; no exchange hands it out, since the resource's `credential_provider` {has}: set it to"
        f" `{{external: {_VAULT}}}`, the zone's vault"
    )


def _read_value(file: Path | None) -> SecretValue:
    """The value from a file or standard input, without its last line end. Raises CommandFailed."""
    what = "standard input" if file is None else f"`{file}`"
    try:
        content = _standard_input() if file is None else _named_file(file)
        text = content.decode("utf-8").rstrip("\r\n")
    except OSError as error:
        raise CommandFailed(FAILED, f"the value cannot be read from {what}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise CommandFailed(FAILED, f"the value in {what} is not text in UTF-8") from None
    if not text:
        raise CommandFailed(FAILED, f"there is no value in {what}")
    return SecretValue(text)


def _standard_input() -> bytes:
    if is_interactive():
        raise CommandFailed(
            USAGE,
            "standard input is a terminal, which would show the value: pipe it into the command, or give"
            " `--value-file FILE`",
        )
    content = read_input(MAX_SECRET_BYTES + 1)
    if len(content) > MAX_SECRET_BYTES:
        raise OSError(0, f"it is larger than {MAX_SECRET_BYTES} bytes")
    return content


def _named_file(file: Path) -> bytes:
    try:
        check_place(file, Root(Path()))
    except FileRefused as refused:
        raise CommandFailed(REFUSED, f"`--value-file`: {refused}") from refused
    return read_named(file, at_most=MAX_SECRET_BYTES)


def _require_foreign(value: SecretValue, connection: Connection) -> None:
    """Refuse zonectl's own credential as a value: applications would get it. Raises CommandFailed."""
    text = value.reveal()
    if any(len(own) >= SHORTEST_OWN and own in text for own in connection.secrets):
        raise CommandFailed(REFUSED, "the value contains zonectl's own credential; nothing was sent")


def _find_secret(
    api: Api, zone: Mapping[str, Any], resource: Mapping[str, Any], name: str | None
) -> Mapping[str, Any] | None:
    """The secret of a resource, of that name if one is given. Raises CommandFailed when there are several."""
    found = [
        each
        for each in api.secrets(str(zone["id"]), str(resource["id"]))
        if each["type"] == _TOKEN and name in (None, each["name"])
    ]
    if len(found) > 1:
        names = ", ".join(f"`{each['name']}` ({each['id']})" for each in found[:10])
        raise CommandFailed(
            FAILED,
            f"the resource `{resource['identifier']}` has {len(found)} secrets, {names}: say which with"
            " `--name`, or delete all but one in the management API",
        )
    return found[0] if found else None


def _document(secret: Mapping[str, Any], resource: Mapping[str, Any] | None) -> SecretDocument:
    """What is known of a secret: each member by name, so that a value is never among them."""
    document: SecretDocument = {
        "id": str(secret["id"]),
        "entity_id": str(secret["entity_id"]),
        "name": str(secret["name"]),
        "type": str(secret.get("type", _TOKEN)),
        "version": int(secret["version"]),
        "updated_at": str(secret["updated_at"]),
    }
    if resource is not None:
        document["resource"] = str(resource["identifier"])
    return document


def _report(
    options: SecretOptions, zone: Mapping[str, Any], found: Sequence[SecretDocument], message: str
) -> None:
    if options.get("output") == "json":
        print_json({"format": SECRETS, "zone": zone["slug"], "secrets": found})
    else:
        lines: Iterable[str] = [message] if message else []
        print_lines(*secret_lines(found), *lines)
