"""The site of `make html`, by Sphinx with MyST: README.md and docs/ as they are, and each public header as a page."""
import html
import re

from docutils import nodes
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


def describe(app, pagename: str, templatename: str, context: dict, doctree) -> None:
    """What a search engine shows of a page: its first paragraph, or the first lines of a header's comment."""
    if doctree is None:
        return
    first = next((node.astext() for node in doctree.findall(nodes.paragraph)), "")
    if pagename.startswith("include/"):
        comment = re.search(r"/\*(.*?)\*/", doctree.astext(), re.S)
        first = re.sub(r"\n *\* ?", " ", comment.group(1)) if comment else ""
    text = " ".join(first.split())
    if len(text) > 160:
        text = text[:157].rsplit(" ", 1)[0] + "..."
    if text:
        context["metatags"] = context.get("metatags", "") + f'<meta name="description" content="{html.escape(text)}">\n'


def setup(app) -> None:
    app.connect("html-page-context", describe)
    app.add_source_suffix(".h", "c-header")
    app.add_source_parser(HeaderParser)
