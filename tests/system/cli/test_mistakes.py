"""Mistakes of users and the messages that follow, as tests/transcripts/mistakes has them. RTRAIN_REWRITE=1 renews the answers."""

import contextlib
import os
import pathlib
import re
import socket
import subprocess
import threading

import pytest
from local_cluster import ROOT, LocalCluster

FOLDER = ROOT / "tests" / "transcripts" / "mistakes"
# Patterns of text that differs from run to run, and their replacements.
CHANGING = (
    (r"\([0-9a-f]{6}-\d+\)", "(ID)"),
    (r"\b(job|train|rtrain_run)-[a-z0-9]{5}\b", r"\1-xxxxx"),
    (r"\brtrain_run-\d{4}\S+?-[a-z0-9]{4}\b", "rtrain_run-xxxxx"),
    (r"\bQUEUED \d+s", "QUEUED 0s"),
    (r"\bpid \d+", "pid PID"),
    (r"\b(with|has|memory=) ?\d{9,}\b", r"\1 BYTES"),
    (r"attempts/\d+-\d+", "attempts/N-N"),
    (r"\.\.\. \d+ frames? of libraries", "... frames of libraries"),
    (r"\b[0-9a-f]{16}-\d+", "RUN-ID"),
    (r"\b[0-9a-f]{64}\b", "SHA256"),
    (r"127\.0\.0\.1:(?!1\b)\d+", "HEAD"),
    (r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d\S*", "TIME"),
    (r"\brt[nkuv]1\.\S+", "TOKEN"),
)


def cases_of(text):
    """Yields (title, files, lines) for each "## title" of a transcript."""
    for part in re.split(r"^## ", text, flags=re.M)[1:]:
        title, _, body = part.partition("\n")
        files = dict(re.findall(r"^= (\S+)\n(.*?)^=$", body, flags=re.M | re.S))
        commands = re.findall(r"^\$ (.+)$", re.sub(r"^= \S+\n.*?^=$", "", body, flags=re.M | re.S), flags=re.M)
        yield title, files, commands


@contextlib.contextmanager
def plain_server():
    """Yields the address of a server that answers every connection with a line that is no TLS."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve():
            with contextlib.suppress(OSError):
                while True:
                    connection, _ = server.accept()
                    with connection:
                        connection.sendall(b"220 mail.example.org ESMTP\r\n")

        threading.Thread(target=serve, daemon=True).start()
        yield f"127.0.0.1:{server.getsockname()[1]}"
        server.shutdown(socket.SHUT_RDWR)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    made = LocalCluster(tmp_path_factory.mktemp("mistakes") / "c", nodes=1, resources="CPU=2")
    yield made
    made.stop()


def without_library_frames(text):
    """Returns the text with the last of chained tracebacks, and in that only the frames of the user's own files (DIR)."""
    text = re.sub(
        r"^Traceback .*?^The above exception was the direct cause of the following exception:\n\n", "", text, flags=re.M | re.S
    )
    return re.sub(
        r'^(\(rank \d+, \S+\) )? *File "(?!DIR/|train\.py).*\n((\(rank \d+, \S+\) )? {4,}(?!File ").*\n)*', "", text, flags=re.M
    )


def answer(command, folder, cluster, env):
    done = subprocess.run(["bash", "-c", command], cwd=folder, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, timeout=120)  # fmt: skip
    text = done.stdout.replace(str(folder), "DIR").replace(str(cluster.folder), "CLUSTER")
    for pattern, name in CHANGING:
        text = re.sub(pattern, name, text)
    lines = [line.rstrip() for line in without_library_frames(text).splitlines()]
    return "\n".join([*lines, *([f"[exit {done.returncode}]"] if done.returncode else [])]) + "\n"


def renewed(transcript, folder, cluster, server):
    head, *_ = transcript.partition("## ")
    env = {**cluster.env, "HEAD": cluster.head_address(), "OTHER_SERVER": server, "PYTHONDONTWRITEBYTECODE": "1"}
    env["PATH"] = f"{cluster.program.parent}:{env['PATH']}"
    parts = [head.rstrip("\n") + "\n"]
    for number, (title, files, commands) in enumerate(cases_of(transcript)):
        place = folder / str(number)
        place.mkdir()
        parts.append(f"\n## {title}\n")
        for name, text in files.items():
            (place / name).write_text(text)
            parts.append(f"= {name}\n{text}=\n")
        for command in commands:
            parts.append(f"$ {command}\n{answer(command, place, cluster, env)}")
    return "".join(parts)


@pytest.mark.parametrize("file", sorted(FOLDER.glob("*.txt")), ids=lambda file: file.stem)
def test_the_messages_after_mistakes_are_those_of_the_transcript(cluster, tmp_path, file):
    expected = file.read_text()
    with plain_server() as server:
        got = renewed(expected, tmp_path, cluster, server)
    if os.environ.get("RTRAIN_REWRITE"):
        file.write_text(got)
    assert got == (got if os.environ.get("RTRAIN_REWRITE") else expected)


def test_at_least_forty_mistakes_have_a_message():
    titles = [title for file in FOLDER.glob("*.txt") for title, _, _ in cases_of(pathlib.Path(file).read_text())]
    assert len(titles) == len(set(titles)) >= 40
