"""kombu's own tests, and Celery, on the transport."""
