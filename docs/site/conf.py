"""The site of `make html`, by Sphinx with MyST: README.md and docs/ as they are, and each public header as a page."""
from sphinx.parsers import RSTParser

project = "heddle"
author = "the heddle authors"
extensions = ["myst_parser"]
root_doc = "docs/site/contents"
include_patterns = ["README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md", "docs/**", "include/**"]
exclude_patterns = ["docs/man"]
myst_heading_anchors = 3  # as in links between pages: determinism.md#convolutions-by-tiles
# Links to folders have no page; tools/check-links looks whether they exist.
suppress_warnings = ["myst.header", "ref.myst"]
highlight_language = "none"
html_theme = "alabaster"
html_theme_options = {"page_width": "min(1440px, 96%)", "sidebar_width": "260px", "body_max_width": "none",
                      "code_font_size": "clamp(12px, 0.95vw, 0.8em)"}  # 120 columns of code, from 1280 pixels on
html_sidebars = {"**": ["about.html", "searchbox.html", "navigation.html"]}
html_extra_path = ["index.html"]
html_copy_source = False
html_show_sphinx = False


class HeaderParser(RSTParser):
    """A C header: its name, and its text as code."""
    supported = ("c-header",)

    def parse(self, inputstring: str, document) -> None:
        name = self.env.docname.removeprefix("include/") + ".h"
        code = "".join(f"   {line}\n" for line in inputstring.splitlines())
        super().parse(f"{name}\n{'=' * len(name)}\n\n.. code-block:: c\n\n{code}", document)


def setup(app) -> None:
    app.add_source_suffix(".h", "c-header")
    app.add_source_parser(HeaderParser)
