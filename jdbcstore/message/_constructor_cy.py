"""A constructor of messages that is faster for usual arguments, if it is compiled."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from jdbcstore.util.core import use_compiled
from jdbcstore.util.core.plain import copy, places, put


def constructor(
    init: Callable[..., None],
    slots: Sequence[str],
    templates: Mapping[type, Any],
    rules: Mapping[str, tuple[type, bool, int]],
    properties: Callable[[Any], Any],
) -> Callable[..., None]:
    """Return a constructor as ``init``, faster for usual arguments when compiled.

    ``templates`` are objects with nothing but a body, by the type of a body that is kept as it is. ``slots``
    begin with those of the body and the properties. ``rules`` are the type of a header, whether it may be
    None, and the largest of numbers from 0; arguments of other names, or other values, and bodies of other
    types, are for ``init``. ``properties`` checks a dict.
    """
    cls = type(next(iter(templates.values())))
    every = places(cls, slots)
    rule_of: dict[str, Any] = {name: (slots.index(name), *rule) for name, rule in rules.items()}

    def __init__(self: Any, *args: Any, **fields: Any) -> None:  # noqa: N807
        template = templates.get(type(args[0])) if len(args) == 1 else None
        if template is None or type(self) is not cls:
            init(self, *args, **fields)
            return
        copy(self, template, every)
        put(self, every, 0, args[0])
        given = None
        for name, value in fields.items():
            rule = rule_of.get(name)
            if rule is not None:
                at, kind, optional, most = rule
                is_usual = optional and value is None
                if type(value) is kind:
                    is_usual = kind is not int or 0 <= value <= most
                if is_usual:
                    put(self, every, at, value)
                    continue
            elif name == "properties" and (not value or type(value) is dict):
                given = value
                continue
            init(self, *args, **fields)
            return
        if given:
            put(self, every, 1, properties(given))

    return __init__


use_compiled(globals())
