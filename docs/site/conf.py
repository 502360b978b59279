# SPDX-License-Identifier: MIT
"""Of Sphinx. The sources are the whole repository, so that a link is right here and in a browser of
the repository: pages of this folder, those of docs/ as they are, and the man pages."""

import os
import pathlib
import re
import sys

HERE = pathlib.Path(__file__).parent
ROOT = HERE.parent.parent
sys.path.insert(0, str(HERE))
sys.dont_write_bytecode = True

import facts  # pylint: disable=wrong-import-position

project = "Nearcpu"  # pylint: disable=invalid-name
release = version = re.search(  # pylint: disable=invalid-name
    r"^ *VERSION ([0-9.]+)$", (ROOT / "CMakeLists.txt").read_text("utf-8"), re.MULTILINE).group(1)
extensions = ["myst_parser", "pages"]
root_doc = "docs/site/index"
source_suffix = {".md": "markdown", ".scd": "scdoc"}
include_patterns = ["docs/**.md", "man/*.scd", "CHANGELOG.md", "SECURITY.md", "ARCHITECTURE.md",
                    "CONTRIBUTING.md"]
exclude_patterns = [name for name in sorted(os.listdir(ROOT))
                    if os.path.isdir(ROOT / name) and name not in ("docs", "man")]
exclude_patterns.append("docs/site/README.md")
nitpicky = True
highlight_language = "none"  # a listing names its language
myst_heading_anchors = 4
myst_enable_extensions = ["substitution"]
myst_substitutions = facts.all_facts(ROOT)
smartquotes = False

html_theme = "furo"
html_title = f"Nearcpu {release}"
html_static_path = ["static"]
html_css_files = ["site.css"]
html_copy_source = False
html_show_sourcelink = False
html_show_sphinx = False
html_permalinks_icon = "#"
html_theme_options = {
    # No font is loaded: those that the reader's system has.
    "light_css_variables": {"font-stack": "system-ui, sans-serif",
                            "font-stack--monospace": "ui-monospace, monospace"},
}
pygments_style = "default"
pygments_dark_style = "github-dark"
