"""Finds active policy sets none of whose policies permits anything: every token in the zone is refused.

A zone's default policies permit; a policy set of its own replaces them all.
"""

from collections.abc import Iterable, Mapping

from reconciler.cedar import Vocabulary, parse_policies
from reconciler.kinds import Kinds
from reconciler.kinds.policy_lists import ACTIVE, POLICIES, POLICY, POLICY_SET
from reconciler.kinds.values import Key

from .matching import Match
from .model import Action, Op, title_of
from .policy_preview import TEXT


def find_sets_without_permit(
    matches: Mapping[Key, Match], actions: Iterable[Action], kinds: Kinds
) -> tuple[str, ...]:
    """The titles of such sets that this plan changes, or a policy of which it changes; sorted.

    A set with a policy that is not in git, or in a text that only the server can parse, is not one of them.
    """
    written = {(each.zone, each.kind, each.name) for each in actions if each.op is not Op.DELETE}
    vocabulary = Vocabulary.read(kinds.by_name[POLICY].cedar[TEXT])
    found = []
    for match in matches.values():
        key, spec = match.key, match.manifest.spec
        if key.kind != POLICY_SET or match.released or spec.get(ACTIVE) is False:
            continue
        named = [Key(key.zone, POLICY, str(name)) for name in spec.get(POLICIES) or ()]
        policies = [matches.get(each) for each in named]
        if None in policies or written.isdisjoint({tuple(key), *map(tuple, named)}):
            continue
        texts = [str(each.wanted.get(TEXT) or "") for each in policies if each is not None]
        if not any(parse_policies(text, vocabulary).may_permit for text in texts):
            found.append(title_of(key.kind, key.zone, key.name))
    return tuple(sorted(found))
