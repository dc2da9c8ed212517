"""Claims about what likelihood parameters are used for, and what they cost."""

from verdicts import FIGURE, claim, verdict


@claim(
    "temperatures_cifar10",
    "Figures 5 and 8",
    "Predicted temperatures find corrupted images better than data "
    "temperatures.",
)
def _(data, found):
    ahead, kinds = found["ahead"], found["kinds"]
    return (
        verdict(ahead == kinds, ahead > 0),
        f"ahead on {ahead} of {kinds} corruptions",
        FIGURE,
        f"They see the image alone and not its label. Seeds: {data['seeds']}.",
    )


@claim(
    "outliers_table",
    "Table 3, Figure 6",
    "PCA+S and AE+S have the best median AUC of all detectors on ODDS.",
)
def _(data, found):
    fair = not data.get("chosen_on_these_sets", True)
    ours, paper = (
        f"{values['PCA+S']:.3f} and {values['AE+S']:.3f}"
        for values in (found["medians"], found["paper"])
    )
    rival = f"The best other has {found['others']:.3f}."
    return (
        verdict(found["ahead"] and fair, found["ahead"] or fair),
        ours,
        paper,
        rival if fair else f"{rival} Our defaults were chosen on these sets.",
    )


@claim(
    "adaptive_regularization",
    "Figure 7, left and middle",
    "D-Ridge and D-LASSO find the best strength of L2 and L1.",
)
def _(data, found):
    near = [found[name] <= 1.1 for name in ("ridge", "lasso")]
    joint = found["joint"] <= 1.1
    return (
        verdict(all(near) and joint, any(near)),
        f"{found['ridge']:.2f} and {found['lasso']:.2f} times the least error",
        FIGURE,
        "The paper's own objective has no minimum "
        f"({found['joint']:.0f} times, with L1).",
    )


@claim(
    "adaptive_regularization",
    "Figure 7, middle and right",
    "Multi-LASSO is better than other L1 methods by orders of magnitude.",
)
def _(data, found):
    ahead = found["ahead"] == found["shares"]
    ours = f"{found['least_gain']:.1f} to {found['most_gain']:.0f} times better"
    return (
        verdict(ahead and found["least_gain"] >= 10, ahead),
        ours if ahead else f"up to {found['most_gain']:.1f} times better",
        FIGURE,
        f"It is the best for {found['ahead']} of {found['shares']} shares of "
        "weights that are not zero.",
    )


@claim(
    "recalibration_tables",
    "Table 4",
    "Linear scaling (LS) calibrates classifiers better than one global "
    "temperature (GS).",
)
def _(data, found):
    ours, paper = found["ece_ls"], found["paper_ece_ls"]
    nets, theirs = data["classifiers"], found["paper_classifiers"]
    return (
        verdict(ours / nets >= paper / theirs, 2 * ours > nets),
        f"lower ECE on {ours} of {nets}",
        f"lower ECE on {paper} of {theirs}",
        f"The ECE differs by less than noise on {found['ece_noise']}. The NLL "
        f"is lower on {data['ls_below_gs']} of {nets}.",
    )


@claim(
    "recalibration_tables",
    "Table 5",
    "Predicted scales (LS, DS) often recalibrate regressors better than "
    "isotonic regression.",
)
def _(data, found):
    ours, paper = found["below_isotonic"], found["paper_below_isotonic"]
    sets = data["sets"]
    both = [ours[name] >= paper[name] - 1 for name in ("LS", "DS")]
    return (
        verdict(all(both), any(both)),
        f"LS {ours['LS']}, DS {ours['DS']} of {sets} sets",
        f"LS {paper['LS']}, DS {paper['DS']} of {sets} sets",
        f"GS, which predicts nothing, is better on {ours['GS']}.",
    )


@claim(
    "layer_width",
    "Figure 12",
    "The wider a regressor, the worse its calibration.",
)
def _(data, found):
    return (
        verdict(found["rising"] and data["growth"] > 2, data["growth"] > 2),
        f"the error grows {data['growth']:.0f} times",
        FIGURE,
        f"The error grows with every doubling; {data['seeds']} seeds."
        if found["rising"]
        else "The error does not grow with every doubling.",
    )


@claim(
    "softplus_offset",
    "Figure 13",
    "A softplus with an offset keeps temperatures stable; exp does not.",
)
def _(data, found):
    stable = found["offset"] == 0
    return (
        verdict(stable and found["exp"] > 0, stable or found["exp"] > 0),
        f"exp fails in {found['exp']} of {found['runs']} runs; offsets in "
        f"{found['offset']}",
        FIGURE,
        f"Without an offset, {found['no_offset']} of {found['runs']} runs "
        "fails."
        if found["no_offset"] == 1
        else f"Without an offset, {found['no_offset']} of {found['runs']} "
        "runs fail.",
    )


@claim(
    "softplus_offset",
    "Appendix",
    "It is important to normalise the features of a temperature.",
)
def _(data, found):
    gain = found["raw"] - found["normalised"]
    return (
        verdict(gain > 0.02, gain > -0.02),
        f"NLL {found['normalised']:.2f}; without {found['raw']:.2f}",
        "no number",
        "At the same step size, normalised features end at a higher NLL."
        if gain < 0
        else "It helps at the same step size.",
    )


@claim(
    "space_time",
    "Table 7",
    "Space grows with p (global), pn (data) and pd (predicted).",
)
def _(data, found):
    return (
        verdict(found["right"], False),
        "exactly so" if found["right"] else "other numbers",
        "O(p), O(pn), O(pd)",
        f"A step takes {found['global']:.2f}x, {found['data']:.2f}x and "
        f"{found['predicted']:.2f}x the time of a fixed scale.",
    )
