"""Claims about robust models: figures 1, 4, 9, 10 and 11, tables 1, 2 and 6."""

from verdicts import Finding, claim, verdict


@claim(
    "nll_curves",
    "Figure 1",
    "A learned scale cannot cheat: the best scale is the size of the error.",
    "The best scale on a grid differs from the error by at most a step of the "
    "grid; by at most ten steps.",
)
def _(data, found):
    gap, step = data["largest_gap"], data["step"]
    return Finding(
        verdict(gap <= step, gap <= 10 * step),
        f"off by {gap:.1%} at most",
        why=f"The grid has steps of {step:.1%}.",
    )


@claim(
    "robust_classification",
    "Figures 4 and 9, left",
    "A predicted temperature protects a classifier from wrong labels.",
    "The accuracy is clearly higher in both studies and no seed's is lower; "
    "the mean is higher in the first study.",
)
def _(data, found):
    first, second = found["study1"], found["study2"]
    plain = data["tables"]["study1"]["rows"]["logistic regression"][0]
    clear = first["clear"] and second["clear"]
    worst = first["worst_gain"] >= 0 and second["worst_gain"] >= 0
    return Finding(
        verdict(clear and worst, first["gain"] > 0),
        ours=f"accuracy {plain:.3f} to {plain + first['gain']:.3f}",
        why="It holds for every seed."
        if worst
        else "The worst seed is below logistic regression.",
    )


@claim(
    "robust_regression",
    "Figure 10",
    "MPLS-XY is as robust as RANSAC and takes a fraction of its time.",
    "By the paper's recipe the median error is at most 1.1 times that of "
    "RANSAC for every kind of outliers, in at most half of its time; for more "
    "than half of the kinds, in less time.",
)
def _(data, found):
    kinds, mine, ours = found["kinds"], found["literal"], found["ours"]
    quick, fast = mine["speed"] >= 2, mine["speed"] > 1
    level = mine["level"]
    return Finding(
        verdict(level == kinds and quick, 2 * level > kinds and fast),
        f"as robust on {level} of {kinds}; {found['seconds']:.1f} s",
        f"as robust on {ours['level']} of {kinds}; {ours['speed']:.1f} times "
        "as fast",
        why="3,000 steps of Adam are slow, and a cluster misleads the scale "
        f"({mine['worst']:.0f} times the error of RANSAC).",
    )


@claim(
    "robust_regression",
    "Figure 10",
    "DPLS does not suit outliers at large x.",
    "By the paper's recipe its error is more than half of that of least "
    "squares for both kinds of outliers at large x; for one.",
)
def _(data, found):
    fails = [ratio > 0.5 for ratio in found["dpls_over_ols"]]
    literal, ours, plain = (
        " and ".join(f"{value:.1f}" for value in found[key])
        for key in ("dpls", "dpls_ours", "ols")
    )
    return Finding(
        verdict(all(fails), any(fails)),
        f"error {literal}; least squares {plain}",
        f"error {ours}",
        why="Ours is robust because it searches many starts.",
    )


@claim(
    "robust_pca",
    "Figure 9, right",
    "Learned scales make principal components robust.",
    "The largest median angle is below a tenth of the smallest of PCA, and "
    "clearly lower for every share of outliers; below a half.",
)
def _(data, found):
    ours, plain = found["learned"], found["plain"]
    clear = found["clear"] == found["shares"]
    return Finding(
        verdict(ours < plain / 10 and clear, ours < plain / 2),
        ours=f"angle {ours:.1f}° at most; PCA {plain:.0f}° or more",
        why=f"Medians of {data['sets']} data sets.",
    )


@claim(
    "vae",
    "Table 1",
    "Auto-encoder: predicted element-wise parameters have the least error.",
    "With the paper's settings they have the least error of its six rows; no "
    "rule for less.",
)
def _(data, found):
    rows, mine = found["rows"], found["literal"]
    return Finding(
        verdict(mine["place"] == 1, False),
        f"{mine['error']:.0f}, place {mine['place']} of {rows}",
        f"{found['error']:.0f}, place {found['place']} of {rows}",
        f"{found['paper_error']:.0f}, place {found['paper_place']} of {rows}",
        f"A weighted likelihood has {found['weighted']:.0f}.",
    )


@claim(
    "vae",
    "Table 1",
    "Predicted parameters cost little; data parameters cost much time.",
    "A step takes less than 1.2 times as long with predicted element-wise "
    "parameters and more than twice as long with data parameters; one of both.",
)
def _(data, found):
    cheap, slow = found["time"] < 1.2, found["data_time"] > 2
    return Finding(
        verdict(cheap and slow, cheap or slow),
        "not rerun",
        f"{found['time']:.2f}x; data {found['data_time']:.2f}x",
        f"{found['paper_time']:.2f}x; data {found['paper_data_time']:.2f}x",
        "Our step updates only the data parameters of its batch.",
    )


@claim(
    "vae",
    "Figure 11",
    "The predicted shape is from 1.8 to 3.0 and the predicted scale from 0.20 "
    "to 0.43.",
    "The middle 90 % of the values of a run with the paper's settings lie in "
    "these ranges; no rule for less.",
)
def _(data, found):
    ranges = found["literal"]["ranges"]
    told = [
        f"{learning}: shape {shape[0]:.1f} to {shape[1]:.1f}, scale "
        f"{scale[0]:.2f} to {scale[1]:.2f}"
        for learning, (shape, scale) in ranges.items()
    ]
    return Finding(
        verdict(found["literal"]["inside"], False),
        "; ".join(told),
        paper="the ranges",
        why="The paper does not say whether it stops the gradient (isolated).",
    )


def _total(counts):
    """Cells in which CAL or NLL is lower, clearly lower, clearly higher."""
    names = [f"{d}_{m}" for d in ("deep", "linear") for m in ("CAL", "NLL")]
    return [
        sum(counts[name][key] for name in names)
        for key in ("below", "clear", "above")
    ]


@claim(
    "regressors",
    "Tables 2 and 6",
    "A predicted scale improves the calibration and the NLL of regressors.",
    "Against one fitted scale, in at least as many of the 32 cells as in the "
    "paper less two; in more than half. Of two readings of the start of the "
    "scale the better one counts.",
)
def _(data, found):
    total, paper = 4 * found["sets"], found["paper"]
    theirs = sum(
        paper[f"{d}_{m}"] for d in ("deep", "linear") for m in ("CAL", "NLL")
    )
    shown = f"lower in {theirs} of {total}"
    literal, zero = _total(found["literal"]), _total(found["rmse"])
    best = max(literal[0], zero[0])
    told = "lower in {} of {t}, clearly in {}, clearly higher in {}"
    return Finding(
        verdict(best >= theirs - 2, 2 * best > total),
        told.format(*literal, t=total),
        told.format(*zero, t=total),
        shown,
        "We initialize the weights of the scale at zero, unlike the paper.",
    )


@claim(
    "regressors",
    "Tables 2 and 6",
    'A predicted scale lowers the "MSE" of regressors.',
    "The mean calibration gap, which this column seems to be, is lower on more "
    "than half of the sets for deep and linear models; for one of both.",
)
def _(data, found):
    sets, paper = found["sets"], found["paper"]
    shown = f"deep {paper['deep_gap']}, linear {paper['linear_gap']} of {sets}"
    literal = found["literal"]
    depths = ("deep", "linear")
    gaps = [literal[f"{depth}_gap"]["below"] for depth in depths]
    errors = [literal[f"{depth}_MSE"]["below"] for depth in depths]
    ours = [found["one"][f"{depth}_MSE"]["below"] for depth in depths]
    won = [2 * gap > sets for gap in gaps]
    return Finding(
        verdict(all(won), any(won)),
        "gap: deep {}, linear {} of {}".format(*gaps, sets),
        "squared error: deep {}, linear {}".format(*ours),
        shown,
        "Squared error with its settings: deep {}, linear {}.".format(*errors),
    )


@claim(
    "regressors",
    "Appendix",
    "Linear models benefit more from likelihood parameters than deep ones.",
    "The mean over the sets of log(CAL base / CAL predicted) is clearly larger "
    "for linear models; larger. Of two readings of the start of the scale the "
    "better one counts.",
)
def _(data, found):
    paper = found["paper"]["more"][0]
    shown = f"{paper:+.1f} in its tables"
    literal, zero = found["literal"]["more"], found["rmse"]["more"]
    mean, low, _ = max(literal, zero)
    return Finding(
        verdict(low > 0, mean > 0),
        f"{literal[0]:+.1f}",
        f"{zero[0]:+.1f}",
        shown,
        "Gain of linear minus that of deep models, in log CAL."
        + " The paper's tables contradict its sentence." * (paper < 0),
    )
