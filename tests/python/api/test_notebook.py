"""A real kernel of a notebook: functions of its cells train, a Result is shown as a table, and an interrupted cell
acts as Ctrl-C. Skipped without ipykernel (scripts/bootstrap installs it).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from cells import DEFINES

jupyter = pytest.importorskip("jupyter_client")
pytest.importorskip("ipykernel")

TRAINS = """
result = DataParallelTrainer(
    make(3), train_loop_config={"add": lambda value: value + 1}, scaling_config=ScalingConfig(num_workers=2)
).fit()
result
"""
ENDLESS = """
def endless():
    import threading
    print("it runs", flush=True)
    threading.Event().wait()

DataParallelTrainer(endless, run_config=RunConfig(name="NAME")).fit()
"""
Cell = Callable[..., tuple[dict[str, Any], list[dict[str, Any]]]]


@pytest.fixture
def kernel(cluster: Any, tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Any, Cell]]:
    (tmp_path / "beside.py").write_text("def double(x):\n    return 2 * x\n")
    for name in ("JUPYTER_RUNTIME_DIR", "JUPYTER_DATA_DIR", "JUPYTER_CONFIG_DIR", "IPYTHONDIR"):
        monkeypatch.setenv(name, str(tmp_path / "jupyter"))
    environment = {
        **cluster.environment,
        **{"JUPYTER_RUNTIME_DIR": str(tmp_path / "jupyter"), "IPYTHONDIR": str(tmp_path / "jupyter")},
    }
    manager, client = jupyter.manager.start_new_kernel(startup_timeout=120, cwd=str(tmp_path), env=environment)

    def cell(code: str, interrupt_at: str = "") -> tuple[dict[str, Any], list[dict[str, Any]]]:
        """Returns the kernel's reply, and its output meanwhile."""
        shown: list[dict[str, Any]] = []

        def hook(message: dict[str, Any]) -> None:
            shown.append({"kind": message["msg_type"], **message["content"]})
            if interrupt_at and interrupt_at in str(message["content"].get("text")):
                manager.interrupt_kernel()

        answer = client.execute_interactive(code, timeout=120, output_hook=hook)
        return answer["content"], shown

    yield manager, cell
    client.stop_channels()
    manager.shutdown_kernel(now=True)


def test_cells_train_what_they_define_show_results_and_can_be_interrupted(cluster: Any, kernel: tuple[Any, Cell]) -> None:
    _, cell = kernel
    assert cell(DEFINES)[0]["status"] == "ok"
    answer, shown = cell(TRAINS)
    assert answer["status"] == "ok", answer
    table = next(one["data"] for one in shown if one["kind"] == "execute_result")
    assert table["text/html"].startswith("<table><tr><th>metrics</th><td>value=43, rank=0</td></tr>")
    assert table["text/plain"].startswith("Result(\n  metrics: value=43, rank=0\n")
    assert any(one.get("name") == "stdout" and one["text"] == "3\n" for one in cell("print(result.return_value.weight)")[1])

    name = cluster.name("cell")
    answer, shown = cell(ENDLESS.replace("NAME", name), interrupt_at="it runs")
    assert (answer["status"], answer["ename"]) == ("error", "KeyboardInterrupt"), answer
    assert f"stopping {name}" in "".join(one["text"] for one in shown if one.get("name") == "stderr")
    assert cluster.json("describe", name)["state"] == "STOPPED"
    assert cell(TRAINS)[0]["status"] == "ok", "the kernel trains on"
