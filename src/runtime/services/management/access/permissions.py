"""The permissions of each role by kind, in one table.

What a role cannot see at all looks as if it did not exist (404); what it sees but may not do is refused
(403). `schemas/permissions.txt` is this table as text; `permissions` maps in answers are read from it.
A kind without a row of its own has the ordinary one of its level.

Somebody with several roles may do what any of them allows: which roles count where, `Caller` says.
"""

from collections.abc import Iterable
from functools import lru_cache

from runtime.domain.errors import Forbidden, NotFound
from runtime.domain.kinds import ALL, Kind, Verb
from runtime.domain.kinds.values import OrganizationRole

Roles = str | tuple[str, ...]  # one role, or several whose rights add up

ROLES = ("org_admin", "org_member", "org_viewer", "zone_manager", "zone_viewer", "service_account")

# l list, c create, r read, u update, d delete or archive, - nothing: the role does not see the kind.
_TABLE = """
                             org_admin org_member org_viewer zone_manager zone_viewer service_account
organizations                lcrud     lr         lr         lr           lr          lr
organization_users           lrud      lr         lr         -            -           lr
sso_connection               crud      r          r          -            -           r
invitations                  lcd       l          l          -            -           l
service_accounts             lcrud     lr         lr         -            -           lcrud
service_account_credentials  lcrud     lr         lr         -            -           lr
api_keys                     lcd       -          -          -            -           -
zones                        lcrud     lcru       lr         lru          lr          lcrud
zone_members                 lcrud     lcrud      lr         lcrud        lr          lcrud
providers                    lcrud     lcrud      lr         lcrud        lr          lcrud
applications                 lcrud     lcrud      lr         lcrud        lr          lcrud
application_dependencies     lcrud     lcrud      lr         lcrud        lr          lcrud
application_roles            lcrud     lcrud      lr         lcrud        lr          lcrud
application_credentials      lcrud     lcrud      lr         lcrud        lr          lcrud
resources                    lcrud     lcrud      lr         lcrud        lr          lcrud
users                        lcrud     lcrud      lr         lcrud        lr          lcrud
user_roles                   lcrud     lcrud      lr         lcrud        lr          lcrud
roles                        lcrud     lcrud      lr         lcrud        lr          lcrud
groups                       lcrud     lcrud      lr         lcrud        lr          lcrud
group_members                lcrud     lcrud      lr         lcrud        lr          lcrud
group_roles                  lcrud     lcrud      lr         lcrud        lr          lcrud
role_assignments             lcrud     lcrud      lr         lcrud        lr          lcrud
policy_schemas               lru       lru        lr         lru          lr          lru
policies                     lcrud     lcrud      lr         lcrud        lr          lcrud
policy_versions              lcrud     lcrud      lr         lcrud        lr          lcrud
policy_sets                  lcrud     lcrud      lr         lcrud        lr          lcrud
policy_set_versions          lcrud     lcrud      lr         lcrud        lr          lcrud
secrets                      lcrud     lcrud      l          lcrud        l           lcrud
user_agents                  lr        lr         lr         lr           lr          lr
sessions                     lrud      lrud       lr         lrud         lr          lrud
delegated_grants             lrud      lrud       lr         lrud         lr          lrud
decisions                    l         l          l          l            l           l
explanations                 r         r          r          r            r           r
changesets                   lcr       lcr        lr         lcr          lr          lcr
audit_events                 l         -          -          -            -           l
snapshot                     r         r          r          r            r           r
"""

# What holds for a kind without a row of its own: in a zone, and in an organization.
_ORDINARY = {True: "lcrud lcrud lr lcrud lr lcrud", False: "lcrud lr lr - - lcrud"}

# The roles of an organization from the least to the most.
_RANKS = [role.value for role in (OrganizationRole.VIEWER, OrganizationRole.MEMBER, OrganizationRole.ADMIN)]

_LETTERS = {
    "l": Verb.LIST,
    "c": Verb.CREATE,
    "r": Verb.RETRIEVE,
    "u": Verb.UPDATE,
    "d": Verb.DELETE,
}
# What the verbs are called in `permissions` maps.
_FLAGS = {
    Verb.LIST: "list",
    Verb.CREATE: "create",
    Verb.RETRIEVE: "read",
    Verb.UPDATE: "update",
    Verb.DELETE: "delete",
}
_CHANGES = frozenset({Verb.UPDATE, Verb.DELETE, Verb.ARCHIVE})
# The end of the name of a role that only tries: on a dry run nothing is written.
_DRY_RUN = " on a dry run"
_EVERY_VERB = frozenset(Verb)


def _parse(table: str) -> dict[str, dict[str, frozenset[Verb]]]:
    header, *lines = table.strip("\n").splitlines()
    roles = header.split()
    rows = {}
    for line in lines:
        subject, *cells = line.split()
        rows[subject] = {
            role: frozenset(_LETTERS[letter] for letter in cell if letter != "-")
            for role, cell in zip(roles, cells, strict=True)
        }
    return rows


def _complete(table: str) -> str:
    """The table with the ordinary row for each kind that has none, in its columns."""
    header, *lines = table.strip("\n").splitlines()
    starts = [header.index(role) for role in ROLES]
    known = {line.split()[0] for line in lines}
    for kind in ALL:
        if kind.operations not in known:
            line = kind.operations
            for start, cell in zip(starts, _ORDINARY[kind.zoned].split(), strict=True):
                line = f"{line:<{start}}{cell}"
            lines.append(line)
    return "\n".join([header, *lines]) + "\n"


_COMPLETE = _complete(_TABLE)
TABLE = _parse(_COMPLETE)


def text() -> str:
    """The table as it stands in `schemas/permissions.txt`."""
    return _COMPLETE


def _each(roles: Roles) -> tuple[str, ...]:
    return (roles,) if isinstance(roles, str) else roles


@lru_cache(maxsize=256)
def dry_run_roles(roles: Roles) -> tuple[str, ...]:
    """The roles for a dry run: what they may read they may try to change, and nothing else."""
    return tuple(f"{role}{_DRY_RUN}" for role in _each(roles))


@lru_cache(maxsize=256)
def _verbs(role: str, subject: str) -> frozenset[Verb]:
    """What a role may do with entities of that kind."""
    own = TABLE[subject].get(role.removesuffix(_DRY_RUN), frozenset())
    return _EVERY_VERB if role.endswith(_DRY_RUN) and Verb.RETRIEVE in own else own


@lru_cache(maxsize=1024)
def sees(roles: Roles, subject: str) -> bool:
    """Tell whether anything of that kind exists for these roles."""
    return any(_verbs(role, subject) for role in _each(roles))


@lru_cache(maxsize=1024)
def allows(roles: Roles, subject: str, verb: Verb) -> bool:
    """Tell whether one of the roles may do that. Archiving takes the right to delete."""
    wanted = Verb.DELETE if verb is Verb.ARCHIVE else verb
    return any(wanted in _verbs(role, subject) for role in _each(roles))


def may_list(roles: Roles, kind: Kind) -> bool:
    """Tell whether one of the roles lists entities of a kind."""
    return allows(roles, kind.operations, Verb.LIST)


def require(roles: Roles, subject: str, verb: Verb) -> None:
    """Raise NotFound when the roles do not see the kind, Forbidden when they may not do that with it."""
    if not sees(roles, subject):
        raise NotFound(f"`{subject}` is not visible to the caller")
    if not allows(roles, subject, verb):
        held = list(dict.fromkeys(role.removesuffix(_DRY_RUN) for role in _each(roles)))
        named = ("role " if len(held) == 1 else "roles ") + ", ".join(f"`{role}`" for role in held)
        raise Forbidden(f"the {named} may not {verb.value} `{subject}`")


def reaches(role: str, wanted: str) -> bool:
    """Tell whether an organization's role is that one or above it: nobody gives what is above their own."""
    return role in _RANKS and wanted in _RANKS and _RANKS.index(wanted) <= _RANKS.index(role)


def children_of(kind: Kind) -> list[str]:
    """The rows of what is kept right below entities of that kind."""
    return [child.operations for child in ALL if child.parent is kind]


def permission_map(
    roles: Roles, subject: str, children: Iterable[str] = (), *, changeable: bool = True
) -> dict[str, dict[str, bool]]:
    """The `permissions` member of an answer: what the caller may do with this, and with what is inside it.

    Args:
        subject: the row of the thing itself.
        children: rows of what is kept inside it; what the roles do not see is left out.
        changeable: False for platform-owned entities, which nobody changes.
    """
    own = {
        flag: allows(roles, subject, verb) and (changeable or verb not in _CHANGES)
        for verb, flag in _FLAGS.items()
    }
    inside = {
        child: {flag: allows(roles, child, verb) for verb, flag in _FLAGS.items()}
        for child in children
        if sees(roles, child)
    }
    return {subject: own, **inside}
