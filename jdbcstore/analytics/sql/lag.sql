-- Durable subscriptions by what they have not acknowledged.
SELECT destination, client_id, subscription_name, lag, acknowledged_ahead, selector
FROM subscriptions
ORDER BY lag DESC, destination, client_id, subscription_name
