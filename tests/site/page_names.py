"""Names in pages that are not Python's and not the command line's: variables, files, routes of the API, metrics."""

from __future__ import annotations

import fnmatch
import functools
import json
import re
from collections.abc import Iterator

from page_text import ROOT, line_of, sources, tracked_files

VARIABLE = re.compile(r"\bRTRAIN_[A-Z0-9_]+\*?")
METRIC = re.compile(r"`(rtrain_[a-z0-9_]+(?:\{[\w,]+\}[\w]*|\*)?[a-z0-9_]*)")
FOLDERS = "cmd|configs|daemon|docs|examples|packaging|runtime|scheduler|scripts|storage|tests"
FILE = re.compile(rf"(?<![\w/.<>$~-])((?:{FOLDERS}|\.ci)/[\w./*{{}},-]*[\w*}}])")
ROUTE = re.compile(r"`(GET|HEAD|POST|PUT|DELETE|PATCH) (/[\w/{}.*-]*)")
# Names that stand for what a program or a person makes, not for a file of the repository.
MADE = re.compile(r"[A-Z]{2,}|\bNNNN\b|/(build|node_modules)/")


@functools.cache
def variables() -> set[str]:
    whole = {name for text in sources() for name in re.findall(r"RTRAIN_[A-Z0-9_]+", text)}
    return whole | {f"RTRAIN_TRAIN_{name}" for text in sources() for name in re.findall(r'_names\.\w+\("([A-Z_]+)"', text)}


@functools.cache
def metrics() -> set[str]:
    whole = {name for text in sources() for name in re.findall(r"\brtrain_[a-z0-9_]+", text)}
    return whole | {f"rtrain_{name}" for text in sources() for name in re.findall(r'"([a-z]+(?:_[a-z]+)+)"', text)}


def alternatives(name: str) -> list[str]:
    """Returns the names that `a_{b,c}_d` stands for."""
    match = re.search(r"\{([^{}]*)\}", name)
    if not match:
        return [name]
    return [one for part in match[1].split(",") for one in alternatives(name[: match.start()] + part + name[match.end() :])]


@functools.cache
def paths() -> set[str]:
    files = tracked_files()
    return {*files, *(parent for name in files for parent in parents(name))}


def parents(name: str) -> Iterator[str]:
    while "/" in name:
        name = name.rpartition("/")[0]
        yield name


def is_there(path: str, folder: str) -> bool:
    """True if a file or folder has the name, from the repository's root or from the page's folder. It may have `*`, and the name
    of a source or a test may lack its ending."""
    return any(has_path(place.rstrip("/.,")) for place in (path, f"{folder}/{path}"))


def has_path(path: str) -> bool:
    if any(fnmatch.fnmatch(name, path) for name in paths()) if "*" in path else path in paths():
        return True
    return any(f"{path}{ending}" in paths() for ending in (".py", ".cpp", ".hpp", ".md"))


@functools.cache
def routes() -> set[tuple[str, str]]:
    document = json.loads((ROOT / "configs" / "openapi.json").read_text())
    return {(verb.upper(), shape(path)) for path, verbs in document["paths"].items() for verb in verbs}


def shape(path: str) -> str:
    return re.sub(r"\{\w+\}|\b[A-Z]+\b", "{}", path)


def wrong_names(name: str, text: str) -> Iterator[str]:
    """One line for each name of the page that stands nowhere in the sources."""
    for match in VARIABLE.finditer(text):
        word = match[0]
        known = any(one.startswith(word.rstrip("*")) for one in variables()) if word.endswith(("*", "_")) else word in variables()
        if not known:
            yield f"{name}:{line_of(text, match.start())}: no source has the variable {word}"
    for match in FILE.finditer(text):
        missing = [one for one in alternatives(match[1]) if not MADE.search(one) and not is_there(one, name.rpartition("/")[0])]
        yield from (f"{name}:{line_of(text, match.start())}: there is no {one}" for one in missing)
    for match in ROUTE.finditer(text):
        if match[2].startswith("/v1/") and (match[1], shape(match[2])) not in routes():
            yield f"{name}:{line_of(text, match.start())}: the API has no {match[1]} {match[2]}"
    for match in METRIC.finditer(text):
        labelled = match[1].partition("{")[0] in metrics()  # `name{label}`, not `name_{one,other}_bytes`
        for one in [match[1].partition("{")[0]] if labelled else alternatives(match[1]):
            if not (fnmatch.filter(metrics(), one) if "*" in one else one in metrics()):
                yield f"{name}:{line_of(text, match.start())}: no source has the name {one}"
