"""Checks the content of the wheel, and that pip makes a working program of it."""

import csv
import hashlib
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import zipfile
from base64 import urlsafe_b64encode

import pytest
from local_cluster import ROOT

LARGEST = 12e6


def output(*command, **options):
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, **options)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    folder = tmp_path_factory.mktemp("wheel")
    return pathlib.Path(output(sys.executable, ROOT / "scripts" / "wheel", "--built", folder).strip())


def test_a_clone_without_the_pages_packages_says_what_to_run_first(tmp_path):
    page = tmp_path / "daemon" / "dashboard"
    page.mkdir(parents=True)
    shutil.copy(ROOT / "daemon" / "dashboard" / "package.json", page)
    (tmp_path / "scripts").mkdir()
    for name in ("wheel", "sbom"):
        shutil.copy(ROOT / "scripts" / name, tmp_path / "scripts")
    done = subprocess.run([sys.executable, tmp_path / "scripts" / "wheel"], capture_output=True, text=True)
    assert done.returncode == 1 and "next: scripts/bootstrap page, then " in done.stderr, done.stderr
    assert "Traceback" not in done.stderr and str(page / "node_modules") in done.stderr


@pytest.fixture(scope="module")
def content(wheel):
    with zipfile.ZipFile(wheel) as archive:
        return {entry.filename: archive.read(entry) for entry in archive.infolist()}


@pytest.fixture(scope="module")
def venv(wheel, tmp_path_factory):
    """Makes an environment with only the wheel. cloudpickle, which it requires, is found in this interpreter's environment."""
    folder = tmp_path_factory.mktemp("venv") / "with space"
    output(sys.executable, "-m", "venv", "--without-pip", folder)
    output(sys.executable, "-m", "pip", "--python", folder / "bin" / "python", "install", "-q", "--no-deps", wheel)
    return folder


def of_info(content, name):
    (info,) = [text for path, text in content.items() if re.fullmatch(rf"rtrain-[^/]+\.dist-info/{name}", path)]
    return info.decode()


def test_it_is_small_and_its_tag_is_proved_by_auditwheel(wheel):
    assert wheel.stat().st_size <= LARGEST
    assert wheel.name.endswith(f"-py3-none-manylinux_2_36_{os.uname().machine}.whl")
    printed = " ".join(output(sys.executable, "-m", "auditwheel", "show", wheel).split())
    assert f'following platform tag: "manylinux_2_36_{os.uname().machine}"' in printed, printed


def test_it_has_program_library_package_and_record(content):
    names = set(content)
    (program,) = [name for name in names if re.fullmatch(r"rtrain-[^/]+\.data/scripts/rtrain", name)]
    assert {"rtrain/_lib/librtrain_worker.so", "rtrain/__main__.py", "rtrain/py.typed", "rtrain/train/__init__.py"} <= names
    for name in (program, "rtrain/_lib/librtrain_worker.so"):
        assert content[name].startswith(b"\x7fELF") and b".debug_info" not in content[name] and b".symtab" not in content[name]
    assert not [name for name in names if "__pycache__" in name or name.endswith((".pyc", ".egg-info"))]
    rows = {row[0]: row for row in csv.reader(of_info(content, "RECORD").splitlines())}
    assert set(rows) == names
    for name, text in content.items():
        if not name.endswith("/RECORD"):
            digest = urlsafe_b64encode(hashlib.sha256(text).digest()).rstrip(b"=").decode()
            assert rows[name][1:] == [f"sha256={digest}", str(len(text))]


def test_every_module_of_the_package_is_in_it(content):
    package = ROOT / "runtime" / "python"
    files = {path.relative_to(package).as_posix() for path in (package / "rtrain").rglob("*.py")}
    assert files == {name for name in content if name.endswith(".py")}


def test_it_says_what_else_to_install(content):
    facts = of_info(content, "METADATA")
    for extra in ("train", "data", "tune", "all"):
        assert f"Provides-Extra: {extra}\n" in facts
    assert re.search(r'^Requires-Dist: torch>=2\.4; extra == "train"$', facts, re.M)
    assert "Root-Is-Purelib: false" in of_info(content, "WHEEL")


def test_it_has_the_licences_of_all_that_is_linked_in(content):
    folder = "dist-info/licenses/"
    texts = {name.partition(folder)[2]: text.decode() for name, text in content.items() if folder in name}
    assert texts["LICENSE"] == (ROOT / "LICENSE").read_text()
    bom = json.loads(of_info(content, "sboms/rtrain.cdx.json"))
    parts = [one["name"] for one in bom["components"] if re.search("statically|headers", one["properties"][0]["value"])]
    assert {"libssl-dev", "libsqlite3-dev", "libboost1.81-dev", "libboost-program-options1.81-dev", "prometheus-cpp-dev"} <= set(
        parts
    )
    for part in parts:
        other = re.fullmatch(r"The licences of \S+ are in (\S+)\.txt\.\n", texts[f"{part}.txt"])
        assert len(texts[f"{other[1] if other else part}.txt"]) > 300, part
    assert "GNU LESSER GENERAL PUBLIC LICENSE" in texts["common-LGPL-2.1.txt"].upper()  # libacl's text refers to it


def test_the_program_is_started_as_it_is_and_by_python_m(venv):
    program = venv / "bin" / "rtrain"
    assert program.read_bytes()[:4] == b"\x7fELF"  # an executable, not a script
    printed = output(program, "version")
    env = {"PATH": "/usr/bin:/bin", "HOME": str(venv)}
    assert output(venv / "bin" / "python", "-m", "rtrain", "version", env=env) == printed
    wrong = subprocess.run([venv / "bin" / "python", "-m", "rtrain", "runs", "--nope"], env=env, capture_output=True, text=True)
    assert wrong.returncode == 2 and "--nope" in wrong.stderr
    assert output(venv / "bin" / "python", "-c", "import rtrain; print(rtrain.__version__)", env=env).strip() in printed


def test_the_agent_finds_the_workers_library_of_the_wheel(venv, tmp_path):
    env = {"PATH": f"{venv}/bin:/usr/bin:/bin", "HOME": str(tmp_path), "XDG_DATA_HOME": str(tmp_path)}
    job = tmp_path / "job.yaml"
    job.write_text('version: 1\nname: look\nentrypoint: [sh, -c, "echo library $RTRAIN_WORKER_LIB"]\n')
    output(venv / "bin" / "rtrain", "up", "--port", "0", "--data", tmp_path / "up", env=env)
    try:
        printed = output(venv / "bin" / "rtrain", "submit", job, "-f", env=env)
    finally:
        output(venv / "bin" / "rtrain", "down", "--data", tmp_path / "up", "--yes", env=env)
    (library,) = re.findall(r"library (.*)", printed)
    assert pathlib.Path(library.strip()).resolve() == next(venv.resolve().rglob("librtrain_worker.so")), printed
