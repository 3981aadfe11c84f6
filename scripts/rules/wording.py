"""The rules of docs/style.md that a program can check: first words of sentences, verbs of machines, words in names of code
and files.
"""

import ast
import pathlib
import re
from collections.abc import Iterator

from rules.comments import CPP, SCRIPT, comments_of

# Words of names, and the words that replace them by docs/glossary.md.
WORDS = {
    "ledger": "cluster index",
    "door": "reservation mask",
    "doors": "reservation mask",
    "taker": "preemptor",
    "prospect": "what-if",
    "turn": "candidate (of a queue), decisions (of the head)",
    "ask": "request",
    "asks": "requests",
    "told": "a noun",
    "said": "a noun",
    "mine": "own",
    "drawn": "a noun",
    "gear": "attempt context",
    "pulse": "heartbeat",
    "hear": "on_message",
    "obey": "handle",
    "tells": "a verb of what it does",
    "lane": "I/O thread",
    "lanes": "I/O threads",
    "hub": "server state",
    "board": "shared report memory",
    "boards": "shared report memories",
    "bell": "wake-up",
}
# Words that are allowed in other folders only: the replacement, and the folders where they are forbidden. A worker of the
# scheduler has a seat, its node and devices.
WORDS_WITHIN = {
    "seat": ("ring (of shared report memory)", ("runtime/", "daemon/agent/", "tests/unit/agent/", "tests/fuzz/")),
    "seats": ("rings (of shared report memory)", ("runtime/", "daemon/agent/", "tests/unit/agent/", "tests/fuzz/")),
    "letter": ("message", ("runtime/", "daemon/agent/worker_link/")),
    "letters": ("messages", ("runtime/", "daemon/agent/worker_link/")),
}
# Ordinary words outside of C++: a turn of a spiral, a dashboard.
WORDS_OF_CPP = {"turn", "board", "boards"}
# Whole names that do not say what they contain.
EMPTY_NAMES = {"found", "told", "said"}
EMPTY_NAMES_OUTSIDE_OF_TESTS = EMPTY_NAMES | {"one", "made", "mine"}
SOME_WORD = re.compile("|".join([*WORDS, *WORDS_WITHIN, *EMPTY_NAMES_OUTSIDE_OF_TESTS]), re.IGNORECASE)
NO_NAME = re.compile(r'R"\(.*?\)"|"(?:\\.|[^"\\])*"|//.*|^\s*#\s*include.*')
PROSE = re.compile(r'R"(\w*)\(.*?\)\1"|/\*.*?\*/', re.DOTALL)  # raw texts and block comments contain no names
SCRIPT_PROSE = re.compile(
    r"""/\*.*?\*/|(?<!:)//[^\n]*|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*'|`[^`$]*`|>[^<>{}=;()]+<""", re.DOTALL
)

FIRST_WORDS = r"(?:of|those|who|whom|whoever|what|which|nobody|none|else|one that)"
FIRST_WORD = re.compile(rf"^{FIRST_WORDS}\b|(?<=[.!?] ){FIRST_WORDS.title().replace('That', 'that')}\b", re.IGNORECASE)
CAPITAL_FIRST_WORD = re.compile(r"[A-Z]")
MACHINE_VERB = re.compile(
    r"(?<!`)\b(?:head|agent|node|worker|daemon|process|server)s? (?:tells?|hears?|says?|asks?|knows?|wants?|comes?|leaves?|goe?s? on)\b",
    re.IGNORECASE,
)
# Folders and files whose names are not yet checked. An entry leaves the list once it is done; none may be added.
NAMES_NOT_YET = (
    # "lanes" is a key of saved iteration states, and their classes are pickled with a Share.
    "runtime/python/rtrain/data/_dealing/",
    "runtime/python/rtrain/data/_in_streams/_places.py",
    "runtime/python/rtrain/data/_in_streams/_sequences.py",
    "runtime/python/rtrain/data/_plan.py",
    "runtime/python/rtrain/data/_share.py",
    # Attributes that pickles of datasets contain.
    "runtime/python/rtrain/data/_iterator.py",
    "runtime/python/rtrain/data/_joins.py",
    "runtime/python/rtrain/data/_ops.py",
    # `Trial.drawn` is stored in a sweep's file, and callbacks see it.
    "runtime/python/rtrain/tune/_sweep.py",
    "runtime/python/rtrain/tune/_trial.py",
    "runtime/python/rtrain/tune/search/basic_variant.py",
    # Tests of these.
    "tests/python/data/test_lane",
)


def sentence_breaches(name: str, text: str) -> Iterator[str]:
    """Yields the breaches in the comments and docstrings of a C, C++, Python or TypeScript file."""
    for comment in comments_of(name, text):
        for match in FIRST_WORD.finditer(comment.text):
            if match[0] == "None" and pathlib.Path(name).suffix in ("", ".py"):
                continue  # the value
            if match.start() == 0 or CAPITAL_FIRST_WORD.match(match[0]):
                yield f"{name}:{comment.line}: a sentence begins with {match[0]!r}; name its subject, or begin with a verb"
        for match in MACHINE_VERB.finditer(comment.text):
            yield f"{name}:{comment.line}: {match[0]!r}; a machine sends, receives, stores, returns or fails"


def empty_names_in(name: str) -> set[str]:
    return EMPTY_NAMES if name.startswith("tests/") else EMPTY_NAMES_OUTSIDE_OF_TESTS


def identifier_breaches(name: str, number: int, identifier: str) -> Iterator[str]:
    parts = {part.lower() for part in re.findall(r"[a-z]+|[A-Z][a-z]*", identifier)}
    banned = {word: WORDS[word] for word in parts & WORDS.keys() if name.endswith(CPP) or word not in WORDS_OF_CPP}
    banned |= {word: WORDS_WITHIN[word][0] for word in parts & WORDS_WITHIN.keys() if name.startswith(WORDS_WITHIN[word][1])}
    for word, instead in sorted(banned.items()):
        yield f"{name}:{number}: {identifier} says {word!r}; docs/glossary.md calls it {instead}"
    if identifier in empty_names_in(name):
        yield f"{name}:{number}: the name {identifier!r} says nothing; name what it holds"


def python_name_breaches(name: str, text: str) -> Iterator[str]:
    """Yields the breaches in the names that a Python file binds. A test's name is a sentence, and holds its words."""
    for node in ast.walk(ast.parse(text)):
        bound = ""
        if isinstance(node, ast.arg):
            bound = node.arg
        elif isinstance(node, ast.Name | ast.Attribute) and isinstance(node.ctx, ast.Store):
            bound = node.id if isinstance(node, ast.Name) else node.attr
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) and not node.name.startswith("test_"):
            bound = node.name
        parts = {part.lower() for part in re.findall(r"[a-z]+|[A-Z][a-z]*", bound)}
        for word in sorted((parts & WORDS.keys()) - WORDS_OF_CPP) if not name.startswith(NAMES_NOT_YET) else ():
            yield f"{name}:{node.lineno}: {bound} says {word!r}; docs/glossary.md calls it {WORDS[word]}"
        if isinstance(node, ast.arg | ast.Name) and bound.strip("_") in empty_names_in(name):
            yield f"{name}:{node.lineno}: the name {bound!r} says nothing; name what it holds"


def name_breaches(name: str, text: str) -> Iterator[str]:
    """Yields the breaches in the names of a C, C++, Python or TypeScript file."""
    suffix = pathlib.Path(name).suffix
    if suffix in ("", ".py"):
        yield from python_name_breaches(name, text)
        return
    if suffix in SCRIPT and name.startswith(NAMES_NOT_YET):
        return
    bare = (PROSE if suffix in CPP else SCRIPT_PROSE).sub(lambda prose: "\n" * prose[0].count("\n"), text)
    for number, line in enumerate(bare.split("\n"), 1):
        if SOME_WORD.search(line):
            for identifier in re.findall(r"[A-Za-z_]\w*", NO_NAME.sub(" ", line) if suffix in CPP else line):
                yield from identifier_breaches(name, number, identifier)


def file_name_breaches(name: str) -> Iterator[str]:
    """Yields the breaches in the name of a file and of its folders."""
    if name.startswith(NAMES_NOT_YET):
        return
    for word in sorted({part.lower() for part in re.findall(r"[A-Za-z]+", name)} & WORDS.keys()):
        yield f"{name}:1: the file's name says {word!r}; docs/glossary.md calls it {WORDS[word]}"
