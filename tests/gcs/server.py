"""A server with the interfaces of Google Cloud Storage, for tests. Prints its port, and ends when its standard input closes.

XML (https://cloud.google.com/storage/docs/xml-api/overview): objects, listings, uploads in parts, generation conditions, ranges,
HMAC keys (GOOG4 and AWS4) and bearer tokens. JSON, as far as Google's client libraries need it for objects: metadata, listings,
media, multipart and resumable uploads, conditions. The same port has a token server and a metadata server. Every signature is recomputed
with botocore, the assertion of a service account is verified with google-auth, and every Content-MD5 is compared. Requests are
executed one at a time, which makes conditions exact.
usage: server.py [--bucket NAME]... [--port N] [--tls CERTIFICATE KEY] [--ignore-conditions] [--slow-down N] [--lose-answers N]
[--lend-for S] [--page N] [--key-file FILE]
"""

import argparse
import base64
import hashlib
import itertools
import json
import os
import re
import sys
import threading
import time
import urllib.parse
import xml.etree.ElementTree
from xml.sax.saxutils import escape

import google.auth.jwt
from botocore.auth import S3SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from werkzeug.serving import WSGIRequestHandler, make_server

SECRETS = {"rtrain-test-key": "rtrain-test-secret", "another-key": "another-test-secret"}
EMAIL = "trainer@rtrain-tests.iam.gserviceaccount.com"


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


class Google4(S3SigV4Auth):
    """botocore's signer with the words of Google's signing process."""

    def string_to_sign(self, request, canonical_request):
        lines = super().string_to_sign(request, canonical_request).split("\n")
        return "\n".join(["GOOG4-HMAC-SHA256", lines[1], *lines[2:]])

    def credential_scope(self, request):
        return super().credential_scope(request).replace("/aws4_request", "/goog4_request")

    def signature(self, string_to_sign, request):
        day = request.context["timestamp"][:8]
        key = self._sign(("GOOG4" + self.credentials.secret_key).encode(), day)
        for word in (self._region_name, self._service_name, "goog4_request"):
            key = self._sign(key, word)
        return self._sign(key, string_to_sign, hex=True)


class Stored:
    def __init__(self, content, generation, metadata, *, in_parts=False):
        self.content, self.generation, self.metadata = content, generation, metadata
        digest = hashlib.md5(content).hexdigest()
        self.etag = f'"{digest}-parts-{generation}"' if in_parts else f'"{digest}"'


class Request:
    def __init__(self, environ):
        length = int(environ.get("CONTENT_LENGTH") or 0)
        self.body = environ["wsgi.input"].read(length) if length else b""
        if environ.get("HTTP_TRANSFER_ENCODING") == "chunked":
            self.body = environ["wsgi.input"].read()
        self.method, self.environ = environ["REQUEST_METHOD"], environ
        self.raw_path, _, self.raw_query = environ["RAW_URI"].partition("?")
        self.path = urllib.parse.unquote(self.raw_path)
        self.query = dict(urllib.parse.parse_qsl(self.raw_query, keep_blank_values=True))

    def header(self, name):
        variable = name.upper().replace("-", "_")
        return self.environ.get(variable if variable in ("CONTENT_TYPE", "CONTENT_LENGTH") else "HTTP_" + variable, "")

    def metadata(self):
        seen = {}
        for name, value in self.environ.items():
            if match := re.fullmatch("HTTP_X_(?:GOOG|AMZ)_META_(.*)", name):
                seen[match[1].lower().replace("_", "-")] = value
        return seen


def answer(status=200, body=b"", headers=()):
    kind = {200: "OK", 201: "Created", 204: "No Content", 206: "Partial Content", 308: "Resume Incomplete"}.get(status, "Refused")
    return f"{status} {kind}", list(headers), body if isinstance(body, bytes) else body.encode()


def as_json(value, status=200):
    return answer(status, json.dumps(value), [("Content-Type", "application/json")])


class Server:
    """A WSGI program."""

    def __init__(self, options):
        self.options = options
        self.turn = threading.Lock()
        self.buckets = {name: {} for name in options.bucket}
        self.uploads = {}  # id: bucket, key, metadata, parts
        self.sessions = {}  # id of a resumable upload: bucket, key, metadata, conditions, bytes
        self.numbers = itertools.count(1)
        self.generations = itertools.count(1_700_000_000_000_000)
        self.slow_downs, self.answers_to_lose = options.slow_down, options.lose_answers
        self.tokens = {}  # text: time of its end
        self.signers, self.reads = {}, {}
        self.public_key = ""  # that of the service account

    def __call__(self, environ, start_response):
        request = Request(environ)
        with self.turn:
            status, headers, body = self.answered(request)
        if request.method == "HEAD":
            headers = [*headers, ("Content-Length", str(len(body)))] if "Content-Length" not in dict(headers) else headers
            body = b""
        elif not status.startswith("204"):
            headers = [*headers, ("Content-Length", str(len(body)))]
        start_response(status, headers)
        return [body]

    def answered(self, request):
        try:
            if request.path in ("/signers", "/reads"):
                seen = self.reads if request.path == "/reads" else {path: sorted(ids) for path, ids in self.signers.items()}
                return as_json(seen)
            if request.path == "/revoke":
                self.tokens.clear()
                return answer(204)
            if request.path == "/token":
                return self.token(request)
            if request.path.startswith("/computeMetadata/"):
                return self.instance(request)
            if self.slow_downs > 0:
                self.slow_downs -= 1
                raise Refused(503, "SlowDown", "Please reduce your request rate.")
            self.authorise(request)
            if request.method in ("PUT", "POST") and self.answers_to_lose > 0:
                self.answers_to_lose -= 1  # executed, but the answer is lost
                self.routed(request)
                return answer(500)
            return self.routed(request)
        except Refused as refusal:
            if request.path.startswith(("/storage/v1/", "/upload/", "/download/")):
                return as_json({"error": {"code": refusal.status, "message": str(refusal)}}, refusal.status)
            text = f"<?xml version='1.0'?><Error><Code>{refusal.code}</Code><Message>{escape(str(refusal))}</Message></Error>"
            return answer(refusal.status, text, [("Content-Type", "application/xml")])

    def routed(self, request):
        if request.path.startswith(("/storage/v1/", "/upload/storage/v1/", "/download/storage/v1/")):
            return self.json_interface(request)
        bucket, _, key = request.path.lstrip("/").partition("/")
        if bucket not in self.buckets:
            raise Refused(404, "NoSuchBucket", "The specified bucket does not exist.")
        if request.method == "GET":
            self.reads[request.path] = self.reads.get(request.path, 0) + 1
        return self.of_object(request, bucket, key) if key else self.of_bucket(request, bucket)

    # -- who sends a request -------------------------------------------------------------------------------------------------
    def authorise(self, request):
        kind, _, rest = request.header("Authorization").partition(" ")
        if kind == "Bearer":
            if self.tokens.get(rest, 0) < time.time() and not self.is_signed_here(rest):
                raise Refused(401, "AuthenticationRequired", "Authentication required.")
            signer = EMAIL
        elif kind in ("GOOG4-HMAC-SHA256", "AWS4-HMAC-SHA256"):
            fields = dict(field.strip().split("=", 1) for field in rest.split(","))
            signer = fields["Credential"].partition("/")[0]
            if signer not in SECRETS:
                raise Refused(403, "InvalidSecurity", "The provided security credentials are not valid.")
            if fields["Signature"] != signature(request, kind, fields):
                raise Refused(403, "SignatureDoesNotMatch", "The request signature we calculated does not match.")
            if kind.startswith("GOOG4") and any(name.startswith("HTTP_X_AMZ_") for name in request.environ):
                raise Refused(400, "ExcessHeaderValues", "x-amz- and x-goog- headers are mixed.")
        else:
            raise Refused(403, "AccessDenied", "Anonymous caller does not have storage.objects access.")
        self.signers.setdefault(request.path, set()).add(signer)
        digest = request.header("Content-MD5")
        if digest and digest != base64.b64encode(hashlib.md5(request.body).digest()).decode():
            raise Refused(400, "BadDigest", "The Content-MD5 you specified did not match what we received.")

    def is_signed_here(self, text):
        """Returns whether a bearer token is one that a service account has signed itself, as Google's C++ library does."""
        try:
            return "scope" in google.auth.jwt.decode(text, certs=self.public_key)
        except ValueError:
            return False

    def token(self, request):
        fields = dict(urllib.parse.parse_qsl(request.body.decode()))
        if request.header("Content-Type") != "application/x-www-form-urlencoded":
            return as_json({"error": "invalid_request"}, 400)
        if fields.get("grant_type") == "refresh_token":
            if (fields.get("client_id"), fields.get("refresh_token")) != ("a-client", "a-refresh-token"):
                return as_json({"error": "invalid_grant", "error_description": "Token has been revoked."}, 400)
            return as_json(self.lend())
        try:
            own = f"{request.environ['wsgi.url_scheme']}://{request.environ['HTTP_HOST']}/token"
            # Google's Python library names Google's server, wherever it sends the request.
            audience = [own, "https://oauth2.googleapis.com/token"]
            claims = google.auth.jwt.decode(fields.get("assertion", ""), certs=self.public_key, audience=audience)
        except ValueError as error:
            return as_json({"error": "invalid_grant", "error_description": f"Invalid JWT: {error}"}, 400)
        if claims["iss"] != EMAIL or "devstorage" not in claims["scope"]:
            return as_json({"error": "invalid_grant", "error_description": "Invalid grant: account not seen"}, 400)
        return as_json(self.lend())

    def lend(self):
        text = f"token-{next(self.numbers)}"
        self.tokens[text] = time.time() + self.options.lend_for
        return {"access_token": text, "expires_in": self.options.lend_for, "token_type": "Bearer"}

    def instance(self, request):
        if request.header("Metadata-Flavor") != "Google":
            return answer(403)
        status, headers, body = as_json(self.lend())
        return status, [*headers, ("Metadata-Flavor", "Google")], body

    # -- XML -----------------------------------------------------------------------------------------------------------------
    def of_bucket(self, request, bucket):
        if request.method != "GET":
            raise Refused(405, "MethodNotAllowed")
        prefix = request.query.get("prefix", "")
        if "uploads" in request.query:
            text = "".join(
                f"<Upload><Key>{escape(one['key'])}</Key><UploadId>{number}</UploadId></Upload>"
                for number, one in self.uploads.items()
                if one["bucket"] == bucket and one["key"].startswith(prefix)
            )
            return answer(200, f"<?xml version='1.0'?><ListMultipartUploadsResult>{text}</ListMultipartUploadsResult>")
        encoded = request.query.get("encoding-type") == "url"
        page, following = self.page(bucket, prefix, request.query.get("continuation-token", ""), request.query.get("max-keys"))
        text = "".join(
            f"<Contents><Key>{urllib.parse.quote(key, safe='/') if encoded else escape(key)}</Key><Generation>{one.generation}"
            f"</Generation><LastModified>2026-11-28T12:00:00.000Z</LastModified><ETag>{escape(one.etag)}</ETag><Size>"
            f"{len(one.content)}</Size></Contents>"
            for key, one in page
        )
        more = f"<NextContinuationToken>{following}</NextContinuationToken>" if following else ""
        return answer(
            200,
            f"<?xml version='1.0' encoding='UTF-8'?><ListBucketResult xmlns='http://doc.s3.amazonaws.com/2006-03-01'><Name>{bucket}"
            f"</Name><Prefix>{escape(prefix)}</Prefix>{'<EncodingType>url</EncodingType>' if encoded else ''}<IsTruncated>"
            f"{'true' if following else 'false'}</IsTruncated>{more}{text}</ListBucketResult>",
            [("Content-Type", "application/xml")],
        )

    def page(self, bucket, prefix, begin, most):
        below = sorted(key for key in self.buckets[bucket] if key.startswith(prefix))
        if begin:
            last = base64.urlsafe_b64decode(begin).decode()
            below = [key for key in below if key > last]
        size = min(int(most or self.options.page), self.options.page)
        shown = below[:size]
        following = base64.urlsafe_b64encode(shown[-1].encode()).decode() if len(below) > size else ""
        return [(key, self.buckets[bucket][key]) for key in shown], following

    def of_object(self, request, bucket, key):
        query = request.query
        if request.method == "POST" and "uploads" in query:
            number = f"upload-{next(self.numbers)}"
            self.uploads[number] = {"bucket": bucket, "key": key, "metadata": request.metadata(), "parts": {}}
            text = f"<Bucket>{bucket}</Bucket><Key>{escape(key)}</Key><UploadId>{number}</UploadId>"
            return answer(
                200,
                "<?xml version='1.0'?><InitiateMultipartUploadResult xmlns='http://s3.amazonaws.com/doc/2006-03-01/'>"
                f"{text}</InitiateMultipartUploadResult>",
            )
        if "uploadId" in query:
            return self.of_upload(request, bucket, key)
        if request.method == "PUT":
            self.check(bucket, key, request.header("x-goog-if-generation-match"))
            stored = self.store(bucket, key, request.body, request.metadata())
            return answer(200, b"", self.headers_of(stored))
        return self.read(request, bucket, key)

    def read(self, request, bucket, key):
        stored = self.buckets[bucket].get(key)
        if stored is None:
            raise Refused(404, "NoSuchKey", "The specified key does not exist.")
        if request.method == "DELETE":
            self.check(bucket, key, request.header("x-goog-if-generation-match"))
            del self.buckets[bucket][key]
            return answer(204)
        headers = [*self.headers_of(stored), ("Content-Type", "application/octet-stream"), ("Accept-Ranges", "bytes")]
        if request.method == "HEAD":
            return answer(200, b"", [*headers, ("Content-Length", str(len(stored.content)))])
        if match := re.fullmatch(r"bytes=(\d+)-(\d*)", request.header("Range")):
            begin, end = int(match[1]), min(int(match[2] or len(stored.content)), len(stored.content) - 1)
            if begin >= len(stored.content):
                raise Refused(416, "InvalidRange")
            headers.append(("Content-Range", f"bytes {begin}-{end}/{len(stored.content)}"))
            return answer(206, stored.content[begin : end + 1], headers)
        return answer(200, stored.content, headers)

    def of_upload(self, request, bucket, key):
        number = request.query["uploadId"]
        upload = self.uploads.get(number)
        if upload is None or (upload["bucket"], upload["key"]) != (bucket, key):
            raise Refused(404, "NoSuchUpload", "The requested upload was not seen.")
        if request.method == "DELETE":
            del self.uploads[number]
            return answer(204)
        if request.method == "PUT":
            upload["parts"][int(request.query["partNumber"])] = request.body
            digest = hashlib.md5(request.body)
            hashed = ("x-goog-hash", f"md5={base64.b64encode(digest.digest()).decode()}")
            return answer(200, b"", [("ETag", f'"{digest.hexdigest()}"'), hashed])
        content, parts = b"", xml.etree.ElementTree.fromstring(request.body)
        named = [({child.tag.rpartition("}")[2]: child.text for child in part}) for part in parts]
        for position, part in enumerate(named):
            sent = upload["parts"].get(int(part["PartNumber"]))
            if sent is None or part["ETag"].strip('"') != hashlib.md5(sent).hexdigest():
                raise Refused(400, "InvalidPart")
            if position < len(named) - 1 and len(sent) < 5 << 20:
                raise Refused(400, "EntityTooSmall", "Your proposed upload is smaller than the minimum allowed size.")
            content += sent
        del self.uploads[number]
        stored = self.store(bucket, key, content, upload["metadata"], in_parts=True)
        text = f"<Bucket>{bucket}</Bucket><Key>{escape(key)}</Key><ETag>{escape(stored.etag)}</ETag>"
        return answer(200, f"<?xml version='1.0'?><CompleteMultipartUploadResult>{text}</CompleteMultipartUploadResult>")

    def check(self, bucket, key, generation):
        """Refuses unless the object has the generation; 0 is that of no object."""
        there = self.buckets[bucket].get(key)
        if generation and not self.options.ignore_conditions and int(generation) != (there.generation if there else 0):
            raise Refused(412, "PreconditionFailed", "At least one of the pre-conditions you specified did not hold.")

    def store(self, bucket, key, content, metadata, *, in_parts=False):
        stored = Stored(content, next(self.generations), metadata, in_parts=in_parts)
        self.buckets[bucket][key] = stored
        return stored

    def headers_of(self, stored):
        own = [(f"x-goog-meta-{name}", value) for name, value in stored.metadata.items()]
        digest = base64.b64encode(hashlib.md5(stored.content).digest()).decode()
        return [
            ("ETag", stored.etag),
            ("x-goog-generation", str(stored.generation)),
            ("x-goog-metageneration", "1"),
            ("x-goog-stored-content-length", str(len(stored.content))),
            ("x-goog-hash", f"md5={digest}"),
            ("Last-Modified", "Sat, 28 Nov 2026 12:00:00 GMT"),
            *own,
        ]

    # -- JSON ----------------------------------------------------------------------------------------------------------------
    def json_interface(self, request):
        path = request.raw_path.removeprefix("/upload").removeprefix("/download").removeprefix("/storage/v1/b")
        bucket, _, rest = path.lstrip("/").partition("/")
        bucket = urllib.parse.unquote(bucket)
        if bucket not in self.buckets:
            raise Refused(404, "NoSuchBucket", "The specified bucket does not exist.")
        if not rest:
            return as_json({"kind": "storage#bucket", "name": bucket, "id": bucket, "location": "US", "storageClass": "STANDARD"})
        if rest == "o":
            return self.json_listing(request, bucket) if request.method == "GET" else self.json_upload(request, bucket)
        key = urllib.parse.unquote(rest.removeprefix("o/"))
        if request.query.get("alt") == "media":
            return self.read(request, bucket, key)
        stored = self.buckets[bucket].get(key)
        if stored is None:
            raise Refused(404, "NoSuchKey", f"No such object: {bucket}/{key}")
        if request.method == "DELETE":
            self.check(bucket, key, request.query.get("ifGenerationMatch"))
            del self.buckets[bucket][key]
            return answer(204)
        return as_json(resource(bucket, key, stored))

    def json_listing(self, request, bucket):
        prefix, delimiter = request.query.get("prefix", ""), request.query.get("delimiter")
        page, following = self.page(bucket, prefix, request.query.get("pageToken", ""), request.query.get("maxResults"))
        items, prefixes = [], []
        for key, stored in page:
            rest = key.removeprefix(prefix)
            if delimiter and delimiter in rest:
                prefixes.append(prefix + rest.partition(delimiter)[0] + delimiter)
            else:
                items.append(resource(bucket, key, stored))
        more = {"nextPageToken": following} if following else {}
        return as_json({"kind": "storage#objects", "items": items, "prefixes": sorted(set(prefixes)), **more})

    def json_upload(self, request, bucket):
        kind = request.query.get("uploadType")
        generation = request.query.get("ifGenerationMatch")
        if kind == "resumable":
            return self.json_session(request, bucket, generation)
        if kind == "multipart":
            boundary = re.search("boundary=[\"']?([^\"';]+)", request.header("Content-Type"))[1]
            sections = request.body.split(b"--" + boundary.encode())[1:3]
            described, content = (section.partition(b"\r\n\r\n")[2].removesuffix(b"\r\n") for section in sections)
            about = json.loads(described)
        else:
            about, content = {}, request.body
        key = request.query.get("name") or about["name"]
        self.check(bucket, key, generation)
        return as_json(resource(bucket, key, self.store(bucket, key, content, about.get("metadata") or {})))

    def json_session(self, request, bucket, generation):
        number = request.query.get("upload_id")
        if number is None:
            about = json.loads(request.body or b"{}")
            key = request.query.get("name") or about["name"]
            number = f"session-{next(self.numbers)}"
            self.sessions[number] = {"key": key, "metadata": about.get("metadata") or {}, "generation": generation, "bytes": b""}
            place = f"{request.environ['wsgi.url_scheme']}://{request.environ['HTTP_HOST']}{request.raw_path}"
            return answer(
                200, b"", [("Location", f"{place}?uploadType=resumable&upload_id={number}"), ("X-GUploader-UploadID", number)]
            )
        session = self.sessions[number]
        session["bytes"] += request.body
        held = len(session["bytes"])
        total = request.header("Content-Range").rpartition("/")[2]
        if total in ("*", "") and request.header("Content-Range") or total.isdigit() and int(total) > held:
            return answer(308, b"", [("Range", f"bytes=0-{held - 1}")] if held else [])
        self.check(bucket, session["key"], session["generation"])
        stored = self.store(bucket, session["key"], session["bytes"], session["metadata"])
        return as_json(resource(bucket, session["key"], stored))


def resource(bucket, key, stored):
    when = "2026-11-28T12:00:00.000Z"
    return {
        "kind": "storage#object", "id": f"{bucket}/{key}/{stored.generation}", "name": key, "bucket": bucket,
        "generation": str(stored.generation), "metageneration": "1", "size": str(len(stored.content)), "etag": stored.etag.strip('"'),
        "md5Hash": base64.b64encode(hashlib.md5(stored.content).digest()).decode(), "metadata": stored.metadata,
        "contentType": "application/octet-stream", "timeCreated": when, "updated": when, "storageClass": "STANDARD",
    }  # fmt: skip


def signature(request, kind, fields):
    """Returns the signature that botocore computes for the received request."""
    names = fields["SignedHeaders"].split(";")
    headers = {name: request.header(name) for name in names}
    region, service = fields["Credential"].split("/")[2:4]
    copy = AWSRequest(
        method=request.method, url=f"{request.environ['wsgi.url_scheme']}://{request.environ['HTTP_HOST']}{request.raw_path}",
        headers=headers, params=request.query,
    )  # fmt: skip
    prefix = "x-goog-" if kind.startswith("GOOG4") else "x-amz-"
    copy.context["timestamp"] = headers[prefix + "date"]
    key_id = fields["Credential"].partition("/")[0]
    signer = (Google4 if kind.startswith("GOOG4") else S3SigV4Auth)(Credentials(key_id, SECRETS[key_id]), service, region)
    if prefix == "x-goog-":  # botocore reads the body's hash under Amazon's name, which the canonical text does not contain
        signer.payload = lambda _: headers["x-goog-content-sha256"]
        canonical = signer.canonical_request(copy)
        canonical = canonical[: canonical.rindex("\n") + 1] + headers["x-goog-content-sha256"]
    else:
        canonical = signer.canonical_request(copy)
    return signer.signature(signer.string_to_sign(copy, canonical), copy)


def make_account(path, place):
    """Writes the key of a service account as Google's console does, or reads it from the file. Returns the public key."""
    if os.path.exists(path):
        with open(path, encoding="utf-8") as file:
            key = serialization.load_pem_private_key(json.load(file)["private_key"].encode(), None)
    else:
        key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
        own = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
        account = {"type": "service_account", "client_email": EMAIL, "private_key_id": "1", "private_key": own.decode(),
                   "token_uri": f"{place}/token", "project_id": "rtrain-tests"}  # fmt: skip
        with open(path, "w", encoding="utf-8") as file:
            json.dump(account, file)
    return key.public_key().public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)


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
    parser.add_argument("--key-file")
    options = parser.parse_args()
    tls = tuple(options.tls) if options.tls else None
    app = Server(options)
    server = make_server("127.0.0.1", options.port, app, threaded=True, request_handler=Quiet, ssl_context=tls)
    server.daemon_threads = True
    if options.key_file:
        app.public_key = make_account(options.key_file, f"http://127.0.0.1:{server.server_port}")
    print(server.server_port, flush=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    sys.stdin.read()


if __name__ == "__main__":
    main()
