"""A subset of Jolokia's protocol: JMX over HTTP, at ``/api/jolokia`` as in ActiveMQ.

The status of a request is in its answer, and the HTTP status is 200, so that a list of requests has one
answer for each. Requests that a page of another origin can send without a preflight may only read: forms, and
requests of scripts without a content type or with a simple one.
"""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import dataclass
from itertools import count
from typing import Any
from urllib.parse import unquote
from uuid import uuid4

from aiohttp import web

from jdbcstore.broker.management.audit import Actor
from jdbcstore.broker.management.bean_names import BeanName, NoSuchBean, NotABeanName
from jdbcstore.broker.management.bean_operations import BeanCall, BeanOperation, described, operations_of
from jdbcstore.broker.management.beans import Beans
from jdbcstore.broker.management.guard import CHANGE_HEADER, Guard
from jdbcstore.broker.management.http import MAX_BODY, body_of
from jdbcstore.broker.management.management import Management
from jdbcstore.broker.operations import NotARequest
from jdbcstore.config.users import MANAGE, ROLES, VIEW
from jdbcstore.errors import StoreError
from jdbcstore.message.ids import MessageId, ProducerId

log = logging.getLogger(__name__)

AGENT, PROTOCOL = "1.7.1", "7.2"
"""The version of Jolokia in ActiveMQ 5.17, and the version of its protocol."""
MOST = 1000
"""The most requests in one list."""
MOST_BYTES = 32 * 1024 * 1024
"""Size of the answers to one list, after which its other requests are not carried out."""
_AT_ONCE = 4
"""Requests that read at the same time; each may need memory for the whole broker."""
_SPLIT = 3
"""The levels of an answer that are encoded part by part: value, domain or MBean, MBean or attribute."""
_JSON = ("application/json", "text/json")
"""Content types that a page cannot send to another origin without a preflight, which is not answered."""
_JAVA = "java.lang."


@dataclass(slots=True)
class _Caller:
    actor: Actor
    role: str
    may_change: bool
    """Whether a page of another origin cannot have sent this."""
    beans: Beans
    """The snapshot for all requests of a list, until one of them makes a change."""


class _Refused(Exception):
    """An error as the answer to one request, with a status and a Java class."""

    def __init__(self, status: int, kind: str, text: str) -> None:
        super().__init__(text)
        self.status = status
        self.kind = kind


def _wrong(text: str) -> _Refused:
    return _Refused(400, f"{_JAVA}IllegalArgumentException", text)


class Jolokia:
    """The protocol, over one broker.

    :param broker: the broker's name, in the names of its MBeans
    """

    def __init__(self, management: Management, guard: Guard, broker: str) -> None:
        self._management = management
        self._guard = guard
        self._broker = broker
        self._turns = asyncio.Semaphore(_AT_ONCE)
        producer, numbers = ProducerId(f"ID:jolokia-{uuid4().hex[:16]}", 1, 1), count(1)
        self._new_id: Callable[[], MessageId] = lambda: MessageId(producer, next(numbers))

    def application(self) -> web.Application:
        """Return an application to be mounted under ``/api/jolokia``."""
        application = web.Application(client_max_size=MAX_BODY)
        application.router.add_get("", self._get)
        application.router.add_post("", self._post)
        application.router.add_get("/{path:.*}", self._get)
        application.router.add_post("/{path:.*}", self._post)
        return application

    async def _get(self, request: web.Request) -> web.Response:
        asker = await self._asker(request)
        parts = _split(unquote(request.rel_url.raw_path).partition("/jolokia")[2].strip("/"))
        try:
            wanted = {**_of_path(parts), **{f"?{name}": value for name, value in request.query.items()}}
        except _Refused as error:
            return await _page(_error({}, error), request)
        async with self._turn(asker, [wanted]):
            return await _page(await self._answer(wanted, asker), request)

    def _turn(self, asker: _Caller, given: list[Any]) -> AbstractAsyncContextManager[None]:
        """Wait for a turn to read. Operations that make changes do not wait, because they may take
        minutes."""
        is_exec = any(
            isinstance(request, dict) and str(request.get("type")).lower() == "exec" for request in given
        )
        return nullcontext() if is_exec and asker.role == MANAGE else self._turns

    async def _post(self, request: web.Request) -> web.Response:
        asker = await self._asker(request)
        try:
            given = await body_of(request)
        except NotARequest:
            return await _page(_error({}, _wrong("Invalid JSON Request")), request)
        # Tools send their options in the URL, even of a POST.
        options = {f"?{name}": value for name, value in request.query.items()}
        if not isinstance(given, list):
            async with self._turn(asker, [given]):
                return await _page(await self._answer(_with(options, given), asker), request)
        if len(given) > MOST:
            error = _wrong(f"More than {MOST} requests in a list; send several lists")
            return await _page(_error({}, error), request)
        async with self._turn(asker, given):
            return _page_of(
                await self._answers([_with(options, request) for request in given], asker), request
            )

    async def _answers(self, given: list[Any], asker: _Caller) -> bytes:
        answers: list[bytes] = []
        size = 0
        for request in given:
            if size > MOST_BYTES:
                answer = _error({}, _wrong("the previous answers are too large; send shorter lists"))
            else:
                answer = await self._answer(request, asker)
                await asyncio.sleep(0)
            answers.append(await _encoded(answer))
            size += len(answers[-1])
        return b"[" + b", ".join(answers) + b"]"

    async def _asker(self, request: web.Request) -> _Caller:
        self._guard.check_origin(request)
        actor, role = await self._guard.identify(request, VIEW)
        # Without the header, aiohttp takes the type of a Blob without one for application/octet-stream.
        is_json = "Content-Type" in request.headers and request.content_type in _JSON
        may_change = CHANGE_HEADER in request.headers or (request.method == "POST" and is_json)
        return _Caller(actor, role, may_change, self._beans())

    def _beans(self) -> Beans:
        return Beans(self._management.views, self._broker)

    async def _answer(self, given: Any, asker: _Caller) -> dict[str, Any]:
        shown: dict[str, Any] = {}
        try:
            return await self._carried_out(given, asker, shown)
        except _Refused as error:
            return _error(shown, error)
        except NoSuchBean as error:
            return _error(shown, _Refused(404, "javax.management.InstanceNotFoundException", str(error)))
        except NotABeanName as error:
            return _error({}, _wrong(f"Invalid object name. {error}"))
        except StoreError as error:
            return _error(shown, _Refused(500, f"{_JAVA}Exception", str(error)))
        except (ValueError, TimeoutError) as error:
            log.debug("a Jolokia request failed", exc_info=error)
            return _error(shown, _Refused(500, f"{_JAVA}Exception", "the request cannot be carried out"))
        except Exception:
            log.exception("a Jolokia request failed")
            text = "an unexpected error; see the broker's log"
            return _error(shown, _Refused(500, f"{_JAVA}Exception", text))

    async def _carried_out(self, given: Any, asker: _Caller, shown: dict[str, Any]) -> dict[str, Any]:
        if not isinstance(given, dict):
            raise _wrong(f"Invalid JSON Request {json.dumps(given)[:80]}")
        options = {name[1:]: value for name, value in given.items() if name.startswith("?")}
        config = given.get("config")
        if isinstance(config, dict):
            options |= config
        kind = given.get("type")
        if not isinstance(kind, str):
            raise _wrong("No type given")
        answer = _KINDS.get(kind.lower())
        if answer is None:
            if kind.lower() in _NOT_HERE:
                unsupported = f"{_JAVA}UnsupportedOperationException"
                raise _Refused(
                    501, unsupported, f"{kind.lower()} is not supported: {_NOT_HERE[kind.lower()]}"
                )
            raise _wrong(f"No type with name '{kind[:80]}' exists")
        shown["type"] = kind.lower()
        wanted = {name: value for name, value in given.items() if not name.startswith("?")}
        value = await answer(self, asker, wanted, shown, options)
        return {
            "request": shown,
            "value": _inside(value, wanted.get("path"), kind.lower(), shown),
            "timestamp": int(time.time()),
            "status": 200,
        }

    async def _version(self, asker: _Caller, _wanted: Any, _shown: Any, _options: Any) -> dict[str, Any]:
        info = {"product": "jdbcstore", "vendor": "jdbcstore", "version": asker.beans.view_of_broker.version}
        return {"agent": AGENT, "protocol": PROTOCOL, "config": {}, "info": info}

    async def _search(
        self, asker: _Caller, wanted: Mapping[str, Any], shown: dict[str, Any], options: Any
    ) -> list[str]:
        pattern = _name_of(wanted, shown)
        names = pattern.matching(await asker.beans.names())
        return [f"{name.domain}:{_keys_of(name, options)}" for name in names]

    async def _read(
        self, asker: _Caller, wanted: Mapping[str, Any], shown: dict[str, Any], options: Any
    ) -> Any:
        name = _name_of(wanted, shown)
        attribute = wanted.get("attribute")
        names = [attribute] if isinstance(attribute, str) else attribute
        if names is not None:
            if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
                raise _wrong("attribute must be a name, or a list of names")
            shown["attribute"] = attribute
        if not name.is_pattern:
            attributes = await asker.beans.read(name)
            if isinstance(attribute, str):
                return _attribute(attributes, attribute, options)
            return (
                attributes
                if names is None
                else {name: _attribute(attributes, name, options) for name in names}
            )
        matching = name.matching(await asker.beans.names())
        if not matching:
            raise NoSuchBean(f"No MBean with pattern {name} found")
        every = {
            f"{bean.domain}:{_keys_of(bean, options)}": attributes
            for bean, attributes in (await asker.beans.read_all(matching)).items()
        }
        if names is None:
            return every
        wanted_names = frozenset(names)  # there may be a hundred thousand, for each of thousands of MBeans
        chosen = {
            bean: {key: value for key, value in attributes.items() if key in wanted_names}
            for bean, attributes in every.items()
        }
        return {bean: attributes for bean, attributes in chosen.items() if attributes}

    async def _list(
        self, asker: _Caller, wanted: Mapping[str, Any], shown: dict[str, Any], options: Any
    ) -> Any:
        parts = _parts_of(wanted.get("path"))
        domain = BeanName.parse(f"{parts[0]}:*") if parts else BeanName.parse("*:*")
        keys = None if len(parts) < 2 else BeanName.parse(f"{parts[0]}:{parts[1]}").keys
        domains: dict[str, Any] = {}
        names = [name for name in domain.matching(await asker.beans.names()) if keys in (None, name.keys)]
        for name, attributes in (await asker.beans.read_all(names)).items():
            description = described(attributes, operations_of(name))
            domains.setdefault(name.domain, {})[_keys_of(name, options)] = description
        if parts:
            shown["path"] = "/".join(parts)
            if keys is not None:
                parts[1] = next(iter(domains.get(parts[0], {})), parts[1])
            domains = _inside(domains, parts, "read", {})
        try:
            depth = int(options.get("maxDepth") or 0)
        except (TypeError, ValueError, OverflowError):  # OverflowError: Infinity
            raise _wrong("maxDepth must be a number") from None
        return _cut(domains, depth) if depth > 0 else domains

    async def _exec(
        self, asker: _Caller, wanted: Mapping[str, Any], shown: dict[str, Any], _options: Any
    ) -> Any:
        name = _name_of(wanted, shown)
        given, arguments = wanted.get("operation"), wanted.get("arguments")
        if not isinstance(given, str):
            raise _wrong("Operation name must not be null")
        if arguments is None:
            arguments = []
        if not isinstance(arguments, list):
            raise _wrong("arguments must be a list")
        shown["operation"] = given
        if arguments:
            shown["arguments"] = arguments
        beans = asker.beans
        operation = _operation(operations_of(name), name, given, arguments)
        if ROLES.index(asker.role) < ROLES.index(operation.role):
            raise self._forbidden(asker, name, f"{operation.signature} needs the role {operation.role}")
        if operation.role == MANAGE and not asker.may_change:
            text = (
                f"{operation.signature} makes a change: POST it as application/json, or with the header"
                f" {CHANGE_HEADER}"
            )
            raise self._forbidden(asker, name, text)
        if operation.role == MANAGE:  # this and the following requests must not see the old snapshot
            beans, asker.beans = self._beans(), self._beans()
        await beans.read(name)  # it exists
        return await operation.call(
            BeanCall(self._management, beans, name, asker.actor, arguments, self._new_id)
        )

    def _forbidden(self, asker: _Caller, name: BeanName, text: str) -> _Refused:
        self._guard.log_refusal(asker.actor, f"exec {name}", text)
        return _Refused(403, f"{_JAVA}SecurityException", text)


_KINDS: dict[str, Callable[..., Any]] = {
    "version": Jolokia._version,
    "search": Jolokia._search,
    "read": Jolokia._read,
    "list": Jolokia._list,
    "exec": Jolokia._exec,
}
_NOT_HERE = {
    "write": "attributes are read-only here; change the configuration, or exec an operation",
    "notification": "read the attributes instead",
}
"""Unsupported types of requests, with advice."""


def _name_of(wanted: Mapping[str, Any], shown: dict[str, Any]) -> BeanName:
    text = wanted.get("mbean")
    if not isinstance(text, str):
        raise _wrong("Objectname can not be null")
    name = BeanName.parse(text)
    shown["mbean"] = str(name)
    return name


def _keys_of(name: BeanName, options: Mapping[str, Any]) -> str:
    """Return the keys of a name for a list: sorted, unless ``canonicalNaming`` is false."""
    is_canonical = str(options.get("canonicalNaming", True)).lower() != "false"
    return name.canonical_keys if is_canonical else name.registered_keys


def _attribute(attributes: Mapping[str, Any], name: str, options: Mapping[str, Any]) -> Any:
    if name in attributes:
        return attributes[name]
    text, kind = f"No such attribute: {name}", "javax.management.AttributeNotFoundException"
    if str(options.get("ignoreErrors", False)).lower() == "true":
        return f"ERROR: {text} (class {kind})"
    raise _Refused(404, kind, text)


def _operation(
    operations: Sequence[BeanOperation], name: BeanName, given: str, arguments: Sequence[Any]
) -> BeanOperation:
    """Return the operation with a name or signature, and this number of arguments."""
    bare, parenthesis, kinds = given.partition("(")
    named = [operation for operation in operations if operation.name == bare]
    if parenthesis:
        named = [
            operation for operation in named if operation.signature == f"{bare}({kinds.replace(' ', '')}"
        ]
    if not named:
        raise _wrong(f"No operation {bare} found on MBean {name}")
    if len(named) > 1:
        raise _wrong(
            f"Operation {bare} on MBean {name} is overloaded. Signatures found:"
            f" {','.join(operation.signature.removeprefix(bare) for operation in named)}. Use a signature"
            " when specifying the operation."
        )
    [operation] = named
    if len(operation.parameters) != len(arguments):
        raise _wrong(
            f"Invalid number of operation arguments. Operation {bare} on {name} requires"
            f" {len(operation.parameters)} parameters, not {len(arguments)} as given"
        )
    return operation


def _split(path: str) -> list[str]:
    """Return the parts of a path, in which ``!/`` is a slash and ``!!`` an exclamation mark."""
    parts, escaped = [""], False
    for each in path:
        if escaped or each not in "!/":
            parts[-1] += each
            escaped = False
        elif each == "!":
            escaped = True
        else:
            parts.append("")
    return parts if path else []


def _parts_of(path: Any) -> list[str]:
    if isinstance(path, str):
        return _split(path)
    if path is not None and not isinstance(path, list):
        raise _wrong("path must be a string, or a list of strings")
    return [str(part) for part in path or ()]


def _of_path(parts: Sequence[str]) -> dict[str, Any]:
    """Return the request in the path of a GET."""
    kind, *rest = parts or ["version"]
    wanted: dict[str, Any] = {"type": kind}
    if kind in ("read", "exec", "search") and not rest:
        raise _wrong(f"No MBean name given for {kind}")
    if kind == "search":
        return {**wanted, "mbean": "/".join(rest)}
    if kind == "list":
        return {**wanted, "path": rest}
    if kind in ("read", "exec"):
        wanted["mbean"], rest = rest[0], rest[1:]
    if kind == "read" and rest:
        names = rest[0].split(",")
        if rest[0]:
            wanted["attribute"] = names if len(names) > 1 else names[0]
        if rest[1:]:
            wanted["path"] = rest[1:]
    if kind == "exec":
        if not rest:
            raise _wrong("No operation given")
        wanted |= {
            "operation": rest[0],
            "arguments": [None if argument == "[null]" else argument for argument in rest[1:]],
        }
    return wanted


def _inside(value: Any, path: Any, kind: str, shown: dict[str, Any]) -> Any:
    """Return the part of a value at a path."""
    if not path or kind == "list":
        return value
    parts = _parts_of(path)
    shown["path"] = "/".join(parts)
    for part in parts:
        if isinstance(value, dict) and part in value:
            value = value[part]
        elif isinstance(value, list) and part.isdecimal() and int(part) < len(value):
            value = value[int(part)]
        else:
            raise _Refused(404, f"{_JAVA}IllegalArgumentException", f"Invalid path part {part[:80]!r}")
    return value


def _cut(value: Any, depth: int) -> Any:
    if not isinstance(value, dict):
        return value
    return {
        key: 1 if depth == 1 and isinstance(item, dict) else _cut(item, depth - 1)
        for key, item in value.items()
    }


def _error(shown: dict[str, Any], error: _Refused) -> dict[str, Any]:
    error_facts: dict[str, Any] = {"request": shown} if shown.keys() - {"type"} else {}
    text = f"{error.kind} : {error}"
    return {
        **error_facts,
        "error_type": error.kind,
        "error": text,
        "stacktrace": text,
        "status": error.status,
    }


def _with(options: Mapping[str, str], given: Any) -> Any:
    return {**options, **given} if isinstance(given, dict) else given


async def _encoded(value: Any) -> bytes:
    # With thousands of MBeans this takes a while, so the loop gets Python's lock between the parts.
    return await asyncio.to_thread(lambda: "".join(_parts_of_text(value, _SPLIT)).encode())


def _parts_of_text(content: Any, depth: int) -> Iterator[str]:
    if depth and isinstance(content, dict) and content:
        start = "{"
        for name, value in content.items():
            yield f"{start}{json.dumps(name)}: "
            yield from _parts_of_text(value, depth - 1)
            start = ", "
        yield "}"
    else:
        yield json.dumps(content, default=str)


async def _page(value: Any, request: web.Request) -> web.Response:
    return _page_of(await _encoded(value), request)


def _page_of(body: bytes, request: web.Request) -> web.Response:
    """Return an answer with the type of ``mimeType``, as in Jolokia: text unless it is JSON."""
    kind = _JSON[0] if request.query.get("mimeType") == _JSON[0] else "text/plain"
    headers = {"Cache-Control": "no-cache", "X-Content-Type-Options": "nosniff"}
    return web.Response(body=body, content_type=kind, charset="utf-8", headers=headers)
