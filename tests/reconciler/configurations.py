"""Configurations for property tests: of one zone `w`, over all kinds, such as the server takes them."""

from collections.abc import Collection
from dataclasses import replace
from typing import Any

from hypothesis import strategies as st
from tests.reconciler.factories import manifest, zone

from reconciler.kinds import Manifest

NAMES = ["a", "b", "c", "d"]
TEXTS = st.text("xyz ", min_size=1, max_size=6).map(lambda text: text.strip() or "x")
SCOPES = st.lists(st.text("xyz", min_size=1, max_size=6), unique=True, max_size=2)
EMAILS = st.lists(st.sampled_from(["a@x.example", "B@x.example", "c@x.example"]), unique=True, max_size=3)
URIS = st.lists(st.sampled_from(["https://a.example/cb", "https://b.example/cb"]), unique=True, max_size=2)
RENAMED = ("Provider", "Application", "Resource", "Role", "Group", "Policy")
POLICIES = ["permit (principal, action, resource);\n", "forbid (principal, action, resource);\n"]


def optional(**members: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    """A spec with any of these members."""
    return st.fixed_dictionaries({}, optional=members)


def named(strategy: st.SearchStrategy[dict[str, Any]]) -> st.SearchStrategy[dict[str, dict[str, Any]]]:
    """Specs by manifest name."""
    return st.dictionaries(st.sampled_from(NAMES), strategy, max_size=3)


def one_of(names: Collection[str]) -> st.SearchStrategy[str]:
    """One of these names."""
    return st.sampled_from(sorted(names))


CIMD = optional(enabled=st.booleans(), allowed_client_ids=st.lists(st.just("*"), max_size=1))
ZONE = optional(
    description=TEXTS,
    requires_invitation=st.booleans(),
    protocols=optional(
        oauth2=optional(dcr_enabled=st.booleans(), strict_assertion_audience=st.booleans(), cimd=CIMD)
    ),
)
OAUTH2 = optional(
    authorization_parameters=st.dictionaries(st.sampled_from(["p", "q", "r"]), TEXTS, max_size=3),
    scope_separator=TEXTS,
    issuer=st.sampled_from(
        [None, {"of_zone": "w", "member": "issuer"}, "https://issuer.example", "https://p.example/a"]
    ),
)
SECRET = st.builds(lambda version: {"from_env": "X", "version": version}, st.sampled_from("123"))
PROVIDER = optional(
    client_id=TEXTS,
    description=TEXTS,
    client_secret=SECRET,
    protocols=optional(oauth2=OAUTH2, openid=optional(scopes=SCOPES)),
)


def identifiers(draw: st.DrawFn, specs: dict[str, dict[str, Any]], prefix: str = "") -> None:
    """Give these identifiers, no two the same, or none: those of others, and their own names, included."""
    if draw(st.booleans()):
        return
    count = len(specs)
    chosen = draw(st.lists(st.sampled_from(NAMES), unique=True, min_size=count, max_size=count))
    for spec, identifier in zip(specs.values(), chosen, strict=True):
        spec["identifier"] = prefix + identifier


@st.composite
def configurations(draw: st.DrawFn) -> list[Manifest]:
    """A valid configuration of one zone: references lead only to what is in it."""
    providers, groups = draw(named(PROVIDER)), draw(named(optional(members=EMAILS)))
    roles = draw(named(optional(description=TEXTS, identifier=st.sampled_from(["r-1", "r-2"]))))
    roles = {name: spec for name, spec in roles.items() if "identifier" not in spec or name == "a"}
    applications: dict[str, dict[str, Any]] = {name: {} for name in draw(st.sets(st.sampled_from(NAMES)))}
    resources: dict[str, dict[str, Any]] = {name: {} for name in draw(st.sets(st.sampled_from(NAMES)))}
    for specs, prefix in ((groups, ""), (providers, "https://p.example/"), (applications, "")):
        identifiers(draw, specs, prefix)
    for name, spec in providers.items():
        spec.setdefault("identifier", f"https://p.example/{name}")
    late = optional(user_identity_provider=one_of(providers)) if providers else st.just({})
    found = [zone("w", **draw(ZONE), **draw(late))]
    found += [manifest("Provider", name, "w", name=name.upper(), **spec) for name, spec in providers.items()]
    found += [manifest("Group", name, "w", name=name.upper(), **spec) for name, spec in groups.items()]
    found += [manifest("Role", name, "w", **spec) for name, spec in roles.items()]
    found += _applications(draw, applications, resources)
    found += _resources(draw, resources, applications, providers)
    found += _credentials(draw, applications, providers)
    found += _assignments(draw, roles, groups, applications)
    found += _policies(draw)
    found = [_renamed(draw, each) for each in found]
    for name in draw(st.sets(st.sampled_from(NAMES), max_size=2)):
        found.append(manifest("ServiceAccount", name, **draw(optional(description=TEXTS))))
    return found


def _renamed(draw: st.DrawFn, each: Manifest) -> Manifest:
    """A manifest that may say what it was called before: also what others are called, or once were."""
    if each.kind.name not in RENAMED or draw(st.integers(0, 3)) != 0:
        return each
    others = [name for name in NAMES if name != each.name]
    names = draw(st.lists(st.sampled_from(others), unique=True, max_size=2))
    return replace(each, lifecycle={**each.lifecycle, "previous_names": names}) if names else each


def _applications(
    draw: st.DrawFn, applications: dict[str, dict[str, Any]], resources: Collection[str]
) -> list[Manifest]:
    depends = {"dependencies": st.lists(one_of(resources), unique=True)} if resources else {}
    spec = optional(
        consent=st.sampled_from(["implicit", "required"]),
        description=TEXTS,
        protocols=optional(oauth2=optional(redirect_uris=URIS)),
        **depends,
    )
    return [
        manifest("Application", name, "w", name="A " + name, **given, **draw(spec))
        for name, given in applications.items()
    ]


def _resources(
    draw: st.DrawFn,
    resources: dict[str, dict[str, Any]],
    applications: Collection[str],
    providers: Collection[str],
) -> list[Manifest]:
    members: dict[str, st.SearchStrategy[Any]] = {
        "scopes": SCOPES,
        "description": TEXTS,
    }
    if applications:
        members["application"] = one_of(applications)
    if providers:
        members["credential_provider"] = one_of(providers)
    spec = optional(**members)
    return [
        manifest("Resource", name, "w", name="R " + name, **given, **draw(spec))
        for name, given in resources.items()
    ]


def _credentials(
    draw: st.DrawFn, applications: Collection[str], providers: Collection[str]
) -> list[Manifest]:
    if not applications:
        return []
    types = ["password", "public", *(["token"] if providers else [])]
    found = []
    for name in draw(st.sets(st.sampled_from(NAMES), max_size=2)):
        spec: dict[str, Any] = {
            "application": draw(one_of(applications)),
            "type": draw(st.sampled_from(types)),
        }
        if spec["type"] == "token":
            spec |= {"provider": draw(one_of(providers)), "subject": "job " + name}
        found.append(manifest("ApplicationCredential", name, "w", **spec))
    return found


def _assignments(
    draw: st.DrawFn, roles: Collection[str], groups: Collection[str], applications: Collection[str]
) -> list[Manifest]:
    people = ["a@x.example", "C@x.example"]  # who need not be there: the assignment waits for them
    given: list[Any] = [{"external": "zone_viewer", "owner_type": "platform"}, *sorted(roles)]
    holders = [{"group": name} for name in sorted(groups)] + [
        {"application": name} for name in sorted(applications)
    ]
    holders += [{"user": address} for address in people]
    pairs = st.tuples(st.sampled_from(range(len(given))), st.sampled_from(range(len(holders))))
    chosen = draw(st.lists(pairs, unique=True, max_size=2))
    return [
        manifest("RoleAssignment", name, "w", role=given[role], principal=holders[holder])
        for name, (role, holder) in zip(NAMES, chosen, strict=False)
    ]


def _policies(draw: st.DrawFn) -> list[Manifest]:
    policies = draw(named(optional(description=TEXTS)))
    found = [
        manifest("Policy", name, "w", cedar=draw(st.sampled_from(POLICIES)), **spec)
        for name, spec in policies.items()
    ]
    if not policies:
        return found
    sets = draw(st.sets(st.sampled_from(NAMES), max_size=2))
    decides = draw(st.sampled_from([None, *sorted(sets)]))
    for name in sorted(sets):
        of_it = draw(st.lists(one_of(policies), unique=True, max_size=2))
        stated = {"active": False} if name != decides else draw(optional(active=st.just(True)))
        found.append(manifest("PolicySet", name, "w", policies=of_it, **stated))
    return found
