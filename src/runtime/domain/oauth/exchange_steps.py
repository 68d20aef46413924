"""The steps of a token request by number, as decision records and explanations name them."""

from enum import IntEnum


class Step(IntEnum):
    """What a token request has come to; the steps before it have passed."""

    CLIENT = 3
    SUBJECT_TOKEN = 4
    SESSION = 5
    CHAIN = 6
    RESOURCE = 7
    DEPENDENCY = 8
    CONSENT = 9
    SCOPES = 10
    POLICY = 11
    CREDENTIAL = 12
    SIGNING = 13
    STORING = 14

    @property
    def label(self) -> str:
        """The step's name in records and explanations."""
        return self.name.lower()


STEP_LABELS = {step.value: step.label for step in Step}
