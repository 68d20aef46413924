"""Maximum sizes and durations of requests and responses; beyond them 413, 408, or a closed connection."""

from runtime.adapters import client_documents, outbound, passwords
from runtime.api.management import changeset_bodies
from runtime.api.oauth import client_registration
from runtime.api.shared import json_bodies, request_bodies, response_streams
from runtime.domain.oauth import forms
from runtime.domain.policy import bundle_archive
from runtime.services import replay_turns, revocation_list
from runtime.services.authorization import pushed_authorization_requests
from runtime.services.authorization import requests as authorize_requests
from runtime.services.logout import requests as logout_requests
from runtime.services.management.changesets import concurrency_limits as concurrent
from runtime.services.management.snapshots import undescribable
from runtime.services.replay import decision_impact, zone_records

REQUEST_BYTES = 2 * 1024 * 1024  # changesets alone may have more, from callers who are known
HEADER_BYTES = 16 * 1024
ARRIVAL_SECONDS = 30


def _bytes(number: int) -> str:
    for unit, size in (("MiB", 1024 * 1024), ("KiB", 1024)):
        if number >= size and number % size == 0:
            return f"{number // size} {unit}"
    return f"{number} bytes"


def _cap(cap: changeset_bodies.ChangesetSizeLimits) -> str:
    return f"{_bytes(cap.size)}, {cap.operations:,} operations, {cap.values:,} values"


def _rate(bytes_a_second: int, max_lag_seconds: float) -> str:
    return f"{_bytes(bytes_a_second)} a second, never more than {max_lag_seconds:.0f} s behind"


# What -> how much.
SIZES: tuple[tuple[str, str], ...] = (
    ("a request", f"{_bytes(REQUEST_BYTES)}, all of it within {ARRIVAL_SECONDS} s"),
    ("the head of a request", f"{_bytes(HEADER_BYTES)}, within {ARRIVAL_SECONDS} s"),
    ("connections", "as many as the system allows: limit them in front of the service"),
    ("a form", f"{_bytes(forms.MAX_BODY_BYTES)}, {forms.MAX_PARAMETERS} parameters"),
    (
        "an authorize request",
        f"{authorize_requests.MAX_PARAMETERS} parameters of {authorize_requests.MAX_VALUE_CHARS} characters",
    ),
    (
        "a pushed authorization request",
        f"{pushed_authorization_requests.MAX_CHARS} characters",
    ),
    ("the return address of a logout", f"{logout_requests.MAX_RETURN_CHARS} characters"),
    ("the registration of a client", _bytes(client_registration.MAX_BODY_BYTES)),
    ("the metadata document of a client", _bytes(client_documents.MAX_BYTES)),
    (
        "a fetched document",
        f"{_bytes(outbound.MAX_BYTES)}, {outbound.MAX_CONCURRENT} at once for a zone",
    ),
    (
        "a password",
        (
            f"{passwords.MAX_PASSWORD_CHARS} characters; {passwords.MAX_WAITING} of an organization at once, "
            "then 503"
        ),
    ),
    (
        "a policy bundle",
        f"{_bytes(bundle_archive.MAX_ARCHIVE_BYTES)}, {_bytes(bundle_archive.MAX_INFLATED_BYTES)} inflated",
    ),
    ("a body of the management API", _bytes(json_bodies.MAX_BODY_BYTES)),
    ("a changeset of a caller who may write", _cap(changeset_bodies.WRITERS)),
    ("a dry run of a caller who may only read", _cap(changeset_bodies.READERS)),
    (
        "the speed at which a larger one must arrive",
        f"{_rate(request_bodies.BYTES_A_SECOND, request_bodies.MAX_LAG_SECONDS)}; then 408",
    ),
    (
        "changesets of an organization under way in a process",
        f"{concurrent.OF_ORGANIZATION}, {concurrent.OF_CALLER} of one caller; then 429",
    ),
    (
        "dry runs of an organization, in addition",
        f"{concurrent.OF_ORGANIZATION}, {concurrent.OF_CALLER} of a caller; {_bytes(concurrent.BYTES)}; 429",
    ),
    (
        "total size of one caller's dry runs under way",
        f"the maximum of one, plus {_bytes(concurrent.BESIDE_BYTES)}; then 429",
    ),
    (
        "recorded decisions that a dry run replays",
        (
            f"`ZONED_REPLAYED_DECISIONS`, the newest of {zone_records.PERIOD.days} days,"
            f" {zone_records.MOST_ZONES} zones; as many as take {decision_impact.SECONDS:.0f} seconds"
            " before the operations, and again after them"
        ),
    ),
    (
        "replays of recorded decisions at once in a process",
        (
            f"{replay_turns.AT_ONCE}, 1 of an organization; a dry run that has waited for"
            f" {replay_turns.WAIT_SECONDS:.0f} seconds replays none"
        ),
    ),
    (
        "revocation lists in the memory of a process",
        (
            f"about {_bytes(revocation_list.MOST_BYTES)}; beyond that, signed copies are dropped, then the"
            " longest lists, until they are asked for again; the list in use is kept whatever its size"
        ),
    ),
    (
        "snapshots that a process sends at once",
        (
            f"{concurrent.SNAPSHOTS}; {concurrent.SNAPSHOTS_OF_ORGANIZATION} of an organization, "
            f"{concurrent.SNAPSHOTS_OF_CALLER} of one caller; then 429"
        ),
    ),
    (
        "explanations under way in a process",
        (
            f"{concurrent.EXPLANATIONS}; {concurrent.EXPLANATIONS_OF_ORGANIZATION} of an organization, "
            f"{concurrent.EXPLANATIONS_OF_CALLER} of one caller; then 429"
        ),
    ),
    ("the time that one explanation takes", f"{concurrent.EXPLANATION_SECONDS:.0f} seconds; then 413"),
    (
        "objects in a snapshot that no manifest can describe",
        f"{undescribable.AT_MOST} of each kind; it names the kinds with more",
    ),
    (
        "the speed at which they must be read",
        _rate(response_streams.BYTES_A_SECOND, response_streams.MAX_LAG_SECONDS)
        + "; then the connection is cut",
    ),
)
