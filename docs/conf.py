"""How the documentation is built: `python -m sphinx -W -b html docs ...`."""

import logging as standard_logging
import os
import pathlib
import sys

HERE = pathlib.Path(__file__).parent
sys.path[:0] = [
    str(HERE.parent),
    str(HERE / "reference"),
    str(HERE / "extensions"),
]
os.environ.setdefault("KERAS_BACKEND", "tensorflow")
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
# Pages build many small models, and TensorFlow warns of each tracing.
standard_logging.getLogger("tensorflow").setLevel("ERROR")

from docstrings import as_restructured_text  # noqa: E402
from public_names import missing, undocumented  # noqa: E402
from sphinx.util import logging  # noqa: E402

from keras_likelihood import __version__  # noqa: E402

project = "keras_likelihood"
author = "The keras_likelihood authors"
copyright = author
release = version = __version__

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.intersphinx",
    "sphinx.ext.napoleon",
    "sphinx.ext.viewcode",
    "sphinx_copybutton",
    "sphinx_gallery.gen_gallery",
    # Ours, in the folder `extensions`.
    "api_links",
    "executed",
    "numbers_in_tables",
    "reference_pages",
    "wide_figures",
]
# `make docs-quick` runs no code; the pages of the gallery are left out.
quick = "DOCS_QUICK" in os.environ
if quick:
    extensions.remove("sphinx_gallery.gen_gallery")
    suppress_warnings = ["toc.not_readable", "myst.xref_missing"]
    suppress_warnings += ["image.not_readable", "ref.doc"]
exclude_patterns = [
    "paper/*",
    "reference/*.py",
    "extensions/*",
]
nitpicky = False
# Pages whose Python blocks run, and whose outputs are shown.
executed_pages = [
    "guides/*",
    "coming_from",
    "tutorials/*",
    "faq",
]
if quick:
    executed_pages = []

# The inventories are in the repository, so that a build needs no network.
# tools/make_inventories.py writes them.
intersphinx_mapping = {
    name: (address, f"_inventories/{name}.inv")
    for name, address in {
        "python": "https://docs.python.org/3/",
        "numpy": "https://numpy.org/doc/stable/",
        "keras": "https://keras.io/",
        "sklearn": "https://scikit-learn.org/stable/",
    }.items()
}
copybutton_selector = "div:not(.output) > div.highlight > pre"

myst_enable_extensions = ["deflist", "colon_fence"]
myst_heading_anchors = 3

autodoc_inherit_docstrings = False
autodoc_member_order = "groupwise"
autodoc_typehints = "none"
napoleon_numpy_docstring = False
napoleon_use_ivar = True
napoleon_use_rtype = False
napoleon_use_admonition_for_examples = False

html_theme = "furo"
html_title = "keras_likelihood"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_search_scorer = str(HERE / "_static" / "scorer.js")
html_logo = html_favicon = "_static/logo.svg"
pygments_style = "friendly"
pygments_dark_style = "monokai"
html_theme_options = {
    "top_of_page_buttons": ["view"],
    "light_css_variables": {
        "color-brand-primary": "#2b6cb0",
        "color-brand-content": "#2b6cb0",
    },
    "dark_css_variables": {
        "color-brand-primary": "#7fb2e5",
        "color-brand-content": "#7fb2e5",
    },
}
# A published site names its repository, and each page gets an edit link.
if repository := os.environ.get("DOCS_REPOSITORY"):
    html_theme_options |= {
        "source_repository": repository,
        "source_branch": os.environ.get("DOCS_BRANCH", "main"),
        "source_directory": "docs/",
        "top_of_page_buttons": ["view", "edit"],
    }

# Methods that only Keras calls.
autodoc_default_options = {
    "exclude-members": "build, call, compute_mask, compute_output_shape, "
    "compute_output_spec, get_config, from_config, get_build_config, "
    "build_from_config, save_own_variables, load_own_variables, "
    "compute_loss, compute_metrics, train_step, test_step, "
    "get_compile_config, compile_from_config, get_metrics_result, "
    "stateless_compute_loss, set_model, set_params, on_train_begin, "
    "on_train_end, on_epoch_begin, on_epoch_end, on_train_batch_begin, "
    "on_train_batch_end"
}

sphinx_gallery_conf = {
    "examples_dirs": "../examples",
    "gallery_dirs": "auto_gallery",
    "filename_pattern": r"/(?!noisy)\w+\.py$",
    "within_subsection_order": "FileNameSortKey",
    "download_all_examples": False,
    "write_computation_times": False,
    "show_memory": False,
    "show_signature": False,
    "min_reported_time": 1000,
    "capture_repr": (),
    "abort_on_example_error": True,
    "matplotlib_animations": False,
    "remove_config_comments": True,
    "reset_modules": ("matplotlib", "seaborn"),
    "thumbnail_size": (800, 320),
}


def _convert_docstring(app, what, name, obj, options, lines):
    lines[:] = as_restructured_text(lines)


def _check_reference(app, env):
    documented = {name for name, *_ in env.get_domain("py").get_objects()}
    logger = logging.getLogger(__name__)
    for name in undocumented():
        logger.warning("public name without a docstring: %s", name)
    for name in missing(documented):
        logger.warning("public name missing from the reference: %s", name)


def setup(app):
    # Before Napoleon, which has the usual priority of 500.
    app.connect("autodoc-process-docstring", _convert_docstring, priority=400)
    app.connect("env-check-consistency", _check_reference)
