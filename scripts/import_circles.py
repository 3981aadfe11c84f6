"""Circles among the imports of the Python package, at module level or inside functions. Imports for type checkers alone do not count."""

import ast
import pathlib


def circles(root, package):
    """Each circle as (file, line, modules in their order, the first one again at the end). `root`: the folder that holds `package`."""
    files = {name_of(file.relative_to(root)): file for file in sorted((root / package).rglob("*.py"))}
    lines = {name: imported_by(ast.parse(file.read_text()), name, files) for name, file in files.items()}
    for group in strongly_connected({name: sorted(imported) for name, imported in lines.items()}):
        path = shortest_circle(min(group), {name: sorted(set(lines[name]) & group) for name in group})
        if path:
            yield files[path[0]], lines[path[0]][path[1]], path


def name_of(path):
    parts = path.with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imported_by(tree, name, known):
    """Modules of the package that the module `name` imports, with the line of the first import of each."""
    imported = {}
    stack = [tree]
    while stack:
        node = stack.pop()
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            stack.extend(node.orelse)
            continue
        stack.extend(ast.iter_child_nodes(node))
        for module in modules_named(node, known):
            if module in known and module != name:
                imported[module] = min(node.lineno, imported.get(module, node.lineno))
    return imported


def modules_named(node, known):
    """What one statement or call imports; of `from a import b` that is a.b where it is a module, else a."""
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    if isinstance(node, ast.ImportFrom):
        inside = [f"{node.module}.{alias.name}" for alias in node.names]
        return [name if name in known else node.module for name in inside]
    called = ast.unparse(node.func) if isinstance(node, ast.Call) else ""
    if called.rpartition(".")[2] == "import_module" and node.args and isinstance(node.args[0], ast.Constant):
        return [node.args[0].value]
    return []


def strongly_connected(graph):
    """Tarjan's algorithm: the groups of two or more modules each of which reaches all others."""
    number, low, stack, held = {}, {}, [], set()

    def visit(name):
        number[name] = low[name] = len(number)
        stack.append(name)
        held.add(name)
        for other in graph[name]:
            if other not in number:
                yield from visit(other)
                low[name] = min(low[name], low[other])
            elif other in held:
                low[name] = min(low[name], number[other])
        if low[name] == number[name]:
            group = set()
            while name not in group:
                group.add(stack.pop())
            held.difference_update(group)
            if len(group) > 1:
                yield group

    for name in graph:
        if name not in number:
            yield from visit(name)


def shortest_circle(start, graph):
    """Returns the shortest way from `start` back to it, breadth first."""
    before, queue = {}, [start]
    for name in queue:
        for other in graph[name]:
            if other == start:
                path = [start]
                while name != start:
                    path.insert(0, name)
                    name = before[name]
                return [start, *path]
            if other not in before:
                before[other] = name
                queue.append(other)
    return []


if __name__ == "__main__":
    for file, line, path in circles(pathlib.Path("runtime/python"), "rtrain"):
        print(f"{file}:{line}: {' -> '.join(path)}")
