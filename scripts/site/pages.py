"""Copies every Markdown file of the repository to a folder where Sphinx reads it.

A README becomes the index of its folder. The Markdown stays as it is in the repository; the navigation, which Sphinx needs,
is added to the copies.
"""

import os
import pathlib
import re
import shutil
import subprocess

ROOT = pathlib.Path(__file__).resolve().parents[2]
LINK = re.compile(r"(\]\()([^)\s]+)(\))")
README = re.compile(r"(^|/)README\.md(?=#|$)")
ELSEWHERE = re.compile(r"[a-z]+:|#")
SOURCE = re.compile(
    r"(?<![\w/.-])(?:cmd|configs|daemon|docs|examples|runtime|scheduler|scripts|storage|tests)/[\w/-]+\.(?:cpp|hpp|h|c|py|md|yaml|json)\b"
)
MAPS = """# Maps of the folders

Every folder of the sources has a README: what lives there, how it flows, its rules.
"""
# Titles in the navigation for pages whose own title is unclear outside of their folder.
TITLES = {
    "docs/data": "Datasets",
    "docs/tune": "Sweeps",
    "SECURITY": "Reporting a weakness",
    "docs/index": "Every page in a line",
}
# The navigation: caption, and pages in their order. A README of a folder includes those of its subfolders.
NAVIGATION = [
    ("Quick starts", ["docs/quickstart", "docs/from-ray-train", "docs/from-other-launchers", "docs/install", "examples/index"]),
    (
        "Train",
        [
            *("docs/workers", "docs/where-it-runs", "docs/job-spec", "docs/cli", "docs/data", "docs/tune", "docs/large-models"),
            "docs/troubleshooting",
        ],
    ),
    (
        "Run a cluster",
        [
            *("docs/dashboard", "docs/kubernetes", "docs/slurm", "docs/autoscaling", "docs/monitoring", "docs/queues"),
            *("docs/security", "SECURITY"),
        ],
    ),
    ("Reference", ["reference/python", "reference/cpp", "docs/http-api", "docs/glossary"]),
    ("How it is made", ["CONTRIBUTING", "docs/architecture", "docs/decisions/index", "docs/benchmarks", "maps", "CHANGELOG"]),
    ("All pages", ["docs/index"]),
]


def tracked(ending=""):
    """Paths of the files of the repository that are not ignored, as strings from its root."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", f"*{ending}"]
    out = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    return sorted(name for name in out.splitlines() if (ROOT / name).is_file())


def page_of(name):
    """Returns Sphinx's name of a file: `docs/README.md` -> `docs/index`."""
    return README.sub(r"\1index.md", name).removesuffix(".md")


def toctree(pages, caption=""):
    lines = ["```{toctree}", ":hidden:", *([f":caption: {caption}"] if caption else []), "", *pages, "```"]
    return "\n".join(lines) + "\n"


def entry(page):
    return f"{TITLES[page]} </{page}>" if page in TITLES else f"/{page}"


def owner(name, names):
    """Returns the README above the page `name`: that of its folder, or of the nearest parent folder that has one."""
    folder = pathlib.PurePath(name).parent
    folders = [folder, *folder.parents][1 if name.endswith("README.md") else 0 :]
    return next((str(ancestor / "README.md") for ancestor in folders if str(ancestor / "README.md") in names), None)


def navigation_below(name, names):
    """Returns the text that is added to the end of the copy of `name`: its part of the navigation."""
    if name == "README.md":
        return "\n".join(toctree([entry(page) for page in pages], caption) for caption, pages in NAVIGATION)
    named = {page for _, pages in NAVIGATION for page in pages}
    below = [document for document in names if owner(document, names) == name and page_of(document) not in named]
    return toctree([f"/{page_of(document)}" for document in below]) if below else ""


def linked_files(name, text):
    """Yields the files of the repository that the page links to and that are no pages."""
    for _, target, _ in LINK.findall(text):
        file = os.path.normpath(pathlib.PurePath(name).parent / target.partition("#")[0])
        if not ELSEWHERE.match(target) and not file.endswith(".md") and (ROOT / file).is_file():
            yield file


def missing_files(text):
    """Files of the sources that a page names by their path from the root, and that are not there."""
    return [name for name in dict.fromkeys(SOURCE.findall(text)) if not (ROOT / name).is_file()]


def breaches():
    """Yields one line for each missing file that a page names. The changelog is skipped, as it describes earlier states."""
    for name in tracked(".md"):
        if name != "CHANGELOG.md":
            yield from (f"{name}: names {file}, which is not there" for file in missing_files((ROOT / name).read_text()))


def stage(folder):
    """Writes all pages of the repository below `folder`, and the files that they link to."""
    names = tracked(".md")
    for name in names:
        text = (ROOT / name).read_text()
        for file in linked_files(name, text):
            (folder / file).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(ROOT / file, folder / file)
        text = LINK.sub(
            lambda match: match[1] + (match[2] if ELSEWHERE.match(match[2]) else README.sub(r"\1index.md", match[2])) + match[3],
            text,
        )
        copy = folder / f"{page_of(name)}.md"
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_text(f"{text}\n{navigation_below(name, names)}")
    named = {page for _, pages in NAVIGATION for page in pages}
    tops = [name for name in names if owner(name, names) == "README.md" and page_of(name) not in named]
    (folder / "maps.md").write_text(f"{MAPS}\n{toctree([f'/{page_of(name)}' for name in tops])}")
