"""The documentation: its code runs, and its reference is complete."""

import ast
import hashlib
import importlib.util
import json
import re
import sys

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
    *sorted((DOCS / "coming_from").glob("[!i]*.md")),  # not the index
    *(DOCS / "cheat_sheet.md", DOCS / "which_likelihood.md"),
]
NEEDS_SKLEARN = (
    *("cheat_sheet", "cleanlab", "ensembles", "intervals", "label_noise"),
    *("mapie", "netcal", "outliers", "quantiles", "recalibration"),
    *("tables", "workflows"),
)


def module_of(name, folder="docs/reference"):
    path = ROOT / folder / f"{name}.py"
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


public_names = module_of("public_names")
docstrings = module_of("docstrings")
executed = module_of("executed", "docs/extensions")
api_names = module_of("api_names", "docs/extensions")


def run_blocks(path, scope):
    """Runs the Python code of a page from top to bottom, as a reader would."""
    blocks = re.findall(r"```python\n(.*?)```", path.read_text(), flags=re.S)
    assert blocks, f"{path.name} has no code"
    for block in blocks:
        exec(compile(block, path.name, "exec"), scope)
    return scope


def not_built(paths):
    """The pages whose code the build of the site does not run.

    It runs on TensorFlow. On other backends the tests run every page.
    """
    if keras.backend.backend() != "tensorflow":
        return paths
    found = re.search(
        r"^executed_pages = (\[.*?\])",
        (DOCS / "conf.py").read_text(),
        re.S | re.M,
    )
    built = {
        p
        for name in ast.literal_eval(found[1])
        for p in DOCS.glob(f"{name}.md")
    }
    return [path for path in paths if path not in built]


@pytest.mark.parametrize("path", not_built(GUIDES), ids=lambda path: path.stem)
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_guide_runs(path, tmp_path, monkeypatch, capsys):
    if path.stem in NEEDS_SKLEARN:
        pytest.importorskip("sklearn")
    plt = pytest.importorskip("matplotlib.pyplot")
    plt.switch_backend("agg")
    monkeypatch.chdir(tmp_path)
    run_blocks(path, {"__name__": "guide"})
    plt.close("all")


def test_commands_of_the_cheat_sheet_run(rng, tmp_path, monkeypatch, capsys):
    pytest.importorskip("sklearn")
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
        if "model.keras" not in arguments or "checkup" in arguments:
            build_parser().parse_args(arguments)
        else:
            assert cli.main(arguments) == 0, line


def test_picture_of_the_cheat_sheet_is_of_this_page():
    picture = (DOCS / "_static" / "cheat_sheet.png").read_bytes()
    page = (DOCS / "cheat_sheet.md").read_bytes()
    mark = hashlib.sha256(page).hexdigest()
    assert mark.encode() in picture, "run tools/make_cheat_sheet.py"


def test_home_and_questions_run(capsys):
    scope = run_blocks(DOCS / "index.md", {})
    assert scope["lower"].shape == scope["y"].shape
    for path in not_built([DOCS / "faq.md"]):
        run_blocks(path, {})


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
        network = keras.Sequential(
            [
                keras.Input((3,)),
                keras.layers.Dense(4, activation="relu"),
                keras.layers.Dense(3, activation="softmax"),
            ]
        )
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


@pytest.mark.parametrize(
    "page",
    [
        "adaptive_regularization",
        "audit",
        "data_parameters",
        "outliers",
        "recalibration",
        "robust_regression",
    ],
)
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_page_in_depth_runs(page, rng, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    run_blocks(DOCS / f"{page}.md", reader_of(page, rng))


TOCTREE = re.compile(r"^```\{toctree\}\n(.*?)^```", re.S | re.M)


def pages_below(page="index"):
    """The pages in the table of contents of a page, and those below them."""
    path = DOCS / f"{page}.md"
    found = set()
    if path.exists():
        for block in TOCTREE.findall(path.read_text()):
            names = [n for n in block.split() if not n.startswith(":")]
            for name in names:
                child = (path.parent / name).resolve().relative_to(DOCS)
                found |= {child.as_posix(), *pages_below(child.as_posix())}
    return found


def test_every_page_is_in_the_table_of_contents():
    pages = {
        path.relative_to(DOCS).with_suffix("").as_posix()
        for path in DOCS.rglob("*.md")
    }
    listed = pages_below()
    generated = "auto_gallery/"
    pages = {page for page in pages if not page.startswith(generated)}
    assert pages - listed == {"index"}
    missing = {page for page in listed - pages if generated not in page}
    assert not missing


def test_sidebar_has_five_parts():
    (block,) = TOCTREE.findall((DOCS / "index.md").read_text())
    parts = [name for name in block.split() if not name.startswith(":")]
    titles = [first_lines(part)[0] for part in parts]
    assert titles == [
        *("User guide", "Tutorials", "Reference", "Benchmarks", "Project"),
    ]


def first_lines(page):
    """The title and the first paragraph of a page, as plain text."""
    title, text = (DOCS / f"{page}.md").read_text().split("\n", 1)
    paragraph = text.strip().split("\n\n")[0]
    return title.removeprefix("# "), " ".join(paragraph.split())


@pytest.mark.parametrize(
    ("word", "page"),
    {
        "heteroscedastic": "guides/regression",
        "temperature scaling": "guides/recalibration",
        "anomaly": "guides/outliers",
        "mislabeled": "guides/label_noise",
        "uncertainty": "guides/ensembles",
        "weight decay": "guides/adaptive_regularization",
        "quantile regression": "guides/quantiles",
        "survival": "guides/censored",
    }.items(),
)
def test_words_that_people_search_for(word, page):
    """Sphinx ranks pages with the word in their title first."""
    title, paragraph = (text.lower() for text in first_lines(page))
    assert word in title and word in paragraph
    rivals = [
        path
        for path in DOCS.rglob("*.md")
        if "auto_gallery" not in path.parts
        and word in path.read_text().split("\n", 1)[0].lower()
    ]
    # "uncertainty" is also in the title of a benchmark.
    assert len(rivals) <= (2 if word == "uncertainty" else 1), rivals


@pytest.mark.parametrize("path", GUIDES, ids=lambda path: path.stem)
def test_guides_take_five_minutes(path):
    prose = re.sub(r"^```.*?^```", "", path.read_text(), flags=re.S | re.M)
    assert path.stem == "which_likelihood" or len(prose.split()) <= 700


def test_landing_page_has_six_tasks():
    page = (DOCS / "index.md").read_text()
    cards = re.findall(r"container\} card\n\*\*\[.*\]\((.*)\.md\)\*\*", page)
    assert cards == [
        *("guides/intervals", "guides/recalibration", "guides/label_noise"),
        *("guides/outliers", "guides/robust_training", "which_likelihood"),
    ]


def test_results_and_pages_are_apart():
    assert not list(DOCS.glob("*.json"))


def test_studies_name_their_scripts_and_scripts_their_pages():
    index = (DOCS / "studies" / "index.md").read_text()
    for path in (DOCS / "studies").glob("*.md"):
        page = path.read_text()
        scripts = set(re.findall(r"(?:benchmarks|examples)/\w+\.py", page))
        assert scripts, path.name
        for script in scripts:
            assert (ROOT / script).exists(), f"{path.name}: {script}"
        assert path.stem == "index" or f"\n{path.stem}\n" in index
    listed = {}
    for line in (ROOT / "benchmarks" / "README.md").read_text().splitlines():
        if page := re.search(r"\]\(\.\./(.*)\) \|$", line):
            found = re.findall(r"`([\w/]+\.py)`", line)
            listed |= dict.fromkeys(found, (ROOT / page[1]).read_text())
    for folder in ("benchmarks", "examples"):
        for path in (ROOT / folder).glob("*.py"):
            name = f"{folder}/{path.name}"
            if "__main__" in path.read_text() and name not in COPIED:
                assert name in listed.get(name, ""), name


COPIED = ("examples/recalibrate_classifier.py",)
"""Short programs that a reader copies, without numbers of their own."""


def test_what_a_benchmark_imports_from_another_is_there():
    folder = ROOT / "benchmarks"
    trees = {path: ast.parse(path.read_text()) for path in folder.rglob("*.py")}
    for path, tree in trees.items():
        for node in ast.walk(tree):
            if not isinstance(node, ast.ImportFrom):
                continue
            module = f"{node.module.replace('.', '/')}.py"
            other = trees.get(path.parent / module) or trees.get(
                folder / module
            )
            if other:
                wanted = {alias.name for alias in node.names}
                assert not wanted - _names_of(other), path


def _names_of(tree):
    """Names that a script defines or imports at the top level."""
    found = set()
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            found.add(node.name)
        elif isinstance(node, ast.Import | ast.ImportFrom):
            found |= {alias.asname or alias.name for alias in node.names}
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            names = (n for n in ast.walk(node) if isinstance(n, ast.Name))
            found |= {n.id for n in names if isinstance(n.ctx, ast.Store)}
    return found


def test_examples_are_short():
    """Studies belong in `benchmarks/`. An example is a program to copy."""
    for path in (ROOT / "examples").rglob("*.py"):
        assert len(path.read_text().splitlines()) < 150, path.name
        assert path.parent == ROOT / "examples", path


def test_protocol_names_every_script_with_results():
    page = (DOCS / "protocol.md").read_text()
    for folder in ("benchmarks", "benchmarks/paper"):
        for path in (ROOT / folder).glob("*.py"):
            if "__main__" in path.read_text():
                assert f"`{folder}/{path.name}`" in page, path.name


def test_links_between_pages_lead_somewhere():
    pattern = re.compile(r"\]\(([\w./-]+\.md)\)")
    for path in DOCS.rglob("*.md"):
        for target in pattern.findall(path.read_text()):
            assert (path.parent / target).exists(), f"{path}: {target}"


BASES = (
    *("Likelihood", "LocationScale", "CountLikelihood", "Multivariate"),
    *("PositiveLikelihood", "Parametrized", "Wrapper"),
    # A softmax with a memory; the guide to wrong labels has it.
    "NoisyLabels",
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
    chart = (DOCS / "gallery" / "plot_7_which_likelihood.py").read_text()
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
        own = getattr(kl.losses, loss).likelihood
        assert own is None or issubclass(made, own), name
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


def test_missing_names_are_noticed():
    """The check of the build can fail."""
    everything = set(public_names.public_names())
    assert public_names.missing(everything) == []
    lost = "keras_likelihood.losses.NormalLoss"
    assert public_names.missing(everything - {lost}) == [lost]
    both = {
        "keras_likelihood.DataParameter",
        "keras_likelihood.data_parameters.DataParameter",
    }
    assert set(public_names.missing(everything - both)) == both


def test_docstrings_become_restructured_text():
    converted = docstrings.as_restructured_text(
        [
            "Some `Layer`s with `coef_` and fit_.",
            "",
            "    a = b",
            "",
            "```python",
            "x = `no`",
            "```",
            "",
            "Args:",
            "    x: a `long",
            "        name` of it.",
        ]
    )
    text = "\n".join(converted)
    assert "``Layer``\\ s with ``coef_`` and ``fit_``." in text
    assert ".. code-block:: text\n\n    a = b" in text
    assert ".. code-block:: python\n\n    x = `no`" in text
    assert "    x: a ``long name`` of it." in text


PAGE = """# Title

See [the guide](other.md) or [Keras](https://keras.io).

```python
import matplotlib.pyplot as plt

number = 2
```

```python
print(number)
plt.plot([number])
```

```py
never_run()
```

```{run} A line.
plt.plot([number, 3])
```
"""


def test_pages_show_what_their_code_prints_and_draws(tmp_path):
    plt = pytest.importorskip("matplotlib.pyplot")
    plt.switch_backend("agg")
    plt.close("all")  # what another test left open
    shown = executed.Page("a/page", tmp_path, True).with_outputs(PAGE)
    assert ":class: output\n\n2\n```" in shown
    assert "plt.plot([number, 3])" not in shown and ":alt: A line." in shown
    assert ":alt: What the code above draws." in shown
    for path in tmp_path.iterdir():
        assert f"/{executed.FIGURES}/{path.name}" in shown
    assert len(list(tmp_path.iterdir())) == 2
    assert plt.get_fignums() == []
    with pytest.raises(NameError, match="never_run"):
        broken = PAGE.replace("```py\n", "```python\n")
        executed.Page("a/page", tmp_path, True).with_outputs(broken)


def test_notebooks_install_and_hold_the_code():
    cells = json.loads(executed.notebook(PAGE))["cells"]
    code = [c["source"] for c in cells if c["cell_type"] == "code"]
    assert code[0].startswith("%pip install")
    assert code[0].endswith('all]"')
    more = PAGE.replace("number = 2", "import onnxruntime\n\nnumber = 2")
    first = json.loads(executed.notebook(more))["cells"][0]["source"]
    assert first == f"{code[0]} onnxruntime"
    assert code[-1] == "print(number)\nplt.plot([number])"
    assert "See the guide or [Keras](https://keras.io)." in cells[1]["source"]


def test_names_in_prose_are_understood():
    known = {
        *public_names.public_names(),
        *("keras.layers.Dense", "numpy.savez", "keras.losses.Huber"),
    }
    for text, expected in {
        "NormalLoss(beta=0.5)": "keras_likelihood.losses.NormalLoss",
        "kl.audit": "keras_likelihood.audit",
        "Dense": "keras.layers.Dense",
        "np.savez": "numpy.savez",
        "Huber": "keras_likelihood.likelihoods.Huber",
        "regression.AutoRescaling": "keras_likelihood.recalibration.regression"
        ".AutoRescaling",
        "audit": None,
        "kl.nothing": None,
        "x + y": None,
    }.items():
        assert api_names.full_name(text, known) == expected, text
    auto = api_names.full_name("Auto", known, "guides/outliers")
    assert auto == "keras_likelihood.outliers.AutoDetector"


def site(folder, body):
    """A built site of one page."""
    names = set(public_names.public_names())
    (folder / "reference" / "api").mkdir(parents=True)
    for name in names:
        (folder / "reference" / "api" / f"{name}.html").touch()
    (folder / "page.html").write_text(f"<article>{body}</article>")
    return folder


def test_faults_of_the_site_are_counted(tmp_path, monkeypatch):
    monkeypatch.setattr("sys.path", [*sys.path])
    count_docs = module_of("count_docs", "tools")
    good = """<h1><code>NormalLoss</code></h1><a href="https://keras.io"><code>
        NormalLoss</code></a><code>x</code><pre><code>NormalLoss</code></pre>
        <div class="output"></div>"""
    bad = """<code><span>kl.audit</span>()</code><script
        src="https://somewhere.org/code.js"></script>"""
    for name, body, expected in (
        ("a", good, [0] * 4),
        ("b", bad, [1, 0, 1, 1]),
    ):
        faults = count_docs.count(site(tmp_path / name, body))
        assert [len(places) for places in faults.values()] == expected, faults


def test_hard_text_has_a_lower_score():
    prose = module_of("check_prose", "tools")
    code = "\n\n```python\nincomprehensibility = internationalisation\n```\n"
    easy = "The cat sat on the mat. It was warm, and so it fell asleep. " * 4
    hard = (
        "Notwithstanding considerable methodological heterogeneity, "
        "regularisation necessitates extraordinarily sophisticated "
        "parametrisation of underlying probabilistic assumptions. "
    ) * 4
    assert prose.reading_ease(easy + code) > 90
    assert prose.reading_ease(hard) < 0
    assert prose.reading_ease(code) is None


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


def test_new_likelihood_keeps_the_contracts(new_likelihood, rng, tmp_path):
    x = rng.normal(size=(12, contracts.FEATURES)).astype("float32")
    y = rng.normal(size=(12, 2)).astype("float32")
    head = kl.layers.LikelihoodHead("hyperbolic_secant", units=2)
    contracts.head_starts_at_the_initial_values(head, {"scale": 1.0})
    for contract in (
        contracts.head_broadcasts_with_its_prediction,
        contracts.symbolic_and_eager_shapes_agree,
        contracts.config_keeps_outputs,
    ):
        contract(kl.layers.LikelihoodHead("hyperbolic_secant", units=2), x)
    loss = kl.losses.LikelihoodLoss(
        "hyperbolic_secant", scale=1.0, reduction="sum"
    )
    contracts.sample_weight_counts_examples(loss, y, y + 1)
    model = contracts.small_model(
        kl.layers.LikelihoodHead("hyperbolic_secant", units=2), x
    )
    model.compile("adam", loss=kl.losses.LikelihoodLoss("hyperbolic_secant"))
    contracts.training_moves_every_weight(model, x, y)
    contracts.model_survives_saving(model, x, y, tmp_path / "model.keras")


def test_new_likelihood_has_data_parameters(new_likelihood, rng):
    x = rng.normal(size=(30, contracts.FEATURES)).astype("float32")
    y = rng.normal(size=(30, 1)).astype("float32")
    y[4] = 50
    scale = kl.DataParameter(30, learning_rate=0.1)
    model = contracts.small_model(keras.layers.Dense(1), x)
    model.compile(
        "adam", loss=kl.losses.LikelihoodLoss("hyperbolic_secant", scale=scale)
    )
    model.fit(x, kl.indexed(y), epochs=20, callbacks=[scale], verbose=0)
    assert scale.values().argmax() == 4
