"""Claims about robust models: figures 1, 4, 9 and 10, tables 1, 2 and 6."""

from verdicts import FIGURE, claim, verdict


@claim(
    "nll_curves",
    "Figure 1",
    "A learned scale cannot cheat: the best scale is the size of the error.",
)
def _(data, found):
    gap, step = data["largest_gap"], data["step"]
    return (
        verdict(gap <= step, gap <= 10 * step),
        f"off by {gap:.1%} at most",
        FIGURE,
        f"A grid with steps of {step:.1%} cannot be more exact.",
    )


@claim(
    "robust_classification",
    "Figures 4 and 9, left",
    "A predicted temperature protects a classifier from wrong labels.",
)
def _(data, found):
    first, second = found["study1"], found["study2"]
    plain = data["tables"]["study1"]["rows"]["logistic regression"][0]
    mean = first["gain"] > 0 and second["gain"] > 0
    worst = first["worst_gain"] > 0 and second["worst_gain"] > 0
    return (
        verdict(mean and worst, first["gain"] > 0),
        f"accuracy {plain:.3f} to {plain + first['gain']:.3f}",
        FIGURE,
        "It holds on the worst seed too."
        if worst
        else "It holds on average. The worst seed ends below logistic "
        "regression.",
    )


@claim(
    "robust_regression",
    "Figure 10",
    "MPLS-XY is as robust as RANSAC and takes a fraction of its time.",
)
def _(data, found):
    level = sum(ratio <= 1.1 for ratio in found["over_ransac"])
    worst, kinds = max(found["over_ransac"]), found["kinds"]
    # "A fraction" is at most a half; "as robust" is within a tenth.
    quick, fast = found["speed"] >= 2, found["speed"] > 1
    affine = found["affine"]
    literal = affine is None or affine <= 1.1
    why = (
        f"Its error is at most {worst:.1f} times that of RANSAC."
        if level == kinds
        else f"RANSAC is ahead on {kinds - level} of {kinds}, by a factor of "
        f"up to {worst:.1f}."
    )
    if not literal:
        why = (
            "Our scale is not the paper's affine one, whose error is up to "
            f"{affine:.0f} times that of RANSAC."
        )
    return (
        verdict(
            level == kinds and quick and literal, 2 * level > kinds and fast
        ),
        f"{found['speed']:.1f} times as fast; as robust on {level} of {kinds}",
        FIGURE,
        why,
    )


@claim(
    "robust_regression",
    "Figure 10",
    "DPLS does not suit outliers at large x.",
)
def _(data, found):
    ratio = found["dpls"] / found["ols"]
    return (
        verdict(ratio > 0.5, ratio > 0.1),
        f"error {found['dpls']:.2f}; least squares {found['ols']:.1f}",
        FIGURE,
        "Our search over many starts protects DPLS, not its prior."
        if ratio <= 0.1
        else "It fails here as it does in the paper.",
    )


@claim(
    "robust_pca",
    "Figure 9, right",
    "Learned scales make principal components robust.",
)
def _(data, found):
    ours, plain = found["learned"], found["plain"]
    return (
        verdict(ours < plain / 10, ours < plain / 2),
        f"angle {ours:.1f}° at most; PCA {plain:.0f}° or more",
        FIGURE,
        f"Worst median over shares of outliers; {data['sets']} data sets.",
    )


@claim(
    "vae",
    "Table 1",
    "Auto-encoder: predicted element-wise parameters have the least error.",
)
def _(data, found):
    place, rows = found["place"], found["rows"]
    return (
        verdict(place == 1, False),
        f"{found['error']:.0f}, place {place} of {rows}",
        f"{found['paper_error']:.0f}, place {found['paper_place']} of {rows}",
        f"{data['seeds']} seeds."
        if place == 1
        else "The plain likelihood neglects hard pixels. "
        f"A weighted one has {found['weighted']:.0f}.",
    )


@claim(
    "vae",
    "Table 1",
    "Predicted parameters cost little; data parameters cost much time.",
)
def _(data, found):
    cheap, slow = found["time"] < 1.2, found["data_time"] > 2
    return (
        verdict(cheap and slow, cheap or slow),
        f"{found['time']:.2f}x; data {found['data_time']:.2f}x",
        f"{found['paper_time']:.2f}x; data {found['paper_data_time']:.2f}x",
        "Data parameters are as slow here."
        if slow
        else "Here a step updates only the data parameters of its batch.",
    )


@claim(
    "regressors",
    "Tables 2 and 6",
    "A predicted scale improves the calibration and the NLL of regressors.",
)
def _(data, found):
    names = [f"{d}_{m}" for d in ("deep", "linear") for m in ("CAL", "NLL")]
    counts = [found[name] for name in names]
    ours = sum(count["base"] for count in counts)
    rmse = sum(count["rmse"] for count in counts)
    paper = sum(count["paper"] for count in counts)
    clear, clear_rmse = (
        sum(count["clear"][key] for count in counts)
        for key in ("base_below", "rmse_below")
    )
    total = len(names) * found["sets"]
    return (
        verdict(ours >= paper - 2, 2 * ours > total),
        f"better in {ours} of {total}, clearly in {clear}",
        f"better in {paper} of {total}",
        "Beside a constant scale fitted to the training errors it is better "
        f"in {rmse}, clearly in {clear_rmse}.",
    )


@claim(
    "regressors",
    "Tables 2 and 6",
    "A predicted scale lowers the squared error of regressors.",
)
def _(data, found):
    deep, linear = found["deep_MSE"], found["linear_MSE"]
    sets = found["sets"]
    won = [2 * one["base"] > sets for one in (deep, linear)]
    return (
        verdict(all(won), any(won)),
        f"deep {deep['base']} of {sets}; linear {linear['base']} of {sets}",
        f"deep {deep['paper']} of {sets}; linear {linear['paper']} of {sets}",
        "A linear model fits best where the noise is small and pays elsewhere.",
    )
