"""The S3 server of the tests as a process, for tests in Python. What it starts, it stops, by pid."""

import os
import pathlib
import subprocess
import sys

KEY, SECRET = "rtrain-test-key", "rtrain-test-secret"


class S3Server:
    """Its `environment` is what an agent, a head or the command line needs to reach it. RTRAIN_TEST_PYTHON: the
    interpreter that has moto, where it is not this one."""

    def __init__(self, *options, port=0):
        server = pathlib.Path(__file__).with_name("server.py")
        python = os.environ.get("RTRAIN_TEST_PYTHON", sys.executable)
        command = [python, str(server), "--bucket", "runs", "--port", str(port), *options]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError(f"{server} did not start; is moto there? scripts/bootstrap installs it")
        self.port = int(line)
        self.environment = {
            "AWS_ENDPOINT_URL": f"http://127.0.0.1:{self.port}",
            "AWS_ACCESS_KEY_ID": KEY,
            "AWS_SECRET_ACCESS_KEY": SECRET,
            "AWS_MAX_ATTEMPTS": "3",
            "AWS_REQUEST_CHECKSUM_CALCULATION": "when_required",  # of botocore, which would add trailers
        }

    def stop(self):
        self.process.kill()
        self.process.wait()
        self.process.stdin.close()
        self.process.stdout.close()


def put(key, text):
    """An object of the bucket `runs`, written by another client than ours: botocore."""
    import botocore.session

    client = botocore.session.get_session().create_client("s3", region_name="us-east-1")
    client.put_object(Bucket="runs", Key=key, Body=text.encode())
