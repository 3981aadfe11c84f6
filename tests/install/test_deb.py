"""Checks the content of the Debian package. test_roots.py installs it."""

import pathlib

from local_cluster import ROOT
from roots import run


def test_the_debian_package_holds_program_library_header_units_and_licences(tmp_path):
    package = pathlib.Path(run(ROOT / "scripts" / "deb", "--built", tmp_path).strip().splitlines()[-1])
    content = {line.split()[5].lstrip("."): line.split()[0] for line in run("dpkg-deb", "-c", package).splitlines()}
    for name in (
        "rtrain",
        "librtrain_worker.so",
        "rtrain_worker.h",
        "rtrain-head.service",
        "rtrain-node.service",
        "LICENSE",
        "libssl-dev.txt",
    ):
        assert [path for path in content if path.endswith(f"/{name}")], (name, content)
    assert content["/usr/bin/rtrain"] == "-rwxr-xr-x" and not [
        path for path in content if not path.startswith(("/usr/", "/lib/"))
    ]
    facts = run("dpkg-deb", "-f", package, "Package", "Depends", "Maintainer", "Section")
    assert "Package: rtrain\n" in facts and "libc6 (>= 2.36)" in facts
