"""`--pack`: writes an archive for a machine that has only a driver and a PyTorch with CUDA. Its `scripts/gpu-check` runs
without an installation.
"""

import importlib.metadata
import pathlib
import shutil
import subprocess
import sys
import tarfile
import tempfile

from local_cluster import ROOT, RTRAIN

FOLDER = "rtrain-gpu-check"
MOST_BYTES = 64 << 20
_FILES = (
    "LICENSE", "scripts/gpu-check", "scripts/gpu_check/**/*.py", "scripts/local_cluster.py", "scripts/benchmarks/__init__.py", "scripts/benchmarks/first_step.py",
    "tests/bench/jobs/first_step.py", "tests/gpu/jobs/*", "tests/gpu/stand_in/*", "runtime/python/rtrain/**/*.py",
    "runtime/torch/**/*.[ch]pp", "runtime/torch/*_names/**/*.h", "runtime/worker/rtrain.hpp", "runtime/worker/rtrain_worker.h",
)  # fmt: skip
_BUILT = ("rtrain", "librtrain_worker.so")
# the package's requirements that PyTorch does not have, with the oldest usable release
_CARRIED = {"cloudpickle": (2, 2), "pyyaml": (6, 0)}


def files():
    """Yields (file, its name in the archive) of the sources. Raises FileNotFoundError for a pattern without files."""
    for pattern in _FILES:
        paths = [path for path in sorted(ROOT.glob(pattern)) if path.is_file() and "__pycache__" not in path.parts]
        if not paths:
            raise FileNotFoundError(f"{ROOT / pattern} is not there")
        for path in paths:
            yield path, path.relative_to(ROOT)


def installed(package, oldest):
    """Returns the package as scripts/bootstrap or else this interpreter has it. Returns None if neither has a release from
    `oldest` on."""
    for path in ([*map(str, ROOT.glob(".venv/lib/python3.*/site-packages"))], sys.path):
        for distribution in importlib.metadata.distributions(name=package, path=path):
            numbers = [int(part) for part in distribution.version.split(".")[:2] if part.isdigit()]
            if tuple(numbers) >= oldest:
                return distribution
    return None


def carried():
    """Yields the same for packages that work as pure Python, with their licences. Raises an error that names a missing
    package.
    """
    for package, oldest in _CARRIED.items():
        distribution = installed(package, oldest)
        if distribution is None:
            wanted = f"{package} of release {'.'.join(map(str, oldest))} or newer"
            print(f"{wanted} is not installed: rows that need it will be skipped there", file=sys.stderr)
            continue
        for name in distribution.files or ():
            path = pathlib.Path(str(distribution.locate_file(name)))
            if path.is_file() and ".." not in name.parts and path.suffix != ".pyc":
                yield path, pathlib.Path("carried", name)


def stripped(folder):
    """Yields the same for the program and the library, without symbols if `strip` exists."""
    for name in _BUILT:
        source, target = pathlib.Path(RTRAIN).resolve().parent / name, folder / name
        if shutil.which("strip"):
            subprocess.run(["strip", "--strip-unneeded", "-o", target, source], check=True)
        else:
            shutil.copy2(source, target)
        target.chmod(0o755)
        yield target, pathlib.Path("build", "release", name)


def pack(to):
    """Writes the archive and prints its size. Returns 1 if a file is missing or the archive is too large."""
    try:
        with tempfile.TemporaryDirectory(prefix="rtrain-gpu-pack-") as folder, tarfile.open(to, "w:gz") as archive:
            for path, name in (*files(), *carried(), *stripped(pathlib.Path(folder))):
                archive.add(path, pathlib.Path(FOLDER, name).as_posix())
    except (OSError, subprocess.CalledProcessError) as error:
        print(f"scripts/gpu-check --pack: {error}", file=sys.stderr)
        return 1
    size = to.stat().st_size
    print(f"{to}: {size / (1 << 20):.1f} MiB; tar xf it, then {FOLDER}/scripts/gpu-check with the Python that has PyTorch")
    if size > MOST_BYTES:
        print(f"that is more than {MOST_BYTES >> 20} MiB", file=sys.stderr)
        return 1
    return 0
