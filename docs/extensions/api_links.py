"""Names of the package, of Keras and of NumPy in prose become links.

`NormalLoss()` or `kl.audit` in backticks leads to the reference, and
`keras.Model` to the reference of Keras. The author writes the name alone.
"""

from api_names import full_name
from docutils import nodes
from public_names import public_names
from sphinx.addnodes import pending_xref
from sphinx.transforms.post_transforms import SphinxPostTransform

LEFT_ALONE = (nodes.reference, nodes.title, pending_xref, nodes.rubric)


def known_names(env):
    """Everything that has an entry here or in one of the inventories."""
    inventory = getattr(env, "intersphinx_inventory", {})
    outside = {name for kind in inventory.values() for name in kind}
    ours = {name for name, *_ in env.get_domain("py").get_objects()}
    return ours | outside | set(public_names())


class LinkNames(SphinxPostTransform):
    """Before references are resolved, which happens at priority 10."""

    default_priority = 5

    def run(self, **kwargs):
        if not hasattr(self.app, "linked_names"):
            self.app.linked_names = known_names(self.env)
        for node in list(self.document.findall(nodes.literal)):
            if _is_linked(node):
                continue
            page = self.env.docname
            name = full_name(node.astext(), self.app.linked_names, page)
            if name is None:
                continue
            link = pending_xref(
                "",
                node.deepcopy(),
                refdomain="py",
                reftype="obj",
                reftarget=_documented(name, self.env),
                refdoc=page,
                refexplicit=True,
                refwarn=False,
            )
            node.replace_self(link)


def _documented(name, env):
    """A name at the top of the package is described in its subpackage."""
    documented = {name for name, *_ in env.get_domain("py").get_objects()}
    names = public_names()
    if name in documented or name not in names:
        return name
    return next(
        (n for n in names if names[n] is names[name] and n in documented), name
    )


def _is_linked(node):
    parent = node.parent
    while parent is not None:
        if isinstance(parent, LEFT_ALONE):
            return True
        parent = parent.parent
    return False


def setup(app):
    app.add_post_transform(LinkNames)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
