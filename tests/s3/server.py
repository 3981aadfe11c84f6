"""An S3 server for tests: moto behind additional checks. Prints its port, and ends when its standard input closes.

Every request's signature is recomputed with botocore and every body's hash is compared, so requests that Amazon would refuse
are refused here. Requests are executed one at a time, which makes `If-None-Match` exact.
usage: server.py [--bucket NAME]... [--port N] [--tls CERTIFICATE KEY] [--ignore-conditions] [--slow-down N] [--lose-answers
N] [--lend-for S]
"""

import argparse
import datetime
import hashlib
import io
import json
import sys
import threading
import urllib.parse

from botocore.auth import S3SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials
from moto.server import DomainDispatcherApplication, create_backend_app
from werkzeug.serving import WSGIRequestHandler, make_server

KEY, SECRET = "rtrain-test-key", "rtrain-test-secret"
SECRETS = {KEY: SECRET, "another-key": "another-test-secret"}


class Quiet(WSGIRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_request(self, code="-", size="-"):
        pass


class Checked:
    """A WSGI program that checks each request before moto."""

    def __init__(self, options):
        self.inner = DomainDispatcherApplication(create_backend_app)
        self.options = options
        self.turn = threading.Lock()
        self.slow_downs = options.slow_down
        self.lent = 0
        self.answers_to_lose = options.lose_answers
        self.signers = {}  # ids of the keys of all requests, by path
        self.reads = {}  # number of reads of each object, by path

    def __call__(self, environ, start_response):
        length = int(environ.get("CONTENT_LENGTH") or 0)
        body = environ["wsgi.input"].read(length) if length else b""
        with self.turn:
            if environ["PATH_INFO"] == "/signers":
                text = json.dumps({path: sorted(ids) for path, ids in self.signers.items()}).encode()
                start_response("200 OK", [("Content-Length", str(len(text)))])
                return [text]
            if environ["PATH_INFO"] == "/reads":
                text = json.dumps(self.reads).encode()
                start_response("200 OK", [("Content-Length", str(len(text)))])
                return [text]
            if environ["PATH_INFO"].startswith("/latest/"):
                return self.instance(environ, start_response)
            refusal = self.refusal(environ, body)
            if refusal:
                status, code, message = refusal
                text = f"<?xml version='1.0'?><Error><Code>{code}</Code><Message>{message}</Message></Error>".encode()
                start_response(status, [("Content-Type", "application/xml"), ("Content-Length", str(len(text)))])
                return [] if environ["REQUEST_METHOD"] == "HEAD" else [text]
            environ["wsgi.input"] = io.BytesIO(body)
            key_id = authorization(environ)["Credential"].partition("/")[0]
            self.signers.setdefault(environ["PATH_INFO"], set()).add(key_id)
            if environ["REQUEST_METHOD"] == "GET":
                self.reads[environ["PATH_INFO"]] = self.reads.get(environ["PATH_INFO"], 0) + 1
            if self.options.ignore_conditions:
                environ.pop("HTTP_IF_NONE_MATCH", None)
            if self.answers_to_lose > 0 and environ["REQUEST_METHOD"] == "PUT":
                self.answers_to_lose -= 1  # executed, but the answer is lost
                list(self.inner(environ, lambda *_: None))
                start_response("500 Internal Server Error", [("Content-Length", "0")])
                return []
            return list(self.inner(environ, start_response))

    def instance(self, environ, start_response):
        """Answers as the metadata service of an EC2 instance or a container. The lent credentials end within the hour and differ
        each time."""
        asked, text = environ["PATH_INFO"].removeprefix("/latest/"), None
        if asked == "api/token" and environ["REQUEST_METHOD"] == "PUT" and "HTTP_X_AWS_EC2_METADATA_TOKEN_TTL_SECONDS" in environ:
            text = "instance-token"
        elif (
            environ.get("HTTP_X_AWS_EC2_METADATA_TOKEN") == "instance-token"
            or environ.get("HTTP_AUTHORIZATION") == "container-token"
        ):
            self.lent += 1
            ends = datetime.datetime.now(datetime.UTC) + datetime.timedelta(seconds=self.options.lend_for)
            lent = {"Code": "Success", "AccessKeyId": KEY, "SecretAccessKey": SECRET, "Token": f"session-{self.lent}",
                    "Expiration": ends.strftime("%Y-%m-%dT%H:%M:%SZ")}  # fmt: skip
            below = "meta-data/iam/security-credentials/"
            text = {below: "trainer-role", below + "trainer-role": json.dumps(lent, indent=2)}.get(asked)
        status = "404 Not Found" if text is None else "200 OK"
        start_response(status, [("Content-Length", str(len(text or "")))])
        return [(text or "").encode()]

    def refusal(self, environ, body):
        if self.slow_downs > 0:
            self.slow_downs -= 1
            return "503 Slow Down", "SlowDown", "Please reduce your request rate."
        fields = authorization(environ)
        if fields is None or fields["Credential"].partition("/")[0] not in SECRETS:
            return "403 Forbidden", "InvalidAccessKeyId", "The AWS access key Id you provided does not exist in our records."
        if fields["Signature"] != signature(environ, fields):
            return "403 Forbidden", "SignatureDoesNotMatch", "The request signature we calculated does not match."
        if environ.get("HTTP_X_AMZ_CONTENT_SHA256") != hashlib.sha256(body).hexdigest():
            return "400 Bad Request", "XAmzContentSHA256Mismatch", "The provided header does not match what was computed."
        return None


def authorization(environ):
    kind, _, rest = environ.get("HTTP_AUTHORIZATION", "").partition(" ")
    if kind != "AWS4-HMAC-SHA256":
        return None
    return dict(field.strip().split("=", 1) for field in rest.split(","))


def signature(environ, fields):
    """Returns botocore's signature for the received request."""
    names = fields["SignedHeaders"].split(";")
    headers = {name: environ.get("HTTP_" + name.upper().replace("-", "_"), "") for name in names}
    region = fields["Credential"].split("/")[2]
    path, _, query = environ["RAW_URI"].partition("?")
    url = f"{environ['wsgi.url_scheme']}://{environ['HTTP_HOST']}{path}"
    pairs = urllib.parse.parse_qsl(query, keep_blank_values=True)
    request = AWSRequest(method=environ["REQUEST_METHOD"], url=url, headers=headers, params=dict(pairs))
    request.context["timestamp"] = headers["x-amz-date"]
    key_id = fields["Credential"].partition("/")[0]
    signer = S3SigV4Auth(Credentials(key_id, SECRETS[key_id]), "s3", region)
    return signer.signature(signer.string_to_sign(request, signer.canonical_request(request)), request)


def make_buckets(app, names):
    from moto.s3.models import s3_backends

    for name in names:
        s3_backends["123456789012"]["aws"].create_bucket(name, "us-east-1")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--bucket", action="append", default=[])
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--tls", nargs=2)
    parser.add_argument("--ignore-conditions", action="store_true")
    parser.add_argument("--slow-down", type=int, default=0)
    parser.add_argument("--lend-for", type=int, default=3600)
    parser.add_argument("--lose-answers", type=int, default=0)
    options = parser.parse_args()
    app = Checked(options)
    make_buckets(app, options.bucket)
    tls = tuple(options.tls) if options.tls else None
    server = make_server("127.0.0.1", options.port, app, threaded=True, request_handler=Quiet, ssl_context=tls)
    server.daemon_threads = True
    print(server.server_port, flush=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    sys.stdin.read()


if __name__ == "__main__":
    main()
