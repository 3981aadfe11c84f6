"""Job specs of pages, read by `rtrain validate`, and names of fields, looked up in the program's schema."""

from __future__ import annotations

import functools
import json
import pathlib
import re
import tempfile
from collections.abc import Iterator
from typing import Any

import yaml
from page_commands import command_lines, run, simple_commands
from page_text import ROOT, blocks, spans

# The fields of the spec in docs/job-spec.md that show an example in place of their default.
EXAMPLES = {"version", "name", "entrypoint", "working_dir", "env", "setup", "scaling.workers", "stop", "tracking", "labels"}

FIELD = re.compile(r"[a-z_]+(\.(?!(?:cpp|hpp|ckpt|json|yaml|pkl|txt|md|py)$)[a-z_]+)+")
LEFT_OUT = {"storage_path": "cluster://"}  # the meaning of a field that is left out


@functools.cache
def schema() -> dict[str, Any]:
    return json.loads(run("schema").stdout)


def fields(part: dict[str, Any] | None = None, before: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    """Yields (dotted name, its schema) of every field of a job spec; a field with fields of its own is not among them."""
    for name, field in (part or schema())["properties"].items():
        if "properties" in field:
            yield from fields(field, f"{before}{name}.")
        else:
            yield f"{before}{name}", field


@functools.cache
def groups() -> set[str]:
    return {name.partition(".")[0] for name, _ in fields() if "." in name}


@functools.cache
def ctest_names() -> set[str]:
    return set(re.findall(r"NAME ([a-z_.]+)", (ROOT / "tests" / "python" / "CMakeLists.txt").read_text()))


def wrong_field(dotted: str) -> str:
    known = dict(fields())
    parts = dotted.split(".")
    if any(".".join(parts[: end + 1]) in known for end in range(len(parts))) or dotted in groups():
        return ""
    return f"a job spec has no field {dotted}"


def first_problem(text: str, *words: str) -> str:
    """Returns what `rtrain WORDS` complains of first, where FILE stands for a file with the text and JOB for a small job."""
    with tempfile.TemporaryDirectory(prefix="rtrain-page-") as folder:
        file, job = pathlib.Path(folder) / "page.yaml", pathlib.Path(folder) / "job.yaml"
        file.write_text(text)
        job.write_text("entrypoint: run it\n")
        done = run(*({"FILE": str(file), "JOB": str(job)}.get(word, word) for word in words))
        return "" if done.returncode in (0, 8) else done.stderr.splitlines()[0].removeprefix(f"{file}:")


def wrong_job(text: str) -> str:
    """Returns the first problem that `rtrain validate` finds; empty: the job is valid. The job's script is not beside it."""
    problem = first_problem(text, "validate", "FILE")
    return "" if "entrypoint: there is no file" in problem else problem


def wrong_document(text: str, value: dict[str, Any]) -> str:
    """Returns what is wrong with a YAML document that is a job, a configuration, a described cluster, or rules of autoscaling."""
    if "entrypoint" in value:
        return wrong_job(text)
    if "contexts" in value:
        return first_problem(text, "--config", "FILE", "context", "list")
    if "nodes" in value and "allocations" in value:
        return first_problem(text, "plan", "JOB", "--cluster", "FILE")
    source = (ROOT / "storage" / "job_spec" / "fields" / "autoscale.cpp").read_text()
    unknown = [field for field in value.get("autoscale", {}) if f'{{"{field}", ' not in source]
    return f"autoscale has no field {', '.join(unknown)}" if unknown else ""


def loaded(text: str) -> Any:
    try:
        return yaml.safe_load(text)
    except yaml.YAMLError:
        return None


def piece_of_job(text: str) -> str:
    """Returns a job with the field that a sentence shows (`failure: {max_failures: 3}`); empty: the text shows none."""
    match = re.match(r"([a-z_]+):( |$)", text)
    if not match or match[1] not in schema()["properties"] or "..." in text or "…" in text:
        return ""
    value = loaded(text)
    if not isinstance(value, dict) or value[match[1]] is None:
        return ""
    text = re.sub(r"\bRUN\b|\bNAME\b", "x", text)
    return f"{text}\n" if match[1] == "entrypoint" else f"entrypoint: run it\n{text}\n"


def wrong_fields_of_command(text: str) -> Iterator[str]:
    for words in simple_commands(text):
        for flag, value in zip(words, words[1:], strict=False):
            if flag == "--set" and re.match(r"[a-z_.]+=", value) and (complaint := wrong_field(value.partition("=")[0])):
                yield complaint


def wrong_jobs(name: str, text: str) -> Iterator[str]:
    """One line for each job spec of the page that is refused, and for each field of one that does not exist."""
    for block in blocks(text):
        value = loaded(block.text) if block.language == "yaml" else None
        if isinstance(value, dict) and (complaint := wrong_document(block.text, value)):
            yield f"{name}:{block.line}: {complaint}"
        for line in command_lines(block) if not block.language else ():
            yield from (f"{name}:{line.line}: {complaint}" for complaint in wrong_fields_of_command(line.text))
    for span in spans(text):
        job = piece_of_job(span.text)
        complaint = wrong_job(job) if job else ""
        if FIELD.fullmatch(span.text) and span.text.partition(".")[0] in groups() and span.text not in ctest_names():
            complaint = wrong_field(span.text)
        for wrong in [complaint, *wrong_fields_of_command(span.text)]:
            if wrong:
                yield f"{name}:{span.line}: `{span.text}`: {wrong}"


def canonical(text: str) -> dict[str, Any]:
    """Returns {dotted field: value} of the job as the program reads it, with its defaults."""
    with tempfile.TemporaryDirectory(prefix="rtrain-page-") as folder:
        file = pathlib.Path(folder) / "job.yaml"
        file.write_text(text)
        job = json.loads(run("validate", str(file), "-o", "json").stdout)["job"]
    return {dotted: functools.reduce(lambda value, part: value[part], dotted.split("."), job) for dotted, _ in fields()}


def shown_fields(value: dict[str, Any], before: str = "") -> Iterator[str]:
    for key, inner in value.items():
        yield f"{before}{key}"
        if isinstance(inner, dict):
            yield from shown_fields(inner, f"{before}{key}.")


def wrong_defaults(text: str) -> Iterator[str]:
    """Compares the spec of docs/job-spec.md that has every field with a spec that has none but the entrypoint."""
    (block,) = [block for block in blocks(text) if block.language == "yaml"]
    shown, defaults = canonical(block.text), canonical("entrypoint: run it\n")
    named = set(shown_fields(yaml.safe_load(block.text)))
    yield from (f"{dotted} is not in the spec" for dotted in defaults if dotted not in named and dotted != "driver")
    for dotted, default in defaults.items():
        if dotted not in EXAMPLES and shown[dotted] not in (default, LEFT_OUT.get(dotted)):
            yield f"{dotted}: {shown[dotted]!r} is shown, {default!r} is the default"
