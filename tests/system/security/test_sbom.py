"""Tests that the software bill of materials has the fields that readers of CycloneDX expect, and lists everything that is
linked.
"""

import json
import pathlib
import re
import subprocess
import sys

import jsonschema
import pytest
from local_cluster import ROOT, RTRAIN

COMPONENT = {
    "type": "object",
    "required": ["type", "bom-ref", "name", "version", "purl", "licenses", "hashes"],
    "properties": {
        "type": {"enum": ["library"]},
        "version": {"type": "string", "minLength": 1},
        "purl": {"type": "string", "pattern": "^pkg:(deb/debian|pypi|npm)/[a-z0-9.+_-]+@.+$"},
        "scope": {"enum": ["required", "optional"]},
        "licenses": {
            "type": "array",
            "minItems": 1,
            "items": {"type": "object", "required": ["license"], "properties": {"license": {"required": ["name"]}}},
        },
        "hashes": {
            "type": "array",
            "minItems": 1,
            "items": {
                "properties": {"alg": {"const": "SHA-256"}, "content": {"pattern": "^[0-9a-f]{64}$"}},
                "required": ["alg", "content"],
            },
        },
    },
}
SHAPE = {
    "type": "object",
    "required": ["bomFormat", "specVersion", "serialNumber", "version", "metadata", "components", "dependencies"],
    "properties": {
        "bomFormat": {"const": "CycloneDX"},
        "specVersion": {"const": "1.5"},
        "serialNumber": {"pattern": "^urn:uuid:[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$"},
        "components": {"type": "array", "minItems": 10, "items": COMPONENT},
    },
}


@pytest.fixture(scope="module")
def bom():
    done = subprocess.run([sys.executable, ROOT / "scripts" / "sbom"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_it_has_the_shape_of_cyclonedx_and_no_component_twice(bom):
    jsonschema.validate(bom, SHAPE)
    references = [one["bom-ref"] for one in bom["components"]]
    assert len(references) == len(set(references))
    assert bom["dependencies"] == [{"ref": "rtrain", "dependsOn": references}]


def test_it_has_what_is_linked_loaded_and_required(bom):
    versions = {one["name"]: one["version"] for one in bom["components"]}
    static = {
        "libssl-dev",
        "libsqlite3-dev",
        "libboost-program-options1.81-dev",
        "libyaml-cpp-dev",
        "prometheus-cpp-dev",
        "libpugixml-dev",
        "libzstd-dev",
        "libarchive-dev",
        "libacl1-dev",
        "libhwloc-dev",
    }
    headers = {"libboost1.81-dev", "nlohmann-json3-dev"}
    loaded = {"libc6", "libstdc++6"}
    assert static | headers | loaded | {"cloudpickle"} <= set(versions)
    for name in static | loaded:
        asked = subprocess.run(["dpkg-query", "-W", "-f", "${Version}\n", name], capture_output=True, text=True)
        assert versions[name] in asked.stdout.split()
    needed = re.findall(
        r"\(NEEDED\).*\[(.*)\]", subprocess.run(["readelf", "-dW", RTRAIN], capture_output=True, text=True).stdout
    )
    dynamic = [one for one in bom["components"] if "linked dynamically" in one["properties"][0]["value"]]
    assert dynamic and len(dynamic) <= len(needed)


def test_it_has_the_pages_packages_where_the_binary_has_the_page(bom):
    versions = {one["name"]: one["version"] for one in bom["components"] if one["purl"].startswith("pkg:npm/")}
    if not (pathlib.Path(RTRAIN).parent / "daemon" / "page_files.cpp").exists():
        assert versions == {}
        return
    wanted = json.loads((ROOT / "daemon" / "dashboard" / "package.json").read_text())["dependencies"]
    assert versions == wanted


def test_it_names_the_files_that_are_shipped_by_their_hash(bom):
    hashes = {one["name"]: one["hashes"][0]["content"] for one in bom["metadata"]["component"]["components"]}
    for name in ("rtrain", "librtrain_worker.so"):
        file = pathlib.Path(RTRAIN).parent / name
        assert subprocess.run(["sha256sum", file], capture_output=True, text=True).stdout.split()[0] == hashes[name]
