"""Operations that look at decisions: the record of what was decided, and what would be decided now."""

from runtime.contract.decisions import DecisionRecord, ExplainBody, Explanation
from runtime.contract.queries import AFTER, BEFORE, DECIDED, LIMIT, SINCE, UNTIL
from runtime.contract.routes.route import Route, by_hand
from runtime.domain import kinds
from runtime.domain.kinds.base import PageShape

ROUTES: tuple[Route, ...] = (
    by_hand(
        "decisions.list",
        "GET",
        f"{kinds.ZONE.item_path}/decisions",
        200,
        "List what was decided about sign-ins and token requests, refused or not, newest first;"
        " with filters, a page may be short, or empty, and still have a next",
        query=(AFTER, BEFORE, LIMIT, *DECIDED, SINCE, UNTIL),
        response=(DecisionRecord,),
        envelope=PageShape.ZONE,
    ),
    by_hand(
        "explanations.retrieve",
        "POST",
        f"{kinds.ZONE.item_path}/explain",
        200,
        "Explain whether an application would get a token for a user now; changes nothing",
        body=(ExplainBody,),
        response=(Explanation,),
    ),
)
