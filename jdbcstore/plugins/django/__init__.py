"""Django's tasks on claims: an app for ``INSTALLED_APPS``; see docs/guide/django.md."""
