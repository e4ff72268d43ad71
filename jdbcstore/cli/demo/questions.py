"""What Spark SQL is asked at the end, of every delivery that the consumer moved to its own store."""

from __future__ import annotations

QUESTIONS = {
    "What came of each producer's messages?": """
        SELECT properties['producer'].long AS producer,
          count(DISTINCT message_id) AS messages,
          count(*) AS deliveries,
          count_if(redelivery_counter > 0) AS marked_redelivered,
          round(sum(message_size) / 1024) AS kib
        FROM messages_decoded
        GROUP BY ALL
        ORDER BY producer
        """,
    "How long did they wait, second by second? Each kill is a long wait.": """
        SELECT date_format(broker_out_time, 'HH:mm:ss') AS second,
          count(*) AS deliveries,
          round(avg(unix_millis(broker_out_time) - unix_millis(timestamp))) AS mean_ms,
          max(unix_millis(broker_out_time) - unix_millis(timestamp)) AS longest_ms
        FROM messages_decoded
        GROUP BY ALL
        ORDER BY second
        """,
    "Which five waited longest, and what do they say?": """
        SELECT properties['producer'].long AS producer, msgid_seq AS number, redelivery_counter,
          unix_millis(broker_out_time) - unix_millis(timestamp) AS waited_ms,
          concat(left(body_text, 70), '...') AS body
        FROM messages_decoded
        ORDER BY waited_ms DESC, id
        LIMIT 5
        """,
}
"""A sentence for people, and the query that answers it."""
