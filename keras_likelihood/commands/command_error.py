"""The errors that end a command."""


class CommandError(Exception):
    """A command cannot do its work with these data.

    Its message is for the user. `keras-likelihood` prints it in one line and
    ends with exit status 1.
    """

    status = 1


class UsageError(CommandError):
    """The command line itself is wrong.

    The exit status is 2, as for an unknown option.
    """

    status = 2
