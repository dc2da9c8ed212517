"""Full signatures in the reference, without `**options`.

A class often passes `**options` on to its base. The reference shows the
keywords that the base takes instead. Methods that only Keras calls are left
out.
"""

import ast
import inspect
import textwrap

PACKAGE = "keras_likelihood"
HIDDEN = {
    *("build", "call", "compute_mask", "compute_output_shape"),
    *("compute_output_spec", "get_config", "from_config"),
    *("get_build_config", "build_from_config", "save_own_variables"),
    *("load_own_variables", "compute_loss", "compute_metrics", "train_step"),
    *("test_step", "get_compile_config", "compile_from_config"),
    *("get_metrics_result", "stateless_compute_loss", "set_model"),
    *("on_train_begin", "on_train_end", "on_epoch_begin", "on_epoch_end"),
    *("on_train_batch_begin", "on_train_batch_end", "set_params"),
}
"""Methods of Keras that users do not call."""


def full_signature(cls: type) -> inspect.Signature:
    """The signature that the reference shows for a class."""
    import keras

    if issubclass(cls, keras.Model):
        found = _of_model(cls)
    elif hasattr(cls, "define"):
        # A family of likelihoods: a call with arguments makes a class.
        found = list(inspect.signature(cls.define).parameters.values())
    elif hasattr(cls, "event_rank"):
        found = _of_likelihood(cls)
    else:
        found = _merged(cls)
        if getattr(cls, "likelihood", None) is not None:
            found = _of_one_likelihood(cls, found)
    return inspect.Signature(
        [p.replace(annotation=inspect.Parameter.empty) for p in found]
    )


def _of_model(cls):
    """Keras needs `*args, **kwargs` in the code of a functional model."""
    if cls.__name__ == "Ensemble":
        return _made("build", members=5, inputs=None, name=None)
    return _made("inputs", "outputs", name=None)


def _of_likelihood(cls):
    names = [parameter.name for parameter in getattr(cls, "parameters", ())]
    found = list(inspect.signature(cls.__init__).parameters.values())[1:]
    if names:
        found = [p for p in found if p.kind is not p.VAR_KEYWORD]
    keywords = [
        inspect.Parameter(n, inspect.Parameter.KEYWORD_ONLY) for n in names
    ]
    return found + keywords


def _of_one_likelihood(cls, found):
    """A loss of one likelihood takes neither another one nor its name."""
    missing = {p.name for p in cls.likelihood.parameters}
    missing -= {p.name for p in found}
    if "likelihood" not in inspect.signature(cls).parameters or (
        "__init__" not in vars(cls)
    ):
        found = [p for p in found if p.name != "likelihood"]
    return [p for p in found if missing or p.kind is not p.VAR_KEYWORD]


def _merged(cls, start=0):
    """Parameters of `__init__`, with the keywords that bases take."""
    place, owner = _owner(cls, start)
    if owner is object:
        return []
    own = list(inspect.signature(owner.__init__).parameters.values())[1:]
    base = _owner(cls, place + 1)[1]
    passed_on = any(p.kind is p.VAR_KEYWORD for p in own)
    if not passed_on or not base.__module__.startswith(PACKAGE):
        return own
    given = _passed_keywords(owner)
    own = [p for p in own if p.kind is not p.VAR_KEYWORD]
    names = {p.name for p in own} | given
    inherited = [
        p
        for p in _merged(cls, place + 1)
        if p.name not in names and p.kind in (p.KEYWORD_ONLY, p.VAR_KEYWORD)
    ]
    if given and "likelihood" not in names:
        # The loss names the parameters of its likelihood itself.
        inherited = [p for p in inherited if p.name != "parameters"]
    return own + inherited


def with_options(cls: type, lines: list[str]) -> list[str]:
    """A docstring with the arguments of the bases in place of `**options`."""
    place = next(
        (i for i, line in enumerate(lines) if line.startswith("    **")), None
    )
    if place is None:
        return lines
    own = _described(lines)
    name = lines[place].strip().partition(":")[0]
    inherited = {}
    for base in reversed(cls.__mro__[1:]):
        if base.__module__.startswith(PACKAGE):
            inherited |= _described(
                inspect.cleandoc(base.__doc__ or "").split("\n")
            )
    signature = full_signature(cls).parameters.values()
    names = [
        f"**{p.name}" if p.kind is p.VAR_KEYWORD else p.name for p in signature
    ]
    shown = [n for n in names if n not in own]
    if name == "**parameters" or not any(n in inherited for n in shown):
        return lines
    added = [line for n in shown for line in inherited.get(n, [])]
    return lines[:place] + added + lines[place + len(own[name]) :]


def _described(lines):
    """The lines about each argument, by its name."""
    found, name = {}, None
    section = False
    for line in lines:
        if line and not line.startswith(" "):
            section = line == "Args:"
            name = None
        elif section and line.startswith("    ") and line[4:5].strip():
            name = line.strip().partition(":")[0]
            found[name] = [line]
        elif section and name and line.strip():
            found[name].append(line)
    return found


def _owner(cls, start):
    """The first class from `start` on that defines `__init__`."""
    for place, one in enumerate(cls.__mro__):
        if place >= start and "__init__" in vars(one):
            return place, one
    return len(cls.__mro__), object


def _passed_keywords(owner):
    """Keywords that `__init__` passes to its base by name."""
    source = textwrap.dedent(inspect.getsource(owner.__init__))
    return {
        keyword.arg
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Call)
        and ast.unparse(node.func) == "super().__init__"
        for keyword in node.keywords
        if keyword.arg
    }


def _made(*names, **keywords):
    one = inspect.Parameter
    return [
        *(one(name, one.POSITIONAL_OR_KEYWORD) for name in names),
        *(
            one(name, one.KEYWORD_ONLY, default=default)
            for name, default in keywords.items()
        ),
    ]


def _show(app, what, name, obj, options, signature, returns):
    from sphinx.util.inspect import stringify_signature

    # Other signatures are complete. `*args` is what Keras shows for layers.
    if what != "class" or "**" not in (signature or ""):
        return None
    return stringify_signature(full_signature(obj)), returns


def _expand(app, what, name, obj, options, lines):
    if what == "class":
        lines[:] = with_options(obj, lines)


def _skip(app, what, name, obj, skip, options):
    return True if name in HIDDEN else None


def setup(app):
    app.connect("autodoc-process-signature", _show)
    # Before the Markdown of the docstring is converted.
    app.connect("autodoc-process-docstring", _expand, priority=300)
    app.connect("autodoc-skip-member", _skip)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
