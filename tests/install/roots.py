"""A new Debian in a folder, made by debootstrap, and commands that run in it with separate processes and mounts, which end
with the command. It uses this machine's sources of Debian and Python packages.
"""

import ast
import hashlib
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import urllib.error
import urllib.parse
import urllib.request

PACKAGES = ("python3", "python3-venv", "ca-certificates")
KEPT = pathlib.Path(os.environ.get("XDG_CACHE_HOME", pathlib.Path.home() / ".cache")) / "rtrain-roots"


def hindrance():
    """Returns why no such folder can be made here; empty if one can."""
    if os.geteuid() != 0 or shutil.which("debootstrap") is None:
        return "needs root and debootstrap"
    try:
        with urllib.request.urlopen(f"{mirror().rstrip('/')}/dists/", timeout=20):
            return ""
    except urllib.error.HTTPError:
        return ""  # the mirror answers
    except (OSError, ValueError, AssertionError) as error:
        return f"the mirror of apt's sources does not answer: {error}"


def run(*command, **options):
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, **options)
    if done.returncode != 0:
        raise AssertionError(
            f"{shlex.join(map(str, command))} ended with {done.returncode}:\n{done.stdout[-6000:]}{done.stderr[-6000:]}"
        )
    return done.stdout


def mirror():
    """Returns the Debian mirror of apt: that of the first source with a release's own suite."""
    listed = run("apt-get", "indextargets", "--format", "$(SITE) $(SUITE) $(COMPONENT) $(CREATED_BY)")
    for site, suite, component, kind in (line.split(" ", 3) for line in listed.splitlines()):
        if component == "main" and kind == "Packages" and re.fullmatch("[a-z]+", suite):
            return site
    raise AssertionError("apt has no source of a Debian release")


def pip_settings():
    """Returns {name: value} of pip's settings here from all files and variables. Later ones win, as in pip."""
    listed = run(pathlib.Path(__file__).parents[2] / ".venv" / "bin" / "python", "-m", "pip", "config", "list")
    settings = [line.partition("=") for line in listed.splitlines()]
    order = sorted(settings, key=lambda one: one[0].startswith(":env:"))
    return {name.rpartition(".")[2]: ast.literal_eval(value) for name, _, value in order}


def folders_of_pip(settings):
    """Returns the paths that these settings name on this machine: folders of packages, and files such as a certificate."""
    words = [word.removeprefix("file://") for value in settings.values() for word in str(value).split()]
    folders = {pathlib.Path(urllib.parse.unquote(word)) for word in words if word.startswith("/")}
    folders = {
        path.parents[-3] if path.is_dir() and len(path.parts) > 3 else path for path in folders
    }  # the files of an index are beside it
    return sorted(path for path in folders if path.exists())


class Root:
    """A Debian of `suite` in `folder`."""

    def __init__(self, folder, suite):
        self.folder = pathlib.Path(folder)
        self.suite = suite
        self.settings = pip_settings()
        archive = kept_archive(suite, self.folder.parent)
        self.folder.mkdir()
        run("tar", "-xf", archive, "-C", self.folder, "--numeric-owner")
        for name in ("resolv.conf", "hosts"):
            shutil.copy(f"/etc/{name}", self.folder / "etc" / name)
        pip = "".join(f"{name} = {' '.join(str(value).split())}\n" for name, value in self.settings.items())
        (self.folder / "etc" / "pip.conf").write_text(f"[global]\n{pip}")
        self.shared = folders_of_pip(self.settings)
        cache = run(pathlib.Path(__file__).parents[2] / ".venv" / "bin" / "python", "-m", "pip", "cache", "dir").strip()
        self.cache = pathlib.Path(cache)
        self.cache.mkdir(parents=True, exist_ok=True)

    def put(self, source, inside):
        to = self.folder / inside.lstrip("/")
        to.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(source, to)

    def mounts(self):
        """Yields shell lines that mount the devices, the processes and pip's folders inside."""
        yield f"mount --rbind /dev {quoted(self.folder / 'dev')}"
        yield f"mount -t proc proc {quoted(self.folder / 'proc')}"
        for outside, inside in ((self.cache, pathlib.Path("/root/.cache/pip")), *((path, path) for path in self.shared)):
            place = self.folder / str(inside).lstrip("/")
            if outside.is_dir():
                yield f"mkdir -p {quoted(place)} && mount --bind {quoted(outside)} {quoted(place)}"
                if outside != self.cache:
                    yield f"mount -o remount,bind,ro {quoted(place)}"
            else:
                yield f"mkdir -p {quoted(place.parent)} && cp {quoted(outside)} {quoted(place)}"

    def run(self, script):
        """Returns the standard output of a shell script inside. Raises AssertionError with its output if it fails."""
        variables = " ".join(f"{name}={quoted(value)}" for name, value in os.environ.items() if name.lower().endswith("_proxy"))
        inside = f"env -i HOME=/root LANG=C.UTF-8 PATH=/opt/venv/bin:/usr/sbin:/usr/bin:/sbin:/bin {variables} sh -euc {quoted(script)}"
        lines = [*self.mounts(), f"exec chroot {quoted(self.folder)} {inside}"]
        return run(
            "unshare", "--mount", "--pid", "--fork", "--kill-child", "--propagation", "private", "sh", "-euc", "\n".join(lines)
        )


def quoted(text):
    return shlex.quote(str(text))


def kept_archive(suite, scratch):
    """Returns a tar file of the new Debian, which later runs reuse."""
    name = hashlib.sha256(" ".join((suite, *PACKAGES)).encode()).hexdigest()[:12]
    archive = KEPT / f"{suite}-{name}.tar"
    if not archive.exists():
        KEPT.mkdir(parents=True, exist_ok=True)
        made = scratch / f"debootstrap-{suite}"
        run("debootstrap", "--variant=minbase", f"--include={','.join(PACKAGES)}", suite, made, mirror())
        run("chroot", made, "apt-get", "clean")
        part = archive.with_suffix(f".{os.getpid()}")
        run("tar", "-cf", part, "-C", made, "--numeric-owner", ".")
        part.rename(archive)
        shutil.rmtree(made)
    return archive
