"""ActiveMQ's security plug-ins in an ``activemq.xml``: obeyed, or the broker does not start."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from jdbcstore import Store, load_config
from jdbcstore.broker.process.host import BrokerHost
from jdbcstore.broker.security import PluginSecurity, Principal, make_security
from jdbcstore.config import Kind, load_file, to_toml
from jdbcstore.config.broker import BrokerConfig
from jdbcstore.errors import ConfigurationError, NotAuthorized
from jdbcstore.message.destination import Destination
from tests.support.broker.stomp.serving import Client, Served
from tests.support.require import unavailable

SIMPLE = """
<simpleAuthenticationPlugin {}>
  <users>
    <authenticationUser username="system" password="s3cret-manager" groups="users, admins"/>
    <authenticationUser username="user" password="${{guest.password}}" groups="users"/>
    <authenticationUser username="guest" password="${{guest.password}}" groups="guests"/>
  </users>
</simpleAuthenticationPlugin>
"""
MAP = """
<authorizationPlugin>
  <map>
    <authorizationMap>
      <authorizationEntries>
        <authorizationEntry queue=">" read="admins" write="admins" admin="admins"/>
        <authorizationEntry queue="USERS.>" read="users" write="users" admin="users"/>
        <authorizationEntry queue="GUEST.>" read="guests" write="guests,users" admin="guests"/>
        <authorizationEntry queue="GUEST.READY" read="*" write="users"/>
        <authorizationEntry topic=">" read="*" write="admins" admin="admins"/>
      </authorizationEntries>
      {}
    </authorizationMap>
  </map>
</authorizationPlugin>
"""
PASSWORDS = {"system": "s3cret-manager", "user": "s3cret-guest", "guest": "s3cret-guest"}
Write = Callable[..., Path]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Writes an ``activemq.xml`` with these plug-ins."""

    def write(*plugins: str, attributes: str = "", more: str = "") -> Path:
        path = tmp_path / "activemq.xml"
        path.write_text(
            '<beans><context:property-placeholder location="file:c.properties"'
            ' xmlns:context="http://www.springframework.org/schema/context"/>'
            f'<broker persistent="false" {attributes}><plugins>{"".join(plugins)}</plugins>'
            f'<transportConnectors><transportConnector uri="stomp://127.0.0.1:0"/></transportConnectors>'
            f"{more}</broker></beans>"
        )
        (tmp_path / "c.properties").write_text("guest.password=s3cret-guest\n")
        return path

    return write


def login(path: Path, name: str | None = None, password: str | None = None) -> Principal:
    security = make_security(str(path))
    try:
        return asyncio.run(security.login(name, PASSWORDS.get(name or "") if password is None else password))
    finally:
        security.close()


def rights(principal: Principal, names: str) -> dict[str, str]:
    """Of each destination, what may be done: r, w, c."""

    def of(destination: Destination) -> str:
        can = (principal.may_read, principal.may_write, principal.may_create)
        return "".join(letter for letter, may in zip("rwc", can, strict=True) if may(destination))

    return {name: of(Destination.parse(name)) for name in names.split()}


def test_users_log_in_with_their_passwords_alone(write: Write, caplog: pytest.LogCaptureFixture) -> None:
    path = write(SIMPLE.format(""))
    assert login(path, "user").name == "user"
    for name, password in (
        ("user", "s3cret-manager"),
        ("user", ""),
        ("nobody", "s3cret-guest"),
        ("nobody", ""),
        (None, None),
        ("user", "${guest.password}"),
    ):
        with pytest.raises(NotAuthorized, match=r"^the user name or the password is wrong$"):
            login(path, name, password)
    assert "s3cret" not in caplog.text


def test_groups_may_do_what_all_entries_together_say(write: Write) -> None:
    path = write(SIMPLE.format(""), MAP.format(""))
    names = "A USERS USERS.A GUEST.A GUEST.READY > USERS.> GUEST.> topic://A topic://> temp-queue://x"
    assert rights(login(path, "system"), names) == {
        **dict.fromkeys(names.split(), "rwc"),
    }
    assert rights(login(path, "user"), names) == {
        **dict.fromkeys(("A", ">"), ""),
        **dict.fromkeys(("USERS", "USERS.A", "USERS.>", "temp-queue://x"), "rwc"),
        "GUEST.A": "w",
        "GUEST.>": "w",
        "GUEST.READY": "rw",
        **dict.fromkeys(("topic://A", "topic://>"), "r"),
    }
    assert rights(login(path, "guest"), "GUEST.A GUEST.READY USERS.A A,GUEST.A GUEST.A,GUEST.B") == {
        "GUEST.A": "rwc",
        "GUEST.READY": "rwc",
        "USERS.A": "",
        "A,GUEST.A": "",
        "GUEST.A,GUEST.B": "rwc",
    }


def test_temporary_destinations_and_those_that_no_other_entry_is_for(write: Write) -> None:
    path = write(
        SIMPLE.format(""),
        MAP.format(
            '<tempDestinationAuthorizationEntry><tempDestinationAuthorizationEntry read="admins"'
            ' write="admins,users" admin="admins"/></tempDestinationAuthorizationEntry>'
            '<defaultEntry><authorizationEntry read="guests"/></defaultEntry>'
        ),
    )
    names = "temp-queue://x temp-topic://x USERS.A"
    assert [*rights(login(path, "system"), names).values()] == ["rwc", "rwc", "rwc"]
    assert [*rights(login(path, "user"), names).values()] == ["w", "w", "rwc"]
    assert [*rights(login(path, "guest"), names).values()] == ["", "", "r"]


def test_without_authorization_who_has_logged_in_may_do_everything(write: Write) -> None:
    names = "A > topic://A temp-queue://x temp-topic://x"
    assert {*rights(login(write(SIMPLE.format("")), "guest"), names).values()} == {"rwc"}


def test_anonymous_clients(write: Write) -> None:
    given = 'anonymousAccessAllowed="true" anonymousUser="nemo" anonymousGroup="guests"'
    path = write(SIMPLE.format(given), MAP.format(""))
    nemo = login(path)
    assert nemo.name == "nemo"
    assert rights(nemo, "GUEST.A A") == {"GUEST.A": "rwc", "A": ""}
    with pytest.raises(NotAuthorized):
        login(path, "nemo", "")
    with pytest.raises(NotAuthorized):
        login(path, "", "")


LOGIN_CONFIG = """
/* of the broker */
other { com.sun.security.auth.module.LdapLoginModule required; };
activemq {
    // users in files
    org.apache.activemq.jaas.PropertiesLoginModule required
        debug=true
        org.apache.activemq.jaas.properties.user="users.properties"
        org.apache.activemq.jaas.properties.group="${groups.file:groups.properties}";
};
both {
    org.apache.activemq.jaas.PropertiesLoginModule sufficient org.apache.activemq.jaas.properties.user="u";
    org.apache.activemq.jaas.GuestLoginModule sufficient;
};
"""
JAAS = '<jaasAuthenticationPlugin configuration="{}"/>'


@pytest.fixture
def jaas(tmp_path: Path) -> Path:
    (tmp_path / "login.config").write_text(LOGIN_CONFIG)
    (tmp_path / "users.properties").write_text("system=s3cret-manager\nuser=s3cret-guest\n")
    (tmp_path / "groups.properties").write_text("admins=system\nusers=system,user\n")
    return tmp_path


@pytest.mark.usefixtures("jaas")
def test_users_of_properties_files(write: Write) -> None:
    path = write(JAAS.format("activemq"), MAP.format(""))
    assert rights(login(path, "user"), "A USERS.A") == {"A": "", "USERS.A": "rwc"}
    assert rights(login(path, "system"), "A USERS.A") == {"A": "rwc", "USERS.A": "rwc"}
    with pytest.raises(NotAuthorized):
        login(path, "guest")


def test_a_changed_file_counts_at_once(jaas: Path, write: Write, caplog: pytest.LogCaptureFixture) -> None:
    security = PluginSecurity(write(JAAS.format("activemq")))

    def enters(password: str) -> bool:
        try:
            asyncio.run(security.login("user", password))
        except NotAuthorized:
            return False
        return True

    (jaas / "users.properties").write_text("user=s3cret-changed\n")
    assert (enters("s3cret-guest"), enters("s3cret-changed")) == (False, True)
    (jaas / "login.config").unlink()
    assert enters("s3cret-changed")
    security.close()
    assert "the previous users stay in effect" in caplog.text
    assert "s3cret" not in caplog.text


LDAP = '<bean class="org.apache.activemq.security.CachedLDAPAuthorizationMap"/>'


@pytest.mark.parametrize(
    ("plugins", "complaint"),
    [
        (["<shiroPlugin/>"], "does not obey shiroPlugin"),
        (['<bean class="com.example.Guard"/>'], "does not obey Guard"),
        (['<bean class="com.example.LoggingBrokerPlugin"/>'], "does not obey LoggingBrokerPlugin"),
        (["<jaasCertificateAuthenticationPlugin/>"], "does not obey jaasCertificateAuthenticationPlugin"),
        (["<jaasDualAuthenticationPlugin/>"], "does not obey jaasDualAuthenticationPlugin"),
        (["<ref bean='ldap'/>"], "does not obey Guard"),
        ([MAP.format("")], "needs a simpleAuthenticationPlugin or a jaasAuthenticationPlugin"),
        ([SIMPLE.format(""), SIMPLE.format("")], "keep one"),
        ([SIMPLE.format(""), JAAS.format("activemq")], "keep one"),
        ([SIMPLE.format(""), f"<authorizationPlugin><map>{LDAP}</map></authorizationPlugin>"], "LDAP"),
        ([SIMPLE.format(""), "<authorizationPlugin/>"], "not nothing"),
        (
            [SIMPLE.format(""), MAP.format("").replace("read=", "groupClass='x.UserPrincipal' read=", 1)],
            "groups",
        ),
        ([SIMPLE.format("").replace("groups=", "roles=", 1)], "does not obey roles"),
        ([SIMPLE.format("").replace('username="guest"', "")], "username, password and groups"),
        ([SIMPLE.format("").replace("s3cret-manager", "ENC(s3cret)")], "encrypted by Jasypt"),
        ([SIMPLE.format("").replace("guest.password", "nowhere")], "nowhere"),
        (
            [SIMPLE.format(""), MAP.format("").replace('"USERS.>"', '""')],
            "needs a name",
        ),
        ([JAAS.format("other")], "not LdapLoginModule"),
        ([JAAS.format("both")], "PropertiesLoginModule"),
        ([JAAS.format("third")], "there is no domain third"),
        (["<jaasAuthenticationPlugin/>"], "there is no domain activemq-domain"),
    ],
)
@pytest.mark.usefixtures("jaas")
def test_what_cannot_be_obeyed_keeps_the_broker_from_starting(
    write: Write, plugins: list[str], complaint: str
) -> None:
    path = write(*plugins, more='</broker><bean id="ldap" class="com.example.Guard"/><x>').with_suffix(".xml")
    path.write_text(path.read_text().replace("<x></broker>", ""))
    configuration = load_config(path, environment={})

    async def start() -> None:
        async with BrokerHost(configuration):
            raise AssertionError("it has started")

    with pytest.raises(ConfigurationError, match=complaint) as caught:
        asyncio.run(start())
    assert "s3cret" not in str(caught.value)
    assert "\n" not in str(caught.value)
    assert caught.value.place


def test_a_policy_for_each_message_keeps_the_broker_from_starting(write: Write) -> None:
    path = write(SIMPLE.format(""), attributes='messageAuthorizationPolicy="#p"')
    with pytest.raises(ConfigurationError, match="messageAuthorizationPolicy"):
        make_security(load_file(path, {}).broker.users_file)


def test_users_of_our_own_stand_for_the_plug_ins(write: Write) -> None:
    configuration = load_config(
        write("<shiroPlugin/>"), environment={"JDBCSTORE_BROKER_USERS_FILE": "users.toml"}
    )
    assert configuration.broker.users_file == "users.toml"


def test_a_store_opens_whatever_the_plug_ins_are(write: Write) -> None:
    configuration = load_file(write("<shiroPlugin/>", "<loggingBrokerPlugin/>", SIMPLE.format("")), {})
    told = {(note.kind, note.text.partition(",")[0]) for note in configuration.notes}
    assert (Kind.DANGEROUS, "jdbcstore does not obey shiroPlugin") in told
    assert not any("simpleAuth" in note.place for note in configuration.notes)


def test_plug_ins_that_are_no_security_let_everybody_in(write: Write) -> None:
    path = write("<statisticsBrokerPlugin/>", '<timeStampingBrokerPlugin ttlCeiling="1"/>')
    assert load_file(path, {}).broker.users_file is None


def test_what_is_converted_has_no_passwords(write: Write) -> None:
    path = write(SIMPLE.format(""))
    text = to_toml(load_file(path, {}), path.name)
    assert f'users_file = "{path}"' in text
    assert "s3cret" not in text
    assert "s3cret" not in repr(PluginSecurity(path)._users.value)


def test_the_example_of_activemq(tmp_path: Path) -> None:
    example = Path("/usr/share/doc/activemq/examples/conf/activemq-security.xml")
    if not example.exists():
        unavailable("activemq", f"there is no {example}")
    with pytest.raises(ConfigurationError, match="encrypted by Jasypt"):
        make_security(load_file(example, {}).broker.users_file)
    path = tmp_path / example.name
    path.write_text(example.read_text().replace("credentials-enc.properties", "credentials.properties"))
    (tmp_path / "credentials.properties").write_text("activemq.password=manager\nguest.password=password\n")
    assert rights(login(path, "user", "password"), "USERS.A GUEST.A TEST.Q A topic://USERS.A") == {
        "USERS.A": "rwc",
        "GUEST.A": "wc",
        "TEST.Q": "",
        "A": "",
        "topic://USERS.A": "rwc",
    }
    assert rights(login(path, "guest", "password"), "GUEST.A TEST.Q") == {"GUEST.A": "rwc", "TEST.Q": "rw"}
    assert rights(login(path, "system", "manager"), "A TEST.Q") == {"A": "rwc", "TEST.Q": "rwc"}


@pytest.mark.backends("memory")
def test_a_client_is_held_to_it(store: Store, write: Write) -> None:
    path = write(
        SIMPLE.format(""),
        MAP.format(""),
        more='<destinations><queue physicalName="GUEST.MADE"/></destinations>',
    )
    security = make_security(str(path))
    with Served(store, security=security) as served:
        with Client(served.port, None) as stranger:
            stranger.write("CONNECT", {"accept-version": "1.2", "login": "user", "passcode": "wrong"})
            assert "password is wrong" in stranger.expect("ERROR").headers["message"]
        user = Client(served.port, login="user", passcode=PASSWORDS["user"])
        system = Client(served.port, login="system", passcode=PASSWORDS["system"])
        with user, system:
            user.send("/queue/USERS.A", "mine")
            user.send("/queue/GUEST.MADE", "there already")
            for command, destination, reason in (
                ("SEND", "/queue/A", "'user' is not authorized to send to queue://A"),
                ("SEND", "/queue/GUEST.NEW", "'user' is not authorized to create queue://GUEST.NEW"),
                (
                    "SEND",
                    "/queue/USERS.B,/queue/GUEST.NEW",
                    "'user' is not authorized to create queue://GUEST.NEW",
                ),
                (
                    "SUBSCRIBE",
                    "/queue/GUEST.NEW",
                    "'user' is not authorized to consume from queue://GUEST.NEW",
                ),
                ("SUBSCRIBE", "/topic/NEW", "'user' is not authorized to create topic://NEW"),
            ):
                user.write(command, {"destination": destination, "id": "1"})
                assert reason in user.expect("ERROR").headers["message"]
            system.send("/queue/GUEST.NEW", "from above")
            user.send("/queue/GUEST.NEW", "from below")
            user.subscribe("/topic/>", "2")
            assert [one.body for one in store.queue("GUEST.NEW").recover()] == ["from above", "from below"]
    security.close()


def test_a_broker_of_artemis_with_security_needs_its_users(tmp_path: Path) -> None:
    path = tmp_path / "broker.xml"
    path.write_text(
        "<configuration><core><security-settings><security-setting match='#'/></security-settings>"
        "</core></configuration>"
    )
    with pytest.raises(ConfigurationError, match=r"Artemis needs \S+/login\.config: No such file"):
        make_security(load_file(path, {}).broker.users_file)
    path.write_text(path.read_text().replace("<core>", "<core><security-enabled>false</security-enabled>"))
    assert load_file(path, {}).broker.users_file is None


def test_groups_have_roles_in_the_management(write: Write) -> None:
    path = write(SIMPLE.format('anonymousAccessAllowed="true" anonymousGroup="users"'), MAP.format(""))
    broker = BrokerConfig(group_roles="users=view, admins = manage")
    security = make_security(str(path), broker.roles_of_groups)

    def role(name: str | None, password: str | None = None) -> str | None:
        return asyncio.run(security.login(name, password)).role

    try:
        assert role("system", PASSWORDS["system"]) == "manage"
        assert role("user", PASSWORDS["user"]) == "view"
        assert role("guest", PASSWORDS["guest"]) is None
        assert role(None) is None
    finally:
        security.close()


@pytest.mark.parametrize("wrong", ["admins", "admins=root", "=view", "a:manage"])
def test_roles_that_do_not_exist(wrong: str) -> None:
    with pytest.raises(ConfigurationError, match="GROUP=ROLE"):
        BrokerConfig(group_roles=wrong)
