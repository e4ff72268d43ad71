"""Changes of the table of tasks, for ``manage.py migrate``."""
