"""How Sphinx makes the site: `make docs`. The pages are Markdown, and can be read without it."""

import re
import sys
from pathlib import Path

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))

import gallery  # noqa: E402
import latex2mathml.converter  # noqa: E402
import reference  # noqa: E402
from docutils import nodes  # noqa: E402

import simi_mailbox  # noqa: E402

project = "simi-mailbox"
author = "The simi-mailbox developers"
copyright = "the simi-mailbox developers"
version = release = simi_mailbox.__version__

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
html_math_renderer = "mathml"  # by browsers themselves: no script, no network
exclude_patterns = ["_build"]
html_theme = "furo"
html_title = f"simi-mailbox {version}"
html_show_sourcelink = False
html_static_path = ["_static"]
html_css_files = ["site.css"]

myst_heading_anchors = 3
myst_enable_extensions = ["colon_fence", "dollarmath"]
napoleon_google_docstring = False
napoleon_use_rtype = False
napoleon_custom_sections = [reference.FITTED, reference.FIELDS]
autodoc_typehints = "signature"
python_maximum_signature_line_length = 88
autodoc_member_order = "bysource"
# What scikit-learn's metadata routing adds to every class of its kind.
autodoc_default_options = {"exclude-members": ", ".join(reference.HIDDEN[:4])}
default_role = "code"  # `name` in our docstrings is code, not a cross-reference


def write_gallery(app):
    """Run the scripts of the gallery; what they print and draw is in the pages made of them."""
    for script in sorted((HERE / "gallery").glob("*.py")):
        gallery.write(script, HERE / "gallery" / "made")


def write_reference(app):
    """Make the pages of the API reference; a page that is as it was keeps its time."""
    folder = HERE / "api"
    folder.mkdir(exist_ok=True)
    for name, text in reference.pages().items():
        path = folder / name
        if not path.exists() or path.read_text("utf-8") != text:
            path.write_text(text, "utf-8")


def files_beside(app, docname, source):
    """What lies outside docs/ (tables of results) is offered as a file, not as a page."""
    source[0] = re.sub(r"\]\((\.\./(?:results|src|CONTRIBUTING)[^)#]*)\)", r"](path:\1)", source[0])


def prepare(app, what, name, obj, options, lines):
    """Before napoleon: attributes with their underscores, and links to pages."""
    lines[:] = [reference.linked(line) for line in reference.with_attributes(lines)]
    if what in ("attribute", "property"):  # else napoleon takes words before a colon for a type
        lines.insert(0, "")


def shorten(app, what, name, obj, options, signature, returned):
    """Names of array types as the code has them, not spelled out."""
    return shortened(signature), shortened(returned)


def shortened(text):
    """`numpy.ndarray[…]` and the like without their parameters and paths."""
    if text is None:
        return None
    while (found := re.sub(r"\bndarray\[(?:[^\[\]]|\[[^\[\]]*\])*\]", "ndarray", text)) != text:
        text = found
    text = re.sub(r"Annotated\[(\w+), ~?[\w.]*Constraint\(.*?<lambda>\)\]", r"\1", text)
    return re.sub(r"\b(?:numpy|torch|os|collections\.abc|simi_mailbox[\w.]*)\.(?=\w)", "", text)


def bars(app, what, name, obj, options, lines):
    """In our formulas |x| is an absolute value; to Sphinx it would be the name of a text."""
    for number, line in enumerate(lines):
        if not line.lstrip().startswith((">>>", "...")):
            parts = re.split(r"(``.*?``)", line)
            parts[::2] = [part.replace("|", r"\|") for part in parts[::2]]
            lines[number] = "".join(parts)


def inline_math(translator, node):
    """A formula in a sentence, as MathML."""
    translator.body.append(latex2mathml.converter.convert(node.astext()))
    raise nodes.SkipNode


def display_math(translator, node):
    """A formula on lines of its own, as MathML."""
    made = latex2mathml.converter.convert(node.astext(), display="block")
    translator.body.append(f'<div class="math">{made}</div>')
    raise nodes.SkipNode


def setup(app):
    """Hang these into the build."""
    app.add_html_math_renderer("mathml", (inline_math, None), (display_math, None))
    app.connect("builder-inited", write_reference)
    app.connect("builder-inited", write_gallery)
    app.connect("source-read", files_beside)
    app.connect("autodoc-process-docstring", prepare, priority=400)
    app.connect("autodoc-process-docstring", bars)
    app.connect("autodoc-process-signature", shorten)
