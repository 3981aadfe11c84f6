"""File systems of buckets other than S3: how they are converted for the nodes and made again."""

from __future__ import annotations

import datetime
import json
import os
import pathlib
import re
import sys
from typing import Any

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3] / "runtime" / "python"))
from rtrain.train import RunConfig
from rtrain.train._run_directory import _azure, _buckets, _filesystems, _gcs

fs = pytest.importorskip("pyarrow.fs")
SOURCE = pathlib.Path(__file__).resolve().parents[3]
ACCOUNT = {"type": "service_account", "client_email": "a@b", "private_key": "very-secret", "token_uri": "https://t"}


def with_token(token: str, **options: Any) -> Any:
    end = datetime.datetime(2030, 1, 1, tzinfo=datetime.UTC)
    return fs.GcsFileSystem(access_token=token, credential_token_expiration=end, **options)


class GcsFs:
    """An object with the attributes of a file system of gcsfs."""

    protocol = ("gs", "gcs")

    def __init__(self, **options: Any):
        self.storage_options = options

    def _strip_protocol(self, path: str) -> str:
        return path


def test_the_names_of_variables_are_those_of_the_head_and_the_agents() -> None:
    text = (SOURCE / "base/bucket_secrets.cpp").read_text()
    for kind in _buckets._KINDS:
        for name in (*kind.keys, *kind.settings, *kind.agents_own):
            assert f'"{name}"' in text, name
        for scheme in kind.schemes:
            assert f'"{scheme}://"' in text
    ours = {name for kind in _buckets._KINDS for name in (*kind.keys, *kind.settings, *kind.agents_own)}
    theirs = set(re.findall(r'"([A-Z]+_[A-Z0-9_]+)"', text))
    assert theirs == ours


@pytest.mark.parametrize(
    ("filesystem", "variables", "keys"),
    [
        (lambda: fs.GcsFileSystem(), {}, {}),
        (lambda: with_token("very-secret"), {}, {"GOOGLE_OAUTH_ACCESS_TOKEN": "very-secret"}),
        (
            lambda: with_token("very-secret", scheme="http", endpoint_override="store:9"),
            {"STORAGE_EMULATOR_HOST": "http://store:9"},
            {"GOOGLE_OAUTH_ACCESS_TOKEN": "very-secret"},
        ),
        (lambda: GcsFs(token="google_default", project="p"), {}, {}),
        (lambda: GcsFs(token="very-secret"), {}, {"GOOGLE_OAUTH_ACCESS_TOKEN": "very-secret"}),
        (
            lambda: GcsFs(token=ACCOUNT, endpoint_url="http://store:9"),
            {"STORAGE_EMULATOR_HOST": "http://store:9"},
            {"GOOGLE_SERVICE_ACCOUNT_KEY": json.dumps(ACCOUNT)},
        ),
    ],
)
def test_a_google_file_system_becomes_a_path_with_its_server_and_keys(filesystem, variables, keys) -> None:
    config = RunConfig(name="mine", storage_path="bucket/prefix", storage_filesystem=filesystem())
    assert config.storage_path == "gs://bucket/prefix" and config.elsewhere is None
    assert dict(config.place.variables) == variables and dict(config.place.keys) == keys
    assert "very-secret" not in repr(config.place)


def test_a_key_file_that_gcsfs_was_given_travels_as_its_content(tmp_path) -> None:
    file = tmp_path / "key.json"
    file.write_text(json.dumps(ACCOUNT))
    place = _filesystems.place_of("bucket", GcsFs(token=str(file)))
    assert json.loads(place.keys["GOOGLE_SERVICE_ACCOUNT_KEY"]) == ACCOUNT


@pytest.mark.parametrize(
    "filesystem",
    [
        lambda: fs.GcsFileSystem(anonymous=True),
        lambda: fs.GcsFileSystem(target_service_account="a@b"),
        lambda: fs.GcsFileSystem(scheme="http", endpoint_override="store:9"),
        lambda: GcsFs(token="anon"),
        lambda: GcsFs(token=object()),
        lambda: GcsFs(requester_pays=True),
    ],
)
def test_a_google_file_system_that_nodes_cannot_have_holds_checkpoint_files_alone(filesystem) -> None:
    assert not _filesystems.is_carried(filesystem())
    with pytest.raises(ValueError, match="cannot be handed to the nodes"):
        _filesystems.place_of("bucket", filesystem())


def test_the_environment_below_a_place_has_its_credentials_alone(monkeypatch) -> None:
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", "/of/this/process")
    monkeypatch.setenv("GS_ACCESS_KEY_ID", "of-this-process")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "of-this-process")
    _filesystems.remember(_filesystems.place_of("bucket/own", with_token("t")))
    below = _filesystems.environment_for("gs://bucket/own/run")
    assert below["GOOGLE_OAUTH_ACCESS_TOKEN"] == "t" and below["AWS_ACCESS_KEY_ID"] == "of-this-process"
    assert not {"GOOGLE_APPLICATION_CREDENTIALS", "GS_ACCESS_KEY_ID"} & below.keys()
    assert _filesystems.environment_for("gs://bucket/other") == dict(os.environ)


def test_the_file_system_of_a_run_has_the_credentials_of_the_environment(monkeypatch) -> None:
    for name in ("GOOGLE_APPLICATION_CREDENTIALS", "GS_ACCESS_KEY_ID"):
        monkeypatch.delenv(name, raising=False)
    made = _gcs.filesystem_of({"STORAGE_EMULATOR_HOST": "http://store:9", "GOOGLE_OAUTH_ACCESS_TOKEN": "t"})
    options = made.__reduce__()[1][0]
    assert (options["access_token"], options["scheme"], options["endpoint_override"]) == ("t", "http", "store:9")
    assert _gcs.filesystem_of({"STORAGE_EMULATOR_HOST": "store:9"}).__reduce__()[1][0]["anonymous"]
    with pytest.raises(RuntimeError, match="takes no HMAC key"):
        _gcs.filesystem_of({"GS_ACCESS_KEY_ID": "id"})


# -- Azure ---------------------------------------------------------------------------------------------------------------
class AdlFs(GcsFs):
    """An object with the attributes of a file system of adlfs."""

    protocol = ("abfs", "az", "abfss")


LAB = {"AZURE_STORAGE_ACCOUNT": "lab"}


@pytest.mark.parametrize(
    ("filesystem", "variables", "keys"),
    [
        (lambda: fs.AzureFileSystem("lab", account_key="aHVzaA=="), LAB, {"AZURE_STORAGE_KEY": "aHVzaA=="}),
        (lambda: fs.AzureFileSystem("lab", sas_token="sv=1&sig=hush"), LAB, {"AZURE_STORAGE_SAS_TOKEN": "sv=1&sig=hush"}),
        (
            lambda: fs.AzureFileSystem(
                "lab", account_key="aHVzaA==", blob_storage_scheme="http", blob_storage_authority="store:9",
                dfs_storage_scheme="http", dfs_storage_authority="store:9",
            ),
            {**LAB, "AZURE_STORAGE_SERVICE_ENDPOINT": "http://store:9/lab"},
            {"AZURE_STORAGE_KEY": "aHVzaA=="},
        ),
        (
            lambda: AdlFs(account_name="lab", tenant_id="t", client_id="c", client_secret="hush"),
            LAB,
            {"AZURE_TENANT_ID": "t", "AZURE_CLIENT_ID": "c", "AZURE_CLIENT_SECRET": "hush"},
        ),
        (lambda: AdlFs(connection_string="AccountName=lab;hush"), {}, {"AZURE_STORAGE_CONNECTION_STRING": "AccountName=lab;hush"}),
    ],
)  # fmt: skip
def test_an_azure_file_system_becomes_a_path_with_its_account_and_keys(filesystem, variables, keys) -> None:
    config = RunConfig(name="mine", storage_path="runs/prefix", storage_filesystem=filesystem())
    assert config.storage_path == "az://runs/prefix" and config.elsewhere is None
    assert dict(config.place.variables) == variables and dict(config.place.keys) == keys
    assert not {"hush", "aHVzaA=="} & set(repr(config.place).split("'"))


@pytest.mark.parametrize("options", [{"account_name": "lab"}, {"account_name": "lab", "anon": True}, {"credential": object()}])
def test_an_azure_file_system_that_nodes_cannot_have_holds_checkpoint_files_alone(options) -> None:
    assert not _filesystems.is_carried(AdlFs(**options))


def test_the_file_system_of_a_run_in_azure_has_the_server_of_the_environment() -> None:
    variables = {**LAB, "AZURE_STORAGE_KEY": "aHVzaA==", "AZURE_STORAGE_SERVICE_ENDPOINT": "http://store:9/lab"}
    options = _azure.filesystem_of(variables).__reduce__()[1][0]
    assert (options["account_name"], options["account_key"]) == ("lab", "aHVzaA==")
    assert (options["blob_storage_scheme"], options["blob_storage_authority"]) == ("http", "store:9")
    text = "AccountName=lab;SharedAccessSignature=sv=1&sig=x;BlobEndpoint=https://lab.blob.core.windows.net/"
    options = _azure.filesystem_of({"AZURE_STORAGE_CONNECTION_STRING": text}).__reduce__()[1][0]
    assert (options["sas_token"], options["blob_storage_authority"]) == ("sv=1&sig=x", ".blob.core.windows.net")


def test_a_path_of_a_hierarchical_account_is_the_container_s_on_the_file_system() -> None:
    assert _filesystems.path_on("abfss://runs@lab.dfs.core.windows.net/a/b") == "runs/a/b"
    assert _filesystems.path_on("az://runs/a/b") == "runs/a/b"
