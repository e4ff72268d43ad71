"""A certificate for a broker of a test."""

from __future__ import annotations

import subprocess
from pathlib import Path


def make_certificate(folder: Path) -> Path:
    """One for this machine, and its key, in one PEM file."""
    path, key = folder / "broker.pem", folder / "key.pem"
    kind = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")
    names = ("-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1,DNS:localhost", "-days", "2")
    files = ("-keyout", str(key), "-out", str(path))
    subprocess.run(["openssl", "req", "-x509", *kind, *names, *files], check=True, capture_output=True)
    path.write_text(path.read_text() + key.read_text())
    return path
