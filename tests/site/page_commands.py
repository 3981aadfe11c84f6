"""Commands of pages, read by the program itself: `rtrain --help WORDS` parses the words as a command, and runs nothing."""

from __future__ import annotations

import functools
import json
import os
import re
import shlex
import subprocess
from collections.abc import Iterator

from page_text import ROOT, Code, blocks, spans, tracked_files

RTRAIN = os.environ.get("RTRAIN_BINARY", str(ROOT / "build" / "release" / "rtrain"))
_PACKAGES = {"scripts/bench": "benchmarks"}  # the folder of a script with another name
PROMPT = re.compile(r"^(?:[a-z]+\d*)?\$ +")
FLAG = re.compile(r"^ +(?:-(\w), )? *--([\w-]+)( \S+)?", re.M)
PLACEHOLDER = re.compile(r"^[A-Z][A-Z_:@.\[\]]*$")
OPERATORS = {"|", "||", "&&", ";", "&", ">", ">>", "<", "(", ")"}
# Flags of other programs that pages name.
FOREIGN = {
    "torchrun": {"--nproc-per-node", "--nnodes", "--rdzv-endpoint", "--max-restarts"},
    "sbatch": {"--partition", "--gpus-per-node", "--signal", "--array"},
    "a script": {"--lr"},
    "test programs": {"--rewrite", "--seeds"},
    "podman": {"--build-arg"},
}


def run(*words: str) -> subprocess.CompletedProcess[str]:
    clean = {name: value for name, value in os.environ.items() if not name.startswith("RTRAIN_")}
    return subprocess.run(
        [RTRAIN, *words], capture_output=True, text=True, check=False, env={**clean, "RTRAIN_CONFIG": "/dev/null"}
    )


@functools.cache
def usages() -> dict[str, str]:
    """Returns {verb: usage line} of every verb that people see."""
    return {row["verb"]: row["usage"] for row in json.loads(run("help", "-o", "json").stdout)["items"]}


@functools.cache
def flags_of(verb: str) -> dict[str, bool]:
    """Returns {flag: whether it takes a value} of a verb, with the flags of every verb; letters as `-o`."""
    known = {}
    for letter, name, value in FLAG.findall(run(*verb.split(), "--help").stdout):
        known[f"--{name}"] = bool(value.strip())
        if letter:
            known[f"-{letter}"] = bool(value.strip())
    return known


@functools.cache
def all_flags() -> set[str]:
    return {flag for verb in usages() for flag in flags_of(verb)}


def verb_of(words: list[str]) -> str:
    """Returns the longest verb that the words begin with; empty: none."""
    return next((verb for verb in (" ".join(words[:2]), words[0] if words else "") if verb in usages()), "")


def plain_words(text: str) -> list[str]:
    """Returns the words of a command line, without dots that stand for more, brackets of optional parts and comments."""
    text = re.sub(r"[─►].*", "", text)
    text = re.sub(r"(?<!\S)\[|\](?!\S)", " ", text).replace("…", "...")
    reader = shlex.shlex(text, posix=True, punctuation_chars="|&;<>()")
    reader.whitespace_split = True
    reader.commenters = "#"
    try:
        return [word for word in reader if word != "..."]
    except ValueError:  # a quotation mark that is a sentence's
        return text.split()


def simple_commands(text: str) -> Iterator[list[str]]:
    words: list[str] = []
    for word in [*plain_words(text), ";"]:
        if word in OPERATORS or set(word) <= set("|&;<>()"):
            if words:
                yield words
            words = []
        else:
            words.append(word)


def command_lines(block: Code) -> Iterator[Code]:
    """Yields what a block shows as typed: lines behind a prompt, or that begin with `rtrain`; a line that goes on is one."""
    lines = block.text.split("\n")
    number = 0
    while number < len(lines):
        first, line = number, lines[number]
        while line.rstrip().endswith(("\\", "|")) and number + 1 < len(lines):
            number += 1
            line = line.rstrip().removesuffix("\\") + " " + lines[number].strip()
        number += 1
        is_picture = re.search("[─│►▲▼]", block.text) is not None  # a picture names verbs as a sentence does
        if PROMPT.match(line) or (line.startswith("rtrain ") and not is_picture):
            yield Code(block.line + first, PROMPT.sub("", line))


def of_rtrain(words: list[str]) -> list[str] | None:
    """Returns what follows `rtrain` where the words run it, by themselves or behind sudo, srun, variables, or `kubectl exec --`."""
    for place, word in enumerate(words):
        before = words[:place]
        led = all("=" in one or one == "sudo" for one in before) or before[-1] == "--" or before[0] == "srun"
        if word == "rtrain" and led:
            return words[place + 1 :]
    return None


def filled_in(words: list[str], complaint: str) -> list[str] | None:
    """Returns the words with a number or a time in place of the placeholder that the program complains of."""
    match = re.search(r': "([^"]+)" is not a (whole number|duration)|(is none of|is neither)', complaint)
    if not match or not match[1] or not PLACEHOLDER.match(match[1]):
        return None
    value = "1" if match[2] == "whole number" else "1m"
    return [value if word == match[1] else re.sub(f"={re.escape(match[1])}$", f"={value}", word) for word in words]


def refusal(words: list[str], whole: bool) -> str:
    """Returns why the program does not understand the words; empty: it does. Not `whole`: the last flag's value may be left out."""
    for _ in range(4):
        done = run("--help", *words)
        if done.returncode == 0:
            return ""
        other = filled_in(words, done.stderr)
        if other is None and not whole and re.search(rf"{re.escape(words[-1])} needs \S+$", done.stderr.splitlines()[0]):
            return ""  # a sentence names the flag alone
        if other is None:
            return done.stderr.splitlines()[0].removeprefix("error: ")
        words = other
    return done.stderr.splitlines()[0]


def missing_arguments(words: list[str]) -> str:
    """Returns what a whole command lacks of its verb's arguments; empty: nothing."""
    verb = verb_of(words)
    needed = [
        word for word in usages()[verb].split()[1 + len(verb.split()) :] if not word.startswith("[") and not word.endswith("]")
    ]
    known, given, rest = flags_of(verb), 0, iter(words[len(verb.split()) :])
    for word in rest:
        if word.startswith("-") and word != "-":
            if known.get(word):
                next(rest, None)
        else:
            given += 1
    return "" if given >= len(needed) else f"lacks {' '.join(needed[given:])}"


def wrong_rtrain(words: list[str], whole: bool) -> str:
    """Returns what is wrong with `rtrain WORDS`. `whole`: it is shown as typed, so that no argument may be missing."""
    words = [word for word in words if word != "--help"]
    if not words or words[0].startswith("__") or PLACEHOLDER.match(words[0]):
        return ""  # `rtrain` alone, a verb of its own processes, `rtrain VERB`
    verb = verb_of(words)
    if not verb and run("--help", *words).returncode == 0:
        return ""  # the first word of several verbs
    if complaint := refusal(words, whole):
        return complaint
    return missing_arguments(words) if whole and verb else ""


def wrong_script(words: list[str]) -> str:
    """Returns what is wrong with a command of scripts/: each flag of it must stand in the script or in the files beside it."""
    name = words[0].removeprefix("./")
    file = ROOT / name
    if not file.exists():
        return f"there is no {name}"
    if not file.is_file():
        return ""
    own_name = file.name.replace("-", "_")
    beside = [*file.parent.glob(f"{own_name}*.py"), *(file.parent / _PACKAGES.get(name, own_name)).glob("*.py")]
    text = "".join(one.read_text() for one in [file, *beside])
    if name == "scripts/docs":
        text += (ROOT / "scripts" / "site" / "make_site.py").read_text()
    if name == "scripts/test":
        return ""  # its flags are ctest's
    flags = [word.partition("=")[0] for word in words[1:] if word.startswith("--")]
    missing = [flag for flag in flags if not re.search(rf"(?<![\w-]){flag}(?![\w-])", text)]
    if name == "scripts/bench":
        missing += [word for word in words[1:2] if word.isidentifier() and word.islower() and not re.search(rf"\b{word}\b", text)]
    return f"{name} does not know {', '.join(missing)}" if missing else ""


def wrong_command(text: str, whole: bool) -> Iterator[str]:
    for words in simple_commands(text):
        of_ours = of_rtrain(words)
        if of_ours is not None:
            if complaint := wrong_rtrain(of_ours, whole):
                yield f"`rtrain {' '.join(of_ours)}`: {complaint}"
        elif re.match(r"(\./)?scripts/[\w.-]+$", words[0]) and (complaint := wrong_script(words)):
            yield complaint


def wrong_span(text: str) -> Iterator[str]:
    """A command within a sentence: `rtrain ...`, `scripts/...`, a verb with flags (`node join --warm`), or flags alone."""
    if re.match(r"(sudo )?rtrain |scripts/", text):
        yield from wrong_command(text, whole=False)
        return
    words = plain_words(text)
    verb = verb_of(words)
    if verb and any(word.startswith("--") for word in words):
        if complaint := refusal(words, whole=False):
            yield f"`{text}`: {complaint}"
    elif words and all(word.startswith("--") for word in words[:1]):
        foreign = set().union(*FOREIGN.values())
        flags = {word.partition("=")[0] for word in words if word.startswith("--") and len(word) > 2}
        if unknown := flags - all_flags() - foreign - flags_of_scripts():
            yield f"`{text}`: no verb has {', '.join(sorted(unknown))}"


@functools.cache
def flags_of_scripts() -> set[str]:
    files = [
        name for name in tracked_files() if re.fullmatch(r"(scripts|examples|tests/(s3|bench))/(.*/)?[\w-]+(\.py|\.cpp)?", name)
    ]
    return set(re.findall(r"(?<![\w-])--[a-z][\w-]+", "".join((ROOT / name).read_text(errors="replace") for name in files)))


def wrong_commands(name: str, text: str) -> Iterator[str]:
    """One line for each command of the page that the program, or the script, does not understand."""
    for block in blocks(text):
        if block.language in ("", "sh", "bash", "console"):
            for line in command_lines(block):
                yield from (f"{name}:{line.line}: {complaint}" for complaint in wrong_command(line.text, whole=True))
    for span in spans(text):
        yield from (f"{name}:{span.line}: {complaint}" for complaint in wrong_span(span.text))
