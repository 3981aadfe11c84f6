"""Files that an earlier version has pickled still load: its modules may have moved since, the classes' old paths stay."""

import base64
import copy
import dataclasses
import errno
import importlib
import importlib.util
import os
import pathlib
import pickle
import re
import sys
import types
import zlib

import cloudpickle  # noqa: E402
import pytest  # noqa: E402
from public_modules import imported, public_modules  # noqa: E402
from rtrain import _files, _public_names, train  # noqa: E402
from rtrain.train import _moved  # noqa: E402
from rtrain.train._run_directory import _elsewhere, _views  # noqa: E402
from rtrain.train._values import _facts  # noqa: E402

PRIVATE = re.compile(rb"rtrain\.(\w+\.)*_")  # the name of a private module

# A compressed pickle.dumps(..., 4) of a version whose `train` was one folder of modules.
KEPT = """
eNptVs1uHEUQtuP9t+O/OCRwQdzCJeENIGwcE0w2kZ0QOKBR70x5Z+KZ6aG7x2sjRQKhoERqiYOH14ADz8EDcOcBeAP4qudnf5w92NPV1dVVX1V91T+2fvtkY8X9
XhV37EDlqefL9CSaFPamMkpE6d3ybyXWhe0f5emw1LksPv6p4IOtVCRU2NYpZaawG9pIJSbkZcKExcju1uuTKCZ9oQ0lkG6eiCjOFdUXhtfs9YelaNn8RiLOvUpd
F4erts8LSLQp3trbMGCUjGNStZIXR0lkii//w8/e4tOZIkoyE8l0Zqjc/lBRDAWfDfgmOiPtQWmmjxt2505PlPDJ08XBSvXLx3bHD8k/zWSUmrlotoeNdDmg9TRP
PCO9U6KsOLxmP5gzoH2JAIQxKhrnhoDUe1d2pQpIFXYNkRV2b277RNH3OaX+BY7NeyWMR2kA4Tpf6cXCELCzHRFPxYUuEEPfF3E8Fv6pLr4r7O5UqlPgiYIwUUI4
fMYpi+VkEqWT+ZR9VYoWI7R9aHoxnVGMqng0evik0GO7Vlppw8Oc4+plKpIqMuxs94zUWGoWt1AuGbuqL1K/vgpLNgnMuIiQk51MyQmyqD1FmVQGeIz4WoThBREv
OrEYU6zZnR6K2D+Fm7zoavIVGV18bDcUAc9AV5UKGDY1DCyFeFyK3pnEEifNSezmmrxJlsO5PTgmc+WjljKgWCpxJ2QxqichTiRcMjS5AD5P7w8PC7stfJ9QwwLN
4pmLjBzgHIKniUtTsgV3iXGX9ACTBCgM30eoYW0iH2Do6AfyEplGbAe5J3UGSFCwn43KgrU7rqU5u7WXfNVURKgfnEllAMkbgLEeCCPmkBg8wHoZhh1W0sCTk6Oz
GH1n11BLhd2hc/Jz1zXSNQ/fc5NSMY7RQaFQgefyxRXwxrZRuSJ293ZrdQC5QELIgqvb7f3a8pNKs3Fnqw6q5ABdhN/Y3Ub9qIm4ObDmA82RXZu4f52EEqkY0hty
/BKoe0xeALQSc7fTuR/nAc3BF3qlsXA8Cv1RGIxCYs29OjxvGpnQkzkSx4y1CT7RyEvdyG/tdlX+Xl3VDoe2j6zqK1Rcpa+wNzgfT4UC2hQ/q6SX6D6UPU1DUuDk
W4tn53b6+803zgxmbFHY20vcP7fVRdiJCPjMHdu/Z5LsnmP90aua/0emOAK1IIo8NldSWIs7R+VHk4duQqA83/VrK5aI++DTf8uK1aEBbZBSrgVa1VjZHqMW5nxz
xIWONrlKPdS845h1YOPVlrG/vjCEgHGvoo/gCswaaWD+t7tHlcqM0Bu3QxNO74TnS9GHP78qwtcz/21HG2FyFMqv9vZVa8flJmdu+OTx40fPnu0/KF7DDvwbzE0i
nN582iwfpSdyjo0CEgFoCqXqRuSt6hwFrqG5OZVITx28qymgOFwRGvY7JWOw7cGR+1y0OwB5xYHndGD2BsyeRTLX3pwcMCdROuPCVawxUmfcyPdMRepQXqqHWjw3
LV+UosYFuCg0J6Id8BnQeR0r81ZK00Vfejw/Mib7t7i3lSB6jm5vdsHzLJYieCxdFdv2/eNvR0OHt22fCN+4NLUfuq8mz7+D4SssGEfAZwfltKmX2+VyEa++A79W
afGqsCuF3aJzTIbIjQL3eAr/Qpx4fkUBf/anmIuYHkLzqovXAOcSBsM/EHJZstobE/ga16yEfWj1+LjrDSxamBOKP3oofsEUjSg4Da6LuBXuLNd7HI2VAMfZm8tI
7bvOuyz70jikwr/t5v0JvD+QKc32J1iVSC6lubrWbg2bx1pzqjfOo9hEzPeDr7lvm51rqSytdfjRhpr4BQuyXceL5KKAI91jTrirmPAfuzXrkNoOpNsvXDEeKJln
jfn3l6ipfP0aOudH7HMAOKzeRGwjcS/fL0QaxK5sFgNkLX5h2eufl1/NmHzHQ7q6wTH2sFpeIq7+SZ765Tzj/Owu5UfiWcTNwMmH/suVVQzz9QmZxiaEbRbusLCa
y+Wk5Qj+XHgSTusuWxoRs4cwyH4slIrcUEH8HZSh8EN2Nb/7P+fY+GI=
"""


def test_what_an_earlier_version_pickled_still_loads():
    kept = pickle.loads(zlib.decompress(base64.b64decode(KEPT)))
    assert kept["run_config"].name == "kept" and kept["run_config"].checkpoint_config.num_to_keep == 2
    assert kept["scaling_config"] == train.ScalingConfig(num_workers=2)
    assert type(kept["data_config"]) is train.DataConfig and type(kept["options"]) is type(
        train.DataConfig.default_ingest_options()
    )
    assert kept["class"] is train.DataParallelTrainer and kept["elsewhere"].__name__ == "Elsewhere"
    assert kept["checkpoint"].path == "/tmp/kept" and kept["result"].metrics == {"loss": 1.0}
    assert type(kept["reported"]) is train.ReportedCheckpoint and type(kept["preemption"]) is train.PreemptionInfo
    assert type(kept["resize"]) is train.ResizeInfo and kept["wanted"].reason == "drain"
    assert kept["mode"] is train.CheckpointUploadMode.ASYNC and kept["facts"].world_size == 2
    assert [type(one) for one in kept["errors"]] == [train.CheckpointUploadError, train.AgentGoneError, train.ControllerError]
    names = "Stopped PreemptionError WorkerGroupError UserCallback RunHandle BackendConfig TrainContext"
    assert kept["classes"] == [getattr(train, name) for name in names.split()]
    functions = [train.report, train.get_context, train.get_dataset_shard, train.checkpoint_wanted, train.collective.barrier]
    assert kept["functions"] == [*functions, train.attach]


@pytest.mark.parametrize("package", public_modules())
def test_public_classes_and_functions_are_pickled_under_their_public_names(package):
    """Newly written files contain no name of a private module, so private modules may move."""
    module = imported(package)
    for name in module.__all__:
        member = getattr(module, name)
        if getattr(member, "__module__", "").startswith("rtrain") and isinstance(member, type | types.FunctionType):
            content = _public_names.dumps(member)
            assert not PRIVATE.search(content), f"{package}.{name} is pickled as {member.__module__}.{member.__qualname__}"
            assert pickle.loads(content) is member and pickle.loads(pickle.dumps(member)) is member


def test_a_run_s_config_names_no_private_module():
    config = train.RunConfig(failure_config=train.FailureConfig(1), checkpoint_config=train.CheckpointConfig(2))
    mode = train.CheckpointUploadMode.ASYNC
    values = [
        config,
        train.ScalingConfig(2),
        train.Checkpoint("/tmp/kept", metrics={"x": 1}),
        train.PreemptionError("gone"),
        mode,
    ]
    by_pickle = [pickle.dumps(values, protocol) for protocol in range(pickle.HIGHEST_PROTOCOL + 1)]
    for content in (_public_names.dumps(values), cloudpickle.dumps(values), *by_pickle):
        assert b"rtrain.train:RunConfig" in content and not PRIVATE.search(content.replace(b"rtrain._public_names", b""))
        copied = pickle.loads(content)
        assert [type(one) for one in copied] == [type(one) for one in values]
        assert copied[0].name == config.name and not copied[0].is_named and copied[1] == values[1] and copied[4] is mode
        assert copied[2] == train.Checkpoint("/tmp/kept") and copied[2].metrics == {"x": 1} and str(copied[3]) == str(values[3])
    assert b"rtrain._" not in _public_names.dumps(values)  # the pickles contain public names alone


def test_public_objects_are_copied_as_before():
    config = train.RunConfig(failure_config=train.FailureConfig(1), checkpoint_config=train.CheckpointConfig(2))
    for copied in (copy.copy(config), copy.deepcopy(config), dataclasses.replace(train.ScalingConfig(2), num_workers=2)):
        assert type(copied) in (train.RunConfig, train.ScalingConfig)
    assert copy.copy(config).failure_config is config.failure_config
    assert copy.deepcopy(config).failure_config is not config.failure_config
    checkpoint = train.Checkpoint("/tmp/kept", metrics={"x": [1]})
    assert copy.deepcopy(checkpoint) == checkpoint and copy.deepcopy(checkpoint).metrics == {"x": [1]}


class Own(train.UserCallback):
    """A user's class. It is pickled under its own module's name, its base under rtrain's."""


def test_a_user_s_class_has_its_base_by_the_public_name():
    made = type("Made", (train.UserCallback,), {"__module__": "__main__"})
    content = _public_names.dumps(made)
    assert b"rtrain.train:UserCallback" in content and issubclass(pickle.loads(content), train.UserCallback)
    assert type(pickle.loads(pickle.dumps(Own()))) is Own


@pytest.mark.parametrize("package", ["rtrain", "rtrain.integrations", "rtrain.train", "rtrain.train.huggingface", "rtrain.tune"])
def test_dir_shows_what_users_may_use(package):
    module = importlib.import_module(package)
    shown = {name for name in dir(module) if not name.startswith("__")}
    inner = {name for name in shown if f"{package}.{name}" in sys.modules or importlib.util.find_spec(f"{package}.{name}")}
    assert shown - inner <= set(getattr(module, "__all__", [])) and not {name for name in shown if name.startswith("_")}


def test_a_folder_that_cannot_be_synced_is_no_error_and_a_disk_that_fails_is(monkeypatch, tmp_path):
    with pytest.raises(OSError, match="Invalid argument"):  # /proc is such a file system
        descriptor = os.open("/proc", os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
    _files.sync_folder(pathlib.Path("/proc"))
    _files.sync_folder(tmp_path)

    def fails(_descriptor):
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(_files.os, "fsync", fails)
    with pytest.raises(OSError, match="Input/output error"):
        _files.sync_folder(tmp_path)


OLD_MODULES = """
_checkpoint _config_types _configs _context _elsewhere _errors _ingest _library _loop _metrics _names _result _run_context _trainer _wanted
_checkpoints._checkpoint_names _checkpoints._elsewhere _checkpoints._filesystems _checkpoints._left_over _checkpoints._run_directory
_checkpoints._shared_copy _checkpoints._uploads _checkpoints._views _driver._follower _driver._ignore _driver._interrupts _driver._links
_driver._outcome _driver._package _driver._packed _driver._prints _driver._raised _driver._restore _driver._submission _driver._validation
_driver._walk _local._directory _local._fit _local._ranks _local._session _session._behind _session._checkpoint_request _session._cluster
_session._collective_limit _session._gather _session._library _session._loop_environment _session._records _session._reported
_session._worker _workers._datasets _workers._ending _workers._errors_text _workers._log_files _workers._setup _workers._shares
_workers._tracked_run _workers._tracking
"""


@pytest.mark.parametrize("name", OLD_MODULES.split())
def test_a_private_module_of_version_0_1_0_is_found_and_is_there_once(name):
    module = importlib.import_module(f"rtrain.train.{name}")
    once_each = {id(other): other for other in sys.modules.values()}.values()
    assert [other for other in once_each if getattr(other, "__file__", None) == module.__file__] == [module]


def test_no_module_has_a_name_that_the_table_of_moved_modules_gives_to_another_one():
    folder = pathlib.Path(train.__file__).parent
    places = [folder / old.replace(".", "/") for old in _moved._NEW_NAMES]
    assert [place for place in places if [*place.glob("*.py")] or place.with_suffix(".py").exists()] == []


def test_what_drivers_send_names_only_modules_that_nodes_with_version_0_1_0_have():
    facts = _facts.Facts(world_size=2)
    values = [_elsewhere.Elsewhere(None, "/p"), _views.View("/r", "/p", "", None), facts, train.TrainContext(facts)]
    content = _public_names.dumps(values)
    modules = {name.removeprefix("rtrain.train.") for name in re.findall(r"rtrain\.train\.[\w.]+", content.decode("latin-1"))}
    assert modules <= {*OLD_MODULES.split(), "_session"}
    assert [type(value) for value in pickle.loads(content)] == [type(value) for value in values]
