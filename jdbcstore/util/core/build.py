"""The build of the compiled core: ``python -m jdbcstore.util.core``, with Cython and a C compiler.

It compiles a copy of ``source.py`` in which Cython and ``slots.pxd`` take the place of ``plain.py``. The
result is the extension module ``compiled`` beside the source, with a checksum of what it was built from.
Building a wheel runs this file by itself, so it imports nothing of jdbcstore, and little before it builds.
"""

from __future__ import annotations

import zlib
from pathlib import Path

FOLDER = Path(__file__).parent
MODULE = "compiled"
_BUILT_FROM = ("source.py", "slots.pxd")
_REPLACED = {
    "from jdbcstore.util.core import plain as cython": "import cython",
    "from jdbcstore.util.core.plain import": "from cython.cimports.slots import",
}


class CannotBuildError(Exception):
    """There is no compiled core; the package works without it."""


def checksum() -> str:
    """Of the files that the compiled core is built from."""
    found = 0
    for name in _BUILT_FROM:
        found = zlib.crc32((FOLDER / name).read_bytes(), found)
    return f"{found:08x}"


def build(target: Path = FOLDER) -> Path:
    """Compile the core into a folder; returns the extension module.

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
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        (work / f"{MODULE}.py").write_text(_source())
        shutil.copy(FOLDER / "slots.pxd", work)
        _compile(work)
        (built,) = work.rglob(f"{MODULE}{sysconfig.get_config_var('EXT_SUFFIX')}")
        finished = target / built.name
        # Replaced, not overwritten: a process may have mapped it.
        shutil.copy(built, finished.with_suffix(".new"))
        return finished.with_suffix(".new").replace(finished)


def _compile(work: Path) -> None:
    import contextlib
    import io

    try:
        from Cython.Build import cythonize
        from setuptools import Distribution, Extension
    except ImportError as error:
        raise CannotBuildError(f"{error.name} is not installed: pip install cython setuptools") from error
    options = ["-O2", "-g0", "-Wno-unused-function"]
    extension = Extension(
        f"jdbcstore.util.core.{MODULE}", [str(work / f"{MODULE}.py")], extra_compile_args=options
    )
    directives = {"boundscheck": False, "wraparound": False, "language_level": 3, "binding": True}
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            modules = cythonize(  # type: ignore[no-untyped-call]
                [extension],
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


def _source() -> str:
    text = (FOLDER / "source.py").read_text()
    for plain, compiled in {**_REPLACED, 'SOURCE = ""': f'SOURCE = "{checksum()}"'}.items():
        if text.count(plain) != 1:
            raise CannotBuildError(f"source.py must have this once: {plain}")
        text = text.replace(plain, compiled)
    return text


def main() -> None:
    """Build in place, or say why that cannot be done; the package works without it."""
    try:
        print(f"The core is compiled: {build().name}")  # noqa: T201
    except CannotBuildError as error:
        print(f"The core is not compiled, and runs as Python: {error}")  # noqa: T201
