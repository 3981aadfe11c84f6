"""Makes the reference of the Python package from its docstrings, by pdoc."""

import functools
import importlib
import pathlib
import re
import sys
import warnings
from typing import Any, NoReturn

import names
from typing_extensions import Unpack

ROOT = pathlib.Path(__file__).resolve().parents[2]
HERE = pathlib.Path(__file__).resolve().parent
PACKAGE = ROOT / "runtime" / "python"
ARGUMENT = re.compile(r"(`?[a-z_*][a-z_0-9*]*`?(?:, `?[a-z_*][a-z_0-9*]*`?)*): (.+)")
HARMLESS = (
    "Cannot determine where",  # the source of a field, which is not shown
    "has already been added",  # a package has its submodules in its __all__
    "deepspeed",  # scripts/bootstrap does not install it; one annotation names it
)


def public_modules():
    """Returns all importable modules of the package without a part that begins with an underscore."""
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
        # includes names that are loaded late
        vars(module).update({name: getattr(module, name) for name in getattr(module, "__all__", ())})
        modules.append(module.__name__)
    return modules, left_out


def lend_names(moved):
    """Adds the names in signatures to the public modules. Classes and functions name their public module, in which pdoc
    resolves the types of signatures.
    """
    types = vars(importlib.import_module("rtrain._argument_types"))
    for private, public in sorted(moved):
        if is_private(public):  # a path of an earlier version that saved files contain
            continue
        for name, value in {**types, "Unpack": Unpack, **vars(sys.modules[private])}.items():
            if not name.startswith("__"):
                vars(sys.modules[public]).setdefault(name, value)


def is_private(module):
    return module.startswith("rtrain.") and any(part.startswith("_") for part in module.split("."))


def show_private_bases(pdoc):
    """Makes pdoc count members from the package's own private modules as members of the class. By default pdoc leaves out what a
    class inherits from modules without a page."""
    own, inherited = pdoc.doc.Class.own_members.func, pdoc.doc.Class.inherited_members.func

    def own_members(kind):
        members = own(kind)
        return members + [
            member
            for (module, _), ones in inherited(kind).items()
            if is_private(module)
            for member in ones
            if member not in members
        ]

    def inherited_members(kind):
        return {origin: members for origin, members in inherited(kind).items() if not is_private(origin[0])}

    for name, function in (("own_members", own_members), ("inherited_members", inherited_members)):
        shown = functools.cached_property(function)
        shown.__set_name__(pdoc.doc.Class, name)
        setattr(pdoc.doc.Class, name, shown)


def list_arguments(pdoc):
    """Converts the lines `name: text` of a docstring to a list, as Markdown would join them to one paragraph."""
    convert = pdoc.docstrings.convert

    def converted(docstring, *more):
        return convert(as_list(docstring), *more)

    pdoc.docstrings.convert = converted


def as_list(docstring):
    lines, inside, code = [], False, False
    for line in docstring.split("\n"):
        code ^= line.lstrip().startswith("```")
        argument = None if code else ARGUMENT.match(line)
        if argument and lines and lines[-1].strip() and not inside:
            lines.append("")
        inside = bool(line.strip()) and (inside or bool(argument))
        lines.append(f"- `{argument[1].replace('`', '')}`: {argument[2]}" if argument else line)
    return "\n".join(lines)


def python_reference(folder):
    """Writes the reference to `folder`. Returns the page of its names, pdoc's warnings, and the modules that cannot be imported here."""
    import pdoc

    show_private_bases(pdoc)
    list_arguments(pdoc)
    sys.path.insert(0, str(PACKAGE))
    from rtrain import _lazy

    moved, public_in = set(), _lazy.public_in

    def remember(package, *members):
        moved.update((member.__module__, package) for member in members)
        public_in(package, *members)
        for member in members:  # pdoc shows only members that a module defines itself
            member.__module__ = package

    _lazy.public_in = remember
    modules, left_out = public_modules()
    lend_names(moved)
    for name in modules:  # functions that only refuse are made elsewhere, with these annotations
        for annotation in (Any, NoReturn):
            vars(sys.modules[name]).setdefault(annotation.__name__, annotation)
    pdoc.render.configure(docformat="markdown", show_source=False, search=True, template_directory=HERE / "pdoc")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        pdoc.pdoc(*modules, *(f"!{name}._" for name in modules), output_directory=folder)
        documents = [pdoc.doc.Module(sys.modules[name]) for name in modules]
        page = names.python_page(documents)
    texts = dict.fromkeys(str(warning.message) for warning in caught)
    return page, [text for text in texts if not any(part in text for part in HARMLESS)], left_out
