#!/usr/bin/env python3
"""Records the messages between head, agents and workers while runs train, fail, move and are asked for stacks.

usage: tests/data/make_messages.py FILE

FILE gets one JSON object a line: "between" (head_and_agent and others below), "sender", and "message" as it was on the wire. It
keeps one of the messages that have the same fields. The programs are compiled from a copy of this tree, with a line in each encoder that
writes the message down. Run the script with the last commit of a release. Keep the file as tests/data/messages-<release>.jsonl: the
tests of protocol and worker_frames decode it with every later build. The script prints the types that it recorded.
"""

import json
import os
import pathlib
import re
import socket
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
ENCODERS = {  # the file of the encoder, and for each type that it encodes: the two parties, and the sender
    "daemon/protocol/messages.cpp": {
        "FromAgent": ("head_and_agent", "agent"),
        "FromHead": ("head_and_agent", "head"),
        "GroupMessage": ("agents", "agent"),
    },
    "runtime/worker/frames/encode.cpp": {
        "FromWorker": ("agent_and_worker", "worker"),
        "FromAgent": ("agent_and_worker", "agent"),
    },
}
HEADER = """
#include <fcntl.h>
#include <unistd.h>
#include <nlohmann/json.hpp>
namespace {
std::string written_down(std::string text, const char* between, const char* sender, std::size_t length_bytes) {
    const nlohmann::json line{{"between", between}, {"sender", sender}, {"message", text.substr(length_bytes)}};
    const std::string out = line.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\\n";
    const int file = open("RECORD", O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0666);
    if (file < 0 || write(file, out.data(), out.size()) != static_cast<ssize_t>(out.size())) abort();
    close(file);
    return text;
}
}  // namespace
"""


def with_recorders(tree, record):
    """Changes the encoders of the tree."""
    for name, types in ENCODERS.items():
        file = tree / name
        text = file.read_text()
        frame = 4 if "worker" in name else 0  # bytes of the length before each message
        for kind, (between, sender) in types.items():
            head = f"std::string encode(const {kind}& message) {{"
            if text.count(head) != 1:
                raise SystemExit(f"make_messages: {name} has no function that begins with {head!r}")
            call = f'written_down(unrecorded(message), "{between}", "{sender}", {frame})'
            text = text.replace(head, f"static std::string unrecorded(const {kind}& message) {{")
            text = text.rstrip() + f"\nnamespace {namespace_of(text)} {{ {head} return {call}; }} }}\n"
        include = text.index("#include")
        file.write_text(text[:include] + HEADER.replace("RECORD", str(record)) + text[include:])


def namespace_of(text):
    return re.search(r"^namespace ([\w:]+) \{", text, re.MULTILINE)[1]


def built(folder, record):
    """Builds a copy of this tree with recorders. Returns its build folder."""
    tree = folder / "tree"
    tree.mkdir()
    subprocess.run(["git", "checkout-index", "-a", f"--prefix={tree}/"], cwd=ROOT, check=True)
    for shared in (".venv", "daemon/dashboard/node_modules"):
        (tree / shared).symlink_to(ROOT / shared)
    with_recorders(tree, record)
    environment = {**os.environ, "CCACHE_BASEDIR": str(tree), "CCACHE_NOHASHDIR": "1"}
    torch = next(ROOT.glob(".venv/lib/python3*/site-packages/torch"))
    configure = ["cmake", "--preset", "release", "-DRTRAIN_TESTS=OFF", f"-DTORCH_ROOT={torch}"]
    for command in (configure, ["ninja", "-C", "build/release", "rtrain", "rtrain_worker"]):
        subprocess.run(command, cwd=tree, env=environment, stdout=subprocess.DEVNULL, check=True)
    return tree / "build" / "release"


def act(folder):
    """Makes a cluster send as many types of messages as is easily possible."""
    import make_state  # names the program of local_cluster

    cluster = make_state.Cluster(folder / "cluster", nodes=4, resources="CPU=16", pass_env="PYTHONPATH,ELASTIC")
    try:
        make_state.ended_runs(cluster)
        two_nodes = {"workers": 2, "placement": "STRICT_SPREAD"}
        cluster.submit("spread", "$ELASTIC 4000 0.05 10", scaling=two_nodes, checkpoint={"num_to_keep": 2})
        make_state.wait_for("checkpoints", lambda: len(cluster.json("checkpoints", "list", "spread")["items"]) > 1)
        cluster.rtrain("stack", "spread")
        cluster.rtrain("checkpoints", "ask", "spread")
        cluster.kill("node-1")
        cluster.restart("node-1")
        cluster.rtrain("stop", "spread")
        cluster.wait_state("spread", "STOPPED")
        cluster.submit("says-all", f"{sys.executable} {ROOT}/tests/data/says_all.py", scaling=two_nodes)
        cluster.wait_state("says-all", "FAILED")
        make_state.running_runs(cluster)
        cluster.rtrain("runs", "rm", "spread", "--files", "--yes")
        cluster.rtrain("node", "leave", "node-4", "--yes")
    finally:
        cluster.stop()


def shape(value):
    """Returns the names and types of a message's fields, and its type and kind."""
    if isinstance(value, dict):
        return tuple((name, value[name] if name in ("type", "kind") else shape(value[name])) for name in sorted(value))
    if isinstance(value, list):
        return tuple(sorted({repr(shape(one)) for one in value}))
    return type(value).__name__


def kept(lines, private):
    """Keeps one line of each shape. Replaces the names of this machine."""
    seen = set()
    for line in lines:
        for text, instead in private:
            line = line.replace(text, instead)
        entry = json.loads(line)
        key = (entry["between"], entry["sender"], shape(json.loads(entry["message"])))
        if key not in seen:
            seen.add(key)
            yield entry


def main(into):
    with tempfile.TemporaryDirectory(prefix="rtrain-record-") as name:
        folder = pathlib.Path(name)
        record = folder / "record"
        record.touch()
        record.chmod(0o666)
        os.environ["RTRAIN_BINARY"] = str(built(folder, record) / "rtrain")
        sys.path.insert(0, str(pathlib.Path(__file__).parent))
        act(folder)
        private = [(str(folder), "/srv/cluster"), (str(ROOT), "/srv/rtrain"), (socket.gethostname(), "machine")]
        entries = list(kept(record.read_text().splitlines(), private))
    into.write_text("".join(json.dumps(entry) + "\n" for entry in entries))
    for between in sorted({entry["between"] for entry in entries}):
        messages = [json.loads(entry["message"]) for entry in entries if entry["between"] == between]
        print(between, sorted({one.get("kind", one["type"]) for one in messages}))


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]).resolve())
