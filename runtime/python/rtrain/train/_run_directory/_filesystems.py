"""Converts the file systems that scripts name to values for the nodes: a path or URI, an endpoint, keys. Finds the
file system of a run's storage path. Objects of local file systems and of buckets are not pickled, since they may hold
keys and driver.pkl is stored with the run. Other file systems are pickled into driver.pkl, and store checkpoint files
alone (_elsewhere.py).
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from rtrain.train._run_directory import _azure, _buckets, _gcs
from rtrain.train._values import _names

KEYS = {"AWS_ACCESS_KEY_ID": "access_key", "AWS_SECRET_ACCESS_KEY": "secret_key", "AWS_SESSION_TOKEN": "session_token"}
# Each setting is given by both of its variables. So a program that reads either one finds the same value, and no value
# of the agent or driver.
_SERVER = {
    **{"AWS_ENDPOINT_URL": "endpoint", "AWS_ENDPOINT_URL_S3": "endpoint"},
    **{"AWS_REGION": "region", "AWS_DEFAULT_REGION": "region"},
}
# Options of pyarrow's S3FileSystem with their defaults. Other values would change the server or the account.
_PLAIN: dict[str, tuple[object, ...]] = {
    "anonymous": (False,),
    "role_arn": ("",),
    "force_virtual_addressing": (False,),
    "tls_ca_file_path": ("", None),
    "proxy_options": ("", None, {"scheme": "", "host": "", "port": -1, "username": "", "password": ""}),
    "default_metadata": (None, {}),
}


@dataclass(frozen=True)
class Place:
    """A path as nodes use it. path: a plain path, or a URI. variables: for the server and region. keys: variables with
    credentials.
    """

    path: str
    variables: Mapping[str, str] = field(default_factory=dict)
    keys: Mapping[str, str] = field(default_factory=dict, repr=False)

    @property
    def environment(self) -> dict[str, str]:
        return {**self.variables, **self.keys}


def place_of(path: str | os.PathLike[str], filesystem: Any) -> Place:
    """Returns the place of a path on a pyarrow or fsspec file system. Supports local ones and buckets that nodes can
    access. Raises ValueError for others, and for options of S3 that nodes cannot use.
    """
    text = _names.local_path(os.fspath(path))
    filesystem, text = without_wrappers(filesystem, text)
    if filesystem is None:
        return Place(text)
    kind = kind_of(filesystem)
    if kind == "local":
        if "://" in text:
            raise ValueError(f"storage_filesystem is of this machine, and {text} is no path on it")
        return Place(text)
    if kind in _CLOUDS and (given := _CLOUDS[kind].variables_of(filesystem)) is not None:
        return _in_cloud(text, kind, given)
    if kind != "s3":
        raise ValueError(
            f"storage_filesystem of kind {kind!r} cannot be handed to the nodes, which write paths and buckets themselves: give "
            "storage_path as a path that they mount, or as s3://bucket/prefix"
        )
    if "://" in text and not text.startswith("s3://"):
        raise ValueError(f"storage_filesystem is S3, and {text} does not lie there")
    options = _of_pyarrow(filesystem) if hasattr(filesystem, "type_name") else _of_s3fs(filesystem)
    return _on_s3(text if "://" in text else f"s3://{text.lstrip('/')}", options)


def is_carried(filesystem: Any) -> bool:
    """Returns whether nodes can access the file system by a path or URI: a local one, S3, or another bucket whose server
    and account variables can name.
    """
    filesystem, _ = without_wrappers(filesystem, "")
    kind = "local" if filesystem is None else kind_of(filesystem)
    return kind in ("local", "s3") or (kind in _CLOUDS and _CLOUDS[kind].variables_of(filesystem) is not None)


def check_travels(filesystem: Any) -> None:
    """Raises TypeError for an object that is no file system, and ValueError for one that cannot be pickled for the
    workers.
    """
    if not hasattr(filesystem, "type_name") and not hasattr(filesystem, "_strip_protocol"):
        raise TypeError(f"storage_filesystem is of type {type(filesystem).__name__}; it is a file system of pyarrow or fsspec")
    try:
        as_pyarrow(filesystem)
    except ImportError as error:
        raise ImportError("storage_filesystem needs pyarrow, here and on the nodes (pip install 'pyarrow>=14')") from error
    import cloudpickle  # type: ignore[import-untyped,unused-ignore]

    try:
        cloudpickle.dumps(filesystem)
    except Exception as error:
        raise ValueError(
            f"storage_filesystem of kind {kind_of(filesystem)!r} cannot be pickled, so workers cannot have it: {type(error).__name__}: "
            f"{error}. Give one that is made of plain settings, or storage_path as a path that the nodes mount, or as s3://bucket/prefix"
        ) from error


def as_pyarrow(filesystem: Any) -> Any:
    """Returns a file system of pyarrow's as it is, and one of fsspec in pyarrow's wrapper."""
    import pyarrow.fs  # type: ignore[import-untyped,import-not-found,unused-ignore]

    if isinstance(filesystem, pyarrow.fs.FileSystem):
        return filesystem
    return pyarrow.fs.PyFileSystem(pyarrow.fs.FSSpecHandler(filesystem))


def kind_of(filesystem: Any) -> str:
    """Returns "local", "s3", "gs", "az", or the file system's own name for its kind."""
    named = getattr(filesystem, "type_name", None) or getattr(filesystem, "protocol", None) or type(filesystem).__name__
    names = [named] if isinstance(named, str) else list(named)
    for known, ours in (("local", "local"), ("file", "local"), ("s3", "s3"), ("s3a", "s3"), ("gcs", "gs"), ("abfs", "az")):
        if known in names:
            return ours
    return str(names[0])


def without_wrappers(filesystem: Any, path: str) -> tuple[Any, str]:
    """Removes pyarrow's views of a folder, and its wrappers of fsspec. Returns the file system inside of them, and the
    path on it.
    """
    while True:
        kind = str(getattr(filesystem, "type_name", ""))
        if kind == "subtree":
            path = f"{str(filesystem.base_path).rstrip('/')}/{path.lstrip('/')}"
            filesystem = filesystem.base_fs
        elif kind.startswith("py::fsspec"):
            filesystem = filesystem.handler.fs
        else:
            return filesystem, path


def _of_pyarrow(filesystem: Any) -> dict[str, str]:
    given: dict[str, Any] = filesystem.__reduce__()[1][0]
    _refuse([name for name, plain in _PLAIN.items() if name in given and given[name] not in plain])
    host, scheme = str(given.get("endpoint_override") or ""), str(given.get("scheme") or "https")
    if scheme != "https" and not host:
        _refuse(["scheme"])
    settings = {name: str(given.get(name) or "") for name in (*KEYS.values(), "region")}
    return {**settings, "endpoint": host if "://" in host or not host else f"{scheme}://{host}"}


def _of_s3fs(filesystem: Any) -> dict[str, str]:
    """Returns endpoint, region and keys of an s3fs file system. Its client may have them under other names. Raises
    ValueError for other options.
    """
    client = {name: value for name, value in (getattr(filesystem, "client_kwargs", None) or {}).items() if value is not None}
    inner = {option: client.pop(f"aws_{name}", None) for option, name in _OF_CLIENT.items()}
    outer = {option: getattr(filesystem, name, None) for option, name in _OF_S3FS.items()}
    endpoint, region = client.pop("endpoint_url", None), client.pop("region_name", None)
    endpoint = getattr(filesystem, "endpoint_url", None) or endpoint
    given_twice = [
        f"client_kwargs['aws_{_OF_CLIENT[option]}'] beside {_OF_S3FS[option]}"
        for option in inner
        if inner[option] and outer[option]
    ]
    _refuse(
        [*(f"client_kwargs[{name!r}]" for name in client), *given_twice, *_not_carried(filesystem, has_endpoint=bool(endpoint))]
    )
    settings = {option: str(outer[option] or inner[option] or "") for option in _OF_S3FS}
    if settings["access_key"] and not endpoint:  # if no endpoint is given, s3fs uses the server in its environment
        endpoint = os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL")
    return {**settings, "endpoint": str(endpoint or ""), "region": str(region or "")}


def _not_carried(filesystem: Any, *, has_endpoint: bool) -> list[str]:
    """Returns the names of those options of an s3fs file system that nodes cannot use."""
    names = [name for name in ("anon", "requester_pays", "req_kw") if getattr(filesystem, name, None)]
    for mapping in ("config_kwargs", "s3_additional_kwargs"):
        names += [f"{mapping}[{name!r}]" for name in getattr(filesystem, mapping, None) or {}]
    names += sorted(getattr(filesystem, "kwargs", None) or {})  # profile= and other arguments of the session
    if (getattr(filesystem, "storage_options", None) or {}).get("session") is not None:
        names.append("session")
    if getattr(filesystem, "use_ssl", True) is False and not has_endpoint:
        names.append("use_ssl")
    return names


_OF_S3FS = {"access_key": "key", "secret_key": "secret", "session_token": "token"}
_OF_CLIENT = {"access_key": "access_key_id", "secret_key": "secret_access_key", "session_token": "session_token"}


def _refuse(odd: Sequence[str]) -> None:
    """Raises ValueError with the names of the options. Values are not shown, since a value may be a key or a password."""
    if odd:
        raise ValueError(
            f"storage_filesystem has {', '.join(odd)}, which the nodes cannot be told: they take an endpoint, a region and keys. Leave it "
            "out and configure the agents so (AWS_* and ~/.aws), or give keys"
        )


def _on_s3(uri: str, options: Mapping[str, str]) -> Place:
    """Returns the place on S3. Endpoint and region are sent only together with keys. Without keys, the agents use their
    own settings.
    """
    _refuse(["an endpoint with a user's name or password in it"] * ("@" in options["endpoint"]))
    keys = {name: options[option] for name, option in KEYS.items() if options.get(option)}
    variables = {name: options[option] for name, option in _SERVER.items() if options.get(option)}
    if not keys and "AWS_ENDPOINT_URL" in variables:  # the file system object also reads its keys from this environment
        keys = {name: os.environ[name] for name in KEYS if os.environ.get(name)}
    if keys and not {"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"} <= keys.keys():
        raise ValueError("storage_filesystem has a part of its keys; give access_key and secret_key, or none of them")
    if not keys and "AWS_ENDPOINT_URL" in variables:
        raise ValueError(
            f"storage_filesystem names the server {variables['AWS_ENDPOINT_URL']} without keys, and the nodes would write to their own: "
            "give access_key and secret_key with it, or set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
        )
    return Place(uri, variables if keys else {}, keys)


_CLOUDS = {"gs": _gcs, "az": _azure, "abfs": _azure, "abfss": _azure}


def _in_cloud(text: str, scheme: str, given: Mapping[str, str]) -> Place:
    """Returns the place in a bucket. `given`: variables for its server and credentials."""
    if "://" in text and not text.startswith(f"{scheme}://"):
        raise ValueError(f"storage_filesystem is of {scheme}://, and {text} does not lie there")
    uri = text if "://" in text else f"{scheme}://{text.lstrip('/')}"
    kind = _buckets.kind_of(uri)
    keys = {name: value for name, value in given.items() if kind and name in kind.keys}
    variables = {name: value for name, value in given.items() if name not in keys}
    _refuse(["an endpoint with a user's name or password in it"] * any("@" in value for value in variables.values()))
    return Place(uri, variables, keys)


# -- buckets for which this process has other keys than its own
# ---------------------------------------------------------
_places: dict[str, dict[str, str]] = {}  # key: a URI; value: the variables with which this process reads below it


def remember(place: Place) -> None:
    """Lets this process read below the place's URI with the place's keys."""
    if place.environment:
        _places[place.path.rstrip("/")] = place.environment


def environment_for(uri: str) -> dict[str, str]:
    """Returns this process's environment for access to the URI. For a URI below a remembered place, that place's keys,
    server and region replace the process's own.
    """
    known = [place_uri for place_uri in _places if uri == place_uri or uri.startswith(place_uri + "/")]
    if not known:
        return dict(os.environ)
    return _buckets.environment_with(uri, _places[max(known, key=len)])


# -- in a worker -------------------------------------------------------------------------------------------------------------
def filesystem_for(uri: str) -> Any:
    """Returns the pyarrow file system for a run's path or URI, in a worker. Raises RuntimeError for runs that the head
    stores, and ImportError without pyarrow.
    """
    import pyarrow.fs  # type: ignore[import-untyped,import-not-found,unused-ignore]

    scheme = uri.partition("://")[0] if "://" in uri else ""
    if not scheme:
        return pyarrow.fs.LocalFileSystem()
    if scheme in _CLOUDS:
        return _CLOUDS[scheme].filesystem_of(environment_for(uri))
    if scheme != "s3":
        raise RuntimeError(
            f"{uri} is kept by the head, which no file system of pyarrow reaches: report local directories, and read checkpoints with "
            "as_directory(); or give RunConfig(storage_path=) a path or a bucket"
        )
    variables = environment_for(uri)
    options = {option: variables[name] for name, option in KEYS.items() if variables.get(name)}
    if region := variables.get("AWS_REGION") or variables.get("AWS_DEFAULT_REGION"):
        options["region"] = region
    if endpoint := variables.get("AWS_ENDPOINT_URL_S3") or variables.get("AWS_ENDPOINT_URL"):
        options["scheme"], _, options["endpoint_override"] = endpoint.rpartition("://")
        options["scheme"] = options["scheme"] or "https"
    return pyarrow.fs.S3FileSystem(**options)


def path_on(uri: str) -> str:
    """Returns the path without the scheme and the account, as the file system names it."""
    scheme, _, path = uri.rpartition("://")
    container, _, rest = path.partition("/")
    return f"{container.partition('@')[0]}/{rest}" if scheme in ("abfs", "abfss") and "@" in container else path
