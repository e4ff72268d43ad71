"""The readers that are fuzzed: everything in the product that reads bytes of others."""

from __future__ import annotations

from jdbcstore.errors import (
    ConfigurationError,
    CorruptJournal,
    CorruptMessage,
    InvalidDestination,
    InvalidMessage,
    InvalidSelector,
    ProtocolError,
    StoresDiffer,
)
from tests.fuzzing.readers import applications, configurations, disk, texts, wire
from tests.fuzzing.target import Target

# Words for libFuzzer, with its escapes.
_SQL = """
    AND OR NOT BETWEEN LIKE ESCAPE IN IS NULL TRUE FALSE ' <> JMSPriority convert_string_expressions: colour
    count 0x 1e9 % _ -- /*
"""
_XML = r"""
    <bean <broker <property </ /> id=\" ref=\" class=\" <![CDATA[ <!-- <!DOCTYPE &#10; &amp; ${ } #
    <list> <map> parent=\" <persistenceAdapter> <jdbcPersistenceAdapter <policyEntry p:useLock=\"
    <value> mb xmlns
"""
_JSON = r"""
    null true Infinity NaN 1e999 {\" \": [[ \\ud800 \"type\" \"read\" \"exec\" \"mbean\"
    \"attribute\" \"path\" \"arguments\" \"operation\" \"config\" \"maxDepth\" org.apache.activemq: * ?
"""
_STOMP = r"""
    SEND\x0a SUBSCRIBE\x0a \x0a\x0a \x00 \x0d\x0a \\n \\c content-length: destination: /queue/
    /topic/ /temp-queue/ amq-msg-type: expires: priority: reply-to: JMSXGroupSeq:
"""
_URL = """
    jdbc: :// @ : ? & ; password= user= %40 [::1] oracle:thin: sqlserver: mysql: postgresql ( ) address= /
"""
_TOML = r"""
    [ ] [[ = ''' \"\"\" \\u { } , true nan inf url [journal] [broker] [[policies]] [locker] type 1979-05-27
"""
_CRON = r"* / - , L LW # MON JAN \x20 \x0a 99999"
_NAMES = "queue:// topic:// temp-queue:// > * . , ID: XID:[ globalId="

TARGETS = {
    target.name: target
    for target in (
        Target(
            "openwire-message",
            wire.read_message,
            (CorruptMessage,),
            "written again it is the same bytes; the compiled reader agrees",
            wire.messages,
        ),
        Target(
            "openwire",
            wire.read_openwire,
            (ProtocolError, CorruptMessage),
            "the frames do not depend on how they arrive; a command written again is the same",
            wire.openwire_streams,
        ),
        Target(
            "stomp",
            wire.read_stomp,
            (ProtocolError,),
            "the frames do not depend on how they arrive, and keep their limits; a SEND becomes a MESSAGE;"
            " the compiled reader agrees",
            wire.stomp_streams,
            _STOMP,
        ),
        Target(
            "journal-record",
            disk.read_record,
            (CorruptJournal,),
            "written again and read, it is the same; the compiled reader agrees",
            disk.record_bodies,
        ),
        Target(
            "journal",
            disk.read_journal,
            (CorruptJournal,),
            "each record is read once, in order; opening and examining agree on what is damaged; the"
            " compiled reader agrees",
            disk.journals,
        ),
        Target(
            "refused",
            disk.read_refused,
            (CorruptMessage,),
            "a refused message is whole, or damaged",
            disk.refused_messages,
        ),
        Target(
            "manifest",
            disk.read_manifest,
            (StoresDiffer, ConfigurationError),
            "a manifest is whole, or damaged",
            disk.manifests,
            _JSON,
        ),
        Target(
            "selector",
            texts.read_selector,
            (InvalidSelector,),
            "no message is selected by a condition and by its negation",
            texts.selectors,
            _SQL,
            2048,
        ),
        Target(
            "schedule",
            texts.read_schedule,
            (InvalidMessage,),
            "the next time is a later one; a job stored is the same job",
            texts.schedules,
            _CRON,
            512,
        ),
        Target(
            "url",
            texts.read_url,
            (ConfigurationError,),
            "the password is not shown",
            texts.urls,
            _URL,
            1024,
        ),
        Target(
            "names",
            texts.read_names,
            (InvalidDestination,),
            "what was read is written and read as the same; a pattern covers itself",
            texts.names,
            _NAMES,
            1024,
        ),
        Target(
            "body",
            texts.read_body,
            (),
            "indented JSON has the same values",
            texts.bodies,
            _JSON,
        ),
        Target(
            "activemq-xml",
            configurations.read_xml,
            (ConfigurationError,),
            "written as TOML it is the same configuration",
            configurations.activemq_files,
            _XML,
            8192,
        ),
        Target(
            "artemis-xml",
            configurations.read_xml,
            (ConfigurationError,),
            "written as TOML it is the same configuration",
            configurations.artemis_files,
            _XML,
            8192,
        ),
        Target(
            "toml",
            configurations.read_toml,
            (ConfigurationError,),
            "written again it is the same configuration",
            configurations.toml_files,
            _TOML,
        ),
        Target(
            "jolokia",
            applications.read_jolokia,
            (applications.Refused,),
            "each request has an answer, and none fails unexpectedly",
            applications.requests,
            _JSON,
        ),
        Target(
            "kombu",
            applications.read_envelope,
            (ValueError, RecursionError, CorruptMessage),
            "what is not refused is a kombu message",
            applications.envelopes,
            _JSON,
        ),
    )
}  # fmt: skip
"""By name."""
