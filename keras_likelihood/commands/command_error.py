"""The errors that end a command."""


class CommandError(Exception):
    """A command cannot do its work with these data.

    `keras-likelihood` prints the message in one line and ends with the status.
    """

    status = 1


class UsageError(CommandError):
    """The command line itself is wrong, as for an unknown option."""

    status = 2
