"""Examples as text."""

LONGEST = 4_000
"""Characters of an example that the page holds."""


class Texts:
    """Examples as text, which the page folds where it is long.

    Args:
        x: strings or bytes, `(n,)` or `(n, 1)`.
    """

    features = ()

    def __init__(self, x):
        self.x = x.reshape(len(x))

    def describe(self, index: int) -> dict:
        """What the page shows of an example."""
        text = self.x[index]
        if isinstance(text, bytes):
            text = text.decode("utf-8", errors="replace")
        text = str(text)
        cut = f"{text[:LONGEST]}\u2026" if len(text) > LONGEST else text
        return {"text": cut}
