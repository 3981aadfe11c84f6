"""Makes two pages that list every public name with its first sentence for the site's search: one for Python, one for C and
C++.
"""

import html
import re
import xml.etree.ElementTree as ElementTree

# A page's table of contents contains the modules only, as there are hundreds of names.
HEAD = "---\ntocdepth: 2\n---\n"
SHORT = 220


def first_sentence(text):
    """Returns the first sentence of the first paragraph as Markdown; its beginning if it is long."""
    paragraph = " ".join(re.split(r"\n\s*\n", text.strip())[0].split())
    sentence = re.split(r"(?<=[.])\s+(?=[A-Z`])", paragraph)[0]
    short = sentence if len(sentence) <= SHORT else sentence[:SHORT].rsplit(" ", 1)[0] + " …"
    return short + "`" * (short.count("`") % 2)


def to(link, text="Reference"):
    """Returns a link to a file of pdoc or Doxygen. It is HTML, since Sphinx resolves links to its own pages only."""
    return f'<a href="{link}">{html.escape(text)}</a>'


def entry(name, link, text, members=()):
    """Returns a heading, which the search shows as a result, and the lines below it."""
    shown = ", ".join(to(where, member) for member, where in members)
    return "\n".join([f"### {name}", f"{to(link)} · {text}", *(["", f"Members: {shown}"] if shown else []), ""])


def python_page(modules):
    """Returns the page of Python names. `modules` are pdoc.doc.Module objects in their order."""
    lines = [
        f"{HEAD}# Python reference",
        "",
        f"The {to('../python/rtrain.html', 'full reference')} has every argument, and a search of its own.",
        "",
    ]
    for module in modules:
        page = f"../python/{module.modulename.replace('.', '/')}.html"
        lines += [f"## {module.modulename}", f"{to(page)} · {first_sentence(module.docstring)}", ""]
        for member in module.members.values():
            if member.name.startswith("_") or member.kind == "module":
                continue
            own = [
                function
                for function in getattr(member, "own_members", ())
                if function.kind == "function" and not function.name.startswith("_")
            ]
            inner = [(function.name, f"{page}#{function.qualname}") for function in own]
            lines.append(entry(member.name, f"{page}#{member.qualname}", first_sentence(member.docstring), inner))
    return "\n".join(lines)


def text_of(element):
    return " ".join("".join(element.itertext()).split()) if element is not None else ""


def comment_of(definition):
    return text_of(definition.find("briefdescription")) or text_of(definition.find("detaileddescription"))


def link_of(identity):
    """Returns Doxygen's page and anchor of an id in its XML."""
    page, _, anchor = identity.rpartition("_1")
    return f"../cpp/html/{page}.html{'#' if anchor else ''}{anchor}"


def cpp_page(xml):
    """Returns the page of C and C++ names. `xml` is the folder of Doxygen's XML."""
    documents = [ElementTree.parse(file).getroot().find("compounddef") for file in sorted(xml.glob("*.xml"))]
    compounds = [compound for compound in documents if compound is not None]
    full = to("../cpp/html/files.html", "full reference")
    lines = [f"{HEAD}# C and C++ reference", "", f"The {full} has every header, and a search of its own.", ""]
    headers = [compound for compound in compounds if compound.get("kind") == "file"]
    for header in sorted(headers, key=file_of):
        lines += [f"## {file_of(header)}", f"{to(link_of(header.get('id') + '_1'))} · {first_sentence(comment_of(header))}", ""]
        same_file = [compound for compound in compounds if file_of(compound) == file_of(header)]
        lines += [class_entry(compound) for compound in same_file if compound.get("kind") in ("class", "struct")]
        for member in members_of(header, compounds):
            lines.append(entry(member.findtext("name"), link_of(member.get("id")), first_sentence(comment_of(member))))
    return "\n".join(lines)


def file_of(element):
    return element.find("location").get("file") if element.find("location") is not None else ""


def class_entry(kind):
    members = [member for member in kind.iter("memberdef") if member.get("kind") == "function" and member.get("prot") == "public"]
    inner = {member.findtext("name"): link_of(member.get("id")) for member in members}
    name = kind.findtext("compoundname")
    text = f"`{name}`: {first_sentence(comment_of(kind))}"
    return entry(name.split("::")[-1], f"../cpp/html/{kind.get('id')}.html", text, inner.items())


def members_of(header, compounds):
    """Returns the functions, enumerations and macros of a header outside of classes, including those in namespaces."""
    places = [header, *(compound for compound in compounds if compound.get("kind") == "namespace")]
    members = [member for place in places for member in place.iter("memberdef") if file_of(member) == file_of(header)]
    named = {
        member.get("id"): member
        for member in members
        if not member.findtext("name").startswith("@") and member.get("kind") != "typedef"
    }
    return named.values()
