"""Every limit, by the module that enforces it and its name there."""

from dataclasses import dataclass
from types import ModuleType

from runtime.services import decisions, refusals
from runtime.services.authorization import authorization_codes, interactions, rate_limits
from runtime.services.bundles import operations as bundle_operations
from runtime.services.clients import assertions, dpop, dynamic_registration, guessing, metadata_documents
from runtime.services.limits import Limit, Meter
from runtime.services.login import rate_limits as login_limits
from runtime.services.management.changes import budget
from runtime.services.management.members import acceptance, invitations
from runtime.services.management.organizations import organizations

_WAIT = "429"


@dataclass(frozen=True, slots=True)
class Enforced:
    """A limit, and what happens to whoever is beyond it.

    Attributes:
        module: where it is enforced.
        name: of the limit in that module.
        beyond: what the sender hears, or what happens instead.
    """

    module: ModuleType
    name: str
    beyond: str = _WAIT

    @property
    def limit(self) -> Limit:
        """The limit itself."""
        found: Limit | Meter = getattr(self.module, self.name)
        return found.limit if isinstance(found, Meter) else found

    @property
    def is_of_a_process(self) -> bool:
        """Whether each process counts by itself."""
        return isinstance(getattr(self.module, self.name), Meter)


LIMITS: tuple[Enforced, ...] = (
    Enforced(refusals, "REFUSALS", "429 in place of the refusal; requests in order are answered"),
    Enforced(decisions, "RECORDED", "counted; one row a minute has the sum for each sort"),
    Enforced(guessing, "GUESSES", "429 for that client from there, for the rest of the minute"),
    Enforced(assertions, "ASSERTIONS"),
    Enforced(dpop, "PROOFS"),
    Enforced(dynamic_registration, "FROM_ADDRESS"),
    Enforced(dynamic_registration, "IN_ZONE"),
    Enforced(dynamic_registration, "NEW_CLIENTS"),
    Enforced(metadata_documents, "FETCHES"),
    Enforced(rate_limits, "BEGUN"),
    Enforced(rate_limits, "BEGUN_BY_CLIENT"),
    Enforced(rate_limits, "BEGUN_IN_ZONE"),
    Enforced(rate_limits, "PUSHED"),
    Enforced(rate_limits, "PUSHED_BY_CLIENT"),
    Enforced(rate_limits, "PUSHED_BY_BACK_END"),
    Enforced(rate_limits, "PUSHED_IN_ZONE"),
    Enforced(interactions, "FORMS"),
    Enforced(authorization_codes, "CODES"),
    Enforced(login_limits, "PASSWORDS"),
    Enforced(login_limits, "PASSWORDS_IN_ZONE"),
    Enforced(login_limits, "TRIES", "429, and each further try waits twice as long as the last, up to 300 s"),
    Enforced(login_limits, "SIGN_UPS"),
    Enforced(acceptance, "LOOKS"),
    Enforced(invitations, "INVITATIONS"),
    Enforced(invitations, "INVITATIONS_TO_ONE"),
    Enforced(organizations, "ORGANIZATIONS_MADE"),
    Enforced(budget, "SPENT"),
    Enforced(bundle_operations, "WRITES"),
)
