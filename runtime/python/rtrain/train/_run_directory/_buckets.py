"""The kinds of object stores that nodes read and write themselves, and the variables of their credentials and servers.
base/bucket_secrets.cpp has the same names.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Kind:
    """name: for messages. keys: variables with credentials. settings: variables with a server, account or region.
    agents_own: variables that lead to other credentials of the same process. advice: the secrets that a job needs.
    """

    name: str
    schemes: tuple[str, ...]
    keys: tuple[str, ...]
    settings: tuple[str, ...]
    agents_own: tuple[str, ...]
    advice: str


_KINDS = (
    Kind(
        name="S3",
        schemes=("s3",),
        keys=("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"),
        settings=("AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3", "AWS_REGION", "AWS_DEFAULT_REGION"),
        agents_own=(),
        advice="`secrets: [AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY]` (RunConfig(secrets=[...])), and AWS_ENDPOINT_URL and "
        "AWS_REGION in its env",
    ),
    Kind(
        name="Google Cloud Storage",
        schemes=("gs",),
        keys=("GOOGLE_SERVICE_ACCOUNT_KEY", "GS_ACCESS_KEY_ID", "GS_SECRET_ACCESS_KEY", "GOOGLE_OAUTH_ACCESS_TOKEN"),
        settings=("STORAGE_EMULATOR_HOST",),
        agents_own=("GOOGLE_APPLICATION_CREDENTIALS",),
        advice="`secrets: [GOOGLE_SERVICE_ACCOUNT_KEY]`, or `[GS_ACCESS_KEY_ID, GS_SECRET_ACCESS_KEY]` (RunConfig(secrets=[...]))",
    ),
    Kind(
        name="Azure Blob Storage",
        schemes=("az", "abfs", "abfss"),
        keys=(
            "AZURE_STORAGE_KEY",
            "AZURE_STORAGE_SAS_TOKEN",
            "AZURE_STORAGE_CONNECTION_STRING",
            "AZURE_TENANT_ID",
            "AZURE_CLIENT_ID",
            "AZURE_CLIENT_SECRET",
        ),
        settings=("AZURE_STORAGE_ACCOUNT", "AZURE_STORAGE_SERVICE_ENDPOINT"),
        agents_own=(
            "AZURE_STORAGE_ACCOUNT_KEY",
            "AZURE_STORAGE_ACCOUNT_NAME",
            "AZURE_FEDERATED_TOKEN_FILE",
            "IDENTITY_ENDPOINT",
            "IDENTITY_HEADER",
        ),
        advice="`secrets: [AZURE_STORAGE_KEY]`, or `[AZURE_STORAGE_SAS_TOKEN]` (RunConfig(secrets=[...])), and "
        "AZURE_STORAGE_ACCOUNT in its env",
    ),
)


def kind_of(uri: str) -> Kind | None:
    """Returns the kind of object store that a URI names; None for a path, and for the URI of something else."""
    scheme, separator, _ = uri.partition("://")
    return next((kind for kind in _KINDS if separator and scheme in kind.schemes), None)


def environment_with(uri: str, given: Mapping[str, str]) -> dict[str, str]:
    """Returns this process's environment, with the given variables in place of its own credentials and server for that
    kind of object store.
    """
    kind = kind_of(uri)
    names = {*kind.keys, *kind.settings, *kind.agents_own} if kind else set()
    own = {name: value for name, value in os.environ.items() if name not in names}
    return {**own, **given}
