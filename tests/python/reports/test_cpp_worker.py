"""A C++ program as a worker, and the C interface given wrong arguments."""

import json
import os
import subprocess

import pytest
from conftest import clean_environment

PROBE = os.environ.get("RTRAIN_CPP_WORKER", "")
pytestmark = pytest.mark.skipif(not PROBE, reason="ctest names the program (RTRAIN_CPP_WORKER)")


def begin(agent, verb, rank=0, **environment):
    return subprocess.Popen(
        [PROBE, verb],
        env={**clean_environment(), **agent.environment(rank), **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def finish(process, expect=0):
    out, err = process.communicate(timeout=120)
    assert process.returncode == expect, out + err
    return out, err


def test_a_cpp_worker_reports_a_checkpoint_and_reads_it_back(agent):
    out, _ = finish(begin(agent, "report"))
    checkpoint, context = map(json.loads, out.splitlines())
    assert checkpoint["directory"] == "checkpoint_000001-a003"
    assert checkpoint["metrics"] == {"loss": 0.5}
    assert (agent.storage / "checkpoint_000001-a003" / "model").read_text() == "weights"
    assert context["run_name"] == "story"
    assert agent.frames("report")[0]["checkpoint"]["directory_name"] == "best"


def test_rank_0s_bytes_reach_all_ranks(agent):
    agent.world_size = 2
    ranks = [begin(agent, "broadcast", rank) for rank in range(2)]
    assert [finish(rank)[0] for rank in ranks] == ["equal\n", "equal\n"]


def test_wrong_arguments_get_a_code_and_a_reason_and_reach_no_agent(agent):
    out, _ = finish(begin(agent, "wrong"))
    lines = out.splitlines()
    assert len(lines) == 11
    assert all(": 2 " in line for line in lines)
    assert "NaN" in lines[5]
    assert "../../etc" in lines[10]
    assert agent.frames("report") == []


def test_the_cause_a_cpp_worker_names_reaches_the_agent(agent):
    finish(begin(agent, "fail"), expect=3)
    agent.wait(lambda: any(frame["type"] == "fail" for frame in agent.heard))
    assert agent.frames("fail")[0]["text"] == "the data is empty"


def test_outside_of_a_run_the_program_is_told_how_to_start(agent):
    _, err = finish(begin(agent, "report", RTRAIN_WORKER_SOCKET=""), expect=1)
    assert err.startswith("1 ")
    assert "rtrain submit" in err


def test_a_rank_that_is_no_number_is_named(agent):
    _, err = finish(begin(agent, "report", RANK="first"), expect=1)
    assert "RANK is 'first'" in err


def test_a_second_process_reads_and_reports_once_the_first_has_released(agent):
    process = begin(agent, "places")
    out, _ = finish(process)
    refused, reported = out.splitlines()
    assert refused.startswith(f"1 2 rank 0 belongs to process {process.pid}")
    assert reported == "1 reported"
    assert [report["index"] for report in agent.frames("report")] == [1, 2]
