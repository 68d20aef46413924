"""The two sorts of commands: those that only look, and those that leave a record of what they change."""

import click


class ReadOnlyCommand(click.Command):
    """A command that changes nothing of any organization.

    Every other one writes through `unit_of_work`, in the name of `current_operator`, and so leaves a record
    in the audit trail. A test runs them all, whatever there are.
    """
