"""No argument of a public function is dropped: the function uses it, or `rtrain._arguments` defines how it is
treated.
"""

from __future__ import annotations

import ast
import functools
import importlib
import importlib.util
import inspect
import pathlib
import textwrap

import pytest
import rtrain
import rtrain.data as data
from rtrain import _arguments, train, tune, util

_ROOT = pathlib.Path(rtrain.__file__).parent
_PATHS = (file.relative_to(_ROOT.parent).with_suffix("").parts for file in sorted(_ROOT.rglob("*.py")))
_NAMES = (".".join(parts[:-1] if parts[-1] == "__init__" else parts) for parts in _PATHS)
PACKAGES = [name for name in _NAMES if not any(part.startswith("_") for part in name.split("."))]
# Methods that users or rtrain override. rtrain passes their arguments.
HOOKS = {"on_trial_add", "on_trial_result", "on_trial_complete", "set_search_properties", "suggest"}
HOOKS |= {"choose_trial_to_run", "on_trial_error", "on_trial_remove", "set_max_concurrency"}
HOOKS |= {"sample", "is_valid"}  # methods of each kind of domain
OVERRIDDEN = {
    "DataConfig.configure",
    *(f"UserCallback.{name}" for name in ("before_run", "after_run", "after_report", "after_exception")),
    *(f"Callback.{name}" for name in vars(tune.Callback)),
    *(f"LoggerCallback.{name}" for name in vars(tune.logger.LoggerCallback)),
    *(f"Trainable.{name}" for name in vars(tune.Trainable)),
    *(f"ProgressReporter.{name}" for name in vars(tune.ProgressReporter)),
    "CLIReporter.report",  # the table reads the trials itself
}
# rtrain makes them, and users read them
READ_BY_LOOPS = {"CheckpointWanted", "PreemptionInfo", "MicroBatch", "JobDetails", "JobInfo"}
READ_BY_LOOPS |= {"ActorState", "JobState", "NodeState", "TaskState"}
TOLD_BY_ANOTHER: set[tuple[str, str]] = set()


@functools.cache
def words_read() -> frozenset[str]:
    """Attributes that some code of the package reads, and its texts, which may name them."""
    used: set[str] = set()
    for file in pathlib.Path(rtrain.__file__).parent.rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load):
                used.add(node.attr)
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                used.add(node.value)
    return frozenset(used)


def imported(package):
    """Returns the module and its public names. Returns none for a module that needs a package that is not installed."""
    try:
        module = importlib.import_module(package)
    except ModuleNotFoundError as error:
        assert not str(error.name).startswith("rtrain"), error
        return None, []
    own = [name for name, value in vars(module).items() if name[0] != "_" and getattr(value, "__module__", "") == package]
    return module, getattr(module, "__all__", own)


def public_functions():
    seen = set()
    for package in PACKAGES:
        module, names = imported(package)
        for name in names:
            for path, function in functions_of(name, getattr(module, name)):
                if id(function) not in seen and str(function.__module__).startswith("rtrain"):
                    seen.add(id(function))
                    yield path, function


def functions_of(name, value):
    if inspect.isfunction(value):
        return [(name, inspect.unwrap(value))]
    if not inspect.isclass(value):
        return []
    theirs = {
        one
        for base in value.__mro__[1:]
        if not base.__module__.startswith("rtrain")
        for one in vars(base)
        if not one.startswith("_")
    }
    functions = inspect.getmembers(
        value, lambda one: inspect.isfunction(one) or inspect.ismethod(one)
    )  # class methods are methods
    members = [
        (one, getattr(f, "__func__", f)) for one, f in functions if one not in theirs
    ]  # a framework passes the arguments of its hooks
    return [(f"{name}.{one}", inspect.unwrap(f)) for one, f in members if one == "__init__" or not one.startswith("_")]


def dropped(function) -> list[str]:
    """Returns the parameters that the function neither uses nor stores in a field that is read."""
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(function))).body[0]
    except (OSError, TypeError, SyntaxError):
        return []  # a data class: its fields are compared instead
    if not isinstance(tree, ast.FunctionDef) or all(isinstance(one, ast.Raise | ast.Expr) for one in tree.body):
        return []  # the function raises only, or belongs to a protocol
    given = tree.args
    names = [one.arg for one in [*given.posonlyargs, *given.args, *given.kwonlyargs, given.vararg, given.kwarg] if one]
    kept, elsewhere = {}, set()
    for node in ast.walk(ast.Module(body=tree.body, type_ignores=[])):
        if isinstance(node, ast.Assign):
            for target, value in pairs_of(node):
                if isinstance(target, ast.Attribute) and isinstance(value, ast.Name):
                    kept[id(value)] = target.attr
    for node in ast.walk(ast.Module(body=tree.body, type_ignores=[])):
        if isinstance(node, ast.Name) and (id(node) not in kept or kept[id(node)] in words_read()):
            elsewhere.add(node.id)
    return [one for one in names if one not in elsewhere and one not in ("self", "cls")]


def pairs_of(node: ast.Assign):
    for target in node.targets:
        if isinstance(target, ast.Tuple) and isinstance(node.value, ast.Tuple):
            yield from zip(target.elts, node.value.elts, strict=False)
        else:
            yield target, node.value


def test_every_parameter_of_every_public_function_is_used_or_declared():
    functions = list(public_functions())
    assert len(functions) > 200
    seen = {path for path, _ in functions}
    assert {"Tuner.can_restore", "setup_mlflow", "setup_wandb", "WorkerGroup.execute", "Checkpoint.from_directory"} <= seen
    installed = {"torch": "TorchTrainer.__init__", "lightning": "prepare_trainer", "transformers": "TransformersTrainer.__init__"}
    assert {path for needs, path in installed.items() if importlib.util.find_spec(needs)} <= seen
    wrong = [
        f"{path}({name}=)"
        for path, function in functions
        if path not in OVERRIDDEN and path.rpartition(".")[2] not in HOOKS
        for name in dropped(function)
        if (path, name) not in TOLD_BY_ANOTHER
    ]
    assert wrong == []


def test_every_field_of_every_public_data_class_is_read_somewhere():
    wrong = []
    for package in PACKAGES:
        module, names = imported(package)
        for name in names:
            fields = getattr(getattr(module, name), "__dataclass_fields__", {}) if name not in READ_BY_LOOPS else {}
            wrong += [f"{name}.{one}" for one in fields if one not in words_read()]
    assert wrong == []


def test_the_check_can_fail():
    class Keeps:
        def __init__(self, used, dropped_by_all, kept_and_never_read, **rest):
            self.zzz_never_read = kept_and_never_read
            print(used)

    assert dropped(Keeps.__init__) == ["dropped_by_all", "kept_and_never_read", "rest"]


def sample(rule, call):
    """Returns a value that is not neutral and of a type that the argument accepts."""
    for value in (5, "other", True, False, {"CPU": 1}, train.SyncConfig()):
        if any(_arguments._is(value, neutral) for neutral in rule.neutral):
            continue
        try:
            call(value)
        except TypeError:
            continue
        except ValueError:
            if not rule.refused:
                continue
        return value
    raise AssertionError(f"no sample of a type that the argument takes: {rule}")


def outcome(call, name, rule, warnings):
    """Checks that the argument is mentioned once or refused, with the reason, and that a neutral value is not
    mentioned.
    """
    given = sample(rule, call)
    warnings()
    _arguments._warned.clear()
    if rule.refused:
        with pytest.raises(ValueError, match=name) as caught:
            call(given)
        assert rule.why in str(caught.value)
        return
    call(given)
    call(given)
    warning = warnings()
    assert warning.count(f"({name}=) changes nothing: {rule.why}") == 1
    for neutral in rule.neutral:
        _arguments._warned.clear()
        call(neutral)
        assert warnings() == ""


OPERATIONS = {
    "map": lambda rows, given: rows.map(dict, **given),
    "flat_map": lambda rows, given: rows.flat_map(lambda row: [row], **given),
    "filter": lambda rows, given: rows.filter(bool, **given),
    "map_batches": lambda rows, given: rows.map_batches(dict, **given),
    "add_column": lambda rows, given: rows.add_column("x", len, **given),
    "drop_columns": lambda rows, given: rows.drop_columns("id", **given),
    "select_columns": lambda rows, given: rows.select_columns("id", **given),
    "rename_columns": lambda rows, given: rows.rename_columns({"id": "x"}, **given),
    "random_shuffle": lambda rows, given: rows.random_shuffle(**given),
    "repartition": lambda rows, given: rows.repartition(**given),
}


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("name", OPERATIONS)
def test_operations_tell_of_each_argument_that_changes_nothing(name, capfd):
    calls = name in ("map", "flat_map", "filter", "map_batches", "add_column")
    for argument, rule in (_arguments.FUNCTIONS if calls else _arguments.OPERATIONS).items():
        call = lambda value, argument=argument: OPERATIONS[name](data.range(3), {argument: value})  # noqa: E731
        outcome(call, argument, rule, lambda: capfd.readouterr().err)
    with pytest.raises(TypeError, match="has no argument 'num_cpu'"):
        OPERATIONS[name](data.range(3), {"num_cpu": 1})


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("reader", ["range", "read_csv", "read_json", "read_text", "read_binary_files", "read_parquet"])
def test_readers_tell_of_each_argument_that_changes_nothing(reader, tmp_path, capfd):
    (tmp_path / "a.csv").write_text("id\n1\n")
    (tmp_path / "a.json").write_text("{}\n")
    data.range(3).write_parquet(tmp_path)
    where = 3 if reader == "range" else tmp_path
    for argument, rule in _arguments.READERS.items():
        call = lambda value, argument=argument: getattr(data, reader)(where, **{argument: value})  # noqa: E731
        outcome(call, argument, rule, lambda: capfd.readouterr().err)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("kind", ["parquet", "csv", "json"])
def test_writers_tell_of_each_argument_that_changes_nothing(kind, tmp_path, capfd):
    for number, (argument, rule) in enumerate(_arguments.WRITERS.items()):

        def call(value, argument=argument, number=number):
            getattr(data.range(3), f"write_{kind}")(tmp_path / str(number), **{argument: value})

        outcome(call, argument, rule, lambda: capfd.readouterr().err)
    getattr(data.range(10), f"write_{kind}")(tmp_path / "rows", min_rows_per_file=2, max_rows_per_file=4)
    assert len(list((tmp_path / "rows").iterdir())) == 3
    with pytest.raises(TypeError, match="nothing_such"):
        getattr(data.range(3), f"write_{kind}")(tmp_path / "none", nothing_such=1)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_remote_calls_tell_of_each_option_that_changes_nothing(capfd):
    for argument, rule in _arguments.REMOTE.items():
        call = lambda value, argument=argument: rtrain.remote(**{argument: value})(len)  # noqa: E731
        outcome(call, argument, rule, lambda: capfd.readouterr().err)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_what_a_signature_has_for_other_scripts_is_told_of(tmp_path, capfd):
    (tmp_path / "a.json").write_text("{}\n")
    calls = {
        "random_shuffle": lambda given: data.range(3).random_shuffle(**given),
        "repartition": lambda given: data.range(3).repartition(**given),
        "split": lambda given: data.range(3).split(2, **given),
        "streaming_split": lambda given: data.range(3).streaming_split(2, **given),
        "from_items": lambda given: data.from_items([1], **given),
        "read_json": lambda given: data.read_json(tmp_path / "a.json", **given),
        "DataConfig": lambda given: train.DataConfig(**given),
        "ScalingConfig": lambda given: train.ScalingConfig(**given),
        "RunConfig": lambda given: train.RunConfig(**given),
        "CheckpointConfig": lambda given: train.DataParallelTrainer(
            print, run_config=train.RunConfig(checkpoint_config=train.CheckpointConfig(**given))
        ),
        "FailureConfig": lambda given: train.FailureConfig(**given),
        "TuneConfig": lambda given: tune.TuneConfig(**given),
        "PopulationBasedTraining": lambda given: tune.schedulers.PopulationBasedTraining(custom_explore_fn=dict, **given),
        "CLIReporter": lambda given: tune.CLIReporter(**given),
        "JupyterNotebookReporter": lambda given: tune.JupyterNotebookReporter(**given),
        "SyncConfig": lambda given: train.SyncConfig(**given),
        "wait": lambda given: rtrain.wait([rtrain.put(1)], **given),
        "get_next_unordered": lambda given: pytest.raises(StopIteration, util.ActorPool([]).get_next_unordered, **given),
        "list_nodes": lambda given: pytest.raises(ConnectionError, util.state.list_nodes, "127.0.0.1:1", **given),
    }
    assert calls.keys() == _arguments.NAMED.keys()
    for name, table in _arguments.NAMED.items():
        for argument, rule in table.items():
            call = lambda value, name=name, argument=argument: calls[name]({argument: value})  # noqa: E731
            outcome(call, argument, rule, lambda: capfd.readouterr().err)


def test_file_extensions_choose_and_shuffle_mixes(tmp_path):
    for number in range(8):
        (tmp_path / f"{number}.{'log' if number % 2 else 'txt'}").write_text(f"{number}\n")
    for extensions in (["log"], ".log"):
        assert [row["text"] for row in data.read_text(tmp_path, file_extensions=extensions).take_all()] == list("1357")
    assert data.read_text(f"{tmp_path}/*", file_extensions=["txt"]).count() == 4
    with pytest.raises(FileNotFoundError, match="csv"):
        data.read_text(tmp_path, file_extensions=["csv"])
    share = data.read_text(tmp_path, shuffle="files").rtrain_share_of_run(0, 1, 3, equal=True)
    epochs = [[row["text"] for row in share] for _ in range(3)]
    assert all(sorted(one) == list("01234567") for one in epochs) and len({tuple(one) for one in epochs}) > 1
    with pytest.raises(ValueError, match="shuffle is 'rows'"):
        data.read_text(tmp_path, shuffle="rows")
