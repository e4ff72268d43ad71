"""What is said to each Java machine of a test, which runs for a short time."""

from __future__ import annotations

QUICK = (
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",  # compiled once, and quickly
    # That classes of jars are well made is looked at as each is loaded, and takes a sixth of a short life.
    "-XX:+UnlockDiagnosticVMOptions",
    "-XX:-BytecodeVerificationRemote",
    # There is room for all that is compiled: else a thread looks for what could be thrown away.
    "-XX:ReservedCodeCacheSize=256m",
    "-XX:-UseCodeCacheFlushing",
)
