"""The base class of read-only commands: any other command writes to the audit trail."""

import click


class ReadOnlyCommand(click.Command):
    """A command that changes nothing of any organization.

    Every other one writes through `unit_of_work`, in the name of `current_operator`, and so leaves a record
    in the audit trail. A test runs them all, whatever there are.
    """
