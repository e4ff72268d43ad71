-- The twenty largest messages.
SELECT message_size, id, destination, type, message_id, timestamp, body_size, properties_size, compressed
FROM messages_decoded
ORDER BY message_size DESC, id
LIMIT 20
