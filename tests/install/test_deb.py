"""Checks the content of the Debian package. test_roots.py installs it."""

import pathlib
import re

from local_cluster import ROOT
from roots import run


def package_of(folder, *flags):
    return pathlib.Path(run(ROOT / "scripts" / "deb", "--built", *flags, folder).strip().splitlines()[-1])


def needed_by(package, folder):
    """Returns the shared objects that the package's program needs, and its Depends."""
    run("dpkg-deb", "-x", package, folder)
    needed = re.findall(r"\(NEEDED\).*\[(.*)\]", run("readelf", "-dW", folder / "usr" / "bin" / "rtrain"))
    return needed, run("dpkg-deb", "-f", package, "Depends")


def test_the_debian_package_holds_program_library_header_units_and_licences(tmp_path):
    package = package_of(tmp_path)
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


def test_its_program_uses_debians_library_or_carries_it_with_any(tmp_path):
    needed, depends = needed_by(package_of(tmp_path / "12"), tmp_path / "root12")
    assert "libprometheus-cpp-core.so.1.0" in needed and "libprometheus-cpp-core1.0 (>= 1.0.1)" in depends
    needed, depends = needed_by(package_of(tmp_path / "any", "--any"), tmp_path / "any-root")
    assert not [name for name in needed if "prometheus" in name] and "prometheus" not in depends
