"""The manifest schemas: one JSON Schema for each kind, for editors and for the reconciler.

Besides plain JSON Schema the members of `spec` carry keywords that say what the marks say: `x-ref`,
`x-fixed`, `x-set`, `x-sole`, `x-expiry`, `x-secret` and `x-address`; and what their types say:
`x-caseless` and `x-default-from`. `x-cedar` has the words of a member that is Cedar text, and what is
`x-local` stays in git.
"""

from runtime.contract.manifests.document import manifest_schemas
from runtime.contract.manifests.spec import spec_members

__all__ = ["manifest_schemas", "spec_members"]
