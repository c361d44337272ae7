"""Servers for the tests: the real binary, a relay that cuts its connections, and a fake that says anything."""
