"""ActiveMQ's security plug-ins: users, their passwords and groups, and the permissions of groups."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from jdbcstore.config.data_source import is_encrypted
from jdbcstore.config.given import Given, Kind, Section
from jdbcstore.config.users import EVERYTHING, TEMPORARY, PluginUser, PluginUsers
from jdbcstore.config.xml.beans import Bean, Document, Located, Value
from jdbcstore.config.xml.login_config import LOGIN_CONFIG, Module, read_login_config, read_properties
from jdbcstore.errors import ConfigurationError, InvalidDestination
from jdbcstore.message.destination import Destination

SIMPLE, JAAS, AUTHORIZATION = "simpleAuthenticationPlugin", "jaasAuthenticationPlugin", "authorizationPlugin"
MESSAGE_POLICY = "messageAuthorizationPolicy"
_OBEYED = (SIMPLE, JAAS, AUTHORIZATION)
_ACTIVEMQ = "org.apache.activemq."
_HARMLESS = frozenset(
    f"{name}plugin"
    for name in (
        *("redelivery", "loggingbroker", "statisticsbroker", "timestampingbroker", "tracebrokerpath"),
        *("discardingdlqbroker", "forcepersistencymodebroker", "connectiondotfile", "destinationdotfile"),
        *("multicasttracebroker", "udptracebroker", "virtualselectorcachebroker", "runtimeconfiguration"),
        *("subqueueselectorcachebroker", "destinationpathseparator", "camelroutesbroker", "destinations"),
    )
)
"""Plug-ins of ActiveMQ that have nothing to do with security."""
_INSTEAD = "remove it, or give a users file of jdbcstore with --users"
_ANYBODY = "*"
_PROPERTIES_MODULE = "PropertiesLoginModule"
_USER_FILE = "org.apache.activemq.jaas.properties.user"
_GROUP_FILE = "org.apache.activemq.jaas.properties.group"

Patterns = tuple[Destination, ...]
_ALL = (*map(Destination.parse, EVERYTHING), *TEMPORARY)


def find_security(document: Document, plugins: Value) -> Section:
    """Return the ``usersFile``, which is this file, if there are plug-ins that may restrict clients.

    Plug-ins that are not supported are noted: the store opens, but the broker does not start.
    """
    section: Section = {}
    for plugin in document.beans(plugins):
        if plugin.kind not in _OBEYED and not _is_harmless(plugin):
            document.note(Kind.DANGEROUS, plugin, _unsupported(plugin))
        if not _is_harmless(plugin):
            section["usersFile"] = this_file(document, plugins)
    return section


def this_file(document: Document, at: Located) -> Given:
    """Return the path of the document itself, as the users file."""
    return Given(str(document.path.absolute()), document.place(at, ""))


def read_security(document: Document, broker: Bean) -> PluginUsers:
    """Read the users of all plug-ins of a broker.

    :raises ConfigurationError: one of the plug-ins is not supported
    """
    policy = broker.values.get(MESSAGE_POLICY)
    if policy is not None:
        text = f"jdbcstore cannot ask a {MESSAGE_POLICY} about each message; {_INSTEAD}"
        raise document.error(policy, text)
    plugins = _find_plugins(document, broker)
    logins = _Logins()
    for kind, read in ((SIMPLE, _read_simple), (JAAS, _read_jaas)):
        if kind in plugins:
            read(document, plugins[kind], logins)
    if AUTHORIZATION not in plugins:
        rights = [_Rights({_ANYBODY}, {_ANYBODY}, {_ANYBODY}, _ALL)]
    elif len(plugins) == 1:
        text = f"it needs a {SIMPLE} or a {JAAS}, which authenticates users; add one"
        raise document.error(plugins[AUTHORIZATION], text)
    else:
        rights = [*_read_authorization(document, plugins[AUTHORIZATION])]
    destinations = tuple(_destinations(document, broker.values.get("destinations")))
    users = {
        name: _user(name, password, logins.groups.get(name, set()), rights, destinations)
        for name, password in logins.passwords.items()
    }
    anonymous = None
    if logins.anonymous is not None:
        name, group = logins.anonymous
        anonymous = _user(name, "", {group}, rights, destinations)
    return PluginUsers(users, anonymous, (document.path, *logins.files))


def _find_plugins(document: Document, broker: Bean) -> Mapping[str, Bean]:
    """Find the plug-ins to obey, by kind."""
    plugins: dict[str, Bean] = {}
    for plugin in document.beans(broker.values.get("plugins")):
        if plugin.kind not in _OBEYED:
            if not _is_harmless(plugin):
                raise document.error(plugin, _unsupported(plugin))
        elif plugin.kind in plugins or {plugin.kind, *plugins} >= {SIMPLE, JAAS}:
            raise document.error(plugin, "a broker has one plug-in of this kind; keep one")
        else:
            plugins[plugin.kind] = plugin
    return plugins


@dataclass(slots=True, repr=False)
class _Logins:
    """Users by name: their passwords and groups."""

    passwords: dict[str, str] = field(default_factory=dict)
    groups: dict[str, set[str]] = field(default_factory=dict)
    anonymous: tuple[str, str] | None = None
    """The name and group of clients without a login."""
    files: list[Path] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class _Rights:
    """An ``authorizationEntry``: the groups that may read, write and create, and the destinations."""

    read: set[str]
    write: set[str]
    admin: set[str]
    where: Patterns


def _is_harmless(plugin: Bean) -> bool:
    package, _, name = plugin.kind.rpartition(".")
    return name.lower() in _HARMLESS and (not package or package.startswith(_ACTIVEMQ))


def _unsupported(plugin: Bean) -> str:
    return f"jdbcstore does not obey {plugin.class_name}, which may restrict clients; {_INSTEAD}"


def _user(name: str, password: str, groups: set[str], rights: list[_Rights], made: Patterns) -> PluginUser:
    """Return a user with the permissions of all entries that match, as in ActiveMQ."""

    def patterns(option: str) -> Patterns:
        granted = [right for right in rights if getattr(right, option) & {*groups, _ANYBODY}]
        return tuple(dict.fromkeys(pattern for right in granted for pattern in right.where))

    create = (*patterns("admin"), *made)
    return PluginUser(name, password, patterns("read"), patterns("write"), create, frozenset(groups))


def _read_simple(document: Document, plugin: Bean, logins: _Logins) -> None:
    names = ("anonymousAccessAllowed", "anonymousUser", "anonymousGroup")
    options = _texts(document, plugin, names, ("users",))
    if options.get(names[0], "").lower() == "true":
        logins.anonymous = options.get(names[1], "anonymous"), options.get(names[2], "anonymous")
    for user in document.beans(plugin.values.get("users")):
        texts = _texts(document, user, ("username", "password", "groups"))
        if user.kind != "authenticationUser" or not texts.keys() >= {"username", "password"}:
            text = "write each user as authenticationUser with username, password and groups"
            raise document.error(user, text, "users")
        _read_login(logins, texts["username"], texts["password"], document.place(user))
        logins.groups[texts["username"]] = _names(texts.get("groups", ""))


def _read_login(logins: _Logins, name: str, password: str, place: str) -> None:
    if is_encrypted(password):
        text = (
            f"the password of {name} is encrypted by Jasypt, which only ActiveMQ's Java can decrypt; write it"
            " in plain text, in a file that only the broker may read, or give a users file with --users"
        )
        raise ConfigurationError(text, place=place)
    logins.passwords[name] = password


def _read_jaas(document: Document, plugin: Bean, logins: _Logins) -> None:
    options = _texts(document, plugin, ("configuration", "discoverLoginConfig"))
    domain = options.get("configuration", "activemq-domain")
    location = document.text(Value(LOGIN_CONFIG, plugin.line), f"${{{LOGIN_CONFIG}:login.config}}")
    path = document.path.parent / location
    module = _only_module(read_login_config(document, path, domain, JAAS), path, domain)
    folder = path.parent / module.get("baseDir", "")
    users, groups = folder / module.get(_USER_FILE, "user"), folder / module.get(_GROUP_FILE, "group")
    for name, password in read_properties(users, JAAS).items():
        _read_login(logins, name, password, str(users))
    for group, members in read_properties(groups, JAAS).items():
        for member in members.split(","):
            logins.groups.setdefault(member, set()).add(group)
    logins.files += [path, users, groups]


def _only_module(modules: list[Module], path: Path, domain: str) -> Mapping[str, str]:
    """Return the options of the only module of a domain.

    :raises ConfigurationError: there are several, or it is of another class
    """
    for module in modules:
        if len(modules) > 1 or module.class_name != _PROPERTIES_MODULE:
            text = f"jdbcstore obeys only one {_PROPERTIES_MODULE}, not {module.class_name}"
            raise ConfigurationError(f"domain {domain}: {text}; {_INSTEAD}", place=str(path))
    [module] = modules
    return module.options


def _read_authorization(document: Document, plugin: Bean) -> Iterator[_Rights]:
    bean = document.resolve(plugin.values.get("map"))
    if bean is None or bean.kind != "authorizationMap" or plugin.values.keys() != {"map"}:
        kind = "nothing" if bean is None else bean.class_name
        text = f"jdbcstore obeys only an authorizationMap of authorizationEntries, not {kind}; {_INSTEAD}"
        raise document.error(bean or plugin, text, AUTHORIZATION)
    entries = ("authorizationEntries", "defaultEntry", "tempDestinationAuthorizationEntry")
    _check_groups(document, bean, _texts(document, bean, ("groupClass",), entries))
    if entries[2] not in bean.values:
        yield _Rights({_ANYBODY}, {_ANYBODY}, {_ANYBODY}, TEMPORARY)
    for name in entries:
        for entry in document.beans(bean.values.get(name)):
            yield _read_entry(document, entry, name)


def _read_entry(document: Document, entry: Bean, name: str) -> _Rights:
    where = ("queue", "topic", "tempQueue", "tempTopic")
    texts = _texts(document, entry, ("read", "write", "admin", "groupClass", *where), ("destination",))
    _check_groups(document, entry, texts)
    patterns: Patterns = ()
    if name == "defaultEntry":
        patterns = tuple(map(Destination.parse, EVERYTHING))
    elif name == "tempDestinationAuthorizationEntry":
        patterns = TEMPORARY
    else:
        try:
            for kind, make in (("queue", Destination.queue), ("topic", Destination.topic)):
                patterns += make(texts[kind]).members if kind in texts else ()
        except InvalidDestination as error:
            raise document.error(entry, str(error)) from error
        patterns += tuple(_destinations(document, entry.values.get("destination")))
    read, write, admin = (_names(texts.get(right, "")) for right in ("read", "write", "admin"))
    return _Rights(read, write, admin, patterns)


def _check_groups(document: Document, bean: Bean, texts: Mapping[str, str]) -> None:
    if not texts.get("groupClass", "GroupPrincipal").endswith("GroupPrincipal"):
        text = f"jdbcstore supports only groups of the class GroupPrincipal; {_INSTEAD}"
        raise document.error(bean, text, "groupClass")


def _destinations(document: Document, value: Value | None) -> Iterator[Destination]:
    """Yield the destinations of ``queue`` and ``topic`` elements."""
    make = {"queue": Destination.queue, "topic": Destination.topic}
    for bean in document.beans(value):
        name = bean.values.get("physicalName")
        if bean.kind in make and name is not None:
            try:
                yield from make[bean.kind](document.text(name, name.text)).members
            except InvalidDestination as error:
                raise document.error(bean, str(error)) from error


def _texts(
    document: Document, bean: Bean, names: tuple[str, ...], elements: tuple[str, ...] = ()
) -> dict[str, str]:
    """Read the attributes of a bean; an unknown one is an error, because it could revoke a permission."""
    texts = {}
    for name, value in bean.values.items():
        if name in elements:
            continue
        if name not in names or value.text is None:
            text = f"jdbcstore does not obey {name} of {bean.class_name}; {_INSTEAD}"
            raise document.error(value, text)
        texts[name] = document.text(value, value.text)
    return texts


def _names(text: str) -> set[str]:
    return {name.strip() for name in text.split(",") if name.strip()}
