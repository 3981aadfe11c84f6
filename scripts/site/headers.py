"""Makes the reference of the C interface and the C++ SDK by Doxygen. A public name without a comment is an error."""

import pathlib
import subprocess
import sys
import xml.etree.ElementTree as ElementTree

ROOT = pathlib.Path(__file__).resolve().parents[2]
HERE = pathlib.Path(__file__).resolve().parent
HEADERS = [
    *("runtime/worker/rtrain_worker.h", "runtime/worker/rtrain.hpp", "runtime/torch/csv.hpp", "runtime/torch/data_parallel.hpp"),
    *("runtime/torch/distributed_sampler.hpp", "runtime/torch/optimizer_files.hpp", "runtime/torch/process_group.hpp"),
    "runtime/torch/tensor_files.hpp",
]
# Converts plain comments to Doxygen's: of a file, before a declaration, and behind one on its line. Lines of code in a comment
# are indented further, so that Markdown treats them as code.
FILTER = (
    r"sed -E -e '1s,^// ,/// @file\n/// ,' -e '1s,^/\* ,/** @file\n * ,' -e 's,^( *)//(   |$),\1///     ,;s,^( *)// ,\1/// ,'"
    r" -e '/^ *\/\//!s,([;\,{}]) +// ,\1 ///< ,' -e 's,^( *)/\* ,\1/** ,' -e 's,([;\,]) +/\* ,\1 /**< ,'"
)
DOXYFILE = f"""
PROJECT_NAME = "rtrain: C and C++"
FILTER_PATTERNS = *.h="{FILTER}" *.hpp="{FILTER}"
FILE_PATTERNS = *.h *.hpp
STRIP_FROM_PATH = .
OPTIMIZE_OUTPUT_FOR_C = NO
JAVADOC_AUTOBRIEF = YES
GENERATE_LATEX = NO
GENERATE_XML = YES
XML_PROGRAMLISTING = NO
HTML_EXTRA_STYLESHEET = "{HERE / "doxygen_colours.css"}"
LAYOUT_FILE = "{HERE / "doxygen_layout.xml"}"
SHOW_INCLUDE_FILES = YES
QUIET = YES
HAVE_DOT = NO
EXTRACT_ALL = NO
WARN_IF_UNDOCUMENTED = YES
WARN_AS_ERROR = FAIL_ON_WARNINGS
"""


def cpp_reference(folder, xml, headers=HEADERS):
    """Writes folder/html, and `xml` for other programs. Returns the faults, one line each."""
    folder.mkdir(parents=True, exist_ok=True)
    inputs = " ".join(f'"{path}"' for path in headers)
    text = f'{DOXYFILE}INPUT = {inputs}\nOUTPUT_DIRECTORY = "{folder}"\nXML_OUTPUT = "{xml}"\n'
    done = subprocess.run(["doxygen", "-"], input=text, text=True, cwd=ROOT, capture_output=True, check=False)
    wrong = [line.removeprefix(f"{ROOT}/") for line in done.stderr.splitlines() if line.strip()]
    if done.returncode != 0 and not wrong:
        wrong = [f"doxygen ended with {done.returncode}"]
    return wrong + list(
        dict.fromkeys(line for file in sorted(xml.glob("*.xml")) for line in silent_parts(ElementTree.parse(file)))
    )


def comment_of(element):
    return " ".join("".join(element.find(part).itertext()) for part in ("briefdescription", "detaileddescription")).strip()


def silent_parts(document):
    """Yields faults that Doxygen does not report: missing comments of enumeration values, and parameters that a function's
    comment does not name.
    """
    for member in document.getroot().iter("memberdef"):
        if member.get("prot") != "public":
            continue
        place = f"{member.find('location').get('file')}:{member.find('location').get('line')}"
        for value in member.findall("enumvalue"):
            if not comment_of(value):
                yield f"{place}: the value {value.findtext('name')} is not documented"
        for parameter in member.findall("param") if member.get("kind") == "function" else ():
            name, kind = parameter.findtext("declname"), "".join(parameter.find("type").itertext())
            if name and not speaks_for_itself(kind) and name not in comment_of(member):
                yield f"{place}: {member.findtext('name')} does not say what `{name}` is"


def speaks_for_itself(kind):
    """Returns true for types that need no explanation: the handle, and classes of these headers, whose members have
    comments.
    """
    bare = kind.replace("const", "").replace("&", "").strip()
    return bare == "rtw_worker *" or bare.endswith("Options") or bare in ("Worker", "DataParallel", "Group", "TensorFiles")


if __name__ == "__main__":
    wrong = cpp_reference(pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[1]) / "xml", sys.argv[2:] or HEADERS)
    print("\n".join(wrong))
    sys.exit(1 if wrong else 0)
