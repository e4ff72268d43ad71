"""The hook of the build of wheels: they carry the compiled core where it can be built."""

from __future__ import annotations

import importlib.util
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

BUILD = "jdbcstore/util/core/build.py"


class CustomBuildHook(BuildHookInterface[Any]):
    """Compiles the core into the wheel; without a compiler the wheel is one for any platform."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if version == "editable":
            return  # python -m jdbcstore.util.core compiles it in place
        spec = importlib.util.spec_from_file_location("build", Path(self.root, BUILD))
        if spec is None or spec.loader is None:
            return
        building = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(building)
        self._folder = tempfile.TemporaryDirectory()
        try:
            built = building.build(Path(self._folder.name))
        except building.CannotBuildError as error:
            self.app.display_warning(f"The core is not compiled, and runs as Python: {error}")
            return
        for extension in built:
            name = extension.relative_to(self._folder.name)
            build_data["force_include"][str(extension)] = f"jdbcstore/{name}"
        build_data["infer_tag"] = True
        build_data["pure_python"] = False

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:  # noqa: ARG002
        if hasattr(self, "_folder"):
            self._folder.cleanup()
