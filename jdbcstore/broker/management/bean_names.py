"""Object names of ActiveMQ's MBeans, and patterns of such names."""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from jdbcstore.errors import StoreError

DOMAIN = "org.apache.activemq"
_ESCAPED = re.compile(r'[:\\*?,="]')
_LONGEST = 4_000
"""The most characters of a name or a pattern."""
_LONGEST_PATTERN = 300
"""The most characters of one value with wildcards, because its compiled form is much larger, and cached."""

Keys = frozenset[tuple[str, str]]
"""The keys of a name, in any order."""


class NoSuchBean(StoreError, LookupError):
    """No MBean has this name."""


class NotABeanName(StoreError, ValueError):
    """The string is not an object name."""


@dataclass(frozen=True, slots=True, eq=False)
class BeanName:
    """An object name of JMX, or a pattern of such names."""

    domain: str
    keys: Mapping[str, str]
    more: bool = False
    """Whether it also matches names with more keys, because it ends with ``,*``."""

    @classmethod
    def parse(cls, text: str) -> BeanName:
        """Parse an object name.

        :raises NotABeanName: it is not one
        """
        if len(text) > _LONGEST:
            raise NotABeanName(f"It is longer than {_LONGEST} characters")
        domain, colon, rest = text.partition(":")
        if not colon:
            raise NotABeanName("Domain part must be specified" if text else "Empty object name")
        keys: dict[str, str] = {}
        more = False
        for part in rest.split(","):
            key, equals, value = part.partition("=")
            if part == "*":
                more = True
            elif not equals or not key or key in keys:
                raise NotABeanName(f"Key properties cannot be {'empty' if not part else repr(part[:80])}")
            else:
                keys[key] = value
        return cls(domain, keys, more)

    @property
    def known_by(self) -> Keys:
        """Its keys, in any order."""
        return frozenset(self.keys.items())

    @property
    def is_pattern(self) -> bool:
        """Whether it may match several names."""
        return self.more or any(set(text) & set("*?") for text in (self.domain, *self.keys.values()))

    def matching(self, names: Iterable[BeanName]) -> list[BeanName]:
        """Return the names that this pattern matches.

        :raises NotABeanName: a value with wildcards is too long
        """
        of_domain = _matcher(self.domain)
        matchers = [(key, _matcher(pattern)) for key, pattern in self.keys.items()]
        return [
            name
            for name in names
            if (self.more or name.keys.keys() == self.keys.keys())
            and of_domain(name.domain)
            and all(key in name.keys and matches(name.keys[key]) for key, matches in matchers)
        ]

    @property
    def canonical_keys(self) -> str:
        """Its keys, sorted."""
        parts = [f"{key}={self.keys[key]}" for key in sorted(self.keys)]
        return ",".join([*parts, "*"] if self.more else parts)

    @property
    def registered_keys(self) -> str:
        """Its keys in ActiveMQ's order, which tools use to build their trees."""
        return ",".join(f"{key}={value}" for key, value in self.keys.items())

    def __str__(self) -> str:
        return f"{self.domain}:{self.canonical_keys}"


def _matcher(pattern: str) -> Callable[[str], object]:
    if not set(pattern) & set("*?"):
        return pattern.__eq__
    if len(pattern) > _LONGEST_PATTERN:
        raise NotABeanName(f"A value with wildcards is longer than {_LONGEST_PATTERN} characters")
    return re.compile(fnmatch.translate(pattern.replace("[", "[[]"))).match


def escaped(text: str) -> str:
    """Escape a key's value like ActiveMQ, for characters that object names cannot contain."""
    return _ESCAPED.sub("_", text)
