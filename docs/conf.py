"""Settings of Sphinx: ``make docs`` builds the site from this directory, without a request to any host."""

from __future__ import annotations

import os
import sys
from pathlib import Path

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE / "_ext"))
sys.path.insert(0, str(HERE.parent))
os.environ["COLUMNS"] = "100"

import jdbcstore  # noqa: E402

project = "jdbcstore"
author = "the authors of jdbcstore"
copyright = "the authors of jdbcstore; Apache License 2.0"  # noqa: A001
version = release = jdbcstore.__version__

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx_click",
    "sphinx_copybutton",
    "site_pages",
    "site_links",
]
exclude_patterns = ["_ext", "_static", "changes", "spark.ipynb"]
templates_path: list[str] = []

myst_enable_extensions = ["fieldlist"]
myst_heading_anchors = 4
# docs are read in a folder too, where headings may be as small as they look.
# console blocks have prompts and outputs, and no lexer knows JMX names.
suppress_warnings = ["misc.highlighting_failure", "myst.header"]
copybutton_prompt_text = r"\$ |>>> "
copybutton_prompt_is_regexp = True

autodoc_member_order = "bysource"
autodoc_default_options = {"members": True, "show-inheritance": True}
autodoc_typehints_format = "short"
autodoc_preserve_defaults = True
python_use_unqualified_type_names = True
python_maximum_signature_line_length = 88

html_theme = "furo"
html_title = f"jdbcstore {version}"
html_static_path = ["_static", "pictures"]
html_css_files = ["site.css"]
html_favicon = "_static/favicon.svg"
html_show_sphinx = False
html_copy_source = False
html_theme_options = {"navigation_with_keys": True, "sidebar_hide_name": False}
