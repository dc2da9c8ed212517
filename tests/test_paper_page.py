"""The page of the paper agrees with the recorded results."""

import copy
import json
import pathlib
import re
import shutil

import pytest

pytestmark = [pytest.mark.one_backend, pytest.mark.pages]

pytest.importorskip("matplotlib")

ROOT = pathlib.Path(__file__).parents[1]
FOLDER = ROOT / "benchmarks" / "paper"
DOCS = ROOT / "docs"


@pytest.fixture
def tables(beside):
    import tables

    return tables


def reported():
    return json.loads((FOLDER / "reported.json").read_text())


def result(name):
    return json.loads((DOCS / "paper" / f"{name}.json").read_text())


@pytest.mark.parametrize(
    "path", sorted((FOLDER / "prose").glob("*.md")), ids=lambda p: p.stem
)
def test_words_hold_no_results(path):
    words = re.sub(r"```.*?```", "", path.read_text(), flags=re.DOTALL)
    words = re.sub(r"\{\{.*?\}\}|`[^`]*`|https?:[^)]*", "", words)
    words = re.sub(r"\[\[.*?\]\]", "", words, flags=re.DOTALL)
    assert not re.findall(r"\d\.\d", words)
    number = r"\d+|two|three|four|five|six|seven|eight|nine|ten"
    counted = r"seeds|sets|splits|draws|networks|runs|times|detectors"
    assert not re.findall(rf"\b(?:{number}) (?:{counted})\b", words)
    assert not re.findall(r"(fig|tab|table):\w", words)


def verdict_of(claims, render, folder, words):
    """The verdict on the only claim with these words."""
    found = claims.judged(folder, reported(), render.STUDIES)
    (finding,) = [v for one, v in found if words in one.text]
    return finding.verdict


@pytest.fixture
def folder(tmp_path):
    """A copy of all results."""
    for path in (DOCS / "paper").glob("*.json"):
        shutil.copy(path, tmp_path)
    return tmp_path


def set_row(table, row, place, value):
    def change(data):
        data["tables"][table]["rows"][row][place] = value

    return change


def set_rows(table, place, value):
    def change(data):
        for row in data["tables"][table]["rows"].values():
            row[place] = value

    return change


def set_value(name, value):
    def change(data):
        data[name] = value

    return change


def set_seeds(change):
    """Changes every list of seeds, by depth, set and method."""

    def changed(data):
        for sets in data["each_seed"].values():
            for models in sets.values():
                for name, seeds in models.items():
                    models[name] = [change(name, seed) for seed in seeds]

    return changed


YES, PARTLY, NO, OPEN = "reproduced", "in part", "not reproduced", "open"
CHANGED = {
    "learned scale cannot cheat": (
        "nll_curves",
        set_value("largest_gap", 1),
        NO,
    ),
    "classifier from wrong labels": (
        "robust_classification",
        set_row("study1", "predicted temperature", 0, 0.5),
        NO,
    ),
    "as robust as RANSAC": (
        "robust_regression",
        set_row("errors", "MPLS-XY, paper", slice(None), [0, 0, 0, 1, 3]),
        YES,
    ),
    "DPLS does not suit": (
        "robust_regression",
        set_row("errors", "DPLS, paper", 0, 0.0),
        PARTLY,
    ),
    "principal components robust": (
        "robust_pca",
        set_row("angles", "30% outliers", 2, 80.0),
        NO,
    ),
    "have the least error": (
        "literal_vae",
        set_row("errors", "predicted HxWxC", 0, 1.0),
        YES,
    ),
    "cost much time": ("vae", set_row("errors", "data HxWxC", 1, 9.0), YES),
    "predicted shape is from": (
        "literal_vae",
        set_value("ranges", {"isolated": [[1.9, 2.9], [0.21, 0.42]]}),
        YES,
    ),
    "improves the calibration": (
        "literal_regressors",
        set_seeds(lambda n, s: [0 if n == "predicted" else 1 for _ in s]),
        YES,
    ),
    'lowers the "MSE"': (
        "literal_regressors",
        set_seeds(lambda n, s: [0 if n == "predicted" else 1 for _ in s]),
        YES,
    ),
    "Linear models benefit more": (
        "literal_regressors",
        set_seeds(lambda n, s: s),
        PARTLY,
    ),
    "On SVHN": ("temperatures_cifar10", set_value("share", 0.2), OPEN),
    "find corrupted images": (
        "temperatures_cifar10",
        set_value("seeds", 1),
        OPEN,
    ),
    "better than one global": (
        "literal_classifiers",
        set_rows("ece", 2, 1.0),
        NO,
    ),
    "of the features (LFS)": (
        "literal_classifiers",
        set_rows("ece", 3, 0.0),
        YES,
    ),
    "The wider": ("layer_width", set_value("growth", 1.0), NO),
    "softplus with an offset": (
        "softplus_offset",
        set_row("nll", "softplus, s = 1", 0, "not a number from epoch 1"),
        PARTLY,
    ),
    "Space grows": ("space_time", set_value("features", 1), NO),
}


@pytest.mark.parametrize("words", CHANGED)
def test_verdict_follows_the_results(words, render, folder):
    import claims

    name, change, expected = CHANGED[words]
    study = result(name)
    change(study["data"])
    (folder / f"{name}.json").write_text(json.dumps(study))
    assert verdict_of(claims, render, folder, words) == expected


LATER = {
    "best median AUC": (
        "literal_outliers",
        {
            "medians": {"PCA+S": 0.99, "AE+S": 0.1},
            "sets": 2,
            "seeds": 5,
            "tables": {
                "auc": {
                    "columns": ["PCA+S", "AE+S"],
                    "rows": {"wbc": [0.99, 0.1], "vowels": [0.99, 0.1]},
                }
            },
        },
        PARTLY,
    ),
    "isotonic regression": (
        "literal_recalibration",
        {
            "sets": 8,
            "seeds": 2,
            "seconds": {"a": {"GS": 1.0, "LS": 1.5, "DS": 3.0}},
            "each_seed": {
                str(i): {
                    "Isotonic": [[1.0, None], [1.1, None]],
                    "GS": [[0.5, 0], [0.5, 0]],
                    "LS": [[0.2, 0], [0.1, 0]],
                    "DS": [[2.0, 0], [3.0, 0]],
                }
                for i in range(8)
            },
        },
        PARTLY,
    ),
    "normalise the features": (
        "normalised_features",
        {
            "seeds": 3,
            "each_seed": {
                f"{units}: {kind}": {"0.1": [value, value + 0.1, value + 0.2]}
                for units in ("as they are", "in other units")
                for kind, value in (
                    *(("none", 5.0), ("batch", 7.0)),
                    *(("layer", 6.0), ("standardised", 4.0)),
                )
            },
        },
        YES,
    ),
}
LATER["than one scale"] = (*LATER["isotonic regression"][:2], PARTLY)
LATER["as long as GS"] = (*LATER["isotonic regression"][:2], YES)


def sparse(joint):
    """Results of the learned strengths with these errors of the paper's."""
    others = ("LassoCV", "LassoLarsCV", "adaptive LASSO", "RidgeCV")
    known = ("best strength in hindsight", "true support")
    rows = dict.fromkeys((*others, *known), [1.0, 1.0])
    names = ("D-Ridge", "D-LASSO", "Multi-LASSO")
    rows |= {f"{name}, ours": [1.0, 1.0] for name in names}
    rows |= {f"{name}, joint": joint[name] for name in names}
    table = {"columns": ["a", "b"], "rows": rows}
    return {
        "known": list(known),
        "tables": {"lasso": table, "ridge": table},
    }


FAR = {"D-Ridge": [1.0, 1.0], "D-LASSO": [9.0, 9.0], "Multi-LASSO": [0.05, 2.0]}
LATER["find the best strength"] = ("sparse_weights", sparse(FAR), NO)
LATER["orders of magnitude"] = ("sparse_weights", sparse(FAR), PARTLY)


@pytest.mark.parametrize("words", LATER)
def test_paper_s_settings_decide(words, render, folder):
    """Whatever our own method does, and however the study was run."""
    import claims

    name, data, expected = LATER[words]
    path = folder / f"{name}.json"
    path.write_text(json.dumps({"command": "", "data": data}))
    assert verdict_of(claims, render, folder, words) == expected


def test_every_claim_is_tested(beside):
    import claims

    for one in claims.CLAIMS:
        words = [w for w in (*CHANGED, *LATER) if w in one.text]
        assert words or one.text.startswith("Time grows"), one.text


def test_protocol_has_the_rule_of_every_claim(render):
    import claims

    page = render.PROTOCOL.read_text()
    for one in claims.CLAIMS:
        assert f"| {one.text} | {one.where} | {one.rule} |" in page


def test_page_is_short(render):
    assert len(render.PAGE.read_text().split()) < 3500


def test_smoke_test_has_no_verdict(render, tmp_path):
    import claims

    study = result("vae") | {
        "command": "python benchmarks/paper/vae.py --quick"
    }
    (tmp_path / "vae.json").write_text(json.dumps(study))
    found = claims.judged(tmp_path, reported(), render.STUDIES)
    assert {finding.verdict for _, finding in found} == {OPEN}


def test_every_study_but_one_has_a_claim_and_links_lead_to_sections(render):
    import claims

    page = render.PAGE.read_text()
    headings = re.findall(r"^## (.*)$", page, flags=re.MULTILINE)
    anchors = {
        re.sub(r"[^\w -]", "", h.lower()).replace(" ", "-") for h in headings
    }
    links = set(re.findall(r"\]\(#([\w-]+)\)", page))
    assert links and links <= anchors
    claimed = {one.study for one in claims.CLAIMS}
    assert set(render.STUDIES) - claimed == {"temperatures"}


def test_scorecard_counts_its_verdicts(render):
    page = render.PAGE.read_text()
    card = page.split('<div class="scorecard">')[1].split("</div>")[0]
    told = re.search(
        r"Of (\d+) claims, (\d+) are reproduced, (\d+) .*?, (\d+) .*? (\d+) "
        "(?:is|are) open",
        page,
    )
    marks = ("yes", "partly", "no", "none")
    assert list(map(int, told.groups())) == [
        card.count("class="),
        *(card.count(f'"verdict {mark}"') for mark in marks),
    ]


def test_unfolded_tables_are_narrow(render):
    page = re.sub(
        r"<details>.*?</details>", "", render.PAGE.read_text(), flags=re.DOTALL
    )
    for line in page.splitlines():
        if line.startswith("| ---"):
            assert line.count("---") <= 8


def test_words_without_numbers_are_true(beside):
    """Comparisons on the page that name no number."""
    import claims
    from facts import facts

    load = claims.loader(DOCS / "paper")

    def of(name):
        return facts(name, result(name)["data"], reported(), load)

    vae = of("vae")
    assert vae["weighted"] < vae["error"] and vae["gap"] > 0
    assert vae["last"] == "data HxWxC"
    assert of("robust_classification")["study1"]["gain"] > 0
    assert result("robust_classification")["data"]["heat"]["study2"] < 2
    lines = result("robust_regression")["data"]["tables"]["errors"]["rows"]
    assert lines["MPLS-XY, paper"][0] < lines["OLS"][0] / 10
    assert lines["MPLS-XY, paper"][1] > lines["OLS"][1] / 2
    found = of("regressors")
    for measure in ("CAL", "NLL"):
        key = f"deep_{measure}"
        assert found["rmse"][key]["below"] < found["one"][key]["below"]
    assert found["paper"]["kin_mse"] < found["kin_mse"] / 2
    assert found["paper"]["least_nll"] < 0
    paper = reported()["tab:reg-calibration"]["rows"]["soil"]
    assert max(paper) < 1.06 * min(paper)
    found = of("temperatures_cifar10")
    assert 0 < found["ahead"] < found["kinds"]
    coverage = result("layer_width")["data"]["coverage"]
    assert coverage["test"] < 0.9 < coverage["training"]
    assert of("space_time")["right"]
    ece = result("recalibration_tables")["data"]["tables"]["ece"]
    row = dict(zip(ece["columns"], ece["rows"]["RN50 CIFAR-10"], strict=True))
    assert min(row["LS"], row["LFS"]) >= row["GS"]


def test_clear_counts_are_those_of_corrected_intervals(beside):
    """Five splits, as stored: 23 and 8 of 32 cells, and no MSE."""
    import claims
    from facts import facts

    load = claims.loader(DOCS / "paper")
    found = facts("regressors", result("regressors")["data"], reported(), load)
    cells = [f"{d}_{m}" for d in ("deep", "linear") for m in ("CAL", "NLL")]
    for rival, clear in (("one", 23), ("rmse", 8)):
        assert sum(found[rival][cell]["clear"] for cell in cells) == clear
    assert found["one"]["linear_MSE"]["above"] == 0


def test_seeds_are_compared_in_pairs(beside):
    import claims
    from facts import facts

    load = claims.loader(DOCS / "paper")
    data = copy.deepcopy(result("vae")["data"])
    errors = data["tables"]["errors"]["rows"]
    rows = {
        n: [row[0] + seed for seed in range(5)] for n, row in errors.items()
    }
    data["tables"]["each_seed"] = {"columns": list("01234"), "rows": rows}
    data["seeds"] = 5
    told = facts("vae", data, reported(), load)["doubt"]
    assert "`weighted HxWxC` minus `" in told and "paired t test" in told
    # An interval of two seeds would be meaningless.
    data["seeds"], data["spread"] = 2, 8.5
    assert "up to 8.5" in facts("vae", data, reported(), load)["doubt"]


def test_paper_columns_stand_beside_ours(tables):
    paper = {"t": {"columns": ["A"], "rows": {"x": [0.5], "z": [0.25]}}}
    table = {"columns": ["a"], "rows": {"x": [1.5], "y": [-1e-9]}, "paper": "t"}
    lines = tables.place(table, paper).splitlines()
    assert lines[0] == "|  | a | *paper* A |"
    assert lines[2:] == [
        "| x | 1.500 | 0.500 |",
        "| y | 0.000 | – |",
        "| z | – | 0.250 |",
    ]
    lines = tables.place(table, paper, " | turned | least in row").splitlines()
    assert lines[0] == "|  | x | *paper* x | y | *paper* y | z | *paper* z |"


TABLE = {
    "columns": ["a", "b", "best possible"],
    "rows": {"x": [1.0, 2.0, 0.0], "y": [3.0, 1.0, 0.0]},
    "digits": 0,
}


@pytest.mark.parametrize(
    ("options", "rows"),
    [
        ("least in row", ["**1** | 2 | 0", "3 | **1** | 0"]),
        ("most in column", ["1 | **2** | **0**", "**3** | 1 | **0**"]),
    ],
)
def test_best_values_are_bold(tables, options, rows):
    text = tables.place(TABLE, {}, f"{options} | aside: best possible")
    if options == "most in column":
        rows = [row.replace("**0**", "0") for row in rows]
    assert [
        line.split(" | ", 1)[1][:-2] for line in text.splitlines()[2:]
    ] == rows


def test_table_is_selected_and_folded(tables):
    text = tables.place(
        TABLE, {}, "columns: b as B; a | rows: y | fold: All of it"
    )
    assert text.startswith("<details>\n<summary>All of it</summary>\n\n|")
    assert "|  | B | a |" in text and "| y | 1 | 3 |" in text
    assert "| x |" not in text and text.endswith("\n\n</details>")
    with pytest.raises(ValueError, match="Received: 'smallest'"):
        tables.place(TABLE, {}, "smallest")
    twice = {"columns": ["a", "a"], "rows": {"x": [1.0, 2.0]}}
    with pytest.raises(ValueError, match="different names"):
        tables.place(twice, {}, "turned")


def test_figures_show_the_recorded_numbers(beside, tmp_path, monkeypatch):
    import figures

    assert figures.outdated() == []
    shutil.copytree(DOCS / "paper", tmp_path, dirs_exist_ok=True)
    monkeypatch.setattr(figures, "FOLDER", tmp_path)
    path = tmp_path / "temperatures_cifar10.json"
    study = json.loads(path.read_text())
    changed = copy.deepcopy(study)
    set_rows("aupr", 0, 0.5)(changed["data"])
    path.write_text(json.dumps(changed))
    stale = [tmp_path / "temperatures_cifar10_chart.png"]
    assert figures.outdated() == stale
    figures.draw_all()
    assert figures.outdated() == []


def test_letters_of_figures_are_readable(beside):
    """A wider figure is shrunk to the page, including its letters."""
    import results
    from PIL import Image

    for path in sorted((DOCS / "paper").glob("*.png")):
        with Image.open(path) as image:
            assert image.width <= 110 * results.WIDTH, path.name


def test_page_of_outliers_agrees_with_the_table_of_the_paper():
    rows = result("outliers_table")["data"]["tables"]["auc"]["rows"]
    ours = {"PCAScale": "PCA+S", "AutoencoderScale": "AE+S"}
    page = (DOCS / "studies" / "outliers.md").read_text()
    page = page.split("<!-- ranks -->")[1].split("<!-- end of ranks -->")[0]
    shown = re.findall(r"^\| ([^|]+) \| \d .*$", page, flags=re.MULTILINE)
    assert len(shown) == len(rows)
    for line in page.splitlines():
        cells = [cell.strip(" `") for cell in line.strip("|").split("|")]
        if cells[0] in rows or cells[0] in ours:
            recorded = rows[ours.get(cells[0], cells[0])]
            assert cells[3:5] == [f"{value:.3f}" for value in recorded]
