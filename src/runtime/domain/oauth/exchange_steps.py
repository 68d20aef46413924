"""The steps of a token request by number, as decision records and explanations name them."""

from collections.abc import Mapping

CLIENT, SUBJECT_TOKEN, SESSION, PROVENANCE, RESOURCE, DEPENDENCY = 3, 4, 5, 6, 7, 8
ALLOWANCE, SCOPES, POLICY = 9, 10, 11

STEP_NAMES: Mapping[int, str] = {
    CLIENT: "client",
    SUBJECT_TOKEN: "subject_token",
    SESSION: "session",
    PROVENANCE: "chain",
    RESOURCE: "resource",
    DEPENDENCY: "dependency",
    ALLOWANCE: "consent",
    SCOPES: "scopes",
    POLICY: "policy",
    12: "credential",
    13: "signing",
    14: "storing",
}
