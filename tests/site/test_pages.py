"""Holds every page against the program: each command, spec, piece of Python, name and default. A planted wrong line shows that
each check can fail."""

from __future__ import annotations

import pathlib
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(pathlib.Path(__file__).resolve().parent), str(ROOT / "runtime" / "python")]

import page_commands  # noqa: E402
import page_defaults  # noqa: E402
import page_jobs  # noqa: E402
import page_names  # noqa: E402
import page_python  # noqa: E402
import page_text  # noqa: E402

CHECKS = {
    "commands": page_commands.wrong_commands,
    "jobs": page_jobs.wrong_jobs,
    "python": page_python.wrong_pieces,
    "names": page_names.wrong_names,
}
PAGES = page_text.page_names()


@pytest.mark.parametrize("check", CHECKS)
def test_every_page_holds_against_the_program(check) -> None:
    assert len(PAGES) > 100 and "docs/quickstart.md" in PAGES
    assert [line for name in PAGES for line in CHECKS[check](name, (ROOT / name).read_text())] == []


def test_pages_have_what_is_checked() -> None:
    """The checks would also pass if they found nothing to look at."""
    text = "".join((ROOT / name).read_text() for name in PAGES)
    lines = [line.text for block in page_text.blocks(text) for line in page_commands.command_lines(block)]
    jobs = [block for block in page_text.blocks(text) if block.language == "yaml"]
    programs = [block for block in page_text.blocks(text) if block.language == "python"]
    assert len(lines) > 50 and len(jobs) > 4 and len(programs) > 10 and len(page_text.spans(text)) > 4000
    assert sum(page_commands.of_rtrain(words) is not None for line in lines for words in page_commands.simple_commands(line)) > 40
    assert sum(page_jobs.piece_of_job(span.text) != "" for span in page_text.spans(text)) > 20


PLANTED = [
    ("commands", "```\n$ rtrain submit job.yaml --folow\n```", 'unknown flag "--folow"'),
    ("commands", "```\nm1$  rtrain nodez   # lists them\n```", 'unknown verb "nodez"'),
    ("commands", "```\n$ rtrain resize RUN\n```", "lacks N"),
    (
        "commands",
        "```\n$ kubectl -n rtrain exec h-0 -- rtrain token create --roles node |\n    kubectl apply -f -\n```",
        "--roles",
    ),
    ("commands", "```\n$ rtrain logs RUN --since 5parsecs\n```", "not a duration"),
    ("commands", "| `rtrain up --knodes 2` | starts |", "--knodes"),
    ("commands", "Use `rtrain\nnode drian NODE` before.", "drian"),
    ("commands", "As `node join --worm` does.", "--worm"),
    ("commands", "With `--shutdown-after-the-end` it ends.", "no verb has --shutdown-after-the-end"),
    ("commands", "`scripts/demolish` shows it, `scripts/docs --without-c` too.", "there is no scripts/demolish"),
    ("commands", "`scripts/docs --without-c` does.", "does not know --without-c"),
    ("jobs", "```yaml\nentrypoint: python train.py\nscaling: {wrokers: 2}\n```", "wrokers"),
    ("jobs", "```yaml\ncurrent: lab\ncontexts: {lab: {adress: h}}\n```", "adress"),
    ("jobs", "```yaml\nnodes: [{id: n1, resource: {CPU: 1}}]\nallocations: []\n```", "resource"),
    ("jobs", "```yaml\nautoscale: {provide: [/bin/x]}\n```", "autoscale has no field provide"),
    ("jobs", "Set `failure: {max_failure: 3}` there.", "max_failure"),
    ("jobs", "Set `failure.max_retries` there.", "no field failure.max_retries"),
    ("jobs", "Say `rtrain submit job.yaml --set scaling.worker=4`.", "no field scaling.worker"),
    ("python", "```python\nfrom rtrain.train import ScalingConfigs\n```", "rtrain.train has no ScalingConfigs"),
    ("python", "```python\nScalingConfig(num_worker=2)\n```", "takes no num_worker"),
    ("python", "```python\nimport rtrain.train\nrtrain.train.reprot({})\n```", "rtrain.train has no reprot"),
    ("python", "```python\nfor x in:\n```", "is no Python"),
    ("python", "Give `RunConfig(enviroment=)`.", "takes no enviroment"),
    ("python", "```python\nimport ray.tune  |  import rtrain.tunes\n```", "there is no module rtrain.tunes"),
    ("names", "Set `RTRAIN_ADRESS`.", "no source has the variable RTRAIN_ADRESS"),
    ("names", "See `configs/kubernetes/overlays/tpu`.", "there is no configs/kubernetes/overlays/tpu"),
    ("names", "`GET /v1/runz/{run}`", "the API has no GET /v1/runz/{run}"),
    ("names", "Look at `rtrain_node_disk_{size,fre}_bytes`.", "rtrain_node_disk_fre_bytes"),
]


@pytest.mark.parametrize("check, page, complaint", PLANTED)
def test_a_wrong_line_of_a_page_is_found(check, page, complaint) -> None:
    complaints = list(CHECKS[check]("planted.md", f"# Title\n\n{page}\n"))
    assert any(complaint in line and line.startswith("planted.md:") for line in complaints), complaints


def test_the_line_of_a_complaint_is_the_pages() -> None:
    (complaints,) = page_commands.wrong_commands("p.md", "# T\n\n```\n$ rtrain runs\n$ rtrain runz\n```\n")
    assert complaints.startswith("p.md:5: ")


def test_the_program_of_the_quick_start_is_the_example() -> None:
    block = next(block for block in page_text.blocks((ROOT / "docs" / "quickstart.md").read_text()) if block.language == "python")
    assert block.text + "\n" == (ROOT / "examples" / "quickstart" / "train.py").read_text()


def test_the_spec_with_every_field_shows_the_defaults() -> None:
    page = (ROOT / "docs" / "job-spec.md").read_text()
    assert list(page_jobs.wrong_defaults(page)) == []
    assert list(page_jobs.wrong_defaults(page.replace("grow_after: 30s", "grow_after: 31s"))) == [
        "scaling.grow_after: '31s' is shown, '30s' is the default"
    ]
    assert list(page_jobs.wrong_defaults(page.replace("  fail_fast: false\n", ""))) == ["failure.fail_fast is not in the spec"]


def test_limits_and_defaults_of_tables_are_the_programs() -> None:
    spec, scaling, slurm = ((ROOT / "docs" / f"{name}.md").read_text() for name in ("job-spec", "autoscaling", "slurm"))
    complaints = [*page_defaults.wrong_limits(spec), *page_defaults.wrong_autoscaling(scaling), *page_defaults.wrong_slurm(slurm)]
    assert complaints == []
    assert len(list(page_defaults.wrong_autoscaling(scaling.replace("| `10m` |", "| `11m` |")))) == 1
    assert len(list(page_defaults.wrong_limits(spec.replace("| 1,024 |", "| 1,025 |")))) == 1
    assert len(list(page_defaults.wrong_slurm(slurm.replace("`--interface NAME`", "`--inface NAME`")))) == 2


def test_defaults_that_sentences_state_are_the_programs() -> None:
    assert list(page_defaults.wrong_statements(page_defaults.STATED)) == []
    page, sentence, file, text = page_defaults.STATED[2]
    assert (
        len(list(page_defaults.wrong_statements([(page, sentence, file, text + "9"), (page, sentence + "9", file, text)]))) == 2
    )
