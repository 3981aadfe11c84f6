"""Runs the tests' object stores as processes, for tests in Python. It ends the processes that it started, by pid."""

import base64
import hashlib
import hmac
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import urllib.parse
import urllib.request
from typing import ClassVar

KEY, SECRET = "rtrain-test-key", "rtrain-test-secret"
ANOTHER = {"AWS_ACCESS_KEY_ID": "another-key", "AWS_SECRET_ACCESS_KEY": "another-test-secret"}


class BucketServer:
    """A running server of a kind of object store: server.py in the folder of that kind, with a bucket `runs`. An agent, a head or the command
    line reaches it with `environment`. RTRAIN_TEST_PYTHON names an interpreter that has the packages of tests, unless this one
    has them.
    """

    kind = ""  # the folder of the server
    root = ""  # the URI of its bucket
    secrets: ClassVar[dict[str, str]] = {}  # credentials that a job can bring, of another account
    server_variables: ClassVar[tuple[str, ...]] = ()
    advised: ClassVar[tuple[str, ...]] = ()  # secrets that a worker without credentials is told to get
    pass_env = ""  # the pattern of the variables, for `node join --pass-env`
    secret_variable = ""  # a variable with a credential
    wrong_secret = "another-secret"  # a value of it that is refused

    def __init__(self, *options, port=0):
        server = pathlib.Path(__file__).parent.parent / self.kind / "server.py"
        python = os.environ.get("RTRAIN_TEST_PYTHON", sys.executable)
        command = [python, str(server), "--bucket", "runs", "--port", str(port), *options]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError(f"{server} did not start; are the packages of tests there? scripts/bootstrap installs them")
        self.port = int(line)
        self.endpoint = f"http://127.0.0.1:{self.port}"
        self.environment = self.variables()

    def variables(self):
        raise NotImplementedError

    def job_env(self):
        """Returns the variables by which a worker with the job's secrets finds this server."""
        return {name: value for name, value in self.environment.items() if name in self.server_variables}

    def signers(self):
        """Paths that were asked for, and the ids of the keys that did."""
        with urllib.request.urlopen(f"{self.endpoint}/signers", timeout=30) as answer:
            return json.load(answer)

    def reads(self):
        """Returns the number of reads of each path."""
        with urllib.request.urlopen(f"{self.endpoint}/reads", timeout=30) as answer:
            return json.load(answer)

    def put_all(self, texts):
        """Stores objects of the bucket `runs`, by key, with another client than ours: the file system of pyarrow."""
        import pyarrow.fs

        there = pyarrow.fs.SubTreeFileSystem("runs", self.filesystem())
        for key, text in texts.items():
            with there.open_output_stream(key) as file:
                file.write(text.encode())

    def filesystem(self):
        """Returns a file system of pyarrow, which is an independent client."""
        raise NotImplementedError

    def again(self):
        """Starts a server with the same port and the same credentials, whose bucket is empty."""
        return type(self)(port=self.port)

    def stop(self):
        self.process.kill()
        self.process.wait()
        self.process.stdin.close()
        self.process.stdout.close()


class S3Server(BucketServer):
    kind, root, pass_env, secret_variable = "s3", "s3://runs", "AWS_*", "AWS_SECRET_ACCESS_KEY"
    secrets = ANOTHER
    server_variables = ("AWS_ENDPOINT_URL",)
    advised = ("AWS_ACCESS_KEY_ID",)

    def variables(self):
        return {
            "AWS_ENDPOINT_URL": self.endpoint,
            "AWS_ACCESS_KEY_ID": KEY,
            "AWS_SECRET_ACCESS_KEY": SECRET,
            "AWS_MAX_ATTEMPTS": "3",
            "AWS_REQUEST_CHECKSUM_CALCULATION": "when_required",  # prevents trailers by botocore
            "AWS_SHARED_CREDENTIALS_FILE": "/nonexistent",
        }

    def put_all(self, texts):
        """Stores objects by boto3: the server checks no signature of a multipart upload of pyarrow."""
        import boto3

        session = boto3.session.Session(KEY, SECRET, region_name="us-east-1")
        client = session.client("s3", endpoint_url=self.endpoint)
        for key, text in texts.items():
            client.put_object(Bucket="runs", Key=key, Body=text.encode())

    def filesystem(self):
        import pyarrow.fs

        return pyarrow.fs.S3FileSystem(
            access_key=KEY, secret_key=SECRET, region="us-east-1", scheme="http", endpoint_override=f"127.0.0.1:{self.port}"
        )


class GcsServer(BucketServer):
    """Its agents have the key of a service account. A job brings an HMAC key."""

    kind, root, secret_variable = "gcs", "gs://runs", "GOOGLE_SERVICE_ACCOUNT_KEY"
    pass_env = "GS_*,GOOGLE_*,STORAGE_EMULATOR_*"
    server_variables = ("STORAGE_EMULATOR_HOST",)
    advised = ("GOOGLE_SERVICE_ACCOUNT_KEY",)
    wrong_secret = '{"type": "service_account", "client_email": "somebody"}'
    secrets: ClassVar[dict[str, str]] = {"GS_ACCESS_KEY_ID": "another-key", "GS_SECRET_ACCESS_KEY": "another-test-secret"}

    def __init__(self, *options, port=0, account=""):
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder) / "key.json"
            if account:
                file.write_text(account)
            super().__init__("--key-file", str(file), *options, port=port)
            self.account = file.read_text()
        self.environment["GOOGLE_SERVICE_ACCOUNT_KEY"] = self.account

    def again(self):
        return GcsServer(port=self.port, account=self.account)

    def variables(self):
        return {"STORAGE_EMULATOR_HOST": self.endpoint, "RTRAIN_STORAGE_MAX_ATTEMPTS": "3"}

    def filesystem(self):
        import datetime

        import pyarrow.fs

        request = urllib.request.Request(
            f"{self.endpoint}/computeMetadata/v1/instance/service-accounts/default/token", headers={"Metadata-Flavor": "Google"}
        )
        with urllib.request.urlopen(request, timeout=30) as answer:
            token = json.load(answer)["access_token"]
        end = datetime.datetime.now(datetime.UTC) + datetime.timedelta(hours=1)
        return pyarrow.fs.GcsFileSystem(
            access_token=token, credential_token_expiration=end, scheme="http", endpoint_override=f"127.0.0.1:{self.port}"
        )


class AzureServer(BucketServer):
    """Its agents have the account's key. A job brings a shared access signature of the container."""

    kind, root, secret_variable, pass_env = "azure", "az://runs", "AZURE_STORAGE_KEY", "AZURE_*"
    wrong_secret = base64.b64encode(b"another-secret").decode()
    server_variables = ("AZURE_STORAGE_ACCOUNT", "AZURE_STORAGE_SERVICE_ENDPOINT")
    advised = ("AZURE_STORAGE_KEY",)
    account = "devstoreaccount1"
    key = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="  # published with Azurite

    def variables(self):
        fields = ["racwdl", "", "2035-01-01T00:00:00Z", f"/blob/{self.account}/runs", "", "", "", "2021-12-02", "c", *[""] * 7]
        digest = hmac.new(base64.b64decode(self.key), "\n".join(fields).encode(), hashlib.sha256).digest()
        parts = {"sp": "racwdl", "se": fields[2], "sv": "2021-12-02", "sr": "c", "sig": base64.b64encode(digest).decode()}
        self.secrets = {"AZURE_STORAGE_SAS_TOKEN": urllib.parse.urlencode(parts)}
        return {
            "AZURE_STORAGE_ACCOUNT": self.account,
            "AZURE_STORAGE_SERVICE_ENDPOINT": f"{self.endpoint}/{self.account}",
            "AZURE_STORAGE_KEY": self.key,
            "RTRAIN_STORAGE_MAX_ATTEMPTS": "3",
        }

    def filesystem(self):
        import pyarrow.fs

        place = f"127.0.0.1:{self.port}"
        return pyarrow.fs.AzureFileSystem(
            self.account, account_key=self.key, blob_storage_authority=place, blob_storage_scheme="http",
            dfs_storage_authority=place, dfs_storage_scheme="http",
        )  # fmt: skip


SERVERS = {server.kind: server for server in (S3Server, GcsServer, AzureServer)}


def put_all(texts, credentials=None):
    """Objects of the bucket `runs`, by key, written by another client than ours: botocore, wherever the server has it from."""
    here = str(pathlib.Path(__file__).parent)
    command = "import json, sys; sys.path.insert(0, sys.argv[1]); from started import put_here; put_here(json.load(sys.stdin))"
    python = os.environ.get("RTRAIN_TEST_PYTHON", sys.executable)
    subprocess.run(
        [python, "-c", command, here], input=json.dumps(texts), text=True, check=True, env={**os.environ, **(credentials or {})}
    )


def put_here(texts):
    import botocore.session

    client = botocore.session.get_session().create_client("s3", region_name="us-east-1")
    for key, text in texts.items():
        client.put_object(Bucket="runs", Key=key, Body=text.encode())
