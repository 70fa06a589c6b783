"""What can be searched for; see book/_ext/passages.py."""

from __future__ import annotations

import sys

from companion.chapters import ROOT

sys.path.append(str(ROOT / "book" / "_ext"))

from passages import passages  # noqa: E402

PAGE = """<article><section id="top"><h1>A page<a class="headerlink">#</a></h1><p>30 of
100, <span class="math">\\(x\\)</span> and.</p><div class="cell_input"><pre>code()</pre></div>
<table><td>7.5</td></table>
<section id="deep"><h2>Deeper</h2><p>Below.</p><details class="claim" id="claim-x"><summary>They say</summary><p>We say.
</p></details></section></section></article>"""  # noqa: E501


def test_sections_and_claims_are_passages_without_code_and_formulas():
    assert passages(PAGE, "a.html") == [
        {
            "at": "a.html#top",
            "page": "A page",
            "title": "A page",
            "text": "A page 30 of 100, and. 7.5",
        },
        {"at": "a.html#deep", "page": "A page", "title": "Deeper", "text": "Deeper Below."},
        {"at": "a.html#claim-x", "page": "A page", "title": "They say", "text": "They say We say."},
    ]
    assert passages("<p>no article</p>", "b.html") == []
