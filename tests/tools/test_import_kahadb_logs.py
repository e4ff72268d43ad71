"""What a broker leaves in KahaDB's logs in a bad moment, and what is damaged of them."""

from __future__ import annotations

import re
import struct
from pathlib import Path
from uuid import UUID

import pytest

from jdbcstore.message import openwire
from jdbcstore.message.ids import XATransactionId
from jdbcstore.message.jobs import JOBS, Job
from jdbcstore.stores.jdbc.xa.column import decode_flag
from jdbcstore.tools.importing.kahadb.logs import BEGIN, END, LogReader
from jdbcstore.tools.importing.kahadb.source import LOCAL_FORMAT, KahaDbSource
from jdbcstore.tools.importing.source import Findings, NothingToImport
from jdbcstore.tools.transfer import MessageRow
from tests.support.importing.writer import (
    add,
    batch,
    binary,
    body,
    command,
    outcome,
    remove,
    remove_destination,
    remove_job,
    remove_jobs,
    reschedule,
    rewritten,
    schedule,
    subscribe,
    unsubscribe,
    update,
    write_log,
)

XID = XATransactionId(7, b"global", b"branch")
LOCAL = XATransactionId(LOCAL_FORMAT, b"ID:conn", b"12")
COMMIT, ROLLBACK, PREPARE = 4, 5, 3


def read(folder: Path) -> tuple[list[MessageRow], Findings]:
    with KahaDbSource(folder) as source:
        return [row for page in source.messages() for row in page], source.findings


def left(folder: Path) -> list[tuple[str, str]]:
    """Destination and body of every message, of files without damage."""
    found, findings = read(folder)
    assert findings.damages == []
    return [(row.container, str(openwire.decode(row.msg).body)) for row in found]


def pending(folder: Path) -> dict[str, tuple[int | None, list[int]]]:
    """Mark, and acknowledgements ahead of it, by subscription."""
    with KahaDbSource(folder) as source:
        return {
            mark.sub_name: (
                mark.last_acked_id,
                [row.id for row in source.ahead((container, mark.client_id, mark.sub_name))],
            )
            for container in source.containers()
            for mark in source.marks(container)
        }


# Messages


def test_updates_and_duplicates(tmp_path: Path) -> None:
    write_log(
        tmp_path,
        1,
        [
            add("queue://Q", 1),
            add("queue://Q", 2),
            update("queue://Q", 1, "changed"),
            add("queue://Q", 2, "a duplicate is dropped"),
            update("queue://Q", 3, "its addition is in a log that is gone"),
            add("queue://P", 1, "the same id elsewhere"),
        ],
    )

    assert left(tmp_path) == [
        ("queue://Q", "changed"),
        ("queue://Q", "body 2"),
        ("queue://Q", "its addition is in a log that is gone"),
        ("queue://P", "the same id elsewhere"),
    ]


def test_a_destination_is_removed_with_everything_before(tmp_path: Path) -> None:
    write_log(
        tmp_path,
        1,
        [add("queue://Q", 1), add("queue://P", 2), remove_destination("queue://Q"), add("queue://Q", 3)],
    )

    assert left(tmp_path) == [("queue://P", "body 2"), ("queue://Q", "body 3")]


def test_transactions(tmp_path: Path) -> None:
    one, two, three = (("ID:conn-1", n) for n in (1, 2, 3))
    write_log(
        tmp_path,
        1,
        [
            add("queue://Q", 1),
            add("queue://Q", 2),
            add("queue://Q", 3),
            add("queue://Q", 10, transaction=one),
            remove("queue://Q", 1, transaction=one),
            add("queue://Q", 20, transaction=two),
            remove("queue://Q", 2, transaction=two),
            outcome(COMMIT, one),
            outcome(ROLLBACK, two),
            remove("queue://Q", 3, transaction=three),
            outcome(COMMIT, ("ID:conn-1", 99)),
        ],
    )

    assert left(tmp_path) == [("queue://Q", "body 2"), ("queue://Q", "body 3"), ("queue://Q", "body 10")]


def test_a_branch_is_in_doubt_once_it_is_prepared(tmp_path: Path) -> None:
    begun = XATransactionId(7, b"begun", b"")
    write_log(
        tmp_path,
        1,
        [
            add("queue://Q", 1),
            add("queue://Q", 2),
            add("queue://Q", 3, transaction=XID),
            remove("queue://Q", 1, transaction=XID),
            remove("queue://Q", 2, transaction=begun),
            outcome(PREPARE, XID),
        ],
    )

    rows, _ = read(tmp_path)

    flags = {row.msgid_seq: None if row.xid is None else decode_flag(row.xid) for row in rows}
    assert flags[2] is None
    assert flags[1] is not None
    assert flags[3] is not None
    assert (flags[1].tag, flags[1].xid) == (b"-", XID)
    assert (flags[3].tag, flags[3].xid) == (b"+", XID)


@pytest.mark.parametrize(
    ("how", "expected"),
    [(COMMIT, [("queue://Q", "body 2")]), (ROLLBACK, [("queue://Q", "body 1")])],
    ids=["committed", "rolled back"],
)
def test_a_prepared_branch_that_was_ended_is_not_in_doubt(
    tmp_path: Path, how: int, expected: list[tuple[str, str]]
) -> None:
    sent, received = add("queue://Q", 2, transaction=XID), remove("queue://Q", 1, transaction=XID)
    write_log(tmp_path, 1, [add("queue://Q", 1), sent, received, outcome(PREPARE, XID), outcome(how, XID)])

    assert left(tmp_path) == expected
    assert [row.xid for row in read(tmp_path)[0]] == [None]


# Compactions


def test_copied_acknowledgements_are_where_they_were(tmp_path: Path) -> None:
    """A message that was sent again, under its old id, is not removed by the acknowledgement of the first."""
    again = [add("queue://Q", 1, "sent again")]
    write_log(tmp_path, 1, [add("queue://Q", 1), add("queue://Q", 2)])
    write_log(tmp_path, 3, again)
    write_log(tmp_path, 4, [rewritten(2), remove("queue://Q", 1), add("queue://Q", 4)])

    assert left(tmp_path) == [("queue://Q", "body 2"), ("queue://Q", "sent again"), ("queue://Q", "body 4")]


def test_a_compaction_beside_its_source_is_not_applied_twice(tmp_path: Path) -> None:
    write_log(tmp_path, 1, [add("queue://Q", 1), add("queue://Q", 2)])
    write_log(tmp_path, 2, [remove("queue://Q", 1), add("queue://Q", 1, "sent again")])
    write_log(tmp_path, 3, [rewritten(2), remove("queue://Q", 1), add("queue://Q", 4)])

    assert [text for _, text in left(tmp_path)] == ["body 2", "sent again", "body 4"]


def test_a_copied_commit_is_that_of_its_log(tmp_path: Path) -> None:
    local = ("ID:conn-1", 1)
    write_log(tmp_path, 1, [add("queue://Q", 1, transaction=local)])
    write_log(tmp_path, 3, [add("queue://Q", 3)])
    write_log(tmp_path, 4, [rewritten(2), outcome(COMMIT, local), remove("queue://Q", 3)])

    # The acknowledgement can only be of the message before, of which nothing is left.
    assert [text for _, text in left(tmp_path)] == ["body 1", "body 3"]


def test_a_commit_that_follows_the_copied_ones_has_its_effect(tmp_path: Path) -> None:
    local = ("ID:conn-1", 1)
    write_log(tmp_path, 3, [add("queue://Q", 1, transaction=local)])
    write_log(tmp_path, 4, [rewritten(2), outcome(COMMIT, local)])

    assert [text for _, text in left(tmp_path)] == ["body 1"]


# Topics


def test_subscriptions_wait_for_what_came_after_them(tmp_path: Path) -> None:
    write_log(
        tmp_path,
        1,
        [
            add("topic://T", 1, "nobody waits for it"),
            subscribe("topic://T", "c", "first"),
            add("topic://T", 2),
            add("topic://T", 3),
            subscribe("topic://T", "c", "second"),
            add("topic://T", 4),
            subscribe("topic://T", "c", "all", retroactive=True),
            add("topic://T", 5),
            remove("topic://T", 3, "c:first"),
            remove("topic://T", 3, "c:first"),
            remove("topic://T", 5, "c:second"),
            remove("topic://T", 4, "c:second"),
        ],
    )

    assert [text for _, text in left(tmp_path)] == ["body 2", "body 3", "body 4", "body 5"]
    assert pending(tmp_path) == {"first": (0, [2]), "second": (4, []), "all": (0, [])}


def test_the_last_acknowledgement_removes_a_message(tmp_path: Path) -> None:
    write_log(
        tmp_path,
        1,
        [
            subscribe("topic://T", "c", "first"),
            subscribe("topic://T", "c", "second"),
            *(add("topic://T", n) for n in range(1, 5)),
            *(remove("topic://T", n, "c:first") for n in (1, 2, 4)),
            *(remove("topic://T", n, "c:second") for n in (1, 2)),
            unsubscribe("topic://T", "c", "second"),
        ],
    )

    assert [text for _, text in left(tmp_path)] == ["body 3"]
    assert pending(tmp_path) == {"first": (0, [])}


def test_a_topic_ends_with_its_last_subscription(tmp_path: Path) -> None:
    write_log(
        tmp_path,
        1,
        [
            subscribe("topic://T", "c", "s"),
            add("topic://T", 1),
            unsubscribe("topic://T", "c", "s"),
            subscribe("topic://T", "c", "s"),
        ],
    )

    assert left(tmp_path) == []
    assert pending(tmp_path) == {"s": (1, [])}


# mKahaDB and scheduled messages


@pytest.mark.parametrize("is_decided", [True, False])
def test_transactions_over_several_stores(tmp_path: Path, is_decided: bool) -> None:
    for name in ("A", "B"):
        begun = [add(f"queue://{name}", 1, transaction=LOCAL), outcome(PREPARE, LOCAL)]
        end = [outcome(COMMIT, LOCAL)] if name == "A" and is_decided else []
        write_log(tmp_path / f"queue#3a#2f#2f{name}", 1, begun + end)
    write_log(tmp_path / "txStore", 1, [outcome(PREPARE, LOCAL)] if is_decided else [])

    found = [("queue://A", "body 1"), ("queue://B", "body 1")]
    assert left(tmp_path) == (found if is_decided else [])


def test_an_outcome_that_cannot_be_read_is_left_to_somebody(tmp_path: Path) -> None:
    write_log(tmp_path / "A", 1, [add("queue://A", 1, transaction=LOCAL), outcome(PREPARE, LOCAL)])

    [row], findings = read(tmp_path)

    assert row.xid is not None
    assert "left in doubt" in findings.notes[0]


@pytest.mark.parametrize("is_empty", [False, True], ids=["damaged", "empty"])
def test_an_outcome_may_be_in_a_log_that_is_lost(tmp_path: Path, is_empty: bool) -> None:
    write_log(tmp_path / "A", 1, [add("queue://A", 1, transaction=LOCAL), outcome(PREPARE, LOCAL)])
    lost = write_log(tmp_path / "txStore", 1, [outcome(PREPARE, LOCAL)])
    write_log(tmp_path / "txStore", 2, [])
    lost.write_bytes(b"" if is_empty else b"?" + lost.read_bytes()[1:])

    [row], findings = read(tmp_path)

    assert row.xid is not None
    assert "left in doubt" in findings.notes[-1]


@pytest.mark.parametrize(
    "twice", [add("queue://A", 1), schedule("ID:a:1", 1, 1000, 9)], ids=["messages", "jobs"]
)
def test_a_copy_beside_the_store_is_refused(tmp_path: Path, twice: bytes) -> None:
    for name in ("kahadb", "kahadb.old"):
        write_log(tmp_path / name, 1, [twice, twice])

    with pytest.raises(NothingToImport, match="one is a copy of the other"):
        KahaDbSource(tmp_path)


def test_rescheduled_messages(tmp_path: Path) -> None:
    write_log(
        tmp_path,
        1,
        [
            schedule("ID:a:1", 1, 1000, 9),
            schedule("ID:b:1", 2, 1000, -1),
            schedule("ID:c:1", 3, 1000, 5),
            remove_job("ID:c:1", 1000),
            reschedule("ID:a:1", 1000, 2000, 1),
        ],
    )
    # Those in between were in a log that is gone.
    write_log(tmp_path, 3, [reschedule("ID:a:1", 6000, 7000, 6), reschedule("ID:b:1", 6000, 7000, 6)])

    rows, _ = read(tmp_path)

    assert [row.container for row in rows] == [str(JOBS)] * 2
    jobs = [Job.of(openwire.decode(row.msg)) for row in rows]
    assert [(job.job_id, job.at_ms, job.repeats) for job in jobs] == [
        ("ID:a:1", 7000, 3),
        ("ID:b:1", 7000, -1),
    ]


@pytest.mark.parametrize(
    ("removed", "left"),
    [
        (remove_jobs(1000, 2000), ["ID:c:1"]),
        (remove_jobs(1001, 2000), ["ID:a:1", "ID:c:1"]),
        (remove_jobs(1000, 1999), ["ID:b:1", "ID:c:1"]),
        (command(15, binary(1, "JMS")), []),
    ],
)
def test_scheduled_messages_are_removed_by_their_time(
    tmp_path: Path, removed: bytes, left: list[str]
) -> None:
    jobs = [schedule(f"ID:{name}:1", n, 1000 * n, 0) for n, name in enumerate("abc", 1)]
    write_log(tmp_path, 1, [*jobs, removed])

    rows, _ = read(tmp_path)

    assert [Job.of(openwire.decode(row.msg)).job_id for row in rows] == left


# SourceDamage


def damaged(folder: Path) -> list[str]:
    return [f"{Path(one.file).name} at {one.offset}: {one.reason}" for one in read(folder)[1].damages]


def names(folder: Path) -> list[int | None]:
    return [row.msgid_seq for row in read(folder)[0]]


def broken(folder: Path, at: int, content: bytes) -> Path:
    """A log of three messages, of which some bytes are others."""
    path = write_log(folder, 1, [add("queue://Q", n) for n in (1, 2, 3)])
    whole = path.read_bytes()
    path.write_bytes(whole[:at] + content + whole[at + len(content) :])
    return path


ONE = len(batch(add("queue://Q", 1)))
"""The bytes of each of these batches."""


@pytest.mark.parametrize(
    ("at", "content", "found", "reason"),
    [
        pytest.param(ONE + 60, b"\xff", [1, 3], f"at {ONE}: the checksum of the batch is wrong", id="body"),
        pytest.param(ONE + 2, b"\xff", [1, 3], f"at {ONE}: no batch begins here", id="head"),
        pytest.param(ONE, bytes(ONE), [1, 3], f"at {ONE}: there are zeros in place", id="zeros"),
        pytest.param(ONE + 18, b"\xff", [1, 2, 3], "its records are intact", id="length"),
        pytest.param(2 * ONE, bytes(ONE + 5), [1, 2], "", id="zeros up to the end"),
        pytest.param(3 * ONE, b"trash", [1, 2, 3], f"at {3 * ONE}: no batch begins here", id="mark"),
    ],
)
def test_what_is_damaged_is_left_out_and_named(
    tmp_path: Path, at: int, content: bytes, found: list[int], reason: str
) -> None:
    broken(tmp_path, at, content)

    assert names(tmp_path) == found
    assert ("".join(damaged(tmp_path)) != "") == bool(reason)
    assert reason in "".join(damaged(tmp_path))


def test_a_log_that_was_cut_off(tmp_path: Path) -> None:
    write_log(tmp_path, 1, [add("queue://Q", 0)])
    path = write_log(tmp_path, 2, [add("queue://Q", n) for n in (1, 2, 3)])
    for size, found in ((3 * ONE - 1, [0, 1, 2]), (2 * ONE, [0, 1, 2]), (ONE + 10, [0, 1]), (3, [0])):
        path.write_bytes(path.read_bytes()[:size])

        assert names(tmp_path) == found
        assert len(damaged(tmp_path)) == 1, size


def test_what_was_allocated_is_no_damage(tmp_path: Path) -> None:
    write_log(tmp_path, 1, [add("queue://Q", 1)], end=b"")
    write_log(tmp_path, 2, [add("queue://Q", 2)], end=bytes(100))
    write_log(tmp_path, 3, [add("queue://Q", 3)], end=END + bytes(100) + END)
    write_log(tmp_path, 4, [], end=END + bytes(100))
    write_log(tmp_path, 5, [], end=b"")

    assert names(tmp_path) == [1, 2, 3]
    assert damaged(tmp_path) == []


def test_a_record_that_is_no_command(tmp_path: Path) -> None:
    path = write_log(tmp_path, 1, [add("queue://Q", 1)], end=b"")
    odd = [command(99), command(1, b"\x12\x7f"), bytes([1, 50]), b"", add("queue://Q", 2)]
    undecodable = add("queue://Q", 3, blob=body("queue://Q", 3)[:-9])
    elsewhere = add("queue://Q", 4, blob=body("queue://Q", 5))
    path.write_bytes(path.read_bytes() + batch(*odd, undecodable, elsewhere) + END)

    assert names(tmp_path) == [1, 2]
    assert len(damaged(tmp_path)) == 6
    assert "there is no command of type 99" in damaged(tmp_path)[0]
    assert "there is the message ID:writer-1:1:1:5 in its place" in damaged(tmp_path)[-1]


def test_without_checksums(tmp_path: Path) -> None:
    path = write_log(tmp_path, 1, [], end=b"")
    path.write_bytes(batch(add("queue://Q", 1), checksum=False) + END)

    rows, findings = read(tmp_path)

    assert len(rows) == 1
    assert "1 batches have no checksum" in findings.notes[0]


def test_a_message_with_a_log_in_it(tmp_path: Path) -> None:
    inner = batch(add("queue://INNER", 9))
    path = write_log(tmp_path, 1, [add("queue://Q", 1, inner), add("queue://Q", 2)])
    whole = path.read_bytes()
    second = whole.index(BEGIN, 1)
    assert second < whole.rindex(BEGIN)

    assert names(tmp_path) == [1, 2]
    path.write_bytes(b"\xff" + whole[1:])
    assert names(tmp_path) == [2]


def test_many_heads_of_batches_are_read_in_linear_time(tmp_path: Path) -> None:
    """Each is looked for behind the one before, and not from there to the end of the file."""

    def bytes_read(heads: int) -> int:
        log = tmp_path / f"{heads}.log"
        log.write_bytes((BEGIN + struct.pack(">iq", 1, 1)) * heads)
        before = _read_until_now()
        assert not [*LogReader(log, lambda *_: None).records()]
        return _read_until_now() - before

    assert bytes_read(8000) < 6 * bytes_read(2000)


def _read_until_now() -> int:
    """Return the bytes that this process has read from files."""
    [count] = re.findall(r"rchar: (\d+)", Path("/proc/self/io").read_text())
    return int(count)


@pytest.mark.parametrize(
    ("last", "missing"), [(2, ""), (3, "db-2.log"), (4, "db-2.log to db-3.log"), (5, "db-2.log to db-4.log")]
)
def test_logs_that_are_missing_are_named(tmp_path: Path, last: int, missing: str) -> None:
    write_log(tmp_path, 1, [add("queue://Q", 1)])
    write_log(tmp_path, last, [add("queue://Q", 2)])

    found = [note.partition(": ")[0] for note in read(tmp_path)[1].notes]

    assert found == ([f"{tmp_path} does not have {missing}"] if missing else [])


def test_logs_that_are_empty_are_named(tmp_path: Path) -> None:
    """A broker that is killed as it creates the last one leaves that empty."""
    for n in (1, 2, 3):
        write_log(tmp_path, n, [add("queue://Q", n)] if n == 2 else [], end=b"")

    _, findings = read(tmp_path)

    assert [str(one) for one in findings.damages] == [
        f"{tmp_path}/db-1.log at 0: it is empty: its content is missing"
    ]
    assert findings.notes == [
        f"{tmp_path}/db-3.log is empty: if the broker had written to it, messages are missing or are there"
        " again"
    ]


def index(folder: Path, log: int, offset: int) -> None:
    """Write the first page of an index, whose last update was there."""
    page = struct.pack(">iqbii", 1, 2, 1, log, offset)
    (folder / "db.data").write_bytes(bytes(4096) + bytes([2]) + bytes(20) + page.ljust(4075, b"\0"))


def test_a_log_is_shorter_than_its_index_says(tmp_path: Path) -> None:
    write_log(tmp_path, 1, [add("queue://Q", 1)])
    index(tmp_path, 1, ONE - 5)
    assert damaged(tmp_path) == []
    index(tmp_path, 1, ONE)
    assert damaged(tmp_path) == [f"db-1.log at {ONE}: the index has noted a record at {ONE}"]


def test_a_log_of_zeros_has_no_record_that_its_index_has_noted(tmp_path: Path) -> None:
    write_log(tmp_path, 1, [], end=bytes(100))
    index(tmp_path, 1, 0)

    assert damaged(tmp_path) == ["db-1.log at 0: the index has noted a record at 0"]


def test_the_last_log_is_missing(tmp_path: Path) -> None:
    """The index has noted the log of the last update."""
    write_log(tmp_path, 3, [add("queue://Q", 1)])
    index(tmp_path, 5, 100)

    assert "db-5.log at 0: it is missing, and the index has noted it" in "".join(damaged(tmp_path))


@pytest.mark.parametrize("content", [b"", bytes(5000), b"\xff" * 8192, bytes(4096) + b"\2" + b"\xff" * 4095])
def test_an_index_that_is_not_understood(tmp_path: Path, content: bytes) -> None:
    write_log(tmp_path, 1, [add("queue://Q", 1)])
    (tmp_path / "db.data").write_bytes(content)

    assert damaged(tmp_path) == []


TOKEN = UUID("57ed642b-1ee3-47b3-be6d-b7297d500409").bytes


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (TOKEN + struct.pack(">ibii", 1, 1, 2, 7), "db-2.log at 0: it is missing"),
        (TOKEN + struct.pack(">ibii", 1, 1, 1, 10**6), "the index has noted a record at 1000000"),
        (struct.pack(">iq", 1, 2), "before 5.11"),
    ],
)
def test_the_index_of_the_job_scheduler(tmp_path: Path, content: bytes, reason: str) -> None:
    write_log(tmp_path / "A", 1, [add("queue://Q", 1)])
    write_log(tmp_path / "scheduler", 1, [schedule("ID:a:1", 1, 1000, 9)])
    page = bytes([2]) + bytes(20) + content.ljust(4075, b"\0")
    (tmp_path / "scheduler" / "scheduleDB.data").write_bytes(bytes(4096) + page)

    assert reason in "".join(damaged(tmp_path))


def test_an_index_alone(tmp_path: Path) -> None:
    write_log(tmp_path / "A", 1, [add("queue://Q", 1)])
    (tmp_path / "B").mkdir()
    (tmp_path / "B" / "db.data").touch()

    assert "there is an index, and no data log" in "".join(damaged(tmp_path))


def test_a_subscription_that_nobody_has_created(tmp_path: Path) -> None:
    write_log(tmp_path, 1, [remove("topic://T", 1, "c:s"), remove("topic://T", 1, "c:gone")])
    write_log(tmp_path, 2, [unsubscribe("topic://T", "c", "gone")])

    [note] = read(tmp_path)[1].notes
    assert "the subscription c:s to topic://T has acknowledged messages, and is not known" in note


def test_logs_with_the_names_of_others(tmp_path: Path) -> None:
    write_log(tmp_path, 1, [add("queue://Q", 1, sent_ms=1000)])
    write_log(tmp_path, 2, [add("queue://Q", 2, sent_ms=999)])
    write_log(tmp_path, 3, [add("queue://Q", 1, sent_ms=1000)])

    assert "db-2.log begins with an older message" in " ".join(read(tmp_path)[1].notes)
    assert damaged(tmp_path) == ["db-3.log at 0: it has the content of db-1.log"]


def test_logs_of_something_else(tmp_path: Path) -> None:
    write_log(tmp_path / "A", 1, [add("queue://Q", 1), schedule("ID:a:1", 1, 1000, 9)])
    write_log(tmp_path / "txStore", 1, [add("queue://Q", 2)])

    assert "has logs of messages and logs of the job scheduler" in read(tmp_path)[1].notes[0]
    assert "a command that does not belong here" in damaged(tmp_path)[0]


def test_logs_in_the_wrong_order_are_noticed(tmp_path: Path) -> None:
    write_log(tmp_path, 1, [remove("queue://Q", 1)])
    write_log(tmp_path, 2, [add("queue://Q", 1)])

    rows, findings = read(tmp_path)

    assert len(rows) == 1
    assert "1 messages were acknowledged before they were added" in findings.notes[0]


def test_an_outcome_that_all_stores_have_is_forgotten(tmp_path: Path) -> None:
    write_log(tmp_path / "A", 1, [add("queue://A", 1, transaction=LOCAL), outcome(PREPARE, LOCAL)])
    write_log(tmp_path / "txStore", 1, [outcome(PREPARE, LOCAL), outcome(COMMIT, LOCAL)])

    assert left(tmp_path) == []


@pytest.mark.parametrize("one", [add("queue://A", 1), schedule("ID:a:1", 1, 1000, 9)], ids=["message", "job"])
def test_logs_of_one_kind_are_not_noted(tmp_path: Path, one: bytes) -> None:
    write_log(tmp_path, 1, [one])

    assert read(tmp_path)[1].notes == []


def test_the_first_message_of_each_log_is_compared(tmp_path: Path) -> None:
    for log, (n, sent_ms) in enumerate([(1, 1000), (2, 3000), (3, 2000), (1, 4000)], 1):
        write_log(tmp_path, log, [add("queue://Q", n, sent_ms=sent_ms)])

    older, same = read(tmp_path)[1].notes

    assert "db-3.log begins with an older message" in older
    assert "db-4.log begins with the same message as db-1.log" in same
