"""scripts/docs builds the whole site without a warning, and each of its checks can fail."""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import pathlib
import re
import shutil
import subprocess
import sys
import types

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "scripts" / "site"), str(ROOT / "runtime" / "python")]

import headers  # noqa: E402
import links  # noqa: E402
import make_site  # noqa: E402
import pages  # noqa: E402
import python_reference  # noqa: E402
from rtrain import _public_names  # noqa: E402

with_doxygen = pytest.mark.skipif(shutil.which("doxygen") is None, reason="doxygen is not installed")
needs = pytest.mark.skipif(
    any(importlib.util.find_spec(name) is None for name in ("sphinx", "myst_parser", "furo", "pdoc")),
    reason="scripts/bootstrap installs Sphinx, MyST, Furo and pdoc",
)


@pytest.fixture(scope="module")
def site(tmp_path_factory) -> pathlib.Path:
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, str(ROOT / "scripts" / "site" / "make_site.py"), str(folder)]
    if shutil.which("doxygen") is None:
        command.append("--without-cpp")
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0 and done.stderr == "", done.stdout + done.stderr
    return folder


@needs
def test_every_page_of_the_repository_is_there(site) -> None:
    pages = [file.relative_to(ROOT) for file in [*(ROOT / "docs").rglob("*.md"), ROOT / "CHANGELOG.md"]]
    made = [str(page.with_suffix(".html")).replace("README.html", "index.html") for page in pages]
    assert len(made) > 40 and [name for name in made if not (site / name).is_file()] == []


@needs
def test_the_navigation_begins_with_the_quick_starts(site) -> None:
    sidebar = (site / "index.html").read_text().partition("sidebar-tree")[2]
    targets = re.findall(r'href="([a-z][^"#]*\.html)"', sidebar)
    assert targets[:3] == ["docs/quickstart.html", "docs/from-ray-train.html", "docs/from-other-launchers.html"]
    assert {"reference/python.html", "reference/cpp.html", "docs/decisions/index.html"} <= set(targets)


@needs
def test_the_search_knows_pages_and_names(site) -> None:
    index = (site / "searchindex.js").read_text()
    wanted = ["ScalingConfig", "GlobalBatches", *(["rtw_report", "DistributedSampler"] if shutil.which("doxygen") else [])]
    assert [name for name in wanted if f'"{name}"' not in index] == []


def public_names(module: types.ModuleType) -> set[str]:
    """Names of the module, and methods of its classes, those of its own private bases among them."""
    names = set()
    for name in getattr(module, "__all__", ()):
        member = getattr(module, name)
        if isinstance(member, types.ModuleType) or name.startswith("__"):
            continue
        names.add(name)
        own = isinstance(member, type) and _public_names._public_names.get(member) == f"{module.__name__}:{name}"
        bases = member.__mro__ if own else ()  # another name for a class has no methods of its own
        for base in bases:
            if base is member or (base.__module__.startswith("rtrain") and "._" in base.__module__):
                names |= {f"{name}.{one}" for one, value in vars(base).items() if inspect.isfunction(value) and one[0] != "_"}
    return names


@needs
def test_the_reference_has_every_public_name(site) -> None:
    for name in ("rtrain", "rtrain.data", "rtrain.train", "rtrain.train.torch", "rtrain.tune", "rtrain.tune.stopper"):
        page = (site / "python" / f"{name.replace('.', '/')}.html").read_text()
        assert {one for one in public_names(importlib.import_module(name)) if f'id="{one}"' not in page} == set()
    assert "Dataset.count" in public_names(importlib.import_module("rtrain.data"))  # it comes from a private base


@needs
@with_doxygen
def test_the_reference_has_the_c_interface(site) -> None:
    header = (ROOT / "runtime" / "worker" / "rtrain_worker.h").read_text()
    page = (site / "cpp" / "html" / "rtrain__worker_8h.html").read_text()
    functions = set(re.findall(r"\b(rtw_[a-z_]+)\(", header))
    assert len(functions) > 15 and {one for one in functions if one not in page} == set()
    assert (site / "cpp" / "html" / "classrtrain_1_1Worker.html").is_file()


def test_a_docstrings_arguments_become_a_list() -> None:
    text = "Reads.\n\npath: a folder,\nor a file.\nsize, seed: numbers. ValueError: below 0.\n\nNote this: not an argument."
    listed = (
        "Reads.\n\n- `path`: a folder,\nor a file.\n- `size, seed`: numbers. ValueError: below 0.\n\nNote this: not an argument."
    )
    assert python_reference.as_list(text) == listed


def test_broken_links_and_foreign_resources_are_found(tmp_path) -> None:
    (tmp_path / "other.html").write_text('<p id="here">')
    (tmp_path / "one.html").write_text(
        '<link rel="stylesheet" href="https://fonts.example/a.css"><style>a{background:url(//cdn.example/b.png)}</style>'
        '<a href="other.html#here"></a><a href="other.html#gone"></a><a href="gone.html"></a><a href="#self"></a>'
        '<a href="https://example.org/">out of the site</a><img src="gone.png">'
    )
    (tmp_path / "two.css").write_text('@import "https://fonts.example/c.css";')
    assert sorted(links.breaches(tmp_path)) == [
        "one.html: #self: the page has no such anchor",
        "one.html: //cdn.example/b.png is loaded from another server",
        "one.html: gone.html: there is no such file",
        "one.html: gone.png: there is no such file",
        "one.html: https://fonts.example/a.css is loaded from another server",
        "one.html: other.html#gone: the page has no such anchor",
        "two.css: https://fonts.example/c.css is loaded from another server",
    ]


@needs
@pytest.mark.parametrize("text", ["[x](gone.md)", "[x](#gone)", "[x](gone/)", "[x](code.hpp)"])
def test_a_broken_link_of_a_page_is_an_error(tmp_path, text) -> None:
    source = tmp_path / "source"
    source.mkdir()
    (source / "index.md").write_text(f"# Title\n\n{text}\n")
    wrong = make_site.sphinx(source, tmp_path / "site") + list(links.breaches(tmp_path / "site"))
    assert wrong and all("gone" in line or "code.hpp" in line for line in wrong)


def test_a_source_file_that_is_not_there_is_found() -> None:
    text = "`scripts/site/pages.py`, tests/unit/gone.cpp; `daemon/head/gone.hpp`, https://x.example/docs/x.md, a/tests/y.py"
    assert pages.missing_files(text) == ["tests/unit/gone.cpp", "daemon/head/gone.hpp"]


@with_doxygen
def test_what_a_header_does_not_say_is_found(tmp_path) -> None:
    header = tmp_path / "planted.hpp"
    header.write_text(
        "// A planted header.\n"
        "// Says something.\nnamespace planted {\n"
        "// Adds `one` to what is there.\nint add(int one, int other);\n"
        "int silent();\n"
        "// A choice.\nenum class Choice { left,  // the one\n right };\n"
        "// Is documented.\nstruct Said {\n    int quiet = 0;\n};\n"
        "}  // namespace planted\n"
    )
    wrong = headers.cpp_reference(tmp_path / "cpp", tmp_path / "xml", [header])
    shown = [
        part
        for part in ("add does not say what `other` is", "silent()", "value right", "quiet")
        for line in wrong
        if part in line
    ]
    assert shown == ["add does not say what `other` is", "silent()", "value right", "quiet"] and len(wrong) == 4, wrong


@with_doxygen
def test_the_reference_is_written_in_a_clone_whose_path_has_a_space_and_an_umlaut(tmp_path) -> None:
    clone = tmp_path / "odd plätze"
    shutil.copytree(ROOT / "scripts" / "site", clone / "scripts" / "site")
    header = clone / "a header.hpp"
    header.write_text(
        "// A header.\nnamespace odd {\n// A choice.\nenum class Choice { left,  // the one\n};\n}  // namespace odd\n"
    )
    command = [sys.executable, str(clone / "scripts" / "site" / "headers.py"), str(clone / "the site"), str(header)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0 and done.stdout.strip() == "", done.stdout + done.stderr
    assert list((clone / "the site" / "html").glob("a_01header*.html"))


def test_a_folder_with_other_files_is_left_alone(tmp_path) -> None:
    (tmp_path / "thesis.txt").write_text("mine")
    with pytest.raises(SystemExit, match="holds no site"):
        make_site.empty(tmp_path)
    assert (tmp_path / "thesis.txt").read_text() == "mine"


def test_a_site_that_was_not_finished_is_written_anew(tmp_path) -> None:
    make_site.empty(tmp_path / "site")
    (tmp_path / "site" / "half.html").write_text("")
    make_site.empty(tmp_path / "site")
    assert [file.name for file in (tmp_path / "site").iterdir()] == [make_site.MARK]
