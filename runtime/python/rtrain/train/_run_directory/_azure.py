"""File systems of Azure Blob Storage: pyarrow's and adlfs's, converted to variables for the nodes, and made again from
them. A file system whose options the nodes do not have is not converted: it then holds checkpoint files alone
(_elsewhere.py).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

ACCOUNT, KEY, SIGNATURE = "AZURE_STORAGE_ACCOUNT", "AZURE_STORAGE_KEY", "AZURE_STORAGE_SAS_TOKEN"
CONNECTION, SERVER = "AZURE_STORAGE_CONNECTION_STRING", "AZURE_STORAGE_SERVICE_ENDPOINT"
_PRINCIPAL = {"AZURE_TENANT_ID": "tenant_id", "AZURE_CLIENT_ID": "client_id", "AZURE_CLIENT_SECRET": "client_secret"}
_SUFFIX = ".blob.core.windows.net"


def variables_of(filesystem: Any) -> dict[str, str] | None:
    """Returns the variables that lead a node to the same account. Returns None for options that nodes do not have, and
    for credentials that each machine has itself, since these belong to whoever runs the node.
    """
    return _of_pyarrow(filesystem) if hasattr(filesystem, "type_name") else _of_adlfs(filesystem)


def _of_pyarrow(filesystem: Any) -> dict[str, str] | None:
    given: dict[str, Any] = filesystem.__reduce__()[1][0]
    authority, scheme = str(given.get("blob_storage_authority") or _SUFFIX), str(given.get("blob_storage_scheme") or "https")
    account = str(given.get("account_name") or "")
    if (authority, scheme) == (_SUFFIX, "https"):
        endpoint = ""
    else:
        endpoint = f"{scheme}://{account}{authority}" if authority.startswith(".") else f"{scheme}://{authority}/{account}"
    return _variables(given, account, endpoint)


def _of_adlfs(filesystem: Any) -> dict[str, str] | None:
    options = {name: value for name, value in (getattr(filesystem, "storage_options", None) or {}).items() if value is not None}
    known = {"account_name", "account_key", "sas_token", "connection_string", "client_id", "client_secret", "tenant_id"}
    harmless = {"blocksize", "default_fill_cache", "default_cache_type", "max_concurrency", "timeout", "connection_timeout",
                "read_timeout", "assume_container_exists", "skip_instance_cache", "use_listings_cache", "asynchronous"}  # fmt: skip
    if options.keys() - known - harmless:
        return None
    if text := options.get("connection_string"):
        return {CONNECTION: str(text)}
    return _variables(options, str(options.get("account_name") or ""), "")


def _variables(given: Mapping[str, Any], account: str, endpoint: str) -> dict[str, str] | None:
    place = {ACCOUNT: account, **({SERVER: endpoint} if endpoint else {})}
    if key := given.get("account_key"):
        return {**place, KEY: str(key)}
    if signature := given.get("sas_token"):
        return {**place, SIGNATURE: str(signature)}
    principal = {name: str(given.get(option) or "") for name, option in _PRINCIPAL.items()}
    return {**place, **principal} if all(principal.values()) else None


def filesystem_of(variables: Mapping[str, str]) -> Any:
    """Returns pyarrow's file system with the credentials of an environment. Without a key, Azure's library finds those of
    the machine.
    """
    import pyarrow.fs  # type: ignore[import-untyped,import-not-found,unused-ignore]

    fields = dict(field.partition("=")[::2] for field in variables.get(CONNECTION, "").split(";") if field)
    account = fields.get("AccountName") or variables.get(ACCOUNT) or variables.get("AZURE_STORAGE_ACCOUNT_NAME", "")
    options: dict[str, Any] = {}
    endpoint = (fields.get("BlobEndpoint") or variables.get(SERVER, "")).rstrip("/")
    if endpoint:
        scheme, _, rest = endpoint.rpartition("://")
        authority = rest.removesuffix(f"/{account}") if rest.endswith(f"/{account}") else rest.removeprefix(account)
        for service in ("blob", "dfs"):
            options[f"{service}_storage_scheme"] = scheme
            options[f"{service}_storage_authority"] = authority.replace(".blob.", f".{service}.")
    if key := fields.get("AccountKey") or variables.get(KEY) or variables.get("AZURE_STORAGE_ACCOUNT_KEY"):
        options["account_key"] = key
    elif signature := fields.get("SharedAccessSignature") or variables.get(SIGNATURE):
        options["sas_token"] = signature
    elif all(variables.get(name) for name in _PRINCIPAL):
        options.update({option: variables[name] for name, option in _PRINCIPAL.items()})
    return pyarrow.fs.AzureFileSystem(account, **options)
