-- The properties in use: destination, name, type, how many messages, an example.
SELECT destination, name, value.type AS type, count(*) AS messages, min(value.text) AS example
FROM (SELECT destination, explode(properties) AS (name, value) FROM messages_decoded)
GROUP BY destination, name, value.type
ORDER BY destination, name, type
