"""Claims about what likelihood parameters are used for, and what they cost."""

from verdicts import LEAST_SEEDS, NOTHING, OPEN, Finding, claim, verdict


@claim(
    "temperatures_cifar10",
    "Figure 5",
    "On SVHN, high temperatures mark blurry, badly cropped and hard images.",
    "No rule: there are no data.",
)
def _(data, found):
    return Finding(OPEN, "not run", NOTHING, why="Not run: no SVHN data.")


@claim(
    "temperatures_cifar10",
    "Figure 8",
    "Predicted temperatures find corrupted images better than data "
    "temperatures.",
    f"With at least {LEAST_SEEDS} seeds: for every corruption; for one.",
)
def _(data, found):
    ahead, kinds = found["ahead"], found["kinds"]
    few = data["seeds"] < LEAST_SEEDS
    return Finding(
        OPEN if few else verdict(ahead == kinds, ahead > 0),
        "not rerun",
        f"ahead on {ahead} of {kinds} corruptions",
        why=f"Seeds: {data['seeds']}. They do not depend on the label.",
    )


@claim(
    "outliers_table",
    "Table 3, Figure 6",
    "PCA+S and AE+S have the best median AUC of all detectors on ODDS.",
    "With the paper's settings both have a higher median AUC than each of the "
    "paper's other detectors; one of both.",
)
def _(data, found):
    ours, paper = (
        f"{values['PCA+S']:.3f} and {values['AE+S']:.3f}"
        for values in (found["medians"], found["paper"])
    )
    medians = found["literal"]["medians"]
    ahead = [medians[name] > found["others"] for name in ("PCA+S", "AE+S")]
    return Finding(
        verdict(all(ahead), any(ahead)),
        f"{medians['PCA+S']:.3f} and {medians['AE+S']:.3f}",
        ours,
        paper,
        f"{found['best_other']} has {found['others']:.3f}. Our defaults were "
        "chosen on these sets.",
    )


@claim(
    "adaptive_regularization",
    "Figure 7, left and middle",
    "D-Ridge and D-LASSO find the best strength of L2 and L1.",
    "By the paper's objective the error is at most 1.1 times that of the best "
    "strength for every noise and share; for more than half.",
)
def _(data, found):
    joint, ours = found["literal"]["joint"], found["literal"]["ours"]
    ratios = joint["ridge"] + joint["lasso"]
    near = sum(ratio <= 1.1 for ratio in ratios)
    return Finding(
        verdict(near == len(ratios), 2 * near > len(ratios)),
        f"{max(joint['ridge']):,.0f} and {max(joint['lasso']):,.0f} times the "
        "least error",
        f"{max(ours['ridge']):.0f} and {max(ours['lasso']):.1f} times",
        why="Worst cells; `RidgeCV` has "
        f"{found['literal']['ridge_cv']:.0f} times. The paper's objective has "
        "no minimum.",
    )


@claim(
    "adaptive_regularization",
    "Figure 7, middle and right",
    "Multi-LASSO is better than other L1 methods by orders of magnitude.",
    "By the paper's objective the error is at most a tenth of that of every "
    "other L1 method for every noise and share; at most a tenth of that of its "
    "own D-LASSO and of `LassoCV` for at least half.",
)
def _(data, found):
    cells = found["literal"]["cells"]
    joint, ours = found["literal"]["joint"], found["literal"]["ours"]
    return Finding(
        verdict(joint["tenfold"] == cells, 2 * joint["loose_tenfold"] >= cells),
        f"{1 / max(joint['gains']):,.0f} times the error of the best other or "
        "more",
        f"{min(ours['gains']):.1f} to {max(ours['gains']):.1f} times better",
        why=f"Ours is tenfold better than `LassoCV` and the paper's D-LASSO "
        f"in {ours['loose_tenfold']} of {cells} cells; the paper's in "
        f"{joint['loose_tenfold']}.",
    )


@claim(
    "recalibration_tables",
    "Table 4",
    "Linear scaling (LS) calibrates classifiers better than one global "
    "temperature (GS).",
    "With the paper's maps, not regularized, the ECE is lower on at least as "
    "large a share of networks as in the paper; on more than half.",
)
def _(data, found):
    why = (
        f"{found['ece_noise']} differences are below the noise of ECE. NLL: "
        f"clearly lower on {data['ls_below_gs']}."
    )
    return _classifiers(found, "LS", why)


@claim(
    "recalibration_tables",
    "Table 4",
    "Linear scaling of the features (LFS) does so too.",
    "The same rule.",
)
def _(data, found):
    return _classifiers(found, "LFS", "Without a prior it overfits.")


def _classifiers(found, name, why):
    """Verdict and numbers of a linear map against GS, by ECE."""
    counts, theirs = found["ece_below_gs"][name], found["paper_classifiers"]
    nets, mine = counts["networks"], found["classifiers"]["ece"][name]
    return Finding(
        verdict(mine / nets >= counts["paper"] / theirs, 2 * mine > nets),
        f"lower ECE on {mine} of {nets}",
        f"lower ECE on {counts['ours']} of {nets}",
        f"lower ECE on {counts['paper']} of {theirs}",
        why,
    )


def _regressors(found, rival):
    """Verdict and numbers of LS and DS against a rival, by CAL."""
    paper, literal = found["paper"][rival], found["literal"]
    shown = f"LS {paper['LS']}, DS {paper['DS']} of 8"
    counts = found["ours"][rival]
    ours = f"LS {counts['LS']}, DS {counts['DS']} of 8"
    mine = literal[rival]
    both = [mine[n]["below"] >= paper[n] - 1 for n in ("LS", "DS")]
    clear = [mine[n]["clear"] for n in ("LS", "DS")]
    return Finding(
        verdict(all(both), any(both)),
        f"LS {mine['LS']['below']}, DS {mine['DS']['below']} of "
        f"{literal['sets']}",
        ours,
        shown,
        "Clearly on {} and {}.".format(*clear),
    )


@claim(
    "recalibration_tables",
    "Table 5",
    "Predicted scales (LS, DS) often recalibrate regressors better than "
    "isotonic regression.",
    "By the paper's recipe LS and DS have the lower CAL on at least as many of "
    "the eight sets as in the paper less one; one of both.",
)
def _(data, found):
    return _regressors(found, "Isotonic")


@claim(
    "recalibration_tables",
    "Table 5",
    "LS and DS recalibrate regressors better than one scale (GS).",
    "As the claim above, against GS.",
)
def _(data, found):
    return _regressors(found, "GS")


@claim(
    "recalibration_tables",
    "Table 4",
    "LS and LFS take about as long as GS.",
    "A fit of LS by the paper's recipe takes at most twice the time of GS; "
    "ours takes at most twice.",
)
def _(data, found):
    ours = f"{found['seconds']:.1f} times the time of GS"
    seconds = found["literal"]["seconds"]
    return Finding(
        verdict(seconds["LS"] <= 2, found["seconds"] <= 2),
        f"{seconds['LS']:.1f} times (regressors)",
        ours,
        "comparable",
        "Our GS is a fast solve in one variable.",
    )


@claim(
    "layer_width",
    "Figure 12",
    "The wider a regressor, the worse its calibration.",
    "The calibration error more than doubles from the best to the widest and "
    "grows with every doubling of the width; it more than doubles.",
)
def _(data, found):
    return Finding(
        verdict(found["rising"] and data["growth"] > 2, data["growth"] > 2),
        ours=f"the error grows {data['growth']:.0f} times",
        why=f"Clear at {found['clear']} of {found['doublings']} doublings; "
        f"{data['seeds']} seeds.",
    )


@claim(
    "softplus_offset",
    "Figure 13",
    "A softplus with an offset keeps temperatures stable; exp does not.",
    "No run with an offset ends at NaN and at least one with exp does; one of "
    "both.",
)
def _(data, found):
    stable = found["offset"] == 0
    return Finding(
        verdict(stable and found["exp"] > 0, stable or found["exp"] > 0),
        f"NaN: exp {found['exp']} of {found['runs']} runs, offsets "
        f"{found['offset']}",
        why=f"Without an offset: {found['no_offset']} of {found['runs']}.",
    )


@claim(
    "softplus_offset",
    "Appendix",
    "It is important to normalise the features of a temperature.",
    "The best of three normalisations, each at its best of three step sizes, "
    "has a clearly lower NLL for features as they are and in other units; for "
    "one of both.",
)
def _(data, found):
    literal = found["literal"]
    plain, other = literal["plain"], literal["other"]
    clear = plain["clear"], other["clear"]
    return Finding(
        verdict(all(clear), any(clear)),
        f"NLL {plain['none']:.2f} to {plain['normalised']:.2f}; other units "
        f"{other['none']:.2f} to {other['normalised']:.2f}",
        paper="no number",
        why=f"Best: `{plain['kind']}` and `{other['kind']}`.",
    )


@claim(
    "space_time",
    "Table 7",
    "Space grows with p (global), pn (data) and pd (predicted).",
    "The numbers of values are exactly these; no rule for less.",
)
def _(data, found):
    return Finding(
        verdict(found["right"], False),
        ours="exactly so" if found["right"] else "other numbers",
        paper="O(p), O(pn), O(pd)",
        why="A predicted value has a bias too.",
    )


@claim(
    "space_time",
    "Table 7",
    "Time grows from global over data to predicted parameters.",
    "A step takes longer in this order in every case; in at least half.",
)
def _(data, found):
    cases, ordered = found["cases"], found["ordered"]
    return Finding(
        verdict(ordered == cases, 2 * ordered >= cases),
        ours=f"{found['global']:.2f}x, {found['data']:.2f}x, "
        f"{found['predicted']:.2f}x (medians)",
        paper="O(pg), O(p(f + g + s)), O(pd(f + g))",
        why=f"In this order in {ordered} of {cases} cases; with one value for "
        "each example the differences are noise.",
    )
