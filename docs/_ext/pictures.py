"""Pictures of the documentation, drawn as SVG: ``python docs/_ext/pictures.py`` writes docs/pictures."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parents[1] / "pictures"
RESULTS = Path(__file__).parents[2] / "benchmarks" / "results" / "latest.json"

STYLE = """
  .card{fill:#fdfdfc;stroke:#d8dce2}.box{stroke-width:1.5}.label{font-size:14px;fill:#1d2733}
  .small{font-size:12px;fill:#52606e}.strong{font-weight:600}.line{stroke:#66788a;stroke-width:1.6;fill:none}
  .head{fill:#66788a}.plain{fill:#f1f4f7;stroke:#c4ccd5}.blue{fill:#e1eefa;stroke:#4b8cc4}
  .green{fill:#e2f4e8;stroke:#4fa56c}.amber{fill:#fdf0d8;stroke:#d39a35}.red{fill:#fbe4e2;stroke:#c95f55}
  @media (prefers-color-scheme: dark){
  .card{fill:#171b20;stroke:#39424d}.label{fill:#e6ebf0}.small{fill:#a8b4c0}.line{stroke:#8c9cac}
  .head{fill:#8c9cac}.plain{fill:#252c34;stroke:#4a5663}.blue{fill:#17324a;stroke:#4b8cc4}
  .green{fill:#173826;stroke:#4fa56c}.amber{fill:#42320f;stroke:#d39a35}.red{fill:#471f1b;stroke:#c95f55}}
"""


@dataclass
class Picture:
    """A drawing on a card, 760 wide."""

    name: str
    title: str
    height: int
    width: int = 760
    parts: list[str] = field(default_factory=list)

    def box(self, x: int, y: int, width: int, height: int, text: str, kind: str = "plain") -> None:
        """A box with centred lines; the first is strong, the others small."""
        self.parts.append(
            f'<rect class="box {kind}" x="{x}" y="{y}" width="{width}" height="{height}" rx="7"/>'
        )
        lines = text.split("\n")
        top = y + height / 2 - (len(lines) - 1) * 8.5 + 4.5
        for number, line in enumerate(lines):
            style = "label strong" if number == 0 else "small"
            self._text(x + width / 2, top + 17 * number, line, style, "middle")

    def text(self, x: int, y: int, text: str, anchor: str = "start", style: str = "small") -> None:
        for number, line in enumerate(text.split("\n")):
            self._text(x, y + 16 * number, line, style, anchor)

    def arrow(self, *points: tuple[int, int], dashed: bool = False) -> None:
        """A line through the points, with a head at its end."""
        path = "M" + " L".join(f"{x} {y}" for x, y in points)
        dashes = ' stroke-dasharray="5 4"' if dashed else ""
        self.parts.append(f'<path class="line" d="{path}"{dashes} marker-end="url(#head)"/>')

    def svg(self) -> str:
        body = "\n".join(self.parts)
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {self.width} {self.height}"'
            f' width="{self.width}" height="{self.height}" role="img" aria-labelledby="title"'
            ' font-family="system-ui, -apple-system, Segoe UI, Roboto, DejaVu Sans, sans-serif">\n'
            f'<title id="title">{escape(self.title)}</title>\n<style>{STYLE}</style>\n'
            '<defs><marker id="head" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="7" markerHeight="7"'
            ' orient="auto"><path class="head" d="M0 0 L10 5 L0 10 z"/></marker></defs>\n'
            f'<rect class="card" x="1" y="1" width="{self.width - 2}" height="{self.height - 2}" rx="12"/>\n'
            f"{body}\n</svg>\n"
        )

    def _text(self, x: float, y: float, text: str, style: str, anchor: str) -> None:
        self.parts.append(
            f'<text class="{style}" x="{x:g}" y="{y:g}" text-anchor="{anchor}">{escape(text)}</text>'
        )


def architecture() -> Picture:
    p = Picture(
        "architecture",
        "Clients reach one store through a broker, the library or SQL; its rows are ActiveMQ's",
        400,
    )
    clients = (
        "STOMP clients\nbrowsers too",
        "JMS clients\nOpenWire",
        "Python, Celery",
        "Shell",
        "Spark, DuckDB",
    )
    for number, text in enumerate(clients):
        p.box(24 + 144 * number, 22, 132, 52, text)
        p.arrow((90 + 144 * number, 76), (90 + 144 * number, 110))
    p.box(24, 112, 276, 58, "broker\nmaster, and slaves that take over", "blue")
    p.box(312, 112, 276, 58, "library and command line\njdbcstore.open(…)", "blue")
    p.box(600, 112, 132, 58, "analytics\nreads only", "blue")
    p.arrow((162, 172), (162, 206))
    p.arrow((450, 172), (450, 206))
    p.box(
        24,
        208,
        564,
        58,
        "the store\nqueues · topics · durable subscriptions · transactions · claims",
        "green",
    )
    p.arrow((130, 268), (130, 318))
    p.arrow((450, 268), (450, 318))
    p.arrow((666, 172), (666, 318))
    p.text(140, 298, "journal on disk, if wanted")
    p.text(460, 298, "one commit for many messages")
    p.box(
        24,
        320,
        708,
        58,
        "the database\nACTIVEMQ_MSGS · ACTIVEMQ_ACKS · ACTIVEMQ_LOCK, as ActiveMQ writes them",
        "amber",
    )
    return p


def message() -> Picture:
    p = Picture("message", "The life of a message, from SEND to the deletion of its row", 330)
    p.text(24, 34, "sending", style="label strong")
    for number, (text, kind) in enumerate(
        (
            ("1 SEND\na client, or a call", "plain"),
            ("2 encode\nbytes of OpenWire", "blue"),
            ("3 batch\nwith other writes", "blue"),
            ("4 commit\nthe row is durable", "amber"),
            ("5 receipt\nthe call returns", "green"),
        )
    ):
        x = 24 + 144 * number
        p.box(x, 48, 124, 60, text, kind)
        if number:
            p.arrow((x - 20, 78), (x - 3, 78))
    p.text(24, 184, "receiving", style="label strong")
    p.arrow((518, 110), (518, 150), (124, 150), (124, 194))
    p.text(300, 144, "from memory, or by pages of the database", "middle")
    for number, (text, kind) in enumerate(
        (
            ("6 dispatch\nto one consumer", "blue"),
            ("7 work\nthe consumer's", "plain"),
            ("8 ACK\nafter the work", "plain"),
            ("9 commit\nthe row is gone", "amber"),
        )
    ):
        x = 24 + 144 * number
        p.box(x, 196, 124, 60, text, kind)
        if number:
            p.arrow((x - 20, 226), (x - 3, 226))
    p.box(600, 196, 132, 60, "dead letters\nafter 6 redeliveries", "red")
    p.arrow((230, 258), (230, 290), (666, 290), (666, 259), dashed=True)
    p.text(420, 308, "no ACK: redelivered, to this consumer or another", "middle")
    return p


def failover() -> Picture:
    p = Picture("failover", "Broker A is killed; broker B takes the lock and serves the same rows", 340)
    for y, name in ((58, "clients"), (134, "broker A"), (210, "broker B"), (286, "lock row")):
        p.text(24, y + 5, name, style="label strong")
    p.box(110, 36, 250, 44, "connected to A")
    p.box(366, 36, 118, 44, "reconnect", "amber")
    p.box(490, 36, 242, 44, "connected to B\nunconfirmed sends are sent again")
    p.box(110, 112, 250, 44, "master: serves", "green")
    p.box(366, 112, 60, 44, "killed", "red")
    p.box(110, 188, 250, 44, "slave: waits")
    p.box(432, 188, 52, 44, "opens", "amber")
    p.box(490, 188, 242, 44, "master\nserves the same rows", "green")
    p.box(110, 264, 250, 44, "held by A, epoch 7", "green")
    p.box(366, 264, 60, 44, "free", "red")
    p.box(432, 264, 300, 44, "held by B, epoch 8\na late write of A is refused: the fence", "green")
    p.arrow((396, 158), (396, 262), dashed=True)
    p.arrow((458, 262), (458, 234))
    p.arrow((484, 186), (515, 82))
    return p


def journal() -> Picture:
    p = Picture(
        "journal", "A journal on disk takes the commits; a checkpoint moves what is left to the database", 350
    )
    p.box(24, 40, 120, 60, "producer\nadd_message")
    p.arrow((146, 70), (206, 70))
    p.box(208, 40, 180, 60, "journal\nappend, one sync for many", "amber")
    p.arrow((390, 58), (586, 58))
    p.text(488, 48, "durable: the call returns", "middle")
    p.box(588, 40, 148, 60, "producer\nis answered", "green")
    p.arrow((298, 102), (298, 146))
    p.box(148, 148, 300, 60, "overlay in memory\nwhat the database does not have yet", "blue")
    p.arrow((450, 166), (586, 166))
    p.text(518, 156, "read", "middle")
    p.arrow((586, 194), (452, 194))
    p.text(518, 212, "acknowledge", "middle")
    p.box(588, 148, 148, 60, "consumer")
    p.arrow((298, 210), (298, 258))
    p.text(308, 238, "checkpoint: only what is still pending")
    p.box(148, 260, 300, 60, "database\nActiveMQ's tables", "amber")
    p.arrow((146, 290), (84, 290), (84, 124), (240, 124), (240, 103), dashed=True)
    p.text(24, 338, "then the files are deleted")
    p.text(588, 238, "consumed soon: never\nwritten to the database")
    return p


def packages() -> Picture:
    """Every package, floor by floor: each uses only its own floor and lower ones."""
    p = Picture(
        "packages",
        "The packages, floor by floor: each imports only from its own floor and from lower ones",
        736,
    )
    for number, text in enumerate(
        (
            "clients\nSTOMP, JMS, browsers",
            "Python programs\nCelery, Django, CoilMQ",
            "administrators\nshell, HTTP",
            "queries\nSpark, DuckDB, Arrow",
        )
    ):
        p.box(24 + 180 * number, 20, 172, 46, text)
        p.arrow((110 + 180 * number, 68), (110 + 180 * number, 86))
    p.box(24, 88, 352, 190, "", "blue")
    p.text(200, 108, "broker", "middle", "label strong")
    p.box(36, 118, 104, 44, "process\nslave, master")
    p.box(148, 118, 104, 44, "management\nHTTP, alarms")
    p.box(260, 118, 104, 44, "console\npages")
    p.box(36, 168, 104, 44, "transport\nlistening, TLS")
    p.box(148, 168, 104, 44, "stomp")
    p.box(260, 168, 104, 44, "openwire")
    p.box(36, 218, 104, 50, "queues\ntopics")
    p.box(148, 218, 104, 50, "cursors\nscheduler")
    p.box(260, 218, 104, 50, "engine\nstore_io")
    p.box(384, 88, 118, 90, "plugins\nkombu, coilmq\ndjango", "blue")
    p.box(384, 188, 118, 90, "cli\ndemo", "blue")
    p.box(510, 88, 106, 190, "tools\nimporting\narchive\ntransfer, doctor", "blue")
    p.box(624, 88, 112, 190, "analytics\narrow\nformat\nstreaming", "blue")
    p.arrow((200, 280), (200, 298))
    p.arrow((443, 280), (443, 298))
    p.arrow((563, 280), (563, 298))
    p.box(24, 300, 592, 40, "abc: the contract of a store, with its tests in testing", "plain")
    p.arrow((320, 342), (320, 358))
    p.arrow((700, 280), (700, 522))
    p.box(24, 360, 592, 120, "", "green")
    p.text(320, 380, "stores: opening, guarded, io_exceptions, tracing, inbox", "middle", "label strong")
    for number, text in enumerate(
        (
            "memory",
            "filtered\nseveral stores",
            "journaled\nreplicated",
            "jdbc\nwriter, xa",
            "claims\nno master",
        )
    ):
        p.box(36 + 114 * number, 392, 108, 44, text)
    p.text(320, 462, "shared: encoding, units, pages", "middle")
    p.arrow((172, 482), (172, 502))
    p.arrow((468, 482), (468, 522))
    p.box(24, 504, 280, 66, "journal\nin files, or in a stream of NATS", "green")
    p.arrow((172, 572), (172, 594))
    p.box(316, 504, 90, 66, "lockers\nfence", "green")
    p.box(418, 524, 318, 46, "database: session, statements\nadapters, adapters/jdbc, migrations", "green")
    p.arrow((577, 572), (577, 594))
    p.box(24, 596, 460, 46, "message: openwire, selector · config: xml\nutil: core · errors", "plain")
    p.box(496, 596, 240, 46, "SQLAlchemy and the driver", "plain")
    p.arrow((616, 644), (616, 666))
    p.box(
        24, 668, 712, 50, "the database\nACTIVEMQ_MSGS · ACTIVEMQ_ACKS · ACTIVEMQ_LOCK · JDBCSTORE_…", "amber"
    )
    return p


def bars(name: str, title: str, groups: Mapping[str, Mapping[str, float]]) -> Picture:
    """A chart of horizontal bars: each group has one for each name, in the same colours and on one scale."""
    kinds = ("green", "blue", "amber", "plain")
    names = list(dict.fromkeys(name for bars in groups.values() for name in bars))
    count = sum(len(bars) for bars in groups.values())
    p = Picture(name, title, 62 + 24 * count + 34 * len(groups))
    for number, label in enumerate(names):
        x = 24 + 160 * number
        p.parts.append(f'<rect class="box {kinds[number]}" x="{x}" y="22" width="16" height="16" rx="3"/>')
        p.text(x + 24, 35, label)
    longest = max(value for bars in groups.values() for value in bars.values())
    y = 70
    for group, bars in groups.items():
        p.text(24, y + 4, group, style="label strong")
        y += 14
        for label, value in bars.items():
            width = max(2, round(560 * value / longest))
            kind = kinds[names.index(label)]
            p.parts.append(f'<rect class="box {kind}" x="24" y="{y}" width="{width}" height="18" rx="3"/>')
            p.text(32 + width, y + 14, f"{value:,.0f} a second")
            y += 24
        y += 20
    return p


def charts() -> list[Picture]:
    """The charts of the page on benchmarks, from its result file."""
    results = json.loads(RESULTS.read_text(encoding="utf-8"))
    brokers = results["brokers"]["postgresql"]
    library = results["library"]["postgresql"]
    sending = {
        "1 STOMP client": "STOMP, SEND with receipt, 1 connection",
        "4 STOMP clients": "… 4 connections",
        "16 STOMP clients": "… 16 connections",
    }
    consuming = {
        "automatic acknowledgement": "STOMP, consume, `ack:auto`",
        "an ACK for each message": "… `ack:client`, an ACK for each",
        "transactions of 100 ACKs": "… transactions of 100 ACKs",
    }
    alone = {
        "1 thread that waits": "1 blocking thread; pgbench, 1 client",
        "4 threads": "… 4",
        "16 threads": "… 16",
        "1,000 futures in flight": "futures, 1,000 in flight; COPY, 1,000 rows a commit",
    }
    peers = ("jdbcstore", "ActiveMQ", "Artemis", "RabbitMQ")
    return [
        bars("sending", "Messages sent a second, with a receipt for each", _groups(brokers, sending, peers)),
        bars("consuming", "Messages consumed a second over STOMP", _groups(brokers, consuming, peers)),
        bars(
            "library",
            "Messages added a second by the library, beside PostgreSQL alone",
            _groups(library, alone, ("jdbcstore", "the database alone")),
        ),
    ]


def _groups(
    rows: Mapping[str, Any], labels: Mapping[str, str], names: Sequence[str]
) -> dict[str, dict[str, float]]:
    return {
        label: {name: rows[row][name][0] for name in names if name in rows[row]}
        for label, row in labels.items()
    }


def pictures() -> list[Picture]:
    return [architecture(), message(), failover(), journal(), packages(), *charts()]


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for picture in pictures():
        (FOLDER / f"{picture.name}.svg").write_text(picture.svg(), encoding="utf-8")
