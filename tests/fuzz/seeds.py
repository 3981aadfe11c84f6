"""Writes the first inputs of each fuzz target: whole and sound things, which the fuzzer then breaks. usage: seeds.py FOLDER"""

import io
import json
import pathlib
import struct
import subprocess
import sys
import tarfile

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
ATTEMPT = {"run": 7, "incarnation": 1, "number": 2}


def http():
    requests = [
        b"GET /v1/runs/a%20b/logs?follow=true&tail=10 HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer rtu1.a.b\r\n\r\n",
        b'POST /v1/runs HTTP/1.1\r\nHost: h\r\nContent-Length: 11\r\nExpect: 100-continue\r\n\r\n{"job":null}',
        b"PUT /v1/storage/a/b?upload=u&offset=0&total=3 HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n3;x=y\r\nabc\r\n0\r\nT: v\r\n\r\n",
        b"GET /v1/agents HTTP/1.1\r\nUpgrade: websocket\r\nConnection: upgrade\r\nSec-WebSocket-Key: a\r\n\r\n",
        b"GET /v1/storage/%2e%2e%2fca.key HTTP/1.0\r\n\r\n",
    ]
    answers = [
        b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}",
        b"HTTP/1.1 204 No Content\r\n\r\n",
        b"HTTP/1.0 200 OK\r\n\r\nuntil the end",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n0\r\n\r\n",
    ]
    yield from (bytes([index * 3]) + text for index, text in enumerate(requests))
    yield from (bytes([index * 3 + 1]) + text for index, text in enumerate(answers))
    yield b"\x00/v1/storage/a/../b?x=%zz&&="


def ws_frame(opcode, payload, last=True):
    mask = b"\x01\x02\x03\x04"
    masked = bytes(byte ^ mask[index % 4] for index, byte in enumerate(payload))
    length = bytes([0x80 | len(payload)]) if len(payload) < 126 else b"\xfe" + struct.pack(">H", len(payload))
    return bytes([(0x80 if last else 0) | opcode]) + length + mask + masked


def agent_messages():
    yield {"type": "hello", "protocol": 1, "min_protocol": 1, "node": "n1", "program_version": "0.1.0", "boot_id": "b"}
    yield {
        "type": "register",
        "address": "127.0.0.1",
        "port": 7434,
        "labels": {"a": "b"},
        "total": {"CPU": 10000},
        "next_news": 1,
    }
    yield {"type": "heartbeat", "gpus": [], "cpu": 0.5}
    yield {"type": "news", "seq": 1, "news": {"kind": "started", "attempt": ATTEMPT}}
    yield {"type": "log", "attempt": ATTEMPT, "rank": 0, "stream": "out", "offset": 0, "data": "aGk=", "last": False}


def head_messages():
    yield {"type": "welcome", "protocol": 1, "cluster_id": "c", "heartbeat_ms": 1000, "node_timeout_ms": 10000, "news_seen": 3}
    yield {"type": "refuse", "message": "m", "next": "n", "left": True}
    yield {"type": "launch", "attempt": ATTEMPT, "from": ""}
    yield {"type": "stop", "attempt": ATTEMPT, "grace_ms": 10000}
    yield {"type": "revoked", "serials": ["00ff"]}


def websocket():
    for message in agent_messages():
        text = json.dumps(message).encode()
        yield ws_frame(2, text)
        yield ws_frame(1, text[:9], last=False) + ws_frame(9, b"ping") + ws_frame(0, text[9:]) + ws_frame(8, b"\x03\xe8bye")


def messages():
    yield from (b"\x00" + json.dumps(message).encode() for message in agent_messages())
    yield from (b"\x01" + json.dumps(message).encode() for message in head_messages())
    yield b"\x02" + json.dumps({"seq": 1, "kind": "started", "attempt": ATTEMPT}).encode()


def worker_frames():
    bodies = [
        {
            "type": "hello",
            "protocol": 1,
            "min_protocol": 1,
            "attempt": "ab-7-a3",
            "rank": 0,
            "pid": 1,
            "key": "k",
            "next_index": 1,
        },
        {"type": "stage"},
        {
            "type": "report",
            "index": 1,
            "metrics": {"loss": 0.5},
            "checkpoint": {"path": "/s/1", "directory_name": "best"},
            "upload": "sync",
        },
        {"type": "broadcast", "index": 1, "data": "aGVsbG8="},
        {"type": "pulse", "silent_ms": 1, "cpu_ms": 2, "data_wait_ms": 3},
        {"type": "fail", "text": "why"},
        {"type": "welcome", "protocol": 1, "context": {"rank": 0}, "checkpoint": None},
        {"type": "wanted", "what": 1, "reason": "drain", "deadline_wall_ms": 1},
    ]
    for index, body in enumerate(bodies):
        text = json.dumps(body).encode()
        yield bytes([index]) + struct.pack(">I", len(text)) + text


def report_memory():
    step = lambda choice, place, what: bytes([choice]) + struct.pack("<H", place) + bytes([len(what)]) + what  # noqa: E731
    yield b"\x00" + step(0, 24, struct.pack("<Q", 1)) + step(36, 0, b"")
    yield b"\x01" + b"".join(step(60, place, b"\xff" * 16) for place in (0, 8, 24, 32, 40, 56))
    yield b"\x01" + step(52, 16, struct.pack("<QQ", 2**64 - 1, 3)) + step(47, 40, struct.pack("<QI", 1, 5))


def yaml():
    for file in sorted([*ROOT.glob("examples/*/*.yaml"), ROOT / "configs" / "queues.yaml"]):
        yield b"\x06" + file.read_bytes()[:3000]
    yield b"\x01scaling.workers=2..8\nversion: 1\nname: a\nentrypoint: [python, train.py]\n"
    yield b"\x00version: 1\nentrypoint: |\n  echo ${HOME:-x} $$\nenv: {A: '1', B: ~}\nscaling: {workers: 0x10, resources_per_worker: {GPU: .5}}\n"
    yield b"\x07a: &x [1, *x]\n? {b: c}\n: !!str 1\n---\n...\n"


def spec_json():
    job = {
        "version": 1, "name": "a", "entrypoint": ["true"], "env": {"A": "b"}, "secrets": ["S"], "setup": "pip install x",
        "scaling": {"workers": "2..8", "grow_after": "30s", "resources_per_worker": {"CPU": 1, "memory": "2Gi"}, "label_selector": {"a": "!b"}},
        "failure": {"max_failures": 3}, "checkpoint": {"keep": 2}, "stop": {"loss": 0.1}, "after": ["b:ended"], "labels": {"k": "v"},
    }  # fmt: skip
    yield json.dumps(job).encode()
    yield json.dumps({"version": 1, "entrypoint": "echo hi", "scaling": {"workers": 1}}).encode()
    yield from (
        json.dumps({"version": 1, "name": "a", "entrypoint": ["x"], key: value}).encode()
        for key, value in job.items()
        if key != "version"
    )


def archive():
    def tar(*members):
        out = io.BytesIO()
        with tarfile.open(fileobj=out, mode="w", format=tarfile.PAX_FORMAT) as file:
            for name, kind, target in members:
                info = tarfile.TarInfo(name)
                info.type, info.linkname = kind, target
                info.size = 3 if kind == tarfile.REGTYPE else 0
                file.addfile(info, io.BytesIO(b"abc"))
        return out.getvalue().rstrip(b"\0") + b"\0" * 1024

    link, file, folder = tarfile.SYMTYPE, tarfile.REGTYPE, tarfile.DIRTYPE
    plain = tar(("a.py", file, ""), ("d", folder, ""), ("d/" + "x" * 120, file, ""), ("l", link, "d"))
    yield plain
    yield subprocess.run(["zstd", "-q", "-c"], input=plain, check=True, capture_output=True).stdout
    yield tar(("d/a", link, ".."), ("b", link, "d/a/.."), ("b/x", link, "y"))
    yield tar(("../x", file, ""), ("/tmp/x", file, ""))
    yield tar(("h", tarfile.LNKTYPE, "a.py"), ("f", tarfile.FIFOTYPE, ""), ("c", tarfile.CHRTYPE, ""))


def manifest():
    files = [{"path": f"rank-{rank}/model.pt", "bytes": 4, "sha256": "0" * 64, "rank": rank} for rank in range(2)]
    whole = {"schema_version": 1, "directory": "checkpoint_000001-a001", "attempt": 1, "report": 3, "world_size": 2,
             "wall_ms": 1, "bytes": 8, "metrics": {"loss": 0.5}, "files": files}  # fmt: skip
    yield b"\x01" + json.dumps(whole).encode()
    yield b"\x01" + json.dumps({**whole, "files": [{**files[0], "path": "../x", "bytes": 2**63 - 1}] * 2}).encode()
    yield b"\x00" + json.dumps({"schema_version": 1, "number": 1, "state": "FAILED", "cause": "c", "first_failure": 0,
                               "started_wall_ms": 1, "ended_wall_ms": 2, "ranks": {"0": {"exit_code": 1, "detail": ""}}}).encode()  # fmt: skip


def s3_xml():
    yield (
        b'<?xml version="1.0"?><ListBucketResult><IsTruncated>true</IsTruncated><NextContinuationToken>t=</NextContinuationToken>'
        b"<Contents><Key>a&amp;b&#x41;&#38;</Key><Size>3</Size></Contents><Contents><Key/></Contents></ListBucketResult>"
    )
    yield b"<Error><Code>NoSuchKey</Code><Message>m</Message><Region>r</Region></Error>"
    yield b"<InitiateMultipartUploadResult><UploadId>u</UploadId></InitiateMultipartUploadResult>&#;&#x;&#xFFFFFFFFFFFF;"


def main(folder):
    for target in (http, websocket, messages, worker_frames, report_memory, yaml, spec_json, archive, manifest, s3_xml):
        place = folder / target.__name__
        place.mkdir(parents=True, exist_ok=True)
        for number, seed in enumerate(target()):
            (place / f"seed-{number:02}").write_bytes(seed)


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]))
