"""Which cluster is meant: RTRAIN_* variables, else the user's context file, else the system's, as the command line reads
them. The context file is the small part of YAML that `rtrain` writes: maps, plain and quoted text, `|` blocks."""

from __future__ import annotations

import json
import os
import pathlib
from dataclasses import dataclass

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
    """The file's map; empty where there is no file."""
    try:
        lines = path.read_text().splitlines()
    except FileNotFoundError:
        return {}
    tree, _ = _map(path, lines, 0, 0)
    return tree


def _map(path: pathlib.Path, lines: list[str], at: int, indent: int) -> tuple[dict[str, object], int]:
    mapping: dict[str, object] = {}
    while at < len(lines):
        text = lines[at].strip()
        depth = len(lines[at]) - len(lines[at].lstrip(" "))
        if not text or text.startswith("#") or text == "---":
            at += 1
            continue
        if depth < indent:
            break
        if depth > indent:
            raise ConfigurationError(f"{path}:{at + 1}: is indented deeper than the lines around it")
        key, rest = _key(path, at, text)
        if key in mapping:
            raise ConfigurationError(f"{path}:{at + 1}: {key} is given twice")
        if rest in ("|", "|-", "|+"):
            mapping[key], at = _block(lines, at + 1, indent)
        elif rest:
            mapping[key] = _scalar(path, at, rest)
            at += 1
        else:
            inner = _next_depth(lines, at + 1)
            mapping[key], at = _map(path, lines, at + 1, inner) if inner > indent else ("", at + 1)
    return mapping, at


def _key(path: pathlib.Path, at: int, text: str) -> tuple[str, str]:
    if text.startswith('"'):
        key, end = json.JSONDecoder().raw_decode(text)
        rest = text[end:]
    else:
        key, colon, rest = text.partition(":")
        rest = colon + rest
    if not rest.startswith(":") or (len(rest) > 1 and rest[1] != " "):
        raise ConfigurationError(f"{path}:{at + 1}: expected `name: value`")
    return str(key).strip(), rest[1:].strip()


def _scalar(path: pathlib.Path, at: int, text: str) -> object:
    if text.startswith('"'):
        try:
            return json.JSONDecoder().raw_decode(text)[0]
        except ValueError as error:
            raise ConfigurationError(f"{path}:{at + 1}: the quotes do not end: {error}") from error
    if text.startswith("'"):
        return text[1 : text.rindex("'")].replace("''", "'")
    if text == "{}":
        return {}
    return text.split(" #", maxsplit=1)[0].strip()


def _next_depth(lines: list[str], at: int) -> int:
    for line in lines[at:]:
        if line.strip() and not line.strip().startswith("#"):
            return len(line) - len(line.lstrip(" "))
    return -1


def _block(lines: list[str], at: int, indent: int) -> tuple[str, int]:
    inner = _next_depth(lines, at)
    taken: list[str] = []
    while at < len(lines) and (not lines[at].strip() or (inner > indent and lines[at].startswith(" " * inner))):
        taken.append(lines[at][inner:])
        at += 1
    return "\n".join(taken).rstrip("\n") + "\n", at
