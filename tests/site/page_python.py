"""Python of pages: it must compile, and what it imports, calls and names of rtrain must exist, with these arguments."""

from __future__ import annotations

import ast
import functools
import importlib
import inspect
import re
import textwrap
import warnings
from collections.abc import Iterator
from typing import Any

from page_text import blocks, sources, spans

MODULES = ("rtrain", "rtrain.train", "rtrain.train.torch", "rtrain.tune", "rtrain.data", "rtrain.tune.search",
           "rtrain.tune.schedulers", "rtrain.tune.stopper", "rtrain.train.backend")  # fmt: skip
SHORT = {"train": "rtrain.train", "tune": "rtrain.tune"}  # names of the modules in sentences


@functools.cache
def public() -> dict[str, Any]:
    """Returns every public class of rtrain by its name: sentences name them without a module."""
    names: dict[str, Any] = {}
    for module in map(importlib.import_module, reversed(MODULES)):
        names.update({name: getattr(module, name) for name in getattr(module, "__all__", ()) if name[0].isupper()})
    return names


def module_named(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError:
        return None


def member(value: Any, name: str) -> Any:
    """Returns an attribute, or a module of that name below a package; None: there is neither."""
    if hasattr(value, name):
        return getattr(value, name)
    return module_named(f"{value.__name__}.{name}") if inspect.ismodule(value) else None


class Reader(ast.NodeVisitor):
    """Follows names of rtrain through a piece of Python. `bound`: what names mean there; a name of the piece's own means nothing."""

    def __init__(self, bound: dict[str, Any]) -> None:
        self.bound = bound
        self.wrong: list[str] = []

    def visit_Import(self, node: ast.Import) -> None:
        for alias in node.names:
            if alias.name.split(".")[0] == "rtrain":
                module = module_named(alias.name)
                if module is None:
                    self.wrong.append(f"there is no module {alias.name}")
                self.bound[alias.asname or "rtrain"] = module if alias.asname else importlib.import_module("rtrain")

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        if (node.module or "").split(".")[0] != "rtrain":
            self.bound.update({alias.asname or alias.name: None for alias in node.names})
            return
        module = module_named(node.module or "")
        for alias in node.names:
            value = member(module, alias.name) if module else None
            if value is None:
                self.wrong.append(f"{node.module} has no {alias.name}")
            self.bound[alias.asname or alias.name] = value

    def resolved(self, node: ast.expr) -> Any:
        if isinstance(node, ast.Name):
            return self.bound.get(node.id)
        if isinstance(node, ast.Attribute):
            value = self.resolved(node.value)
            if value is None or not (inspect.ismodule(value) or inspect.isclass(value)):
                return None
            attribute = member(value, node.attr)
            if attribute is None and inspect.ismodule(value):
                self.wrong.append(f"{value.__name__} has no {node.attr}")
            return attribute
        return None

    def visit_Attribute(self, node: ast.Attribute) -> None:
        self.resolved(node)
        if not isinstance(node.value, ast.Attribute):
            self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> None:
        value = self.resolved(node.func)
        if callable(value):
            known = keywords_of(value)
            missing = [one.arg for one in node.keywords if one.arg and known is not None and one.arg not in known]
            if missing:
                self.wrong.append(f"{ast.unparse(node.func)} takes no {', '.join(missing)}")
        for child in [*node.args, *node.keywords]:
            self.visit(child)
        self.visit(node.func)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        self.bound[node.name] = None
        self.generic_visit(node)

    def visit_Assign(self, node: ast.Assign) -> None:
        self.generic_visit(node)
        self.bound.update({one.id: None for target in node.targets for one in ast.walk(target) if isinstance(one, ast.Name)})


def keywords_of(value: Any) -> set[str] | None:
    """Returns the arguments that may be given by name; None: any, or they are not known."""
    try:
        parameters = inspect.signature(value).parameters.values()
    except (TypeError, ValueError):
        return None
    if any(one.kind is one.VAR_KEYWORD for one in parameters):
        return None
    return {one.name for one in parameters}


def wrong_python(code: str) -> list[str]:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SyntaxWarning)
            tree = ast.parse(re.sub(r",\s*\.\.\.\)", ")", textwrap.dedent(code)))  # `f(a=1, ...)`: and further arguments
    except SyntaxError as error:
        return [f"is no Python: {error.msg} (line {error.lineno})"]
    reader = Reader({**public(), "rtrain": importlib.import_module("rtrain")})
    reader.visit(tree)
    return list(dict.fromkeys(reader.wrong))


def right_column(code: str) -> str:
    """Returns the column for rtrain of a block that shows two programs side by side; else the code as it is."""
    lines = code.splitlines()
    if not any(" |  " in line for line in lines):
        return code
    return "\n".join(line.partition(" |  ")[2] for line in lines)


def wrong_call(text: str) -> list[str]:
    """A call within a sentence, such as `RunConfig(env=)`."""
    text = re.sub(r"(\w+)=(?=[,)])", r"\1=None", text.replace("…", "..."))
    try:
        tree = ast.parse(text, mode="eval")
    except SyntaxError:
        return []
    if not any(isinstance(node, ast.Call | ast.Attribute) for node in ast.walk(tree)):
        return []
    reader = Reader(
        {**public(), "rtrain": importlib.import_module("rtrain"), **{name: module_named(full) for name, full in SHORT.items()}}
    )
    reader.visit(tree)
    return [complaint for complaint in dict.fromkeys(reader.wrong) if text not in names_of_labels()]


@functools.cache
def names_of_labels() -> set[str]:
    """Returns names such as `rtrain.parent`, which are labels and attributes of traces: texts of the sources."""
    return {f"{name}" for text in sources() for name in re.findall(r'"(rtrain\.[a-z_]+)', text)}


def wrong_pieces(name: str, text: str) -> Iterator[str]:
    """One line for each piece of Python of the page that does not hold."""
    for block in blocks(text):
        if block.language in ("python", "py"):
            yield from (f"{name}:{block.line}: {complaint}" for complaint in wrong_python(right_column(block.text)))
    for span in spans(text):
        if not re.search(r"\.(py|cpp|hpp|md|yaml|json|h|txt|sh)$", span.text):
            yield from (f"{name}:{span.line}: `{span.text}`: {complaint}" for complaint in wrong_call(span.text))
