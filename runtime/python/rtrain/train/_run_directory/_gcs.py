"""File systems of Google Cloud Storage: pyarrow's and gcsfs's, converted to variables for the nodes, and made again from
them. A file system whose options the nodes do not have is not converted: it then holds checkpoint files alone
(_elsewhere.py).
"""

from __future__ import annotations

import json
import os
import pathlib
import tempfile
import threading
from collections.abc import Mapping
from typing import Any

KEY_TEXT, TOKEN, SERVER = "GOOGLE_SERVICE_ACCOUNT_KEY", "GOOGLE_OAUTH_ACCESS_TOKEN", "STORAGE_EMULATOR_HOST"
_FILE = "GOOGLE_APPLICATION_CREDENTIALS"
_of_nodes = (None, "", "google_default", "cloud")  # values of gcsfs's token= for credentials that each machine has itself
_environment_lock = threading.Lock()


def variables_of(filesystem: Any) -> dict[str, str] | None:
    """Returns the variables that lead a node to the same server and account. Returns an empty mapping for a file system
    that takes the credentials of its machine, and None for options that nodes do not have.
    """
    return _of_pyarrow(filesystem) if hasattr(filesystem, "type_name") else _of_gcsfs(filesystem)


def _of_pyarrow(filesystem: Any) -> dict[str, str] | None:
    given: dict[str, Any] = filesystem.__reduce__()[1][0]
    if given.get("anonymous") or given.get("target_service_account") or given.get("default_metadata"):
        return None
    host, scheme = str(given.get("endpoint_override") or ""), str(given.get("scheme") or "https")
    token = str(given.get("access_token") or "")
    return _variables(token and {TOKEN: token}, host if "://" in host or not host else f"{scheme}://{host}")


def _of_gcsfs(filesystem: Any) -> dict[str, str] | None:
    options: dict[str, Any] = dict(getattr(filesystem, "storage_options", None) or {})
    token, endpoint = options.pop("token", None), options.pop("endpoint_url", None)
    known = {"project", "default_location", "consistency", "cache_timeout", "timeout", "check_connection", "asynchronous"}
    known |= {"use_listings_cache", "listings_expiry_time", "max_paths", "skip_instance_cache", "access", "block_size"}
    if any(value not in (None, False) for name, value in options.items() if name not in known):
        return None
    key = _key_of_token(token)
    return None if key is None else _variables(key, str(endpoint or ""))


def _key_of_token(token: object) -> dict[str, str] | None:
    if isinstance(token, Mapping):
        return {KEY_TEXT: json.dumps(dict(token))} if token.get("type") in ("service_account", "authorized_user") else None
    if token is not None and not isinstance(token, str):
        return None
    if token in _of_nodes:
        return {}
    if token in ("anon", "browser", "cache"):
        return None
    if pathlib.Path(token).is_file():
        content = pathlib.Path(token).read_text(encoding="utf-8")
        try:
            return _key_of_token(json.loads(content))
        except ValueError:
            return None
    return {TOKEN: token}


def _variables(keys: Mapping[str, str] | str, endpoint: str) -> dict[str, str] | None:
    """Without keys a server is not carried: the nodes would send their own credentials to it."""
    if not keys:
        return {} if not endpoint or endpoint.endswith("://storage.googleapis.com") else None
    return {**dict(keys), **({SERVER: endpoint} if endpoint else {})}  # type: ignore[arg-type]


def filesystem_of(variables: Mapping[str, str]) -> Any:
    """Returns pyarrow's file system with the credentials of an environment. Raises RuntimeError for an HMAC key, which
    pyarrow's does not take.
    """
    import pyarrow.fs  # type: ignore[import-untyped,import-not-found,unused-ignore]

    options: dict[str, Any] = {}
    if endpoint := variables.get(SERVER):
        options["scheme"], _, options["endpoint_override"] = endpoint.rstrip("/").rpartition("://")
        options["scheme"] = options["scheme"] or "http"
    if variables.get("GS_ACCESS_KEY_ID"):
        raise RuntimeError(
            "pyarrow's file system of Google Cloud Storage takes no HMAC key (GS_ACCESS_KEY_ID): give the job "
            f"`secrets: [{KEY_TEXT}]` in place of it, or read checkpoints with as_directory()"
        )
    if token := variables.get(TOKEN):
        import datetime

        end = datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(hours=1)
        return pyarrow.fs.GcsFileSystem(access_token=token, credential_token_expiration=end, **options)
    if key := variables.get(KEY_TEXT):
        return _with_key(key, lambda: pyarrow.fs.GcsFileSystem(**options))
    if "endpoint_override" in options and not variables.get(_FILE):
        options["anonymous"] = True  # as Google's libraries do with an emulator
    return pyarrow.fs.GcsFileSystem(**options)


def _with_key(key: str, make: Any) -> Any:
    """Google's C++ library reads a key from the file that a variable names, while the file system is made."""
    with tempfile.TemporaryDirectory(prefix="rtrain-gs-") as folder, _environment_lock:
        file = pathlib.Path(folder) / "key.json"
        file.touch(mode=0o600)
        file.write_text(key, encoding="utf-8")
        before = os.environ.get(_FILE)
        os.environ[_FILE] = str(file)
        try:
            return make()
        finally:
            os.environ.pop(_FILE)
            if before is not None:
                os.environ[_FILE] = before
