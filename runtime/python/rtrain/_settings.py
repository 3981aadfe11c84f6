"""Which cluster is meant: RTRAIN_* variables, else the user's context file, else the system's, as the command line reads
them. Of the context file every value is a text, as it stands there."""

from __future__ import annotations

import os
import pathlib
from dataclasses import dataclass
from typing import Any

SYSTEM_FILE = "/etc/rtrain/config.yaml"
DEFAULT_PORT = 7433
_FIELDS = ("address", "token", "ca", "ca_fingerprint")


class ConfigurationError(ValueError):
    """The context file, or a variable, is not as it should be. The text names it."""


@dataclass(frozen=True)
class Place:
    """Where the head is, how it is known (`ca`: PEM text), and who asks."""

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
    """The cluster that is meant now, or None where none is known. `context` names one of the context files."""
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


def read_yaml(path: pathlib.Path) -> dict[str, object]:
    """The file's map; empty where there is no file. ConfigurationError, with the line, for what is no YAML or no map, or says a name
    twice."""
    try:
        text = path.read_text()
    except FileNotFoundError:
        return {}
    import yaml  # not before a file needs it

    try:
        root = yaml.compose(text, Loader=yaml.BaseLoader)
    except yaml.YAMLError as error:
        mark, problem = getattr(error, "problem_mark", None), getattr(error, "problem", None) or str(error)
        raise ConfigurationError(f"{path}:{mark.line + 1 if mark else 1}: {problem}") from error
    content = _value(path, root) if root is not None else {}
    if not isinstance(content, dict):
        raise ConfigurationError(f"{path}:1: expected `name: value`")
    return content


def _value(path: pathlib.Path, node: Any) -> object:
    """A text, list or dict. A loader of yaml's own would take the last of two values with one name."""
    if node.id == "scalar":
        return str(node.value)
    if node.id == "sequence":
        return [_value(path, one) for one in node.value]
    mapping: dict[str, object] = {}
    for key, inner in node.value:
        place = f"{path}:{key.start_mark.line + 1}"
        if key.id != "scalar":
            raise ConfigurationError(f"{place}: a name is a text")
        if key.value in mapping:
            raise ConfigurationError(f"{place}: {key.value} is given twice")
        mapping[key.value] = _value(path, inner)
    return mapping
