SELECT original_destination, properties['dlqDeliveryFailureCause'].text AS reason, count(*) AS messages
FROM {{ source('lake', 'messages') }}
WHERE properties['dlqDeliveryFailureCause'] IS NOT NULL
GROUP BY ALL
