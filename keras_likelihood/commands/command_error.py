"""The error that ends a command."""


class CommandError(Exception):
    """A command cannot do what it was asked to.

    Its message is for the user: `keras-likelihood` prints it as one line and
    ends with exit status 2.
    """
