"""Writes the tables of the pages on regularization from stored results.

python benchmarks/regularization_page.py
"""

import numpy as np
import page_tables

LINEAR = "adaptive_regularization_tables"


def linear_table(results) -> str:
    """Test scores of linear models: mean and standard error over seeds."""
    rows = ["| set | method | test score (lower is better) | seeds |"]
    rows.append("| --- | --- | --- | --- |")
    for name, methods in results.items():
        means = {m: np.mean(found["scores"]) for m, found in methods.items()}
        for method, found in methods.items():
            scores = found["scores"]
            error = np.std(scores, ddof=1) / len(scores) ** 0.5
            text = f"{means[method]:.3f} ± {error:.3f}"
            best = means[method] == min(means.values())
            text = f"**{text}**" if best else text
            rows.append(f"| {name} | {method} | {text} | {len(scores)} |")
    return "\n".join(rows)


def linear_ratios(results) -> dict[str, float]:
    """Mean score of the best of ours over that of the best peer, by set."""
    ratios = {}
    for name, methods in results.items():
        means = {m: np.mean(found["scores"]) for m, found in methods.items()}
        ours = [
            v
            for m, v in means.items()
            if m.endswith(("Ridge", "Lasso")) and m != "BayesianRidge"
        ]
        peers = [v for m, v in means.items() if v not in ours]
        ratios[name] = float(min(ours) / min(peers))
    return ratios


if __name__ == "__main__":
    table = linear_table(page_tables.stored(LINEAR))
    page_tables.fill("adaptive_regularization", {"linear": table})
