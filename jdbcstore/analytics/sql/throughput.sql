-- Messages still stored, by the minute in which the broker (or else the sender) had them.
SELECT date_trunc('MINUTE', coalesce(broker_in_time, timestamp)) AS minute, count(*) AS messages,
  count(DISTINCT producer_id) AS producers
FROM messages_decoded
GROUP BY 1
ORDER BY 1
