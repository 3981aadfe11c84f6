"""What scripts/docs runs: the reference of docstrings by pdoc, of the comments in headers by Doxygen."""

import importlib
import pathlib
import subprocess
import sys
import warnings

from typing_extensions import Unpack

ROOT = pathlib.Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "runtime" / "python"
HEADERS = [
    *("runtime/worker/rtrain_worker.h", "runtime/worker/rtrain.hpp", "runtime/torch/csv.hpp", "runtime/torch/data_parallel.hpp"),
    *("runtime/torch/distributed_sampler.hpp", "runtime/torch/optimizer_files.hpp", "runtime/torch/process_group.hpp"),
    "runtime/torch/tensor_files.hpp",
]
# Plain comments become Doxygen's: before a declaration, and behind one on its line.
FILTER = (
    r"sed -E -e 's,^( *)// ?,\1/// ,' -e 's,([;\,{}]) +// ,\1 ///< ,' -e 's,^( *)/\* ,\1/** ,' -e 's,([;\,]) +/\* ,\1 /**< ,'"
)
DOXYFILE = f"""
PROJECT_NAME = "rtrain: C and C++"
INPUT = {" ".join(HEADERS)}
FILTER_PATTERNS = *.h="{FILTER}" *.hpp="{FILTER}"
EXTRACT_ALL = YES
FILE_PATTERNS = *.h *.hpp
STRIP_FROM_PATH = .
OPTIMIZE_OUTPUT_FOR_C = NO
JAVADOC_AUTOBRIEF = YES
GENERATE_LATEX = NO
SHOW_INCLUDE_FILES = YES
QUIET = YES
HAVE_DOT = NO
WARN_IF_UNDOCUMENTED = NO
"""
HARMLESS = (
    "Cannot determine where",  # a field's source is, which is not shown
    "has already been added",  # a package has its submodules in its __all__
)
INDEX = """<!doctype html><meta charset="utf-8"><title>rtrain: reference</title>
<h1>rtrain: reference</h1>
<ul><li><a href="python/rtrain.html">Python: rtrain, rtrain.train, rtrain.data, rtrain.tune</a>
<li><a href="cpp/html/files.html">C and C++: rtrain_worker.h, rtrain.hpp, LibTorch</a></ul>
"""


def public_modules():
    """All modules of the package that can be imported here, but those with a part that begins with an underscore."""
    modules, left_out = [], []
    for file in sorted((PACKAGE / "rtrain").rglob("*.py")):
        parts = file.relative_to(PACKAGE).with_suffix("").parts
        parts = parts[:-1] if parts[-1] == "__init__" else parts
        if any(part.startswith("_") for part in parts):
            continue
        try:
            module = importlib.import_module(".".join(parts))
        except ImportError as error:
            left_out.append(f"{'.'.join(parts)} ({error})")
            continue
        vars(module).update({name: getattr(module, name) for name in getattr(module, "__all__", ())})  # what is loaded late, too
        modules.append(module.__name__)
    return modules, left_out


def lend_names(moved):
    """Classes and functions name their public module, where pdoc looks for the types in their signatures: it finds them by this."""
    types = vars(importlib.import_module("rtrain._argument_types"))
    for private, public in moved:
        for name, value in {**types, "Unpack": Unpack, **vars(sys.modules[private])}.items():
            if not name.startswith("_"):
                vars(sys.modules[public]).setdefault(name, value)


def python_reference(folder):
    import pdoc

    sys.path.insert(0, str(PACKAGE))
    from rtrain import _lazy

    moved, public_in = set(), _lazy.public_in

    def remember(package, *members):
        moved.update((member.__module__, package) for member in members)
        public_in(package, *members)
        for member in members:
            member.__module__ = package

    _lazy.public_in = remember
    modules, left_out = public_modules()
    lend_names(moved)
    pdoc.render.configure(docformat="markdown", show_source=False, search=True)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        pdoc.pdoc(*modules, *(f"!{name}._" for name in modules), output_directory=folder)
    for one in told:
        if not any(part in str(one.message) for part in HARMLESS):
            print(f"docs: {one.message}", file=sys.stderr)
    return modules, left_out


def cpp_reference(folder):
    folder.mkdir(parents=True, exist_ok=True)
    text = f"{DOXYFILE}OUTPUT_DIRECTORY = {folder}\n"
    subprocess.run(["doxygen", "-"], input=text, text=True, cwd=ROOT, check=True)


def main():
    folder = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else ROOT / "build" / "docs").resolve()
    modules, left_out = python_reference(folder / "python")
    cpp_reference(folder / "cpp")
    (folder / "index.html").write_text(INDEX)
    print(f"{folder}/index.html: {len(modules)} Python modules, {len(HEADERS)} headers")
    for name in left_out:
        print(f"left out: {name}")


if __name__ == "__main__":
    main()
