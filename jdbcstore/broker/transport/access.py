"""The login of one client, its client id, and its authorizations."""

from __future__ import annotations

import asyncio
from asyncio import Future

from jdbcstore.broker.security import Principal
from jdbcstore.broker.transport.service import Service
from jdbcstore.errors import NotAuthorized
from jdbcstore.message.destination import Destination
from jdbcstore.message.patterns import is_wildcard

_MAX_DESTINATIONS = 1000


class Access:
    """The login of one client, and the authorizations that follow from it."""

    def __init__(self, service: Service) -> None:
        self.login: Future[Principal] | None = None
        """The verification of the password; None before the client has sent it."""
        self.principal: Principal | None = None
        """The user; None before the login."""
        self.client_id: str | None = None
        """The client id of JMS."""
        self.user_id: str | None = None
        """The JMSXUserID of its messages."""
        self.writable: set[Destination] = set()
        """Destinations to which it is known to be authorized to send."""
        self.named: dict[str, Destination] = {}
        """Some of these, by the client's names."""
        self._service = service
        self._broker = service.broker

    @property
    def principal_name(self) -> str:
        """The name of the user; empty before the login, and without one."""
        return "" if self.principal is None else self.principal.name

    @property
    def is_logging_in(self) -> bool:
        """Whether the password is being verified."""
        return self.login is not None and not self.login.done()

    @property
    def is_refused(self) -> bool:
        """Whether the client has sent a login and is not logged in."""
        return self.login is not None and self.principal is None

    def verify(self, user: str | None, password: str | None) -> Future[Principal]:
        """Verify a login, and return the future of its user."""
        self.login = asyncio.ensure_future(self._service.security.login(user, password))
        return self.login

    def grant(self, principal: Principal, user: str | None, client_id: str | None) -> None:
        """Log the client in as this user.

        :raises ClientIdInUse: another connection has the client id
        """
        if client_id is not None:
            self._service.acquire_client_id(client_id)
            self.client_id = client_id
        self.principal = principal
        if self._service.config.populate_jmsx_user_id:
            self.user_id = user or None

    def release(self) -> None:
        """Release the client id, and cancel a pending verification."""
        client_id, self.client_id = self.client_id, None
        if client_id is not None:
            self._service.client_ids.discard(client_id)
        if self.login is not None:
            self.login.cancel()

    def check_may_write(self, destination: Destination) -> None:
        """Check that the client may send to a destination, and remember it.

        :raises NotAuthorized: it may not send to the destination, or not create it
        """
        if self.principal is None or not self.principal.may_write(destination):
            raise NotAuthorized(
                f"{self._user} is not authorized to send to {destination}; ask the broker's administrator"
            )
        self._check_may_create(self.principal, destination)
        if len(self.writable) < _MAX_DESTINATIONS:
            self.writable.add(destination)

    def forget_writable(self) -> None:
        """Check authorizations again before the client's next message."""
        self.writable.clear()
        self.named.clear()

    def check_may_read(self, destination: Destination) -> None:
        """Check that the client may consume from a destination.

        :raises NotAuthorized: it may not consume from the destination, or not create it
        """
        if self.principal is None or not self.principal.may_read(destination):
            raise NotAuthorized(f"{self._user} is not authorized to consume from {destination}")
        self._check_may_create(self.principal, destination)

    def check_may_delete(self, destination: Destination) -> None:
        """Check that the client may delete a destination.

        :raises NotAuthorized: it may not
        """
        principal = self.principal
        rights = (Principal.may_read, Principal.may_write, Principal.may_create)
        if principal is None or not all(may(principal, destination) for may in rights):
            raise NotAuthorized(f"{self._user} is not authorized to delete {destination}")

    def _check_may_create(self, principal: Principal, destination: Destination) -> None:
        for member in destination.members:
            if not (is_wildcard(member) or principal.may_create(member) or self._broker.knows(member)):
                raise NotAuthorized(
                    f"{self._user} is not authorized to create {member}, which does not exist;"
                    " ask the broker's administrator"
                )

    @property
    def _user(self) -> str:
        name = self.principal_name
        return repr(name) if name else "a client without a login"
