"""The documentation: its code runs, and its reference is complete."""

import importlib.util
import json
import re

import keras
import numpy as np
import pytest
from scipy import stats

import keras_likelihood as kl
from keras_likelihood import cli
from keras_likelihood.commands.program import build_parser
from tests import contracts
from tests.kinds import WRAPPED
from tests.test_package import ROOT

pytestmark = pytest.mark.pages

DOCS = ROOT / "docs"
GUIDES = [
    *sorted((DOCS / "guides").glob("*.md")),
    *(DOCS / "cheat_sheet.md", DOCS / "which_likelihood.md"),
    DOCS / "coming_from.md",
]


def module_of(name, folder="docs/reference"):
    path = ROOT / folder / f"{name}.py"
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


public_names = module_of("public_names")


def run_blocks(path, scope):
    """Runs the Python code of a page from top to bottom, as a reader would."""
    blocks = re.findall(r"```python\n(.*?)```", path.read_text(), flags=re.S)
    assert blocks, f"{path.name} has no code"
    for block in blocks:
        exec(compile(block, path.name, "exec"), scope)
    return scope


@pytest.mark.parametrize("path", GUIDES, ids=lambda path: path.stem)
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_guide_runs(path, tmp_path, monkeypatch, capsys):
    import matplotlib.pyplot as plt

    plt.switch_backend("agg")
    monkeypatch.chdir(tmp_path)
    run_blocks(path, {"__name__": "guide"})
    plt.close("all")


RUN = [["audit", "model.keras"], ["recalibrate", "model.keras"]]


def test_commands_of_the_cheat_sheet_run(rng, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    x = rng.normal(size=(64, 3)).astype("float32")
    dense = keras.layers.Dense(2, activation="softmax")
    keras.Sequential([keras.Input((3,)), dense]).save("model.keras")
    for name in ("val.npz", "train.npz"):
        np.savez(name, x=x, y=(x[:, 0] > 0).astype("int32"))
    page = (DOCS / "cheat_sheet.md").read_text()
    (block,) = re.findall(r"```sh\n(.*?)```", page, flags=re.S)
    for line in block.splitlines():
        program, *arguments = line.split()
        assert program == "keras-likelihood"
        # The others train for a while and have tests of their own.
        if arguments[:2] in RUN:
            assert cli.main(arguments) == 0, line
        else:
            build_parser().parse_args(arguments)


def test_home_and_questions_run(capsys):
    scope = run_blocks(DOCS / "index.md", {})
    assert scope["lower"].shape == scope["y"].shape
    run_blocks(DOCS / "faq.md", {})


def reader_of(page, rng):
    """The data and the model that in-depth pages assume."""
    x = rng.normal(size=(64, 3)).astype("float32")
    y = rng.normal(size=(64, 1)).astype("float32")
    inputs = keras.Input((3,))
    outputs = keras.layers.Dense(1)(inputs)
    scope = {
        "kl": kl,
        "inputs": inputs,
        "outputs": outputs,
        "model": kl.LikelihoodModel(inputs, outputs),
        "x": x,
        "y": y,
        "x_new": x[:5],
    }
    if page == "adaptive_regularization":
        prior = kl.regularizers.DLasso(num_examples=64)
        dense = keras.layers.Dense(1, kernel_regularizer=prior)
        scope["outputs"] = dense(inputs)
    elif page == "audit":
        logits = keras.layers.Dense(3)(inputs)
        scope["model"] = kl.LikelihoodModel(inputs, logits)
        scope["names"] = ["cat", "dog", "cow"]
        scope["y"] = rng.integers(3, size=64)
    elif page == "robust_regression":
        scope |= {"y": y[:, 0], "y_new": y[:5, 0]}
    elif page == "recalibration":
        hidden = keras.layers.Dense(4, activation="relu")(inputs)
        softmax = keras.layers.Dense(3, activation="softmax")
        network = keras.Model(inputs, softmax(hidden))
        network.compile("adam", "sparse_categorical_crossentropy")
        network.save("model.keras")
        labels = rng.integers(3, size=64)
        scope |= {"x_val": x, "y_val": labels, "y": labels}
        scope |= {"regressor": keras.Model(inputs, outputs), "target": y}
        for prefix in ("", "test_"):
            scope[prefix + "logits"] = scope[prefix + "features"] = x
            scope[prefix + "prediction"] = x[:, 0]
            scope[prefix + "scale"] = np.exp(x[:, 1])
    return scope


IN_DEPTH = (
    "adaptive_regularization audit data_parameters recalibration "
    "robust_regression"
).split()


@pytest.mark.parametrize("page", IN_DEPTH)
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_page_in_depth_runs(page, rng, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    run_blocks(DOCS / f"{page}.md", reader_of(page, rng))


WORDS = (
    "Kendall; multi-task; heteroscedastic; aleatoric; epistemic; quantile; "
    "out-of-distribution; pinball; conformal; temperature scaling; CQR; "
    "overconfident; reliability diagram; deep ensemble; drift; TabM; "
    "Monte Carlo dropout; "
    "distribution shift; early stopping; weight decay; missing labels; CRPS; "
    "selective prediction; anomaly; mislabeled; survival; "
    "time series; NGBoost; CalibratedClassifierCV; MAPIE; laplace-torch; "
    "DistributionLambda; torch-uncertainty; cleanlab; BetaNLL"
).split("; ")


SEARCH = ROOT / "build" / "docs" / "searchindex.js"


@pytest.mark.one_backend
@pytest.mark.skipif(not SEARCH.exists(), reason="needs the built site")
def test_the_search_of_the_site_leads_from_words_of_the_field_to_a_guide():
    english = pytest.importorskip("sphinx.search.en").SearchEnglish({})
    index = json.loads(SEARCH.read_text().removeprefix("Search.setIndex(")[:-1])
    guide = (DOCS / "user_guide.md").read_text()
    (names,) = re.findall(r"```\{toctree\}\n:hidden:\n\n(.*?)```", guide, re.S)
    guides = {index["docnames"].index(name) for name in names.split()}

    def pages_with(token):
        pages = set()
        for terms in (index["terms"], index["titleterms"]):
            found = terms.get(english.stem(token.lower()), [])
            pages |= {found} if isinstance(found, int) else {*found}
        return pages

    for word in WORDS:
        tokens = filter(english.word_filter, english.split(word))
        assert guides.intersection(*map(pages_with, tokens)), word
    assert not pages_with("xyzzy")


tables = module_of("tables_of_pages", "benchmarks")


@pytest.mark.one_backend
def test_tables_have_the_numbers_of_their_results():
    pages = {path: path.read_text() for path in tables.pages()}
    assert sum(len(tables.MARK.findall(text)) for text in pages.values()) > 20
    for path, text in pages.items():
        assert tables.filled(text) == text, f"{path}: tables_of_pages.py"
        assert text.count("<!-- table") == text.count("<!-- end -->"), path


@pytest.mark.one_backend
def test_another_number_in_a_table_is_noticed(tmp_path, monkeypatch):
    (tmp_path / "docs").mkdir()
    runs = [{"kind": k, "error": e} for k in "ab" for e in (1.0, 2.0)]
    (tmp_path / "docs" / "runs.json").write_text(json.dumps({"x": {"t": runs}}))
    monkeypatch.setattr(tables, "ROOT", tmp_path)
    mark = "<!-- table runs {column}/t/{row}=kind/error | rows: b as B -->\n"
    page = tables.filled(f"{mark}<!-- end -->")
    assert "| B | 1.500 ± 0.500 |" in page
    assert tables.filled(page.replace("1.5", "1.6")) == page
    with pytest.raises(KeyError, match="No 'c' among"):
        tables.filled(f"{mark.replace('b as B', 'c')}<!-- end -->")


BASES = (
    *("Likelihood", "LocationScale", "CountLikelihood", "Multivariate"),
    *("PositiveLikelihood", "Parametrized", "Wrapper"),
    # Softmax with a memory or a noise; the guide to wrong labels has them.
    *("NoisyLabels", "SparseNoise"),
)


def decision_table():
    """Likelihood, head and loss of every row, each with its address, and
    the parameters."""
    page = (DOCS / "which_likelihood.md").read_text()
    link = r"\[`([^`]+)`\]\(#(keras_likelihood[\w.]+)\)"
    pattern = rf"{link}<br>{link}<br>{link} \| [^|]+ \| ([^|]+) \|$"
    return re.findall(pattern, page, flags=re.M)


def test_every_likelihood_is_in_the_decision_table():
    listed = {row[0] for row in decision_table()}
    assert listed == {
        name
        for name in kl.likelihoods.__all__
        if isinstance(found := getattr(kl.likelihoods, name), type)
        and issubclass(found, kl.likelihoods.Likelihood)
        and name not in BASES
    }
    chart = (DOCS / "extensions" / "likelihood_chart.py").read_text()
    for name in listed:
        assert f'": "{name}"' in chart, name


def test_decision_table_says_what_is():
    examples = {name.partition("(")[0]: name for name in WRAPPED}
    for row in decision_table():
        name, target, head, head_at, loss, loss_at, parameters = row
        for text, address in ((name, target), (head, head_at), (loss, loss_at)):
            assert address in public_names.public_names(), address
            assert address.endswith(f".{text}")
        family = getattr(kl.likelihoods, name)
        made = kl.likelihoods.get(examples.get(family.name(), family.name()))
        assert issubclass(getattr(kl.losses, loss), keras.losses.Loss)
        if head in ("ScaleHead", "TemperatureHead", "LikelihoodHead"):
            head = getattr(kl.layers, head)(units=3, likelihood=made)
            assert head.likelihood is made
        if "(" not in made.name():
            found = re.findall("`(\\w+)`", parameters)
            assert found == [p.name for p in made.parameters], name


def test_reference_covers_every_subpackage():
    pages = "".join(
        path.read_text() for path in (DOCS / "reference").glob("*.md")
    )
    names = set(public_names.subpackages()) - {"keras_likelihood"}
    for name in names:
        assert f"automodule:: {name}\n" in pages, name


def test_every_public_name_has_a_docstring():
    assert public_names.undocumented() == []


@pytest.fixture
def new_likelihood():
    scope = run_blocks(DOCS / "design.md", {"__name__": "design"})
    return scope["HyperbolicSecant"]


def test_new_likelihood_is_the_one_meant(new_likelihood, rng):
    y = rng.normal(size=(20, 1)).astype("float32")
    found = new_likelihood(np.zeros_like(y), scale=0.7)
    oracle = stats.hypsecant(0, 0.7)
    pairs = {
        "nll": (found.nll(y), -oracle.logpdf(y)),
        "cdf": (found.cdf(y), oracle.cdf(y)),
        "quantile": (found.quantile(0.9), np.full(y.shape, oracle.ppf(0.9))),
    }
    for name, (value, expected) in pairs.items():
        np.testing.assert_allclose(
            contracts.as_numpy(value), expected, rtol=1e-4, err_msg=name
        )


@pytest.mark.one_backend
def test_the_index_the_sections_and_the_readme_agree():
    page = (DOCS / "paper.md").read_text()
    index, sections = page.split("</div>", 1)
    find = re.compile(r'verdict (\w+)"').findall
    listed = {
        anchor: find(text)
        for anchor, text in re.findall(r"\(#([\w-]+)\) \|(.*)", index)
    }
    anchors = [f"table-{n}" for n in range(1, 8)]
    anchors += [f"figure-{n}" for n in range(1, 14)]
    assert list(listed) == anchors
    parts = re.split(r"^\(([\w-]+)\)=$", sections, flags=re.M)
    texts = dict(zip(parts[1::2], parts[2::2], strict=True))
    assert list(texts) == anchors
    for anchor, text in texts.items():
        assert listed[anchor] == find(text), anchor
        if listed[anchor]:
            assert "paper" in text.split("**")[0].partition("\n")[2], anchor
            (script, *_) = re.findall(r"benchmarks/paper/(\w+\.py)", text)
            assert (ROOT / "benchmarks" / "paper" / script).exists()
            assert re.search("minute|second|hour", text), anchor
            assert re.search(r"\bdata\b", text.rpartition(".py")[2]), anchor
    verdicts = [verdict for found in listed.values() for verdict in found]
    yes, partly, no, none = map(verdicts.count, ("yes", "partly", "no", "none"))
    words = " ".join(page.split())
    assert (
        f"Of {len(verdicts)} claims, {yes} are reproduced, {partly} in part "
        f"and {no} not; still open: {none}."
    ) in words
    readme = " ".join((ROOT / "README.md").read_text().split())
    assert (
        f"{yes} of {len(verdicts)}, {partly} more in part, {no} not; still "
        f"open: {none}."
    ) in readme
