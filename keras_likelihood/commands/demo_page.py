"""The page of the demo: four stories with their figures and numbers."""

import base64

import numpy as np

from keras_likelihood.commands.checkup_page import write_page
from keras_likelihood.commands.part import Part
from keras_likelihood.commands.pictures import escape, html_table


def write_stories(output, title, figure, labels, found) -> None:
    """Writes the page.

    Args:
        output: path to write.
        title: the title of the page.
        figure: path of the figure of curves and calibration.
        labels: path of the page of wrong labels, in the same folder.
        found: what `keras_likelihood.demo.run` returned.
    """
    picture = base64.b64encode(figure.read_bytes()).decode("ascii")
    (curve, diabetes), weights = found["scores"].items(), found["weights"]
    parts = [
        Part(
            "Gross errors do not bend the curve",
            "",
            f"{curve[0]}. RMSE is the distance to the truth, without noise.",
            f'<img class="wide" alt="curves under three losses, and '
            f'calibration" src="data:image/png;base64,{picture}">'
            + _table(curve[1]),
        ),
        Part(
            "How well intervals keep their promise",
            "",
            f"{diabetes[0]}. A 90 % interval should hold 90 % of new targets. "
            "The picture above, on the right, shows all levels.",
            _table(diabetes[1]),
        ),
        Part(
            "Wrong labels are found",
            "",
            str(found["wrong_labels"]),
            f'<p><a href="{escape(labels.name)}">The page of the labels</a>, '
            "on which a person marks them as right or wrong.</p>",
        ),
        Part(
            "Weights that do not matter are switched off",
            "",
            "Fifty weights, of which five matter, learned from 200 examples. "
            f"Root mean square error {weights.error('plain'):.3f} without a "
            f"regularizer, {weights.error('sparse'):.3f} with MultiLasso, "
            "whose strengths are learned.",
            _draw_weights(weights),
        ),
    ]
    write_page(output, title, parts, {"Made by": "keras-likelihood demo"})


def _table(scores):
    names = list(next(iter(scores.values())))
    return html_table(
        ["loss", *names],
        [
            [loss, *(f"{value:.3f}" for value in row.values())]
            for loss, row in scores.items()
        ],
    )


def _draw_weights(weights):
    """True weights as bars, learned ones as points; inline SVG."""
    most = max(np.abs(w).max() for w in vars(weights).values())

    def place(at, value):
        return f"{10 + 12.5 * at:.1f}", f"{110 - 100 * value / most:.1f}"

    parts = ['<line class="grid" x1="0" x2="640" y1="110" y2="110"/>']
    for at, value in enumerate(weights.true):
        x, y = place(at, value)
        parts.append(
            f'<line class="true" x1="{x}" x2="{x}" y1="110" y2="{y}"/>'
        )
    for css, values in (("before", weights.plain), ("after", weights.sparse)):
        for at, value in enumerate(values):
            x, y = place(at, value)
            parts.append(f'<circle class="{css}" cx="{x}" cy="{y}" r="3"/>')
    return (
        '<figure><svg viewBox="0 0 640 220" role="img" aria-label="true and '
        f'learned weights">{"".join(parts)}</svg><figcaption>'
        '<span class="named"><span class="key before"></span> no regularizer'
        '</span><span class="named"><span class="key after"></span> MultiLasso'
        "</span> (bars: the truth)</figcaption></figure>"
    )
