"""Finds the cluster as the command line does: RTRAIN_* variables, else the user's context file, else the system's. Every
value of the context file is kept as text.
"""

from __future__ import annotations

import os
import pathlib
from dataclasses import dataclass, replace
from typing import Any

from rtrain import _requirements

SYSTEM_FILE = "/etc/rtrain/config.yaml"
DEFAULT_PORT = 7433
_FIELDS = ("address", "token", "ca", "ca_fingerprint")


class ConfigurationError(ValueError):
    """The context file or a variable is invalid. The text names it."""


@dataclass(frozen=True)
class Place:
    """The address of a head, the CA that it must have (PEM), and the caller's token."""

    address: str = ""
    token: str = ""
    ca: str = ""
    ca_fingerprint: str = ""

    @property
    def host_port(self) -> tuple[str, int]:
        return split_address(self.address)


def split_address(address: str) -> tuple[str, int]:
    text = address.removeprefix("https://").rstrip("/")
    host, port = text, ""
    if text.startswith("["):
        host, _, rest = text[1:].partition("]")
        port = rest.removeprefix(":")
    elif text.count(":") == 1:
        host, _, port = text.partition(":")
    if not host or (port and not port.isdigit()):
        raise ConfigurationError(f'"{address}" is not HOST:PORT; for example 10.0.0.5:7433 or [fd00::5]:7433')
    return host, int(port or DEFAULT_PORT)


def user_file() -> pathlib.Path:
    if given := os.environ.get("RTRAIN_CONFIG"):
        return pathlib.Path(given)
    folder = os.environ.get("XDG_CONFIG_HOME") or f"{os.environ.get('HOME', '')}/.config"
    return pathlib.Path(folder) / "rtrain" / "config.yaml"


def current_place(context: str | None = None) -> Place | None:
    """Returns the current cluster; None if none is configured. `context` names one of the contexts in the files."""
    layers = [(path, read_yaml(path)) for path in (user_file(), pathlib.Path(SYSTEM_FILE))]
    context_name = (
        context
        or os.environ.get("RTRAIN_CONTEXT")
        or next((str(layer["current"]) for _, layer in layers if layer.get("current")), "")
    )
    values = {field: os.environ.get(f"RTRAIN_{field.upper()}", "") for field in _FIELDS}
    known = False
    for path, layer in layers:
        contexts = layer.get("contexts") or {}
        entry = contexts.get(context_name) if isinstance(contexts, dict) else None
        if entry is None:
            continue
        known = True
        if not isinstance(entry, dict):
            raise ConfigurationError(f"{path}: contexts.{context_name} must be a map with address, token and ca")
        for field in _FIELDS:
            values[field] = values[field] or str(entry.get(field) or "")
    if context_name and not known:
        raise ConfigurationError(f'there is no context "{context_name}"; `rtrain context list` shows those that are there')
    if not values["address"]:
        return None
    if values["ca"] and "-----BEGIN" not in values["ca"]:
        values["ca"] = pathlib.Path(values["ca"]).read_text()
    return Place(**values)


def place_at(address: str) -> Place:
    """Returns the cluster at `address`, with the token and CA of a context that has it, else with those of the environment.

    Raises ConfigurationError if there is no token.
    """
    wanted = split_address(address.removeprefix("http://"))
    for path in (user_file(), pathlib.Path(SYSTEM_FILE)):
        contexts = read_yaml(path).get("contexts")
        for name, entry in contexts.items() if isinstance(contexts, dict) else ():
            if isinstance(entry, dict) and entry.get("address") and split_address(str(entry["address"])) == wanted:
                place = current_place(str(name))
                if place is not None and split_address(place.address) == wanted:
                    return place
    place = Place(**{field: os.environ.get(f"RTRAIN_{field.upper()}", "") for field in _FIELDS if field != "address"})
    if not place.token:
        raise ConfigurationError(f"no context has the address {address}, and RTRAIN_TOKEN is not set")
    ca = place.ca if not place.ca or "-----BEGIN" in place.ca else pathlib.Path(place.ca).read_text()
    host, port = wanted
    return replace(place, address=f"[{host}]:{port}" if ":" in host else f"{host}:{port}", ca=ca)


def read_yaml(path: pathlib.Path) -> dict[str, object]:
    """Returns the file's map; empty if there is no file. Raises ConfigurationError, with the line, for invalid YAML, no map,
    a repeated key, or a value that contains itself. Raises ModuleNotFoundError, with the package to install, for a file
    without PyYAML.
    """
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        return {}
    _requirements.check("yaml")
    import yaml  # only if there is a file

    try:
        text = content.decode()
        root = yaml.compose(text, Loader=yaml.BaseLoader)
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise ConfigurationError(f"{path}:{line}: {error}") from error
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        raise ConfigurationError(f"{path}:{line}: {error.reason}") from error
    except yaml.YAMLError as error:
        mark, problem = getattr(error, "problem_mark", None), getattr(error, "problem", None) or str(error)
        raise ConfigurationError(f"{path}:{mark.line + 1 if mark else 1}: {problem}") from error
    values = _Values(path).value(root) if root is not None else {}
    if not isinstance(values, dict):
        raise ConfigurationError(f"{path}:1: expected `name: value`")
    return values


class _Values:
    """Converts YAML nodes to texts, lists and dicts. PyYAML's own loaders would accept a repeated key and take its last
    value.
    """

    def __init__(self, path: pathlib.Path) -> None:
        self._path = path
        self._values: dict[int, object] = {}  # by node; an alias is the node that it names
        self._open: set[int] = set()

    def value(self, node: Any) -> object:
        if id(node) in self._open:
            raise ConfigurationError(f"{self._path}:{node.start_mark.line + 1}: this is a part of itself")
        if id(node) not in self._values:
            self._open.add(id(node))
            self._values[id(node)] = self._read(node)
            self._open.discard(id(node))
        return self._values[id(node)]

    def _read(self, node: Any) -> object:
        if node.id == "scalar":
            return str(node.value)
        if node.id == "sequence":
            return [self.value(child) for child in node.value]
        mapping: dict[str, object] = {}
        for key, inner in node.value:
            place = f"{self._path}:{key.start_mark.line + 1}"
            if key.id != "scalar":
                raise ConfigurationError(f"{place}: a name is a text")
            if key.value in mapping:
                raise ConfigurationError(f"{place}: {key.value} is given twice")
            mapping[key.value] = self.value(inner)
        return mapping
