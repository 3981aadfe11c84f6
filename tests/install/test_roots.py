"""Tests the way from a new Debian to a trained model: `pip install`, `rtrain up`, a training, `rtrain down`. Also tests the
Debian package.
"""

import os
import pathlib
import re
import shutil
import sys
import time

import pytest
from local_cluster import ROOT
from roots import Root, hindrance, run

SUITE = os.environ.get("RTRAIN_ROOT_SUITE", "bookworm")
TRAIN = pathlib.Path(__file__).parent / "train_here.py"
# Other Python versions have no CPU build of PyTorch: the loop then trains without it.
TORCH = "torch==2.13.0" if SUITE == "bookworm" else ""


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    if why := hindrance():
        (pytest.fail if os.environ.get("RTRAIN_ROOTS") == "required" else pytest.skip)(why)
    made = Root(tmp_path_factory.mktemp("root") / SUITE, SUITE)
    yield made
    shutil.rmtree(made.folder)  # one gigabyte with PyTorch


def test_a_fresh_debian_trains_a_model(root, tmp_path):
    wheel = pathlib.Path(run(sys.executable, ROOT / "scripts" / "wheel", "--built", tmp_path).strip())
    root.put(wheel, f"/wheels/{wheel.name}")
    root.put(TRAIN, "/work/train.py")
    wanted = f"'/wheels/{wheel.name}[train]' {TORCH}" if TORCH else f"/wheels/{wheel.name}"
    root.run(f"python3 -m venv /opt/venv && pip download -q -d /wheels {wanted}")
    started = time.monotonic()
    printed = root.run(
        f"""
        pip install -q --no-index --find-links /wheels {wanted}
        cd /work
        rtrain up --resources CPU=2 >/dev/null
        rtrain submit train.py -f
        rtrain down --yes >/dev/null
        python3 -m rtrain version
        """
    )
    print(f"{SUITE}: {time.monotonic() - started:.1f} s after the downloads")  # about a minute on an idle machine
    assert re.search(r"trained with (torch|plain Python) on 2 workers: loss 0\.0", printed), printed
    assert "torch" in printed or not TORCH, printed


def test_the_debian_package_installs_and_its_program_runs(root, tmp_path):
    any_debian = () if SUITE == "bookworm" else ("--any",)
    package = pathlib.Path(run(ROOT / "scripts" / "deb", "--built", *any_debian, tmp_path).strip().splitlines()[-1])
    root.put(package, f"/packages/{package.name}")
    printed = root.run(
        f"""
        apt-get -qq update >&2
        apt-get -qq install --no-install-recommends -y /packages/{package.name} >&2
        /usr/bin/rtrain version
        test -f /lib/systemd/system/rtrain-head.service
        mkdir -p /work/deb
        printf 'version: 1\\nname: look\\nentrypoint: [sh, -c, "echo library $RTRAIN_WORKER_LIB"]\\n' > /work/deb/job.yaml
        PATH=/usr/sbin:/usr/bin:/sbin:/bin
        rtrain up --data /tmp/up --port 0 >/dev/null
        rtrain submit /work/deb/job.yaml -f
        rtrain down --data /tmp/up --yes >/dev/null
        dpkg -r rtrain >&2
        test ! -e /usr/bin/rtrain
        """
    )
    assert "library /usr/lib/librtrain_worker.so" in printed, printed
