-- Messages that decode, with the properties that reports need as columns.
SELECT id, destination_name, timestamp, properties['region'].text AS region, body_text
FROM {{ source('lake', 'messages') }}
WHERE error IS NULL
