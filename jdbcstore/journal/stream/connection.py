"""The connection to the servers of a stream: a NATS client, whose event loop has a thread of its own."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import re
import ssl
import threading
import time
from collections.abc import Awaitable, Callable, Coroutine
from concurrent.futures import CancelledError, Future
from pathlib import Path
from typing import Any, TypeVar

from nats.aio.client import Client
from nats.errors import Error as NatsError
from nats.js.errors import APIError, NotFoundError, ServiceUnavailableError

from jdbcstore.config.data_source import revealed
from jdbcstore.config.journal import JournalConfig
from jdbcstore.errors import (
    AuthenticationFailed,
    ConfigurationError,
    MissingDriver,
    StoreClosed,
    StoreError,
    StoreUnavailable,
)

log = logging.getLogger(__name__)

T = TypeVar("T")

CONNECTING = 10.0
"""Seconds for the first connection."""
PATIENCE = 30.0
"""Seconds for which a request is repeated: an election of the servers takes some ten."""
ANSWER = 3.0
"""Seconds for which one answer is awaited."""
PAUSE = 0.1
FULL = (10023, 10047, 10077, 10122)
"""Error codes: too few resources, no storage left, the stream's limit of bytes, and that of the account."""
_TOKEN = re.compile(rb"BEGIN NATS USER JWT.*\r?\n[^-\s]+")
_SEED = re.compile(rb"BEGIN USER NKEY SEED.*\r?\n(\w+)")
_DENIED = re.compile(r"permissions violation for (publish|subscription) to \"([^\"]+)\"")
_PING = 2
_NOT_CLUSTERED, _NO_PEERS = 10074, 10005
_NO_JETSTREAM = (10039, 10076)
_FINAL = (*FULL, *_NO_JETSTREAM, _NOT_CLUSTERED, _NO_PEERS)


class _Unencrypted(NatsError):  # type: ignore[misc]
    """A server has no TLS, and was sent nothing."""


class _Client(Client):  # type: ignore[misc]
    """A client with settings for TLS that logs in over TLS only; without this, a server decides that."""

    def _connect_command(self) -> Any:
        if "tls" in self.options and not self._server_info.get("tls_required"):
            raise _Unencrypted("nats: the server does not ask for TLS")
        return super()._connect_command()

    async def _process_connect_init(self) -> None:
        await super()._process_connect_init()
        writer = getattr(self._transport, "_io_writer", None)
        if writer is not None and "tls" in self.options:
            # asyncio warns at the end of each connection of a stream that was upgraded to TLS.
            writer.transport.get_protocol()._over_ssl = True


class NatsConnection:
    """A connection that is made again when it is lost. Thread-safe.

    :raises ConfigurationError: the login or the files for TLS cannot be read
    :raises StoreUnavailable: no server answers, or lets it in
    """

    def __init__(self, config: JournalConfig, patience: float = CONNECTING) -> None:
        self.place = config.place
        self._config = config
        self._trouble: Exception | None = None
        """The last error of the connection."""
        self._denied: tuple[float, str, str] | None = None
        """The last refusal of a subject by the servers: its time, the action, and the subject."""
        self._is_closed = False
        self._lock = threading.RLock()  # a generator that is collected meanwhile calls start in this thread
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(
            target=self._loop.run_forever, name="jdbcstore-journal-stream", daemon=True
        )
        self._thread.start()
        self._tasks: set[asyncio.Task[None]] = set()
        """Tasks without a waiter; a loop keeps no reference to them."""
        self._client = _Client()
        try:
            self.run(self._connect(patience))
            self.js: Any = self._client.jetstream(timeout=ANSWER)
        except BaseException:
            self.close()
            raise

    @property
    def is_connected(self) -> bool:
        return bool(self._client.is_connected)

    @property
    def trouble(self) -> Exception:
        """Why it is not connected."""
        return self._trouble or TimeoutError("no connection")

    @property
    def max_payload(self) -> int:
        """The bytes that a server takes in one message."""
        return int(self._client.max_payload)

    @property
    def version(self) -> tuple[int, int, int]:
        """The version of the server."""
        version = self._client.connected_server_version
        return version.major, version.minor, version.patch

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Return the result of something that runs on the loop.

        :raises StoreClosed: the connection is closed, or was closed meanwhile
        """
        with self._lock:
            if self._is_closed:
                work.close()
                raise StoreClosed
            answer: Future[T] = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return answer.result()
        except CancelledError as error:
            raise StoreClosed from error

    def start(self, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Run something on the loop without waiting: an interpreter that ends has no other threads."""
        with self._lock:
            if not self._is_closed:
                self._loop.call_soon_threadsafe(self._start, work)

    def _start(self, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        task = self._loop.create_task(work())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _connect(self, patience: float) -> None:
        config = self._config
        options: dict[str, Any] = {}
        if config.stream_user is not None:
            options["user"] = config.stream_user
        if config.stream_password_env is not None:
            options["password"] = revealed(config.stream_password_env, "journal.stream_password_env")
        if config.stream_credentials is not None:
            options["user_credentials"] = _checked(config.stream_credentials)
        if (context := _tls(config)) is not None:
            options["tls"] = context
        try:
            await asyncio.wait_for(
                self._client.connect(
                    servers=list(config.servers),
                    name="jdbcstore",
                    error_cb=self._noted,
                    disconnected_cb=self._disconnected,
                    reconnected_cb=self._reconnected,
                    max_reconnect_attempts=-1,
                    reconnect_time_wait=1,
                    connect_timeout=round(ANSWER),
                    ping_interval=_PING,
                    max_outstanding_pings=2,
                    **options,
                ),
                patience,
            )
        except (NatsError, OSError, TimeoutError, ValueError) as error:
            raise self.unavailable(self._trouble or error) from error

    async def _noted(self, error: Exception) -> None:
        if denied := _DENIED.search(str(error)):
            self._denied = (time.monotonic(), denied[1], denied[2])
        elif self._trouble is None or not (_is_about_login(self._trouble) or _about_tls(self._trouble)):
            self._trouble = error  # else it follows from that, as a broken pipe does

    async def _disconnected(self) -> None:
        if not (self._is_closed or self._client.is_closed):
            log.warning("the connection to %s is lost; it is tried again", self.place)

    async def _reconnected(self) -> None:
        self._trouble = self._denied = None
        log.warning("%s is reached again", self.place)

    def denial(self, subject: str | None = None) -> AuthenticationFailed | None:
        """Return the error for what this login may not do, if that is why there is no answer.

        :param subject: the subject that was published to; without one, any
        """
        if self._denied is None or time.monotonic() - self._denied[0] > 2 * ANSWER:
            return None
        _, kind, name = self._denied
        if subject is not None and (kind, name) != ("publish", subject.lower()):
            return None
        what = "publish" if kind == "publish" else "subscribe"
        return AuthenticationFailed(
            f"{self.place} does not let this login {what} to {name}: give its user the permissions of a"
            " journal, which the documentation lists"
        )

    def unavailable(self, error: BaseException) -> StoreError:
        """Return the error for servers that do not answer, or not to this login."""
        what = str(error) or type(error).__name__
        if isinstance(error, TimeoutError) and (denial := self.denial()) is not None:
            return denial
        if _is_about_login(error):
            return AuthenticationFailed(
                f"{self.place} refuses the login: check stream_user and stream_password_env, or"
                " stream_credentials, of the journal"
            )
        if (advice := _about_tls(error)) is not None:
            return StoreUnavailable(f"{self.place} cannot be used: {advice}")
        more = ""
        if isinstance(error, BrokenPipeError | ConnectionResetError):
            # With TLS 1.3 a client may have written before it reads that its certificate is refused.
            more = ", and with TLS the certificate that is named in stream_certificate"
        return StoreUnavailable(
            f"{self.place} does not answer: {what}; check its servers with jdbcstore doctor{more}"
        )

    def ask(self, work: Callable[[Any], Awaitable[T]]) -> T:
        """As :meth:`asked`, in any other thread than the loop's."""
        return self.run(self.asked(work))

    async def asked(self, work: Callable[[Any], Awaitable[T]]) -> T:
        """Return JetStream's answer; ask again while no server answers.

        :raises NotFoundError: the stream or the message does not exist
        :raises ConfigurationError: the servers do not support the request
        :raises StoreUnavailable: there is no answer, or it is another error
        """
        end = time.monotonic() + PATIENCE
        while True:
            try:
                return await work(self.js)
            except NotFoundError:
                raise
            except APIError as error:
                if not self.has_jetstream:
                    raise self._without_jetstream() from error
                is_passing = isinstance(error, ServiceUnavailableError) and error.err_code not in _FINAL
                if not is_passing or time.monotonic() >= end:
                    raise self._refused(error) from error
            except (NatsError, OSError, TimeoutError) as error:
                if time.monotonic() >= end or self.denial() is not None:
                    raise self.unavailable(error) from error
            await asyncio.sleep(PAUSE)

    def _refused(self, error: APIError) -> StoreError:
        if error.err_code in _NO_JETSTREAM:
            return self._without_jetstream()
        if error.err_code in (_NOT_CLUSTERED, _NO_PEERS):
            return ConfigurationError(
                f"{self.place} cannot have {self._config.replicas} replicas ({error.description}): start"
                " more servers in its cluster, or set replicas",
                option="journal.replicas",
            )
        return self.full(error.description) if error.err_code in FULL else self.unavailable(error)

    @property
    def has_jetstream(self) -> bool:
        """Whether the server has JetStream, which it turns off without room on its disk."""
        return bool(self._client._server_info.get("jetstream"))

    async def is_answered(self) -> bool:
        """Return whether the server answers anything, after a request; on its loop.

        A nats-server 2.9 with a full disk takes connections, and answers nothing behind a request.
        """
        try:
            await self._client.flush(round(ANSWER))
        except (NatsError, OSError, TimeoutError):
            return False
        return True

    def _without_jetstream(self) -> ConfigurationError:
        return ConfigurationError(
            f"{self.place} has no JetStream for this login: start its servers with --jetstream, or enable it"
            " for the account",
            option="journal.stream",
        )

    def full(self, why: str | None) -> StoreUnavailable:
        """Return the error for a stream that has no room."""
        return StoreUnavailable(
            f"{self.place} is full ({why}): raise its max_bytes, with nats stream edit --max-bytes, or free"
            " room on its servers and start them again"
        )

    def close(self) -> None:
        """Close the connection; threads that wait for an answer get :class:`StoreClosed`."""
        with self._lock:
            if self._is_closed:
                return
            self._is_closed = True
            ended = asyncio.run_coroutine_threadsafe(self._end(), self._loop)
        ended.result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def _end(self) -> None:
        # The client may answer with the cancellation of one of its own tasks.
        with contextlib.suppress(Exception, asyncio.CancelledError):
            await asyncio.wait_for(self._client.close(), ANSWER)
        # The client takes some cancellations for a lost connection, and waits for it: cancel until all end.
        while others := asyncio.all_tasks() - {asyncio.current_task()}:
            for task in others:
                task.cancel()
            await asyncio.wait(others, timeout=PAUSE)


def _is_about_login(error: BaseException) -> bool:
    return "authorization" in str(error).lower() or "authentication" in str(error).lower()


def _about_tls(error: BaseException) -> str | None:
    """Return what to do about an error of TLS; None if it is another."""
    if isinstance(error, _Unencrypted):
        return (
            "a server does not ask for TLS, and no login was sent to it; configure tls there, or use nats://"
            " without stream_authorities and stream_certificate"
        )
    if isinstance(error, ssl.SSLCertVerificationError):
        return (
            f"the certificate of a server is not accepted: {error.verify_message}; name the file of its"
            " authority in stream_authorities, and the servers as their certificates do"
        )
    if isinstance(error, ssl.SSLError) and "CERTIFICATE" in (error.reason or ""):
        return (
            f"a server does not accept this client's certificate, or asks for one ({error.reason}); name one"
            " that its authority has signed in stream_certificate"
        )
    return None


def _tls(config: JournalConfig) -> ssl.SSLContext | None:
    """Return the settings for TLS; None if the configuration does not ask for it."""
    is_asked = any(server.startswith("tls://") for server in config.servers)
    if not (is_asked or config.stream_authorities or config.stream_certificate):
        return None
    option, files = "stream_authorities", config.stream_authorities
    try:
        context = ssl.create_default_context(cafile=files)
        if config.stream_certificate is not None:
            option, files = "stream_certificate", config.stream_certificate
            if config.stream_private_key is not None:
                files = f"{files} with {config.stream_private_key}"
            # Without a password, one would be asked for at the terminal.
            context.load_cert_chain(config.stream_certificate, config.stream_private_key, password="")
    except (OSError, ssl.SSLError) as error:
        raise ConfigurationError(
            f"{option} is {files}, which cannot be read: {error.strerror or error}; give PEM files without a"
            " password",
            option=f"journal.{option}",
        ) from error
    return context


def _checked(path: str) -> str:
    """Return the path of a file with credentials, which the client reads at each connection.

    The client looks for their end forever, and fails with errors of its own.
    """
    option = "journal.stream_credentials"
    try:
        import nkeys
    except ImportError:
        raise MissingDriver("nkeys", "nats") from None
    try:
        content = Path(path).read_bytes()
    except OSError as error:
        raise ConfigurationError(
            f"the credentials of the journal's stream, {path}, cannot be read: {error.strerror}",
            option=option,
        ) from error
    seed = _SEED.search(content)
    try:
        if seed is None or _TOKEN.search(content) is None:
            raise ValueError("it has no token, or no seed")
        nkeys.from_seed(bytearray(seed[1])).wipe()
    except (nkeys.NkeysError, ValueError):
        # The cause would show the seed.
        raise ConfigurationError(
            f"{path} has no credentials of NATS: give the file that nsc generate creds has written",
            option=option,
        ) from None
    return path
