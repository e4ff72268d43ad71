"""One jar of all that Spark has, in which what is nowhere is looked for once.

Spark and py4j ask for many classes that are not there. In Spark's own jars, which are almost three hundred, a
third of what Java does in a test is to look for them.
"""

from __future__ import annotations

import os
import struct
from collections import defaultdict
from importlib.metadata import version
from pathlib import Path
from zipfile import ZipFile, ZipInfo

from tests.support import ROOT

_HEADER = struct.Struct("<4s5H3I2H")
"""Of an entry, before its name; the last two numbers are the lengths of its name and of what follows that."""
_SERVICES = "META-INF/services/"
_VERSIONS = "META-INF/versions/"
_JAVA = 17
"""The oldest that Spark runs on: of a class in several versions, the one for it is taken."""
_OF_ONE_JAR = (".MF", ".SF", ".RSA", ".DSA", ".LIST", "module-info.class")


def merged(jars: Path) -> Path:
    """The jars of this folder in one, which is made once for a version of Spark."""
    target = ROOT / ".build" / f"spark-{version('pyspark')}.jar"
    if not target.exists():
        target.parent.mkdir(exist_ok=True)
        new = target.with_name(f"{target.name}.{os.getpid()}")
        _merge(sorted(jars.glob("*.jar")), new)
        new.replace(target)
    return target


def _merge(jars: list[Path], target: Path) -> None:
    services: defaultdict[str, list[bytes]] = defaultdict(list)
    copied: set[str] = set()
    with ZipFile(target, "w") as together:
        for jar in jars:
            with ZipFile(jar) as one:
                for name, entry in _entries(one).items():
                    if name.startswith(_SERVICES) and not entry.is_dir():
                        services[name].append(one.read(entry))
                    elif name not in copied and not name.endswith(_OF_ONE_JAR):
                        copied.add(name)
                        _copy(one, entry, name, together)
        for name, parts in services.items():
            together.writestr(name, b"\n".join(parts))


def _entries(jar: ZipFile) -> dict[str, ZipInfo]:
    """The files and folders of a jar, by the name under which this Java finds them."""
    versions: dict[str, tuple[int, ZipInfo]] = {}
    for entry in jar.infolist():
        name, number = entry.filename, 0
        if name.startswith(_VERSIONS):
            first, _, name = name.removeprefix(_VERSIONS).partition("/")
            number = int(first) if first.isdigit() else _JAVA + 1
        if versions.get(name, (0,))[0] <= number <= _JAVA:
            versions[name] = number, entry
    return {name: entry for name, (_, entry) in versions.items()}


def _copy(jar: ZipFile, entry: ZipInfo, name: str, target: ZipFile) -> None:
    """Copy a file as it is compressed."""
    assert jar.fp is not None
    assert target.fp is not None
    jar.fp.seek(entry.header_offset)
    *_, of_name, of_others = _HEADER.unpack(jar.fp.read(_HEADER.size))
    jar.fp.seek(of_name + of_others, os.SEEK_CUR)
    new = ZipInfo(name)
    new.compress_type, new.CRC = entry.compress_type, entry.CRC
    new.compress_size, new.file_size = entry.compress_size, entry.file_size
    new.header_offset = target.fp.tell()
    target.fp.write(new.FileHeader())
    target.fp.write(jar.fp.read(entry.compress_size))
    target.filelist.append(new)
    target.start_dir = target.fp.tell()
