"""Request bodies: the members of a kind that a caller may send, validated strictly."""

from runtime.contract.bodies.deriving import Body, bodies, create_body, part_body, patch_body
from runtime.contract.bodies.members import is_mixed, nullable_in_patch, settable
from runtime.contract.bodies.patching import apply_patch
from runtime.contract.bodies.reading import parse, read, read_body
from runtime.contract.bodies.refusals import MAX_PROBLEMS, refusal

__all__ = [
    "MAX_PROBLEMS",
    "Body",
    "apply_patch",
    "bodies",
    "create_body",
    "is_mixed",
    "nullable_in_patch",
    "parse",
    "part_body",
    "patch_body",
    "read",
    "read_body",
    "refusal",
    "settable",
]
