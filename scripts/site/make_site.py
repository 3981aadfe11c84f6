"""The program of scripts/docs: makes the references with pdoc and Doxygen and the pages with Sphinx, then checks every link.
Warnings are errors.
"""

import argparse
import pathlib
import shutil
import subprocess
import sys
import tempfile

import headers
import links
import names
import pages
import python_reference

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
MARK = ".rtrain-docs"
NO_CPP = "# C and C++ reference\n\nThis site was built without it (`--without-cpp`).\n"


def write(file, text):
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)


def sphinx(source, folder):
    """Returns Sphinx's warnings, with the repository's file names instead of those of the copies."""
    shutil.copyfile(HERE / "conf.py", source / "conf.py")
    shutil.copytree(HERE / "static", source / "static")
    with tempfile.TemporaryDirectory() as trees:
        command = [sys.executable, "-m", "sphinx", "-q", "-b", "html", "-d", trees, str(source), str(folder)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    wrong = [line.replace(f"{source}/", "").replace("index.md", "README.md") for line in done.stderr.splitlines() if line.strip()]
    return wrong or ([f"sphinx ended with {done.returncode}"] if done.returncode else [])


def empty(folder):
    """Removes an older site, also one that was not finished. A folder that holds anything else is refused."""
    known = (folder / MARK).is_file() or (folder / "python" / "rtrain.html").is_file()
    if folder.is_dir() and any(folder.iterdir()) and not known:
        raise SystemExit(f"docs: {folder} is not empty and holds no site; name another folder")
    shutil.rmtree(folder, ignore_errors=True)
    write(folder / MARK, "written by scripts/docs, which removes this folder when it writes it again\n")


def build(folder, with_cpp):
    """Writes the site to `folder`. Returns the faults, one line each."""
    empty(folder)
    with tempfile.TemporaryDirectory() as stage:
        source = pathlib.Path(stage).resolve()
        page, wrong, left_out = python_reference.python_reference(folder / "python")
        write(source / "reference" / "python.md", page)
        if with_cpp:
            wrong += headers.cpp_reference(folder / "cpp", source / "xml")
            write(source / "reference" / "cpp.md", names.cpp_page(source / "xml"))
        else:
            write(source / "reference" / "cpp.md", NO_CPP)
        pages.stage(source)
        wrong += [*pages.breaches(), *sphinx(source, folder)]
    for name in left_out:
        print(f"docs: left out: {name}")
    return wrong + list(links.breaches(folder))


def main():
    arguments = argparse.ArgumentParser(prog="scripts/docs", description="Writes the documents' site.")
    arguments.add_argument("folder", nargs="?", default=str(ROOT / "build" / "docs"))
    arguments.add_argument("--without-cpp", action="store_true", help="leaves the C and C++ reference out")
    options = arguments.parse_args()
    folder = pathlib.Path(options.folder).resolve()
    wrong = build(folder, not options.without_cpp)
    for line in wrong:
        print(f"docs: {line}", file=sys.stderr)
    print(f"{folder}/index.html: {sum(1 for _ in folder.rglob('*.html'))} pages, {len(wrong)} complaints")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
