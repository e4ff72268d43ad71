SELECT destination_name, region, date_trunc('hour', timestamp) AS hour, count(*) AS messages
FROM {{ ref('messages') }}
GROUP BY ALL
