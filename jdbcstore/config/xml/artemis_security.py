"""Artemis's security-settings: the users of its properties files, and the permissions of their roles."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from jdbcstore.config.users import PluginUser, PluginUsers, Setting
from jdbcstore.config.xml.artemis_addresses import Wildcards
from jdbcstore.config.xml.artemis_codec import Codec, is_hash, unwrapped
from jdbcstore.config.xml.beans import Document, Element, parse_xml
from jdbcstore.config.xml.login_config import Module, read_login_config, read_properties
from jdbcstore.errors import ConfigurationError, InvalidDestination
from jdbcstore.message.destination import Destination

_LOGIN_CONFIG, _BOOTSTRAP = "login.config", "bootstrap.xml"
_PROPERTIES, _GUEST = "PropertiesLoginModule", "GuestLoginModule"
_USERS = "org.apache.activemq.jaas.properties.user"
_ROLES = "org.apache.activemq.jaas.properties.role"
_GUEST_USER, _GUEST_ROLE = "org.apache.activemq.jaas.guest.user", "org.apache.activemq.jaas.guest.role"
Settings = list[tuple[str, Mapping[str, set[str]]]]
"""Patterns of addresses, and the roles of each permission there."""
_INSTEAD = "write them in artemis-users.properties, or give a users file of jdbcstore with --users"


def is_secured(core: Element) -> bool:
    """Return whether a broker asks who its clients are: ``security-enabled`` is true by default."""
    return not any(
        child.name == "security-enabled" and child.text.lower() == "false" for child in core.children
    )


def read_artemis_users(document: Document, core: Element) -> PluginUsers:
    """Read the users, and the permissions of each.

    :raises ConfigurationError: a file cannot be read, or something is not supported
    """
    settings = [*_settings(document, core)]
    path = document.path.parent / _LOGIN_CONFIG
    domain = _domain(document.path.parent / _BOOTSTRAP)
    modules = read_login_config(document, path, domain, "Artemis")
    codec = Codec(next((child.text for child in core.children if child.name == "password-codec"), ""))
    passwords: dict[str, str] = {}
    roles: dict[str, set[str]] = {}
    files = [path]
    anonymous: PluginUser | None = None
    for module in modules:
        if module.class_name == _PROPERTIES:
            files += _read_files(module, path, codec, passwords, roles)
        elif module.class_name == _GUEST:
            role = {module.options.get(_GUEST_ROLE, "guests")}
            anonymous = _user(module.options.get(_GUEST_USER, "guest"), "", role, settings)
        else:
            text = f"domain {domain}: jdbcstore obeys {_PROPERTIES} and {_GUEST}, not {module.class_name}"
            raise ConfigurationError(f"{text}; {_INSTEAD}", place=str(path))
    users = {
        name: _user(name, password, roles.get(name, set()), settings) for name, password in passwords.items()
    }
    return PluginUsers(users, anonymous, (document.path, *files))


def _user(
    name: str, password: str, roles: set[str], settings: list[tuple[str, Mapping[str, set[str]]]]
) -> PluginUser:
    masked = unwrapped(password)
    return PluginUser(
        name,
        password if masked is None else masked,
        (),
        (),
        (),
        frozenset(roles),
        is_hash=masked is not None,
        settings=tuple(_of_roles(roles, settings)),
    )


def _of_roles(roles: set[str], settings: Settings) -> Iterator[Setting]:
    """Yield the permissions of these roles for queues and topics of each name."""

    def has(permissions: Mapping[str, set[str]], *names: str) -> bool:
        return all(roles & permissions.get(name, set()) for name in names)

    for pattern, permissions in settings:
        write = has(permissions, "send")
        yield Setting(
            Destination.queue(pattern),
            read=has(permissions, "consume"),
            write=write,
            create=has(permissions, "createAddress", "createDurableQueue"),
        )
        # A subscriber has a queue of its own, which it creates.
        subscribes = has(permissions, "consume", "createNonDurableQueue", "createDurableQueue")
        create = has(permissions, "createAddress")
        yield Setting(Destination.topic(pattern), read=subscribes, write=write, create=create)


def _settings(document: Document, core: Element) -> Iterator[tuple[str, Mapping[str, set[str]]]]:
    """Yield each pattern of addresses with the roles of each permission."""
    wildcards = Wildcards(document, core)
    for outer in core.children:
        for setting in outer.children if outer.name == "security-settings" else ():
            if setting.name != "security-setting":
                text = f"{setting.name} is not supported, which may refuse clients; {_INSTEAD}"
                raise document.error(setting, text)
            match = document.text(setting, setting.attributes.get("match", ""))
            pattern = wildcards.pattern(setting, match)
            try:
                Destination.queue(pattern)
            except InvalidDestination as error:
                raise document.error(setting, f"match is not an address: {error}") from error
            permissions: dict[str, set[str]] = {}
            for child in setting.children:
                roles = document.text(child, child.attributes.get("roles", ""))
                names = {name.strip() for name in roles.split(",") if name.strip()}
                permissions.setdefault(child.attributes.get("type", ""), set()).update(names)
            yield pattern, permissions


def _domain(bootstrap: Path) -> str:
    """Return the domain of the login.config that Artemis's bootstrap.xml names."""
    try:
        root = parse_xml(bootstrap, bootstrap.read_bytes())
    except OSError:
        return "activemq"
    domains = (element.attributes.get("domain") for element in root.all("jaas-security"))
    return next(filter(None, domains), "activemq")


def _read_files(
    module: Module, path: Path, codec: Codec, passwords: dict[str, str], roles: dict[str, set[str]]
) -> list[Path]:
    folder = path.parent / module.options.get("baseDir", "")
    users = folder / module.options.get(_USERS, "artemis-users.properties")
    of_roles = folder / module.options.get(_ROLES, "artemis-roles.properties")
    for name, password in read_properties(users, "Artemis").items():
        masked = unwrapped(password)
        try:
            is_plain = masked is None or is_hash(masked)
            passwords[name] = password if is_plain else codec.decode(masked or "")
        except ConfigurationError as error:
            raise ConfigurationError(f"the password of {name}: {error}", place=str(users)) from error
    for role, members in read_properties(of_roles, "Artemis").items():
        for member in members.split(","):
            roles.setdefault(member, set()).add(role)
    return [users, of_roles]
