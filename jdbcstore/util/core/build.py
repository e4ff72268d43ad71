"""The build of the compiled core: ``python -m jdbcstore.util.core``, with Cython and a C compiler.

It compiles a copy of each ``*_cy.py`` in which Cython and ``slots.pxd`` take the place of ``plain.py``. The
results are extension modules beside the sources, ``_rows_c`` beside ``_rows_cy.py``, with a checksum of what
they were built from. Building a wheel runs this file by itself, so it imports nothing of jdbcstore, and
little before it builds.
"""

from __future__ import annotations

import re
import zlib
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path

FOLDER = Path(__file__).parent
PACKAGE = FOLDER.parents[1]
_SLOTS = FOLDER / "slots.pxd"
_REPLACED = {
    "from jdbcstore.util.core import plain as cython": "import cython",
    "from jdbcstore.util.core.plain import": "from cython.cimports.slots import",
}


class CannotBuildError(Exception):
    """There is no compiled core; the package works without it."""


def sources() -> list[Path]:
    """Return the files of the modules that can be compiled."""
    return sorted(PACKAGE.rglob("*_cy.py"))


def checksum(source: Path) -> str:
    """Return the checksum of the files that a compiled module is built from."""
    return f"core-{zlib.crc32(_SLOTS.read_bytes(), zlib.crc32(source.read_bytes())):08x}"


def compiled_name(module: str) -> str:
    """Return the name of the compiled version of a module."""
    return f"{module.removesuffix('_cy')}_c"


def extension_of(source: Path) -> Path:
    """Return the file of a source's compiled version, which need not exist."""
    return source.with_name(compiled_name(source.stem) + EXTENSION_SUFFIXES[0])


def build(package: Path = PACKAGE) -> list[Path]:
    """Compile the core into a tree of the package; return the extension modules.

    :raises CannotBuildError: Cython, a C compiler or Python's headers are missing, or fail
    """
    import shutil
    import sysconfig
    import tempfile

    compiler = (sysconfig.get_config_var("CC") or "cc").split()[0]
    if shutil.which(compiler) is None:
        raise CannotBuildError(f"there is no C compiler, {compiler}: apt-get install gcc")
    if not Path(sysconfig.get_path("include"), "Python.h").exists():
        raise CannotBuildError("Python's headers are missing: apt-get install python3-dev")
    built = []
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        shutil.copy(_SLOTS, work)
        _compile(work)
        for source in sources():
            extension = extension_of(source)
            finished = package / extension.relative_to(PACKAGE)
            finished.parent.mkdir(parents=True, exist_ok=True)
            # Replaced, not overwritten: a process may have mapped it.
            shutil.copy(work / extension.relative_to(PACKAGE.parent), finished.with_suffix(".new"))
            built.append(finished.with_suffix(".new").replace(finished))
    return built


def _compile(work: Path) -> None:
    import contextlib
    import io

    try:
        from Cython.Build import cythonize
        from setuptools import Distribution, Extension
    except ImportError as error:
        raise CannotBuildError(f"{error.name} is not installed: pip install cython setuptools") from error
    # Uncompressed, so that the checksum can be found in the file.
    options = ["-O2", "-g0", "-Wno-unused-function", "-DCYTHON_COMPRESS_STRINGS=0"]
    extensions = []
    for source in sources():
        module = source.relative_to(PACKAGE.parent).with_suffix("")
        copy = work / module.with_name(f"{compiled_name(module.name)}.py")
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_text(_prepared(source))
        name = ".".join(copy.relative_to(work).with_suffix("").parts)
        extensions.append(Extension(name, [str(copy)], extra_compile_args=options))
    directives = {"boundscheck": False, "wraparound": False, "language_level": 3, "binding": True}
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            modules = cythonize(  # type: ignore[no-untyped-call]
                extensions,
                compiler_directives=directives,
                include_path=[str(work)],
                build_dir=str(work),
                quiet=True,
            )
            command = Distribution({"name": "core", "ext_modules": modules}).get_command_obj("build_ext")
            command.build_lib = command.build_temp = str(work)
            command.ensure_finalized()
            command.run()
    except Exception as error:
        raise CannotBuildError(f"{type(error).__name__}: {error}") from error


def _prepared(source: Path) -> str:
    """Return the text for Cython: with its modules, and a checksum instead of the choice at its end."""
    text = source.read_text()
    for plain, compiled in _REPLACED.items():
        text = text.replace(plain, compiled)
    text, count = re.subn(r"\nuse_compiled\(globals\(\)\)\n$", f'\nSOURCE = "{checksum(source)}"\n', text)
    if count != 1:
        raise CannotBuildError(f"{source.name} must end with use_compiled(globals())")
    return text


def main() -> None:
    """Build in place, or say why that cannot be done; the package works without it."""
    try:
        print(f"The core is compiled: {len(build())} modules")  # noqa: T201
    except CannotBuildError as error:
        print(f"The core is not compiled, and runs as Python: {error}")  # noqa: T201
