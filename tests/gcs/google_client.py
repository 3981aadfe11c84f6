"""Google's client library for Python against tests/gcs/server.py. Ends with an error if one of its calls fails."""

import json
import os
import pathlib
import tempfile

from google.api_core.exceptions import PreconditionFailed
from google.cloud import storage
from google.cloud.storage import transfer_manager
from google.oauth2 import service_account
from started import GcsServer


def check(server, folder):
    os.environ["STORAGE_EMULATOR_HOST"] = server.endpoint
    account = service_account.Credentials.from_service_account_info(json.loads(server.account))
    bucket = storage.Client(project="tests", credentials=account).bucket("runs")
    claim = bucket.blob("claims/1")
    claim.upload_from_string("first", if_generation_match=0)
    try:
        claim.upload_from_string("second", if_generation_match=0)
    except PreconditionFailed:
        pass
    else:
        raise AssertionError("two writers created one object")
    assert claim.download_as_bytes() == b"first"

    given = folder / "given"
    given.write_bytes(os.urandom(40 << 20))
    large = bucket.blob("large")
    transfer_manager.upload_chunks_concurrently(
        given, large, chunk_size=16 << 20, worker_type=transfer_manager.THREAD, checksum="md5"
    )
    stored = bucket.get_blob("large")
    assert stored.size == 40 << 20 and stored.generation
    transfer_manager.download_chunks_concurrently(
        stored, folder / "back", worker_type=transfer_manager.THREAD, crc32c_checksum=False
    )
    assert (folder / "back").read_bytes() == given.read_bytes()
    assert large.download_as_bytes(start=5, end=9, checksum=None) == given.read_bytes()[5:10]
    assert [one.name for one in bucket.list_blobs(prefix="cl")] == ["claims/1"]
    large.delete()
    assert bucket.get_blob("large") is None


def main():
    server = GcsServer()
    try:
        with tempfile.TemporaryDirectory() as folder:
            check(server, pathlib.Path(folder))
    finally:
        server.stop()
    print("google-cloud-storage", storage.__version__, "passes")


if __name__ == "__main__":
    main()
