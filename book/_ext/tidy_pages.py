"""Repairs of what Jupyter Book and its themes put on every page; tests/test_browser.py checks the
result.
"""

from __future__ import annotations

import re
from itertools import count
from pathlib import Path
from urllib.parse import unquote

import nbformat
from fontTools import subset
from PIL import Image, ImageColor
from sphinx.application import Sphinx
from sphinx.config import Config
from sphinx.environment import BuildEnvironment

from companion.chapters.pictures import CHART_GROUND


def tidy(app: Sphinx, pagename: str, templatename: str, context: dict, doctree: object) -> None:
    """Before a page is written: each script once, none of Thebe's, and roles that ARIA still
    knows.
    """
    once: dict = {}
    for script in context.get("script_files", []):
        # Sphinx registers inline scripts twice, and a second `const` is a syntax error in the
        # reader's console.
        text = script.attributes.get("body") or str(script.filename)
        if "thebe" not in text.lower():  # kernels are not offered; its script names a host outside
            once.setdefault(text, script)
    context["script_files"] = list(once.values())
    if "body" in context:  # a bibliography is a role=list, whose children must be list items
        context["body"] = context["body"].replace('role="doc-biblioentry"', 'role="listitem"')


#: label, icon, and address for a repository's address, its owner and name, a branch and a file
BUTTONS = (
    ("Source on GitHub", "fab fa-github", "{url}/blob/{branch}/{file}"),
    (
        "Open in Colab",
        "fas fa-cloud",
        "https://colab.research.google.com/github/{name}/blob/{branch}/{file}",
    ),
    (
        "Open in Binder",
        "fas fa-rocket",
        "https://mybinder.org/v2/gh/{name}/{branch}?urlpath=lab/tree/{file}",
    ),
)
EXECUTED = "book/executed/"


def links(repository: str, branch: str, pagename: str) -> list[dict]:
    """A page's buttons that lead to the repository; none where it has no address.

    A chapter leads to its notebook, which can be run; other pages have their source only.
    """
    if not repository:
        return []
    chapter = pagename.startswith(EXECUTED)
    file = f"notebooks/{pagename.removeprefix(EXECUTED)}.ipynb" if chapter else f"{pagename}.md"
    where = {"url": repository.rstrip("/"), "branch": branch, "file": file}
    where["name"] = "/".join(where["url"].split("/")[-2:])
    return [
        {
            "type": "link",
            "url": address.format(**where),
            "tooltip": label,
            "icon": icon,
            "label": label.lower(),
        }
        for label, icon, address in (BUTTONS if chapter else BUTTONS[:1])
    ]


def add_links(
    app: Sphinx, pagename: str, templatename: str, context: dict, doctree: object
) -> None:
    """The buttons of `links`, from the one setting `repository` of _config.yml."""
    options = app.config.html_theme_options
    if doctree is not None and "header_buttons" in context:
        found = links(
            options.get("repository_url") or "",
            options.get("repository_branch") or "main",
            pagename,
        )
        context["header_buttons"] += found


def letter_appendices(app: Sphinx, env: BuildEnvironment) -> None:
    """Once all is numbered: A.1, A.2, … for what appendix A numbers, instead of the book's next."""
    for page, of_kind in env.toc_fignumbers.items():
        if found := re.fullmatch(f"{EXECUTED}([a-z])-.*", page):
            for numbers in of_kind.values():
                numbers.update({key: (found[1].upper(), k) for k, key in enumerate(numbers, 1)})


# -------------------------------------------------------------------------------------- light pages

#: scripts that pages do without: icons come from the theme's font, the search page has a search of
#: its own
UNUSED = (
    "scripts/fontawesome.js",
    "_static/searchtools.js",
    "_static/language_data.js",
    "searchindex.js",
)
SEARCH = '<script src="_static/passages.js"></script><script src="_static/search.js"></script>'
#: of MathJax, what formulas in TeX need: no menu and no speech, half of the bytes
MATHJAX, MATHJAX_PARTS = "mathjax/startup.js", ["input/tex-base", "[tex]/ams", "output/chtml"]
#: its files that these load: a twentieth of what lies in its folder
MATHJAX_FILES = (
    "startup.js",
    "core.js",
    "loader.js",
    "input/tex-base.js",
    "input/tex/extensions/ams.js",
    "output/chtml",
)
SCRIPT = re.compile(r'<script[^>]* src="([^"?]*)[^"]*"[^>]*></script>\s*')
ARTICLE = re.compile(r"<article.*?</article>", re.DOTALL)
TOGGLE = re.compile(r'<summary>(?=<span class="toctree-toggle")')
IMAGE = re.compile(r"<img [^>]*>")
SIZE = re.compile(r'style="width: (\d+)px; height: (\d+)px;"')
WORD, CLASS = re.compile(r"[\w-]+"), re.compile(r"\.([a-zA-Z][\w-]*)")
# selectors with brackets stay as they are
RULE = re.compile(r"((?:(?<=[{};])|^)[^{}@;()]+)\{([^{}]*)\}")
ICON_NAME = re.compile(r"\bfa-[a-z0-9-]+")
ICON_RULE = re.compile(r'((?:\.fa-[a-z0-9-]+:before,?)+)\{content:"\\([0-9a-f]+)"\}')
FONT = re.compile(r'url\(([^()]*fa-solid-900)\.woff2\) format\("woff2"\)')


def less_mathjax(app: Sphinx, config: Config) -> None:
    """MathJax by its parts."""
    config.mathjax_path = MATHJAX
    parts = {"loader": {"load": MATHJAX_PARTS}, "tex": {"packages": {"[+]": ["ams"]}}}
    config.mathjax3_config = {**(config.mathjax3_config or {}), **parts}


def fewer_files(out: Path) -> None:
    """MathJax without what no page loads, and notebooks to download without the outputs that their
    pages show: half of the bytes of the folder.
    """
    mathjax = out / "_static" / "mathjax"
    for path in filter(Path.is_file, mathjax.rglob("*")):
        if not path.relative_to(mathjax).as_posix().startswith(MATHJAX_FILES):
            path.unlink()
    for path in (out / "_sources").rglob("*.ipynb"):
        nb = nbformat.read(path, as_version=4)
        for cell in nb.cells:
            if cell.cell_type == "code":
                cell.update(outputs=[], execution_count=None)
        nbformat.write(nb, path)


def slim(app: Sphinx, error: Exception | None) -> None:
    """Every written page without scripts that it does not use, and pictures that load when they are
    scrolled to; the theme's icon font without the icons that no page has; see `fewer_files`.
    """
    if error is not None:
        return
    words: set[str] = set()
    for page in Path(app.outdir).rglob("*.html"):
        old = page.read_text(encoding="utf-8")
        new = slimmer(old, page.parent)
        if page == Path(app.outdir) / "search.html":
            new = new.replace("</body>", f"{SEARCH}</body>")
        words |= set(WORD.findall(new))
        if new != old:
            page.write_text(new, encoding="utf-8")
    fewer_files(Path(app.outdir))
    static = Path(app.outdir) / "_static"
    for script in [*static.glob("*.js"), *static.glob("scripts/*.js")]:
        if script.name != "fontawesome.js":
            words |= set(WORD.findall(script.read_text(encoding="utf-8")))
    fewer_icons(static, {word for word in words if word.startswith("fa-")})
    for sheet in [*static.glob("*.css"), *static.glob("styles/*.css")]:
        sheet.write_text(
            fewer_rules(shorter(sheet.read_text(encoding="utf-8")), words), encoding="utf-8"
        )


def shorter(css: str) -> str:
    """A style sheet without comments (but for licences), line ends and indentation.

    >>> shorter("/* why */ .a :is(b) {\\n  color: red;\\n}\\n")
    '.a :is(b){color: red}'
    """
    css = re.sub(r"\s+", " ", re.sub(r"/\*(?!!).*?\*/", " ", css, flags=re.DOTALL)).strip()
    return re.sub(r" ?([{};]) ?", r"\1", css).replace(";}", "}")


def fewer_rules(css: str, words: set[str]) -> str:
    """A style sheet without the rules that no page can meet: those with a class that is in no page
    and in no script.
    """

    def rule(found: re.Match) -> str:
        met = [each for each in found[1].split(",") if set(CLASS.findall(each)) <= words]
        return f"{','.join(met)}{{{found[2]}}}" if met else ""

    return RULE.sub(rule, css)


def fewer_icons(static: Path, names: set[str]) -> None:
    """The style sheet without the rules of other icons than these, and the font with their glyphs
    alone.
    """
    sheet = static / "styles" / "pydata-sphinx-theme.css"
    codes: set[int] = set()

    def rule(found: re.Match) -> str:
        if not names & set(ICON_NAME.findall(found[1])):
            return ""
        codes.add(int(found[2], 16))
        return found[0]

    css = ICON_RULE.sub(rule, sheet.read_text(encoding="utf-8"))
    font = static / "vendor" / "fontawesome" / "webfonts" / "fa-solid-900.ttf"
    if not codes or not font.is_file():
        return  # another version of the theme: it works as it is
    options = subset.Options(flavor="woff", drop_tables=["FFTM"])
    glyphs = subset.load_font(str(font), options)
    few = subset.Subsetter(options)
    few.populate(unicodes=codes)
    few.subset(glyphs)
    subset.save_font(glyphs, str(font.with_suffix(".woff")), options)
    sheet.write_text(FONT.sub(r'url(\1.woff) format("woff")', css), encoding="utf-8")


def slimmer(html: str, folder: Path) -> str:
    """The text of a page in this folder; its first picture is loaded at once, the others wait.
    Pictures have their size, of 100 dots an inch at most, and charts a class: style sheets invert
    them on dark pages. What folds a part of the contents is an icon; it has a name for those who do
    not see it.
    """
    unused = UNUSED if 'class="math' in html else (*UNUSED, MATHJAX)

    def script(found: re.Match) -> str:
        return "" if found[1].endswith(unused) else found[0]

    seen = count()

    def picture(found: re.Match) -> str:
        # a height in a style does not follow a narrowed width
        tag = SIZE.sub(r'width="\1" height="\2"', found[0])
        source = re.search(r'src="([^"]*)"', tag)
        first = next(seen) == 0
        if source is None or source[1].startswith("data:"):
            return tag
        added = "" if first or "loading=" in tag else 'loading="lazy" '
        file = folder / unquote(source[1])
        if file.suffix == ".png" and file.is_file():
            with Image.open(file) as image:
                if not re.search(r' (?:width|height|style)="', tag):
                    added += 'width="{}" height="{}" '.format(*shown_size(image))
                if is_chart(image):
                    tag = classed(tag, CHART)
        return tag.replace("<img ", f"<img {added}", 1)

    named = TOGGLE.sub('<summary aria-label="Pages of this part">', SCRIPT.sub(script, html))
    return ARTICLE.sub(lambda found: IMAGE.sub(picture, found[0]), named)


#: of pictures without photographs
CHART = "recon-chart"


def shown_size(image: Image.Image) -> tuple[int, int]:
    """Width and height on a page: a figure drawn with more than 100 dots an inch is sharper there,
    not larger.
    """
    share = min(1.0, 100 / (image.info.get("dpi", (100, 100))[0] or 100))
    return round(image.width * share), round(image.height * share)


def is_chart(image: Image.Image) -> bool:
    """Whether `companion.chapters.pictures.chart` drew it: its ground says so, a hair off white."""
    return image.convert("RGB").getpixel((0, 0)) == ImageColor.getrgb(CHART_GROUND)


def classed(tag: str, name: str) -> str:
    """An element's first tag with one class more."""
    if ' class="' in tag:
        return tag.replace(' class="', f' class="{name} ', 1)
    return tag.replace("<img ", f'<img class="{name}" ', 1)


def setup(app: Sphinx) -> dict:
    """Last of all listeners: the themes add scripts in theirs."""
    app.connect("html-page-context", tidy, priority=1000)
    app.connect("html-page-context", add_links, priority=1001)
    app.connect("config-inited", less_mathjax)
    app.connect("env-check-consistency", letter_appendices)
    app.connect("build-finished", slim)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
