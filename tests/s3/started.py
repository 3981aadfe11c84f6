"""Runs the tests' S3 server as a process, for tests in Python. It ends the processes that it started, by pid."""

import json
import os
import pathlib
import subprocess
import sys
import urllib.request

KEY, SECRET = "rtrain-test-key", "rtrain-test-secret"
ANOTHER = {"AWS_ACCESS_KEY_ID": "another-key", "AWS_SECRET_ACCESS_KEY": "another-test-secret"}


class S3Server:
    """A running server. An agent, a head or the command line reaches it with `environment`. RTRAIN_TEST_PYTHON names an
    interpreter that has moto, unless this one has it.
    """

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
            "AWS_REQUEST_CHECKSUM_CALCULATION": "when_required",  # prevents trailers by botocore
        }

    def signers(self):
        """Paths that were asked for, and the ids of the keys that did."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/signers", timeout=30) as answer:
            return json.load(answer)

    def reads(self):
        """Returns the number of reads of each path."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/reads", timeout=30) as answer:
            return json.load(answer)

    def stop(self):
        self.process.kill()
        self.process.wait()
        self.process.stdin.close()
        self.process.stdout.close()


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
