"""The table of headline results, from the stored results of every study.

    python benchmarks/summary.py

writes the table of `docs/studies/index.md`, and a shorter one for `README.md`.
"""

import dataclasses
import pathlib

import label_noise_page
import numpy as np
import outliers
import page_tables
import regularization_page
import tabular
import uncertainty_page
from page_tables import stored

ROOT = pathlib.Path(__file__).resolve().parents[1]


@dataclasses.dataclass
class Headline:
    """One number, its peer, and how to get both.

    Args:
        task: what was measured, on which data, and which way is better.
        ours: what this package uses, with its result.
        peer: what it is compared with, with its result.
        page: the page of the study, in `docs/studies`.
        script: name of the script in `benchmarks/` that makes the numbers.
    """

    task: str
    ours: str
    peer: str
    page: str
    script: str


def label_noise() -> list[Headline]:
    """Accuracy and ranking with 40 % wrong labels, given by people."""
    results = stored("label_noise")

    def mean(method, key):
        given = results, "cifar10", "worse", method, key
        return np.mean(label_noise_page.select(*given))

    ours, folds = label_noise_page.OURS, "cleanlab, five folds"
    accuracy = {
        name: f"{100 * mean(name, 'accuracy'):.1f} %"
        for name in (ours, "cross-entropy")
    }
    place = "label_noise", "label_noise.py"
    return [
        Headline(
            "Test accuracy after training on CIFAR-10N, 40 % of whose labels "
            "are wrong (higher is better)",
            f"`NoisyLabelsLoss`: {accuracy[ours]}",
            f"cross-entropy: {accuracy['cross-entropy']}",
            *place,
        ),
        Headline(
            "Average precision of the ranking of these labels (higher is "
            "better)",
            f"`NoisyLabelsLoss`: {mean(ours, 'precision'):.3f}",
            f"cleanlab, five folds: {mean(folds, 'precision'):.3f}",
            *place,
        ),
    ]


def recalibration() -> list[Headline]:
    """`Auto` against the best peer of each network, and the time of a fit."""
    found = stored("recalibration")
    peers = "probmetrics SVS", "probmetrics SMS", "isotonic mix", "ETS"
    peers += ("Dirichlet",)
    below = level = 0
    for methods in found["report"].values():
        best = min(peers, key=lambda name: methods[name]["nll"])
        _, low, high = methods[best]["auto_minus_this"]
        below += high < 0
        level += low <= 0 <= high
    place = "recalibration", "recalibration.py"
    netcal = found["speed"]["times"]["netcal TS"]
    return [
        Headline(
            f"Recalibrated test NLL of {len(found['report'])} image "
            "classifiers, paired 95 % intervals (lower is better)",
            f"`recalibration.AutoScaling`: below the best peer on {below}, "
            f"level on {level}",
            "the best of probmetrics, ETS, Dirichlet and isotonic calibration",
            *place,
        ),
        Headline(
            "Relative time of temperature scaling, 50,000 x 1,000 logits "
            "(lower is better)",
            "`GlobalScaling`: 1",
            f"netcal: {netcal:.1f}",
            *place,
        ),
    ]


def uncertainty() -> list[Headline]:
    """Ensembles of networks against boosted trees."""
    results = stored("uncertainty")
    ours = "Student's t, 5 members"
    place = "uncertainty", "uncertainty.py"
    lines = []
    for peer in ("NGBoost", "CatBoost"):
        count, below, above, total = uncertainty_page.wins(results, ours, peer)
        lines.append(
            Headline(
                f"Test NLL of predicted distributions on {total} tables "
                "(lower is better)",
                "`kl.Ensemble` of five Student's t networks: lower on "
                f"{count}, clearly on {below}",
                f"{peer}: lower on {total - count}, clearly on {above}",
                *place,
            )
        )
    return lines


def estimators_for_tables() -> list[Headline]:
    """`kl.tabular` against boosted trees and Gaussian processes."""
    results, lines = stored("tabular"), []
    place = "tables", "tabular.py"
    for peer in ("CatBoost", "NGBoost", "GP"):
        below, above, total = tabular.wins(results, peer)
        title = "Gaussian process" if peer == "GP" else peer
        lines.append(
            Headline(
                f"Test NLL of {total} tables, defaults of both, paired 95 % "
                "intervals (lower is better)",
                f"`kl.tabular.Regressor`: clearly lower on {below}",
                f"{title}: clearly lower on {above}" if above else title,
                *place,
            )
        )
    covered, theirs, narrower = tabular.interval_scores(results)
    total = len(narrower)
    lines.append(
        Headline(
            f"Width of 90 % intervals on {total} tables (lower is better)",
            f"`kl.tabular.Regressor`: lower on {sum(narrower)}, "
            f"{100 * covered:.1f} % of the targets inside",
            f"MAPIE around CatBoost: {100 * theirs:.1f} % inside",
            *place,
        )
    )
    classes = stored("tabular_classes")
    total, lower = len(classes), len(tabular.lower_on(classes, "CatBoost"))
    lines.append(
        Headline(
            f"Test NLL of {total} tables with classes (lower is better)",
            f"`kl.tabular.Classifier`: lower on {lower}",
            f"CatBoost: lower on {total - lower}",
            *place,
        )
    )
    return lines


def conformal() -> list[Headline]:
    """Coverage and width of conformal intervals."""
    tables = stored("conformal")["regression"]
    inside = narrowest = 0
    for one in tables.values():
        means = {k: np.mean(v, axis=0) for k, v in one["methods"].items()}
        coverage, width = means["ours"]
        low, high = one["band"]
        inside += low <= coverage <= high
        narrowest += width <= min(
            value[1] for name, value in means.items() if "MAPIE" in name
        )
    return [
        Headline(
            f"Width of 90 % intervals on {len(tables)} tables (lower is "
            "better)",
            f"`conformal.ConformalIntervals`: at most the narrowest on "
            f"{narrowest}, coverage as promised on {inside}",
            "MAPIE: the narrowest of three methods",
            "recalibration",
            "conformal.py",
        )
    ]


def outlier_detection() -> list[Headline]:
    """Mean ranks of the detectors."""
    results, _ = outliers.stored()
    alone = {name: results[name] for name in ("Auto", *outliers.PEERS)}
    table, names = outliers.values(alone, "auc")
    mean, least = outliers.ranks(table)
    ranks = dict(zip(names, mean, strict=True))
    ours = ranks.pop("Auto")
    first = min(ranks, key=ranks.get)
    return [
        Headline(
            f"Mean rank by AUC among {len(names)} detectors on "
            f"{table.shape[1]} ODDS tables (lower is better; differences "
            f"below {least:.1f} are not significant)",
            f"`outliers.AutoDetector`: {ours:.1f}",
            f"{first} of PyOD: {ranks[first]:.1f}",
            "outliers",
            "outliers.py",
        )
    ]


def robust_regression() -> list[Headline]:
    """Error of a slope with 30 % outliers in a cluster."""
    rows = stored("robust_regression")["line"]["cluster"]
    return [
        Headline(
            "Root mean square error of a slope with 30 % outliers in a "
            "cluster, in units of the noise (lower is better)",
            f"`PredictedScaleRegressor`: {rows['MPLS-XY']['rms']:.2f}",
            f"MM-estimator: {rows['MM']['rms']:.2f}, least trimmed squares: "
            f"{rows['LTS']['rms']:.2f}, RANSAC: {rows['RANSAC']['rms']:.1f}",
            "robust_regression",
            "robust_regression.py",
        )
    ]


def regularization() -> list[Headline]:
    """Learned L2 strength against cross-validation, in linear models."""
    results = stored("adaptive_regularization_tables")
    ratios = [*regularization_page.linear_ratios(results).values()]
    return [
        Headline(
            f"Test score of linear models on {len(ratios)} sets, relative "
            "to the best peer (median; lower is better)",
            f"`DRidge`, `MultiLasso`: {np.median(ratios):.2f}",
            "the better of cross-validation and `BayesianRidge`: 1",
            "adaptive_regularization",
            "adaptive_regularization.py",
        )
    ]


def data_parameters() -> list[Headline]:
    """A scale for every example against squared error."""
    errors = {
        rate: np.mean(
            [
                run["error"]
                for run in stored("data_scales")
                if (run["rate"], run["epochs"]) == (rate, 30)
            ]
        )
        for rate in ("default", "squared error")
    }
    return [
        Headline(
            "Error with 15 % very noisy targets after 30 epochs (lower is "
            "better)",
            f"`DataParameter`: {errors['default']:.2f}",
            f"squared error: {errors['squared error']:.2f}",
            "data_parameters",
            "data_scales.py",
        )
    ]


def headlines() -> list[Headline]:
    """All of them, in the order of the page."""
    return [
        *label_noise(),
        *recalibration(),
        *estimators_for_tables(),
        *uncertainty(),
        *conformal(),
        *outlier_detection(),
        *robust_regression(),
        *regularization(),
        *data_parameters(),
    ]


def full_table() -> str:
    """Markdown for the page of the benchmarks."""
    rows = [
        f"| {h.task} | {h.ours} | {h.peer} | [{h.script}]({h.page}.md) |"
        for h in headlines()
    ]
    head = ["| what was measured | ours | peer | script and page |"]
    return "\n".join([*head, "|---|---|---|---|", *rows])


def short_table() -> str:
    """Markdown for the README: three tasks."""
    rows = [
        f"| {h.task} | {h.ours} | {h.peer} |"
        for h in (
            label_noise()[0],
            recalibration()[0],
            *estimators_for_tables()[:2],
        )
    ]
    return "\n".join(["| | ours | peer |", "|---|---|---|", *rows])


if __name__ == "__main__":
    page_tables.fill("studies/index", {"headlines": full_table()})
    page_tables.fill("../README", {"measured": short_table()})
