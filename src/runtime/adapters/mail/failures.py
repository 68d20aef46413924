"""Errors of sending a message: temporary (`MailFailed`) or permanent (`MailRefused`)."""


class MailFailed(Exception):
    """The message has not left this time; the reason names no address and no content."""


class MailRefused(Exception):
    """The message will never leave like this; the reason names no address and no content."""
