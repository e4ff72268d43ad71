"""Importing what another broker has stored: its files or tables become the rows of a store of ours.

What another kind of source needs:

- A subclass of :class:`~jdbcstore.tools.importing.rows.ReplayedRows`, and its entry in ``KINDS`` of
  ``kinds.py``. Then ``jdbcstore import`` has it, checked and resumable, with ``--dry-run``.
- For files of ActiveMQ, subclasses of :class:`~jdbcstore.tools.importing.folders.FolderSource` and of
  :class:`~jdbcstore.tools.importing.logged.LoggedStore`, which decode the files and deliver commands.
  Transactions, temporary destinations, copies of folders, and lost or misplaced files are the same for all
  kinds, and ``tests/tools/test_import_contract.py`` tests each of them.
- Another source that is a log of what happened replays it in a
  :class:`~jdbcstore.tools.importing.replay.Replay`, which computes on disk the remaining messages and
  the subscriptions that need them. Then :class:`~jdbcstore.tools.importing.rows.ReplayedRows` makes all rows,
  with marks, acknowledgements ahead of them and transactions in doubt; it asks the source for the bytes of
  one message at a time. A source that reads tables replays them, too.
- Rows are the same each time that the source is read, with the same IDs: that makes an import resumable.
  Number messages by their place in the source, never in the order of a set or of a directory.
- A message that cannot be read is reported to ``Findings.damage`` with file and offset, and left out; what
  has no counterpart here, to ``Findings.note``. Nothing is raised because of one message.
- ``SharedLocks`` of ``source.py`` refuses files that a running broker has locked, and keeps brokers away.
- Messages that are not OpenWire are encoded with ``openwire.encode_for_store``, as jobs are in ``rows.py``,
  which also makes jobs of our scheduler: ``Replay.add`` takes when a message is due.
"""
