"""Which name of a package a piece of inline code stands for."""

import re

PACKAGE = "keras_likelihood"
NAME = re.compile(r"^@?([A-Za-z_][\w.]*)(\(.*\))?$", re.S)
SHORT = {"kl": PACKAGE, "np": "numpy"}


def full_name(text, known, page=""):
    """The full name that a piece of inline code stands for, or `None`.

    Args:
        text: the code, such as `"kl.losses.NormalLoss(beta=0.5)"`.
        known: full names that can be linked.
        page: the page it stands on. Of several classes with one name, that
            of the page's own subpackage is meant.
    """
    match = NAME.match(text)
    if match is None:
        return None
    first, _, rest = match[1].partition(".")
    name = ".".join(filter(None, (SHORT.get(first, first), rest)))
    if name in known:
        return name
    last = name.rpartition(".")[2]
    # A short word in lower case may be a variable of the reader's code.
    if "." not in name and not last[:1].isupper():
        return None
    if first in SHORT or name.islower():
        return None
    found = [full for full in known if full.endswith(f".{name}")]
    topic = page.rpartition("/")[2].split(".")[-2:][0]
    return min(
        found,
        key=lambda full: (
            not full.startswith(PACKAGE),
            topic not in full,
            len(full),
            full,
        ),
        default=None,
    )
