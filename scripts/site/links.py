"""Finds faults in the links of a built site: missing files and anchors, and files from other servers."""

import functools
import os
import pathlib
import re
import sys
import urllib.parse
from html.parser import HTMLParser

FROM_ELSEWHERE = re.compile(r"""(?:url\(\s*["']?|@import\s+["'])((?:https?:)?//[^)"'\s]+)""")
LOADED = {
    ("script", "src"),
    ("img", "src"),
    ("iframe", "src"),
    ("source", "src"),
    ("link", "href"),
    ("object", "data"),
    ("use", "href"),
}


class Page(HTMLParser):
    """The anchors of one HTML file, its links, and the files that a browser loads with it."""

    def __init__(self, text):
        super().__init__()
        self.anchors, self.links, self.loaded = set(), [], FROM_ELSEWHERE.findall(text)
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        for name, value in attributes:
            if not value:
                continue
            if name == "id" or (tag == "a" and name == "name"):
                self.anchors.add(value)
            if (tag, name) in LOADED:
                self.loaded.append(value)
            elif name == "href":
                self.links.append(value)


@functools.lru_cache(maxsize=4096)
def page(file):
    return Page(file.read_text(errors="replace"))


def breach(file, target):
    """Returns the fault of a link from `file` to `target`; None if its target exists, or is outside of the site."""
    url = urllib.parse.urlsplit(target)
    if url.scheme or url.netloc or target in ("#", "#top"):
        return None
    path = urllib.parse.unquote(url.path)
    other = pathlib.Path(os.path.normpath(file.parent / path)) if path else file
    if not other.is_file():
        return "there is no such file"
    anchor = urllib.parse.unquote(url.fragment)
    if anchor and other.suffix == ".html" and anchor not in page(other).anchors:
        return "the page has no such anchor"
    return None


def breaches(folder):
    """Yields one line for each broken link below `folder`, and for each file that a page loads from another server."""
    for file in sorted(folder.rglob("*.html")):
        name = file.relative_to(folder)
        for target in dict.fromkeys([*page(file).links, *page(file).loaded]):
            wrong = breach(file, target)
            if wrong:
                yield f"{name}: {target}: {wrong}"
        for target in page(file).loaded:
            if urllib.parse.urlsplit(target).scheme in ("http", "https") or target.startswith("//"):
                yield f"{name}: {target} is loaded from another server"
    for file in sorted(folder.rglob("*.css")):
        for target in FROM_ELSEWHERE.findall(file.read_text(errors="replace")):
            yield f"{file.relative_to(folder)}: {target} is loaded from another server"


if __name__ == "__main__":
    wrong = list(breaches(pathlib.Path(sys.argv[1]).resolve()))
    print("\n".join(wrong))
    sys.exit(1 if wrong else 0)
