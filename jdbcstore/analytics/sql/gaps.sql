-- Sequence numbers of a producer between two that are known: not persistent, refused, or gone unrecorded.
SELECT msgid_prod AS producer, previous + 1 AS first_missing, msgid_seq - 1 AS last_missing,
  msgid_seq - previous - 1 AS missing
FROM (
  SELECT msgid_prod, msgid_seq, lag(msgid_seq) OVER (PARTITION BY msgid_prod ORDER BY msgid_seq) AS previous
  FROM history
)
WHERE msgid_seq > previous + 1
ORDER BY missing DESC, producer, first_missing
