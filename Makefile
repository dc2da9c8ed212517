# Two commands: `make demo` and `make test`. Each makes .venv and installs
# what it needs; nothing else on the machine is touched.

PYTHON ?= python3
PYTEST_ARGS ?= -n 2 --dist worksteal
TORCH ?= torch==2.13.0

VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check

.PHONY: demo test test-all test-jax test-torch test-as-users lint docs \
	docs-quick paper release-test clean

demo: $(VENV)/installed-demo
	TF_CPP_MIN_LOG_LEVEL=3 $(BIN)/python -W ignore examples/demo.py

# The suite on TensorFlow. Where a test has many cases, a few stand for all.
test: $(VENV)/installed-test $(VENV)/installed-tensorflow
	KERAS_BACKEND=tensorflow $(BIN)/python -m pytest $(PYTEST_ARGS) --every-test

# All backends, with every case on PyTorch; pages, guides and the release.
test-all: lint test test-jax test-torch test-as-users docs release-test

test-jax: $(VENV)/installed-test $(VENV)/installed-jax
	KERAS_BACKEND=jax $(BIN)/python -m pytest $(PYTEST_ARGS)

# Studies of the paper, each for a few steps, are quickest on PyTorch.
STUDIES := tests/test_paper_examples.py

# Every case on PyTorch, with the oldest Keras that is supported, in an
# environment of its own.
OLDEST := build/oldest-venv

test-torch: $(OLDEST)/installed
	KERAS_BACKEND=torch $(OLDEST)/bin/python -m pytest $(PYTEST_ARGS) \
		--every-case
	KERAS_BACKEND=torch $(OLDEST)/bin/python -m pytest $(PYTEST_ARGS) \
		-m pages $(STUDIES)

# Trainings as users run them, without what makes tests compile faster, and
# on several devices and processes: `fit` with metrics, validation and a
# stream, `evaluate`, `predict` and a saved model.
ONE_STEP := tests/models/test_one_step.py
AS_USERS := \
	$(ONE_STEP)::test_a_stream_with_nan_leaves_finite_weights \
	$(ONE_STEP)::test_keras_metrics_of_classes_get_the_learned_temperature \
	$(ONE_STEP)::test_a_learned_parameter_shows_in_the_history_alone \
	$(ONE_STEP)::test_a_list_of_outputs \
	tests/models/test_processes.py tests/data_parameters/test_scale_out.py

test-as-users: $(VENV)/installed-test $(VENV)/installed-tensorflow \
		$(VENV)/installed-jax
	for backend in tensorflow jax; do \
		AS_USERS=1 KERAS_BACKEND=$$backend $(BIN)/python -m pytest \
			$(PYTEST_ARGS) --every-case $(AS_USERS) || exit 1; \
	done

lint: $(VENV)/installed-lint
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/codespell

$(OLDEST)/installed: pyproject.toml
	$(PYTHON) -m venv $(OLDEST)
	$(OLDEST)/bin/python -m pip install --quiet \
		--disable-pip-version-check --editable ".[test]" \
		"keras==3.15.0" $(TORCH)
	@touch $@

# The site, and what its pages say: guides run, numbers are those of results.
docs: $(VENV)/installed-docs $(VENV)/installed-test \
		$(VENV)/installed-tensorflow
	TF_CPP_MIN_LOG_LEVEL=3 $(BIN)/python -m sphinx -W -b html docs build/docs
	KERAS_BACKEND=tensorflow $(BIN)/python -m pytest $(PYTEST_ARGS) \
		--every-test -m "pages and not slow" --ignore $(STUDIES)

# The pages alone: no guide, example or notebook runs. Less than a minute.
docs-quick: $(VENV)/installed-docs
	rm -rf docs/auto_gallery
	DOCS_QUICK=1 TF_CPP_MIN_LOG_LEVEL=3 $(BIN)/python -m sphinx -W -b html \
		docs build/docs-quick

# Every study of the paper that runs on a CPU; needs KERAS_LIKELIHOOD_DATA.
NO_STUDIES := auto_encoders corrupted_images get_data recipe results
PAPER := $(filter-out $(NO_STUDIES:%=benchmarks/paper/%.py), \
	$(wildcard benchmarks/paper/*.py))

paper: $(VENV)/installed-test $(VENV)/installed-jax
	for study in $(PAPER); do \
		KERAS_BACKEND=jax $(BIN)/python $$study || exit 1; \
	done
	KERAS_BACKEND=jax $(BIN)/python benchmarks/paper/corrupted_images.py --digits
	$(BIN)/python benchmarks/tables_of_pages.py

# Wheel and sdist: their contents, their metadata, and the wheel alone in an
# empty environment with JAX and no TensorFlow.
release-test: $(VENV)/installed-test
	rm -rf dist build/wheel-venv
	$(BIN)/python -m build --outdir dist . > /dev/null
	$(BIN)/python -m twine check --strict dist/*
	$(BIN)/python tests/check_release.py dist
	$(PYTHON) -m venv build/wheel-venv
	build/wheel-venv/bin/python -m pip install --quiet \
		--disable-pip-version-check "$$(ls dist/*.whl)[jax]"
	cd build && KERAS_BACKEND=jax wheel-venv/bin/python ../tests/smoke.py

clean:
	rm -rf $(VENV) build dist report examples/report docs/auto_gallery docs/auto_figures \
		docs/reference/api *.egg-info

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/installed-demo: pyproject.toml | $(BIN)/python
	$(PIP) --editable ".[tensorflow,all]"
	@touch $@

$(VENV)/installed-docs: pyproject.toml | $(BIN)/python
	$(PIP) --editable ".[tensorflow,docs]"
	@touch $@

$(VENV)/installed-lint: pyproject.toml | $(BIN)/python
	$(PIP) --editable ".[lint]"
	@touch $@

$(VENV)/installed-test: pyproject.toml | $(BIN)/python
	$(PIP) --editable ".[test]"
	@touch $@

$(VENV)/installed-tensorflow: pyproject.toml | $(BIN)/python
	$(PIP) --editable ".[tensorflow,tfp,datasets]"
	@touch $@

$(VENV)/installed-jax: pyproject.toml | $(BIN)/python
	$(PIP) --editable ".[jax]"
	@touch $@

# Pinned: newer builds bring gigabytes of CUDA along.
$(VENV)/installed-torch: pyproject.toml | $(BIN)/python
	$(PIP) $(TORCH) onnxscript
	@touch $@
