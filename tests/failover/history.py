"""What the processes said, what the database recorded, and whether the two agree."""

from __future__ import annotations

from dataclasses import dataclass, field

from tests.databases import Database

TRIGGERS = {
    "postgresql": (
        "CREATE TABLE history (msgid_prod VARCHAR(250), msgid_seq BIGINT, epoch BIGINT)",
        "CREATE FUNCTION remember() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN"
        " INSERT INTO history SELECT NEW.msgid_prod, NEW.msgid_seq, number FROM jdbcstore_state"
        " WHERE name = 'epoch'; RETURN NEW; END $$",
        "CREATE TRIGGER remembers AFTER INSERT ON activemq_msgs FOR EACH ROW EXECUTE FUNCTION remember()",
    ),
    "mariadb": (
        "CREATE TABLE history (msgid_prod VARCHAR(250), msgid_seq BIGINT, epoch BIGINT)",
        "CREATE TRIGGER remembers AFTER INSERT ON ACTIVEMQ_MSGS FOR EACH ROW"
        " INSERT INTO history SELECT NEW.MSGID_PROD, NEW.MSGID_SEQ, NUMBER FROM JDBCSTORE_STATE"
        " WHERE NAME = 'epoch'",
    ),
}
"""Write down, with each message that is stored, which epoch it was then."""


@dataclass
class History:
    """Everything that was said, as (when, who, words)."""

    said: list[tuple[float, str, list[str]]] = field(default_factory=list)

    def names(self, verb: str) -> set[str]:
        return {words[1] for _, _, words in self.said if words[0] == verb}

    def first_added_after(self, moment: float, without: str) -> float | None:
        """When anybody but ``without`` was first told that a message is stored."""
        times = [
            when for when, who, words in self.said if words[0] == "added" and when > moment and who != without
        ]
        return min(times, default=None)

    def first_added_in_new_epoch(self, moment: float) -> float | None:
        """When a master that began later was first told that a message is stored: maybe the same process."""
        said = [*self.said]
        epochs = {words[1] for when, _, words in said if words[0] == "master" and when > moment}
        times = [
            when
            for when, _, words in said
            if words[0] == "added" and words[1].rsplit(":", 3)[0].rpartition("-")[2] in epochs
        ]
        return min(times, default=None)

    def check(self, database: Database) -> list[str]:
        """What must not be."""
        written = {
            f"{producer}:{sequence}": (producer, epoch)
            for producer, sequence, epoch in database.rows("SELECT msgid_prod, msgid_seq, epoch FROM history")
        }
        stored = {
            f"{producer}:{sequence}"
            for producer, sequence in database.rows("SELECT MSGID_PROD, MSGID_SEQ FROM ACTIVEMQ_MSGS")
        }
        late = [
            f"{name} was written in epoch {epoch}"
            for name, (producer, epoch) in written.items()
            if int(producer.removesuffix(":1:1").rpartition("-")[2]) != epoch
        ]
        lost = self.names("added") - stored - self.names("acking")
        back = self.names("acked") & stored
        unknown = self.names("added") - written.keys()
        return [
            *late,
            *(f"{name} was accepted and is lost" for name in sorted(lost)),
            *(f"{name} was acknowledged and is back" for name in sorted(back)),
            *(f"{name} was accepted and never written" for name in sorted(unknown)),
        ]
