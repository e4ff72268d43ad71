-- The properties in use: destination, name, type, how many messages, an example.
SELECT destination, entry.key AS name, entry.value.type AS type, count(*) AS messages, min(entry.value.text) AS example
FROM (SELECT destination, unnest(map_entries(properties)) AS entry FROM messages_decoded)
GROUP BY destination, name, type
ORDER BY destination, name, type
