"""Links from every mention of an error, a public name, an option or a command to where it is described."""

from __future__ import annotations

import re
from dataclasses import fields
from typing import TYPE_CHECKING, Any

from docutils import nodes
from sphinx.transforms.post_transforms import SphinxPostTransform
from sphinx.util.nodes import make_refnode

if TYPE_CHECKING:
    from sphinx.application import Sphinx


class Mentions(SphinxPostTransform):
    """Code in running text that is exactly one such name becomes a link."""

    default_priority = 5

    def run(self, **_: Any) -> None:
        for literal in list(self.document.findall(nodes.literal)):
            if isinstance(literal.parent, nodes.reference | nodes.title | nodes.term) or _linked(literal):
                continue
            target = self._target(literal.astext())
            if target is None or target[0] == self.env.docname:
                continue
            page, anchor = target
            literal.replace_self(
                make_refnode(self.app.builder, self.env.docname, page, anchor, [literal.deepcopy()])
            )

    def _target(self, text: str) -> tuple[str, str] | None:
        if command := re.fullmatch(r"jdbcstore ([a-z-]+)(?: .*)?", text):
            page = f"generated/commands/{command[1]}"
            return (page, "") if page in self.env.all_docs else None
        if text in _options():
            return "reference", "options"
        objects = self.env.domains["py"].data["objects"]
        for name in (text, f"jdbcstore.errors.{text}", f"jdbcstore.{text}"):
            entry = objects.get(name.removesuffix("()"))
            if entry is not None and name.startswith("jdbcstore"):
                return entry.docname, entry.node_id
        return None


def _linked(node: nodes.Node) -> bool:
    while node.parent is not None:
        node = node.parent
        if isinstance(node, nodes.reference) or type(node).__name__ in ("pending_xref", "desc_signature"):
            return True
    return False


def _options() -> frozenset[str]:
    from jdbcstore import StoreConfig

    return frozenset(field.name for field in fields(StoreConfig)) - {"adapter", "statements"}


def setup(app: Sphinx) -> dict[str, bool]:
    app.add_post_transform(Mentions)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
