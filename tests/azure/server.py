"""A server with the Blob interface of Azure Storage, for tests. Prints its port, and ends when its standard input closes.

Blobs, lists of blocks, listings, conditions and ranges (https://learn.microsoft.com/rest/api/storageservices/
blob-service-rest-api), with shared keys, shared access signatures of the service, and bearer tokens. The account's name is the
first part of the path, as with Azurite. The same port has a machine's identity service and a token server. Each signature is computed
again, and each Content-MD5 is compared. Requests are executed one at a time, which makes conditions exact.
usage: server.py [--bucket CONTAINER]... [--port N] [--tls CERTIFICATE KEY] [--ignore-conditions] [--slow-down N]
[--lose-answers N] [--lend-for S] [--page N]
"""

import argparse
import base64
import hashlib
import hmac
import itertools
import json
import re
import sys
import threading
import time
import urllib.parse
import xml.etree.ElementTree
from xml.sax.saxutils import escape

from werkzeug.serving import WSGIRequestHandler, make_server

# The account of Azurite and its published key, and another one.
KEYS = {
    "devstoreaccount1": "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==",
    "another": base64.b64encode(b"another-test-secret").decode(),
}


class Quiet(WSGIRequestHandler):
    protocol_version = "HTTP/1.1"

    def handle_expect_100(self):
        return True  # werkzeug itself sends "100 Continue"

    def log_request(self, code="-", size="-"):
        pass


class Refused(Exception):
    def __init__(self, status, code, message="refused"):
        super().__init__(message)
        self.status, self.code = status, code


class Blob:
    def __init__(self, content, number, metadata, blocks=None):
        self.content, self.metadata, self.blocks = content, metadata, blocks or {}
        self.etag = f'"0x8D{number:012X}"'


class Request:
    def __init__(self, environ):
        length = int(environ.get("CONTENT_LENGTH") or 0)
        self.body = environ["wsgi.input"].read(length) if length else b""
        self.method, self.environ = environ["REQUEST_METHOD"], environ
        self.raw_path, _, raw_query = environ["RAW_URI"].partition("?")
        self.account, _, self.path = urllib.parse.unquote(self.raw_path).lstrip("/").partition("/")
        self.query = dict(urllib.parse.parse_qsl(raw_query, keep_blank_values=True))

    def header(self, name):
        variable = name.upper().replace("-", "_")
        return self.environ.get(variable if variable in ("CONTENT_TYPE", "CONTENT_LENGTH") else "HTTP_" + variable, "")

    def metadata(self):
        seen = {}
        for name, value in self.environ.items():
            if match := re.fullmatch("HTTP_X_MS_META_(.*)", name):
                seen[match[1].lower()] = value
        return seen


def answer(status=200, body=b"", headers=()):
    kind = {200: "OK", 201: "Created", 202: "Accepted", 206: "Partial Content"}.get(status, "Refused")
    return f"{status} {kind}", list(headers), body if isinstance(body, bytes) else body.encode()


def as_json(value, status=200):
    return answer(status, json.dumps(value), [("Content-Type", "application/json")])


class Server:
    """A WSGI program."""

    def __init__(self, options):
        self.options = options
        self.turn = threading.Lock()
        self.containers = {name: {} for name in options.bucket}
        self.blocks = {}  # uncommitted ones: (container, name): {id: bytes}
        self.numbers = itertools.count(1)
        self.slow_downs, self.answers_to_lose = options.slow_down, options.lose_answers
        self.tokens = {}  # text: time of its end
        self.signers, self.reads = {}, {}

    def __call__(self, environ, start_response):
        request = Request(environ)
        with self.turn:
            status, headers, body = self.answered(request)
        names = {name for name, _ in headers}
        if "Content-Length" not in names:
            headers = [*headers, ("Content-Length", str(len(body)))]
        start_response(
            status, [*headers, ("x-ms-request-id", "1"), ("x-ms-version", request.header("x-ms-version") or "2021-12-02")]
        )
        return [] if request.method == "HEAD" else [body]

    def answered(self, request):
        try:
            if request.raw_path in ("/signers", "/reads"):
                seen = self.reads if request.raw_path == "/reads" else {path: sorted(ids) for path, ids in self.signers.items()}
                return as_json(seen)
            if request.raw_path == "/revoke":
                self.tokens.clear()
                return answer(200)
            if request.raw_path == "/metadata/identity/oauth2/token":
                return self.identity(request)
            if request.raw_path.endswith("/oauth2/v2.0/token"):
                return self.token(request)
            if self.slow_downs > 0:
                self.slow_downs -= 1
                raise Refused(503, "ServerBusy", "The server is busy.")
            self.authorise(request)
            if request.method == "PUT" and self.answers_to_lose > 0:
                self.answers_to_lose -= 1  # executed, but the answer is lost
                self.routed(request)
                return answer(500)
            return self.routed(request)
        except Refused as refusal:
            if request.method == "HEAD":
                return answer(refusal.status, b"", [("x-ms-error-code", refusal.code)])
            text = f"<?xml version='1.0'?><Error><Code>{refusal.code}</Code><Message>{escape(str(refusal))}</Message></Error>"
            return answer(refusal.status, text, [("Content-Type", "application/xml"), ("x-ms-error-code", refusal.code)])

    # -- who sends a request -------------------------------------------------------------------------------------------------
    def authorise(self, request):
        if request.account not in KEYS:
            raise Refused(404, "ResourceNotFound")
        kind, _, rest = request.header("Authorization").partition(" ")
        signer = request.account
        if kind == "Bearer":
            if self.tokens.get(rest, 0) < time.time():
                raise Refused(401, "InvalidAuthenticationInfo", "Signature validation failed.")
            signer = "identity"
        elif kind == "SharedKey":
            account, _, given = rest.partition(":")
            if account != request.account or not hmac.compare_digest(given, shared_key(request)):
                raise Refused(403, "AuthenticationFailed", "The MAC signature seen in the HTTP request is not the same.")
        elif "sig" in request.query:
            if not hmac.compare_digest(request.query["sig"], service_sas(request)):
                raise Refused(403, "AuthenticationFailed", "Signature did not match.")
            signer = "sas"
        else:
            raise Refused(401, "NoAuthenticationInformation", "Server failed to authenticate the request.")
        self.signers.setdefault(f"/{request.path}", set()).add(signer)
        digest = request.header("Content-MD5")
        if digest and digest != base64.b64encode(hashlib.md5(request.body).digest()).decode():
            raise Refused(400, "Md5Mismatch", "The MD5 value specified in the request did not match.")

    def identity(self, request):
        if request.header("Metadata") != "true" or request.query.get("resource") != "https://storage.azure.com/":
            return as_json({"error": "invalid_request", "error_description": "Required metadata header not specified"}, 400)
        lent = self.lend()
        return as_json({**lent, "expires_in": str(lent["expires_in"])})

    def token(self, request):
        fields = dict(urllib.parse.parse_qsl(request.body.decode()))
        if request.header("Content-Type") != "application/x-www-form-urlencoded":
            return as_json({"error": "invalid_request"}, 400)
        known = fields.get("client_secret") == "a-client-secret" or fields.get("client_assertion") == "a-pods-token"
        if not known or fields.get("scope") != "https://storage.azure.com/.default":
            return as_json(
                {"error": "invalid_client", "error_description": "AADSTS7000215: Invalid client secret provided."}, 401
            )
        return as_json(self.lend())

    def lend(self):
        text = f"token-{next(self.numbers)}"
        self.tokens[text] = time.time() + self.options.lend_for
        return {"access_token": text, "expires_in": self.options.lend_for, "token_type": "Bearer"}

    # -- containers and blobs ------------------------------------------------------------------------------------------------
    def routed(self, request):
        container, _, name = request.path.partition("/")
        if request.query.get("action") == "getAccessControl":  # a client examines whether the account is hierarchical
            raise Refused(409, "EndpointUnsupportedAccountFeatures")
        if container not in self.containers:
            raise Refused(404, "ContainerNotFound", "The specified container does not exist.")
        if request.method == "GET":
            self.reads[f"/{request.path}"] = self.reads.get(f"/{request.path}", 0) + 1
        if not name:
            return self.listing(request, container) if request.query.get("comp") == "list" else answer(200)
        if request.method == "PUT":
            return self.write(request, container, name)
        return self.read(request, container, name)

    def listing(self, request, container):
        prefix, delimiter = request.query.get("prefix", ""), request.query.get("delimiter", "")
        blobs, begin = self.containers[container], request.query.get("marker", "")
        names = {name: len(blob.content) for name, blob in blobs.items()}
        if "uncommittedblobs" in request.query.get("include", ""):
            names.update({name: 0 for place, name in self.blocks if place == container and name not in names})
        below = sorted(name for name in names if name.startswith(prefix) and name >= begin)
        size = min(int(request.query.get("maxresults") or self.options.page), self.options.page)
        text, prefixes = "", set()
        for name in below[:size]:
            inner, seen, _ = name.removeprefix(prefix).partition(delimiter) if delimiter else (name, "", "")
            if seen:
                prefixes.add(prefix + inner + delimiter)
                continue
            etag = escape(blobs[name].etag.strip('"')) if name in blobs else ""
            text += (
                f"<Blob><Name>{escape(name)}</Name><Properties><Last-Modified>Sat, 28 Nov 2026 12:00:00 GMT</Last-Modified><Etag>"
                f"{etag}</Etag><Content-Length>{names[name]}</Content-Length><BlobType>BlockBlob</BlobType></Properties></Blob>"
            )
        text += "".join(f"<BlobPrefix><Name>{escape(one)}</Name></BlobPrefix>" for one in sorted(prefixes))
        following = escape(below[size]) if len(below) > size else ""
        return answer(
            200,
            f'<?xml version="1.0" encoding="utf-8"?><EnumerationResults ServiceEndpoint="http://127.0.0.1/" ContainerName="{container}">'
            f"<Prefix>{escape(prefix)}</Prefix><Blobs>{text}</Blobs><NextMarker>{following}</NextMarker></EnumerationResults>",
            [("Content-Type", "application/xml")],
        )

    def check(self, request, there):
        if self.options.ignore_conditions:
            return
        none, match = request.header("If-None-Match"), request.header("If-Match")
        if none == "*" and there:
            raise Refused(409, "BlobAlreadyExists", "The specified blob already exists.")
        if match and (not there or match not in ("*", there.etag)):
            raise Refused(412, "ConditionNotMet", "The condition specified using HTTP conditional header(s) is not met.")

    def write(self, request, container, name):
        blobs, kind = self.containers[container], request.query.get("comp")
        if kind == "block":
            self.blocks.setdefault((container, name), {})[request.query["blockid"]] = request.body
            return answer(201, b"", [("x-ms-request-server-encrypted", "true")])
        self.check(request, blobs.get(name))
        if kind == "blocklist":
            sent, committed = self.blocks.get((container, name), {}), blobs[name].blocks if name in blobs else {}
            blocks = {}
            for one in xml.etree.ElementTree.fromstring(request.body):
                seen = committed.get(one.text) if one.tag == "Committed" else sent.get(one.text, committed.get(one.text))
                if seen is None or (one.tag == "Uncommitted" and one.text not in sent):
                    raise Refused(400, "InvalidBlockList", "The specified block list is invalid.")
                blocks[one.text] = seen
            content = b"".join(blocks.values())
        elif kind is None and request.header("x-ms-blob-type") == "BlockBlob":
            blocks, content = {}, request.body
        elif kind in ("metadata", "properties"):
            return answer(200)
        else:
            raise Refused(400, "InvalidHeaderValue", "The value for one of the HTTP headers is not in the correct format.")
        self.blocks.pop((container, name), None)
        blobs[name] = Blob(content, next(self.numbers), request.metadata(), blocks)
        headers = [("ETag", blobs[name].etag), ("Last-Modified", "Sat, 28 Nov 2026 12:00:00 GMT")]
        return answer(201, b"", [*headers, ("x-ms-request-server-encrypted", "true")])

    def read(self, request, container, name):
        blob = self.containers[container].get(name)
        if blob is None:
            raise Refused(404, "BlobNotFound", "The specified blob does not exist.")
        if request.method == "DELETE":
            del self.containers[container][name]
            return answer(202)
        if request.query.get("comp") == "blocklist":
            text = "".join(f"<Block><Name>{one}</Name><Size>{len(data)}</Size></Block>" for one, data in blob.blocks.items())
            return answer(200, f"<?xml version='1.0'?><BlockList><CommittedBlocks>{text}</CommittedBlocks></BlockList>")
        headers = [
            ("ETag", blob.etag),
            ("Last-Modified", "Sat, 28 Nov 2026 12:00:00 GMT"),
            ("Content-Type", "application/octet-stream"),
            ("x-ms-blob-type", "BlockBlob"),
            ("x-ms-creation-time", "Sat, 28 Nov 2026 12:00:00 GMT"),
            ("x-ms-server-encrypted", "true"),
            ("x-ms-lease-state", "available"),
            ("x-ms-lease-status", "unlocked"),
            *((f"x-ms-meta-{one}", value) for one, value in blob.metadata.items()),
        ]
        size = len(blob.content)
        if request.method == "HEAD":
            return answer(200, b"", [*headers, ("Content-Length", str(size))])
        asked = request.header("x-ms-range") or request.header("Range")
        if match := re.fullmatch(r"bytes=(\d+)-(\d*)", asked):
            begin, end = int(match[1]), min(int(match[2] or size), size - 1)
            if begin >= size:
                raise Refused(416, "InvalidRange")
            return answer(206, blob.content[begin : end + 1], [*headers, ("Content-Range", f"bytes {begin}-{end}/{size}")])
        return answer(200, blob.content, headers)


def shared_key(request):
    """Returns the signature of the published rules, in base64."""
    length = request.header("Content-Length")
    lines = [request.method, request.header("Content-Encoding"), request.header("Content-Language")]
    lines += ["" if length in ("", "0") else length]
    lines += [request.header(name) for name in ("Content-MD5", "Content-Type", "Date", "If-Modified-Since", "If-Match")]
    lines += [request.header(name) for name in ("If-None-Match", "If-Unmodified-Since", "Range")]
    own = {
        name.removeprefix("HTTP_").lower().replace("_", "-"): value
        for name, value in request.environ.items()
        if name.startswith("HTTP_X_MS_")
    }
    lines += [f"{name}:{value.strip()}" for name, value in sorted(own.items())]
    text = "\n".join(lines) + f"\n/{request.account}{request.raw_path}"
    parameters = {name.lower(): value for name, value in request.query.items()}
    text += "".join(f"\n{name}:{parameters[name]}" for name in sorted(parameters))
    key = base64.b64decode(KEYS[request.account])
    return base64.b64encode(hmac.new(key, text.encode(), hashlib.sha256).digest()).decode()


def service_sas(request):
    """Returns the signature of a service SAS for a container, version 2020-12-06 and later."""
    one = request.query.get
    resource = f"/blob/{request.account}/{request.path.partition('/')[0]}"
    fields = [one("sp", ""), one("st", ""), one("se", ""), resource, one("si", ""), one("sip", ""), one("spr", ""), one("sv", "")]
    fields += [one("sr", ""), "", one("ses", ""), *(one(name, "") for name in ("rscc", "rscd", "rsce", "rscl", "rsct"))]
    key = base64.b64decode(KEYS[request.account])
    return base64.b64encode(hmac.new(key, "\n".join(fields).encode(), hashlib.sha256).digest()).decode()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--bucket", action="append", default=[])
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--tls", nargs=2)
    parser.add_argument("--ignore-conditions", action="store_true")
    parser.add_argument("--slow-down", type=int, default=0)
    parser.add_argument("--lose-answers", type=int, default=0)
    parser.add_argument("--lend-for", type=int, default=3600)
    parser.add_argument("--page", type=int, default=1000)
    options = parser.parse_args()
    tls = tuple(options.tls) if options.tls else None
    server = make_server("127.0.0.1", options.port, Server(options), threaded=True, request_handler=Quiet, ssl_context=tls)
    server.daemon_threads = True
    print(server.server_port, flush=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    sys.stdin.read()


if __name__ == "__main__":
    main()
