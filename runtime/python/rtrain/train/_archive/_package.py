"""Packs what a driver uploads: its script's directory as an archive (tar in a zstd frame), and the pickled loop."""

from __future__ import annotations

import hashlib
import io
import os
import pathlib
import pickle
import posixpath
import stat
import sys
import sysconfig
import tarfile
import types
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rtrain import _public_names
from rtrain._by_value import by_value
from rtrain.train._archive import _links

if TYPE_CHECKING:
    from rtrain.train._archive._walk import Entry

# Patterns that are applied before the rules of any .gitignore. storage/job_spec/archive/walk.cpp has the same list.
_ALWAYS_IGNORED = (".git", ".venv", "__pycache__", ".ipynb_checkpoints", ".mypy_cache", ".pytest_cache", ".ruff_cache")
# Patterns of files that may hold secrets. They are left out of a folder that the user did not name.
# storage/job_spec/archive/walk.cpp has the same list.
SECRET_FILES = (
    *(".env", ".env.*", "*.env", ".envrc", ".ssh", ".aws", ".azure", ".kube", ".gnupg", ".docker", ".config/gcloud"),
    *(".netrc", ".pgpass", ".npmrc", ".pypirc", ".git-credentials", ".htpasswd", "credentials.json"),
    *("*.pem", "*.key", "*.p12", "*.pfx", "*.jks", "*.keystore", "id_rsa*", "id_dsa*", "id_ed25519*", "id_ecdsa*", "!*.pub"),
)
_FILES_MAX, _BYTES_MAX = 20_000, 500 << 20
_LEVEL = 3  # compression level, the same as in `rtrain submit`
_WINDOW_MAX, _UNPACKED_MAX = 128 << 20, 2 << 30
# Bytes of a zstd frame that are decompressed at a time. Their content fits into memory even for the largest blocks.
_PIECE = 4 << 10


class PackingError(ValueError):
    """The working directory or the training function cannot be packed. The text names the file or variable."""


@dataclass(frozen=True)
class Archive:
    content: bytes
    files: int
    directory: str
    sources: str  # hash of the Python files in the archive
    environments: tuple[str, ...] = ()  # folders of Python environments, which are not packed
    secrets: tuple[str, ...] = ()  # files that are not packed, since they may hold secrets
    # links that lead out of the folder and special files, each with the reason why it is not packed
    left_out: tuple[str, ...] = ()

    @property
    def digest(self) -> str:
        return hashlib.sha256(self.content).hexdigest()


def compressed(data: bytes) -> bytes:
    """Returns a zstd frame with the data, their size and a checksum."""
    import zstandard

    return zstandard.ZstdCompressor(level=_LEVEL, write_checksum=True).compress(data)


def decompressed(frames: bytes) -> bytes:
    """Returns the content of one or several zstd frames, which may be made by `rtrain submit`. Raises ValueError if
    they are not zstd, are damaged, or hold more bytes than a code archive may have.
    """
    import zstandard

    decompressor = zstandard.ZstdDecompressor(max_window_size=_WINDOW_MAX)
    reader = decompressor.decompressobj()
    pieces, size, start = [], 0, 0
    while start < len(frames) or not reader.eof:
        if start >= len(frames):
            raise ValueError("the code archive is damaged: its end is missing")
        if reader.eof:
            reader = decompressor.decompressobj()
        piece = frames[start : start + _PIECE]
        try:
            pieces.append(reader.decompress(piece))
        except zstandard.ZstdError as error:
            raise ValueError(f"the code archive is damaged: {error}") from error
        start += len(piece) - len(reader.unused_data)
        size += len(pieces[-1])
        if size > _UNPACKED_MAX:
            raise ValueError(f"the code archive holds more than {_UNPACKED_MAX >> 20} MiB, which is more than code may have")
    return b"".join(pieces)


def pack_directory(directory: pathlib.Path, *, named: bool = False) -> Archive:
    """Packs the files below `directory` that no ignore file leaves out. Equal files give equal bytes.

    Links that stay inside are packed as links. Links that lead out are followed if they lead to the project's
    repository. Other links and special files are listed in `left_out`. PackingError names a file or folder that
    cannot be read.
    named: the user named this folder; otherwise files that may hold secrets are left out.
    """
    from rtrain.train._archive import _walk

    try:
        listed = _walk.walk(directory, _ALWAYS_IGNORED, () if named else SECRET_FILES)
    except _walk.Unreadable as error:
        raise _unreadable(directory, error) from error
    without_folders = [entry for entry in listed.entries if not entry.is_folder]
    files = [entry for entry in without_folders if entry.target is None]
    if len(without_folders) > _FILES_MAX:
        most = _largest(directory, without_folders, lambda path: 1, "files")
        raise PackingError(f"{directory} holds more than {_FILES_MAX} files{most}")
    total = sum(_bytes_of(entry.source) for entry in files)
    if total > _BYTES_MAX:
        most = _largest(directory, files, lambda path: _bytes_of(path) / (1 << 20), "MiB")
        raise PackingError(
            f"{directory} holds {total >> 20} MiB ({_BYTES_MAX >> 20} at most){most}; read data from a path that the nodes share"
        )
    stream, packed, sources = io.BytesIO(), 0, hashlib.sha256()
    with tarfile.open(fileobj=stream, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for entry in listed.entries:
            name = entry.path
            if entry.is_folder:
                _add_folder(tar, name)
                continue
            content = _add(tar, directory, entry) if entry.target is None else _add_link(tar, name, entry.target)
            packed += content is not None
            if content is not None and (name.endswith(".py") or entry.target is not None):
                sources.update(os.fsencode(name) + b"\0" + hashlib.sha256(content).digest())
    return Archive(
        content=compressed(stream.getvalue()),
        files=packed,
        directory=str(directory),
        sources=sources.hexdigest(),
        environments=tuple(listed.environments),
        secrets=tuple(sorted(listed.secrets)),
        left_out=tuple(listed.left_out),
    )


def _unreadable(directory: pathlib.Path, error: OSError) -> PackingError:
    return PackingError(
        f"{error.filename} cannot be read: {error.strerror}; make it readable, or name it in {directory}/.rtrainignore"
    )


def _largest(top: pathlib.Path, entries: Sequence[Entry], size: Callable[[pathlib.Path], float], unit: str) -> str:
    """Returns a text with the largest folders below `top`, and an ignore rule for the first of them."""
    sums: Counter[str] = Counter()
    for entry in entries:
        first, slash, _ = entry.path.partition("/")
        sums[f"{first}/" if slash else "the folder itself"] += size(entry.source)  # type: ignore[assignment]
    most = [(name, amount) for name, amount in sums.most_common(3) if amount >= 1]
    sizes = ", ".join(f"{name} {amount:.0f}" for name, amount in most)
    line = next((name for name, _ in most if name.endswith("/")), "")
    what = (
        f"a line /{line} in {top}/.rtrainignore leaves that one behind"
        if line
        else f"name what stays behind in {top}/.rtrainignore"
    )
    return f": most {unit} are in {sizes}; {what}"


def _bytes_of(path: pathlib.Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0


def _add(tar: tarfile.TarFile, directory: pathlib.Path, entry: Entry) -> bytes | None:
    """Adds a file to the archive and returns the content that was added. Returns None if the file was removed, or is no
    longer a regular file.
    """
    try:
        descriptor = os.open(entry.source, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise _unreadable(directory, error) from error
    try:
        mode = os.fstat(descriptor).st_mode
        if not stat.S_ISREG(mode):
            return None
        with os.fdopen(descriptor, "rb", closefd=False) as file:
            content = file.read()
    except OSError as error:
        raise _unreadable(directory, OSError(error.errno, error.strerror, str(entry.source))) from error
    finally:
        os.close(descriptor)
    header = tarfile.TarInfo(entry.path)
    header.size, header.mode = len(content), 0o755 if mode & 0o100 else 0o644
    tar.addfile(header, io.BytesIO(content))
    return content


def _add_folder(tar: tarfile.TarFile, name: str) -> None:
    header = tarfile.TarInfo(name)
    header.type, header.mode = tarfile.DIRTYPE, 0o755
    tar.addfile(header)


def _add_link(tar: tarfile.TarFile, name: str, target: str) -> bytes:
    """Adds a link to the archive and returns its target."""
    header = tarfile.TarInfo(name)
    header.type, header.linkname, header.mode = tarfile.SYMTYPE, target, 0o777
    tar.addfile(header)
    return os.fsencode(target)


def tar_of(directory: pathlib.Path) -> bytes:
    """Returns an uncompressed tar archive of every file below the directory."""
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as tar:
        tar.add(str(directory), arcname=".")
    return stream.getvalue()


def untar(content: bytes, directory: pathlib.Path) -> None:
    with tarfile.open(fileobj=io.BytesIO(content)) as tar:
        if hasattr(tarfile, "data_filter"):
            tar.extractall(directory, filter="data")
        else:
            tar.extractall(directory, _safe_members(tar.getmembers()))


def _safe_members(members: list[tarfile.TarInfo]) -> list[tarfile.TarInfo]:
    """Returns the members that may be unpacked: files, folders, and links to members. Replaces tarfile's filter,
    which older Pythons lack. Raises ValueError for any other member, before the first byte is written.
    """
    links: dict[str, str] = {}
    hard_links: list[tarfile.TarInfo] = []
    for member in members:
        name = posixpath.normpath(member.name)
        if _leads_out(name):
            raise ValueError(f"the archive's entry {member.name!r} lies outside of the folder it is unpacked into")
        parents = {str(parent) for parent in pathlib.PurePosixPath(name).parents}
        if links.keys() & {name, *parents}:
            raise ValueError(f"the archive's entry {member.name!r} goes through a link of the archive")
        if member.issym() or member.islnk():
            base = posixpath.dirname(name) if member.issym() else ""
            if _leads_out(posixpath.normpath(posixpath.join(base, member.linkname))):
                raise ValueError(f"the archive's entry {member.name!r} is a link to {member.linkname!r}, outside of the folder")
            links[name] = member.linkname if member.issym() else posixpath.join("/", member.linkname)
            hard_links += [member] if member.islnk() else []
        elif not (member.isreg() or member.isdir()):
            raise ValueError(f"the archive's entry {member.name!r} is neither a file, a folder nor a link")
        member.mode &= 0o755
    wrong = _links.unsound(links) + [member.name for member in hard_links if _goes_through(member.linkname, links)]
    if wrong:
        raise ValueError(
            f"the archive's entry {wrong[0]!r} is a link to {links[posixpath.normpath(wrong[0])]!r}, out through a link of the archive"
        )
    return members


def _goes_through(target: str, links: Mapping[str, str]) -> bool:
    """Returns whether the path leads through a link. The text alone does not show where such a path ends."""
    parts = target.split("/")
    return any(posixpath.normpath("/".join(parts[:count])) in links for count in range(1, len(parts)))


def _leads_out(name: str) -> bool:
    return posixpath.isabs(name) or name.split("/", maxsplit=1)[0] == ".."


def script_directory() -> pathlib.Path | None:
    """Returns the folder with the user's modules: the folder of the script, or a notebook's working directory. Returns
    None for an installed program, and for folders that are not a project (the home directory, /tmp, a system folder).
    """
    main = sys.modules.get("__main__")
    file = getattr(main, "__file__", None)
    if file is not None and not _installed(file):
        folder = pathlib.Path(file).resolve().parent
    elif (file is None and hasattr(sys, "ps1")) or _is_ipython():
        folder = pathlib.Path.cwd()
    else:
        return None
    nobodys = {
        pathlib.Path("/"),
        pathlib.Path("/tmp"),
        pathlib.Path.home(),
        pathlib.Path("/usr/bin"),
        pathlib.Path("/root"),
    }
    return None if folder in nobodys else folder


def is_beside(file: str, folder: pathlib.Path | None) -> bool:
    """Returns whether a module's file lies in the folder of the user's modules, and is not installed."""
    return folder is not None and not _installed(file) and pathlib.Path(file).resolve().is_relative_to(folder)


def _is_ipython() -> bool:
    """Returns whether IPython runs this process, as a notebook's kernel or as a shell. A program that only imports
    IPython does not count.
    """
    ipython = sys.modules.get("IPython")
    return ipython is not None and ipython.get_ipython() is not None


def _installed(file: str) -> bool:
    path = str(pathlib.Path(file).resolve())
    roots = {
        str(pathlib.Path(sysconfig.get_path(name)).resolve())
        for name in ("stdlib", "platstdlib", "purelib", "platlib", "scripts")
    }
    here = str(pathlib.Path(__file__).resolve().parents[2])
    return any(path.startswith(root + os.sep) for root in {*roots, here}) or "site-packages" in path or "dist-packages" in path


# -- pickling ---------------------------------------------------------------------------------------------------------
def dumps(value: object, what: str, packed: pathlib.Path | None = None, dump: Callable[[object], bytes] | None = None) -> bytes:
    """Returns the pickle of `value`. Functions are pickled by value if their module is neither installed nor in
    `packed`, since nodes lack it. PackingError names the variable that cannot be pickled.
    """
    if isinstance(value, Pickled):
        return value.content
    dump = dump or _public_names.dumps
    with by_value(_foreign_modules(value, packed)):
        try:
            return bytes(dump(value))
        except Exception as error:
            place = _culprit(value, what, dump)
            raise PackingError(
                f"{place} cannot be sent to the workers: {type(error).__name__}: {error}. Make it inside of the training function, "
                "or give what it is made from (a path, an address, a seed)"
            ) from error


def fingerprint(loop: object, *pickles: bytes) -> str:
    """Returns a hash that is equal in each process that runs the same program. A hash of the pickled function would
    differ, since the order within its pickle varies.
    """
    digest = hashlib.sha256()
    code = getattr(getattr(loop, "func", loop), "__code__", None)
    if isinstance(loop, Pickled):
        digest.update(loop.content)
    elif code is None:
        digest.update(repr(type(loop)).encode())
    else:
        _mix(digest, code)
    for content in pickles:
        digest.update(content)
    return digest.hexdigest()


def _mix(digest: Any, code: types.CodeType) -> None:
    digest.update(code.co_code + repr((code.co_name, code.co_names, code.co_varnames)).encode())
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            _mix(digest, constant)
        elif not isinstance(constant, frozenset):
            digest.update(repr(constant).encode())


def _foreign_modules(value: object, packed: pathlib.Path | None) -> list[types.ModuleType]:
    function = getattr(value, "func", value)
    name = getattr(function, "__module__", None)
    module = sys.modules.get(name or "")
    file = getattr(module, "__file__", None)
    if module is None or name == "__main__" or file is None or _installed(file):
        return []
    if packed is not None and pathlib.Path(file).resolve().is_relative_to(packed):
        return []
    return [module]


def _culprit(value: object, what: str, dump: Callable[[object], bytes]) -> str:
    for name, inner in _inside(value):
        try:
            dump(inner)
        except Exception:
            return _culprit(inner, f"{what}{name}", dump)
    return f"{what} ({type(value).__name__})"


def _inside(value: object) -> list[tuple[str, object]]:
    if isinstance(value, Mapping):
        return [(f"[{key!r}]", inner) for key, inner in value.items()]
    if isinstance(value, list | tuple):
        return [(f"[{place}]", inner) for place, inner in enumerate(value)]
    if isinstance(value, types.FunctionType):
        values: list[tuple[str, object]] = []
        for name, cell in zip(value.__code__.co_freevars, value.__closure__ or (), strict=False):
            try:
                values.append((f" -> variable {name}", cell.cell_contents))
            except ValueError:
                continue
        for name in value.__code__.co_names:
            if name in value.__globals__ and not isinstance(value.__globals__[name], types.ModuleType):
                values.append((f" -> variable {name}", value.__globals__[name]))
        return values
    attributes: dict[str, Any] = getattr(value, "__dict__", {})
    return [] if isinstance(value, type) else [(f".{name}", inner) for name, inner in attributes.items()]


@dataclass(frozen=True)
class Pickled:
    """A pickled part of the driver.pkl of the run from which a trainer was restored. The part is copied into the new
    driver.pkl without unpickling it, since this process may lack the modules that it needs.
    """

    name: str
    content: bytes

    def load(self) -> Any:
        return Payload({}, {self.name: self.content}).part(self.name)

    def __call__(self, *arguments: Any) -> Any:
        return self.load()(*arguments)


@dataclass
class Payload:
    """The content of driver.pkl. Each part is a pickle of its own, so that a worker reads only its own part. The
    header is not pickled.
    """

    header: dict[str, Any]
    parts: dict[str, bytes]

    def to_bytes(self) -> bytes:
        return pickle.dumps({"rtrain_driver": 1, "header": self.header, "parts": self.parts}, protocol=4)

    @classmethod
    def from_bytes(cls, content: bytes, where: str) -> Payload:
        try:
            payload = pickle.loads(content)
            return cls(payload["header"], payload["parts"])
        except Exception as error:
            raise PackingError(f"{where} is not a driver.pkl that this version reads: {type(error).__name__}: {error}") from error

    def part(self, name: str) -> Any:
        try:
            return pickle.loads(self.parts[name])
        except ModuleNotFoundError as error:
            raise ModuleNotFoundError(
                f"{name} needs the module {error.name!r}, which is not here; install it on the nodes, or keep it beside the "
                "driver's script, whose folder is sent along",
                name=error.name,
            ) from error


def header() -> dict[str, Any]:
    from rtrain import __version__

    return {"rtrain": __version__, "python": list(sys.version_info[:3])}


def check_cluster(version: str) -> None:
    """Raises RuntimeError if this package and the cluster have different major versions."""
    from rtrain import __version__

    if version.split(".", maxsplit=1)[0] != __version__.split(".", maxsplit=1)[0]:
        raise RuntimeError(
            f"this process has rtrain {__version__} and the cluster {version}: install the package of the cluster's major version "
            f"(the binary and the package of one release belong together)"
        )


def check_versions(header_found: Mapping[str, Any], node: str) -> str:
    """Raises RuntimeError if the driver's versions are not compatible with this process. Returns a remark if they
    only differ.
    """
    from rtrain import __version__

    theirs, ours = tuple(header_found["python"][:2]), tuple(sys.version_info[:2])
    if theirs != ours:
        raise RuntimeError(
            f"the driver runs Python {theirs[0]}.{theirs[1]} and node {node} Python {ours[0]}.{ours[1]} ({sys.executable}): a pickled "
            f"function does not survive that. Run the driver with Python {ours[0]}.{ours[1]}, or install Python "
            f"{theirs[0]}.{theirs[1]} with rtrain on the nodes"
        )
    if str(header_found["rtrain"]).split(".", maxsplit=1)[0] != __version__.split(".", maxsplit=1)[0]:
        raise RuntimeError(
            f"the driver has rtrain {header_found['rtrain']} and node {node} has {__version__}; install the same major version on both"
        )
    if header_found["rtrain"] != __version__:
        return f"the driver has rtrain {header_found['rtrain']}, node {node} has {__version__}"
    return ""
