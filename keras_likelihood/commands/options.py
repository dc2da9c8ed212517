"""Options that more than one command has."""

import argparse


def add_force(parser):
    """Adds `--force` to a command."""
    parser.add_argument(
        "--force", action="store_true", help="replace outputs that exist"
    )


def at_least(least: int):
    """A type for argparse: whole numbers from `least` on."""

    def whole_number(text):
        value = int(text)
        if value < least:
            raise argparse.ArgumentTypeError(
                f"must be a whole number >= {least}. Received: {text}"
            )
        return value

    # Named in argparse's message for text that is no number.
    whole_number.__name__ = f"whole number >= {least}"
    return whole_number
