"""Options that more than one command has."""

import argparse
import shlex
import textwrap


def new_command(subparsers, name: str, *, help: str, text: str, example: str):
    """Adds a command with the options that every command has."""
    parser = subparsers.add_parser(
        name,
        help=help,
        description=textwrap.fill(text, 78),
        epilog=f"example:\n  {example}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--json",
        action="store_true",
        help="print one JSON document instead of text",
    )
    parser.add_argument(
        "--quiet",
        action="store_true",
        help="print neither text nor progress; errors are still printed",
    )
    parser.add_argument(
        "--traceback",
        action="store_true",
        help="show where in the program an error was raised",
    )
    parser.add_argument(
        "--force", action="store_true", help="replace outputs that exist"
    )
    return parser


def add_task(parser):
    """Adds the option that says what kind of model it is."""
    parser.add_argument(
        "--task",
        choices=["classification", "regression"],
        help="kind of target (default: detected from the model and the data)",
    )


def add_data_options(parser):
    """Adds the options that say how to read data and outputs."""
    parser.add_argument(
        "--target",
        help="the column of a .csv that holds the labels (default: the last)",
    )
    parser.add_argument(
        "--probabilities",
        action="store_true",
        help="the model returns probabilities, not logits",
    )


def at_least(least: int):
    """A type for argparse: whole numbers that are at least `least`."""

    def whole_number(text):
        if int(text) < least:
            raise argparse.ArgumentTypeError(
                f"must be a whole number >= {least}. Received: {text}"
            )
        return int(text)

    # argparse shows this name if the text is not a number.
    whole_number.__name__ = f"whole number >= {least}"
    return whole_number


def shell(*words, **options) -> str:
    """A command line of ours in which file names are quoted.

    Words and options that are `None` or `False` are left out.

    >>> shell("detect", "my table.csv", save="detector.zip", force=True)
    "keras-likelihood detect 'my table.csv' --save detector.zip --force"
    """
    line = ["keras-likelihood", *(str(w) for w in words if w is not None)]
    for name, value in options.items():
        if value is not None and value is not False:
            line += [f"--{name}"] + [str(value)] * (value is not True)
    return shlex.join(line)
