"""`keras-likelihood demo`: likelihoods beside ordinary losses."""


def add_parser(subparsers):
    """Adds the command to an argparse subparsers object."""
    parser = subparsers.add_parser(
        "demo",
        help="train likelihoods beside ordinary losses and draw the difference",
    )
    parser.add_argument(
        "--output",
        default="report",
        help="folder for the figure (default: %(default)s)",
    )
    parser.add_argument(
        "--quick",
        action="store_true",
        help="a few epochs only, to see that everything runs",
    )
    parser.set_defaults(run=run)
    return parser


def run(args) -> int:
    """Runs the command; returns the exit status."""
    from keras_likelihood import demo

    return demo.run(args.output, quick=args.quick)
