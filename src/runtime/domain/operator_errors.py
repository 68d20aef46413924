"""An error of settings, keys or the database, which an operator of the service can mend."""


class OperatorError(Exception):
    """Something that is wrong with a setting, a key or the database.

    Attributes:
        detail: what is wrong, and where.
        remedy: what to do about it.
    """

    def __init__(self, detail: str, remedy: str) -> None:
        super().__init__(f"{detail}; {remedy}")
        self.detail = detail
        self.remedy = remedy
