"""Compares configs/openapi.json with the description of each released version in tests/data. Programs that were written
for a released version must go on working: a route, a parameter or a field of an answer stays, keeps its type, and is
present when it was."""

import copy
import json

import pytest
from local_cluster import ROOT

RELEASED = sorted((ROOT / "tests" / "data").glob("openapi-*.json"))
NOW = json.loads((ROOT / "configs" / "openapi.json").read_text())


def resolved(page, schema):
    if "$ref" in schema:
        return page["components"]["schemas"][schema["$ref"].rsplit("/", 1)[1]]
    return schema


def answer_breaks(before, after, old, new, place):
    """Yields what a reader of the old answer would miss in the new one. `before` and `after` are the whole pages."""
    old, new = resolved(before, old), resolved(after, new)
    if "anyOf" in old:  # [a type, null]
        yield from answer_breaks(before, after, old["anyOf"][0], new["anyOf"][0] if "anyOf" in new else new, place)
        return
    if "anyOf" in new:
        yield f"{place}: may be null now"
        return
    if "type" in old and old["type"] != new.get("type"):
        yield f"{place}: was {old['type']}, is {new.get('type')}"
        return
    if "enum" in old and not set(new.get("enum", [])) <= set(old["enum"]):
        yield f"{place}: has other words now"
    for name, field in old.get("properties", {}).items():
        if name not in new.get("properties", {}):
            yield f"{place}.{name}: is gone"
            continue
        if name in old.get("required", []) and name not in new.get("required", []):
            yield f"{place}.{name}: may be missing now"
        yield from answer_breaks(before, after, field, new["properties"][name], f"{place}.{name}")
    for inner in ("items", "additionalProperties"):
        if inner in old:
            yield from answer_breaks(before, after, old[inner], new.get(inner, {}), f"{place}[]")


def parameter_breaks(old, new, place):
    after = {(one["in"], one["name"]): one for one in new}
    before = {(one["in"], one["name"]): one for one in old}
    for key, parameter in before.items():
        if key not in after:
            yield f"{place} {key[1]}: is not accepted any more"
        elif parameter["schema"] != after[key]["schema"]:
            yield f"{place} {key[1]}: accepts other values now"
    for key, parameter in after.items():
        if parameter.get("required") and not before.get(key, {}).get("required"):
            yield f"{place} {key[1]}: must be sent now"


def breaks(before, after):
    for path, methods in before["paths"].items():
        for method, old in methods.items():
            place = f"{method.upper()} {path}"
            new = after["paths"].get(path, {}).get(method)
            if new is None:
                yield f"{place}: is gone"
                continue
            yield from parameter_breaks(old["parameters"], new["parameters"], place)
            for status, answer in old["responses"].items():
                for content, kind in answer.get("content", {}).items():
                    described = new["responses"].get(status, {}).get("content", {}).get(content)
                    if described is None:
                        yield f"{place}: does not answer {status} with {content} any more"
                    elif "schema" in kind:
                        yield from answer_breaks(before, after, kind["schema"], described.get("schema", {}), place)


@pytest.mark.parametrize("released", RELEASED, ids=lambda path: path.stem)
def test_what_was_written_for_a_released_version_goes_on_working(released):
    assert list(breaks(json.loads(released.read_text()), NOW)) == []


def changed(change):
    page = copy.deepcopy(NOW)
    change(page["paths"], page["components"]["schemas"])
    return list(breaks(NOW, page))


def test_an_incompatible_difference_is_found():
    assert changed(lambda paths, kinds: None) == []
    assert changed(lambda paths, kinds: paths.pop("/v1/nodes")) == ["GET /v1/nodes: is gone"]
    gone = changed(lambda paths, kinds: kinds["Blob"]["properties"].pop("sha256"))
    assert gone == ["PUT /v1/blobs/{sha256}.sha256: is gone"]
    optional = changed(lambda paths, kinds: kinds["Blob"]["required"].clear())
    assert optional == ["PUT /v1/blobs/{sha256}.sha256: may be missing now"]
    other = changed(lambda paths, kinds: kinds["Backup"]["properties"]["bytes"].update(type="string"))
    assert other == ["POST /v1/head/backup.bytes: was integer, is string"]
    null = changed(
        lambda paths, kinds: kinds["Blob"]["properties"].update(sha256={"anyOf": [{"type": "string"}, {"type": "null"}]})
    )
    assert null == ["PUT /v1/blobs/{sha256}.sha256: may be null now"]
    deep = changed(lambda paths, kinds: kinds["GpuHolder"]["properties"].pop("run"))
    assert "GET /v1/nodes/{node}.gpu_devices[].held_by[].run: is gone" in deep
    word = changed(lambda paths, kinds: kinds["Session"]["properties"]["role"]["enum"].append("guest"))
    assert "GET /v1/session.role: has other words now" in word


def test_an_incompatible_parameter_is_found():
    def parameter(name, **more):
        return lambda paths, kinds: paths["/v1/events"]["get"]["parameters"].append(
            {"name": name, "in": "query", "schema": {"type": "string"}, **more}
        )

    assert changed(parameter("about")) == []
    assert changed(parameter("about", required=True)) == ["GET /v1/events about: must be sent now"]
    removed = changed(lambda paths, kinds: paths["/v1/events"]["get"]["parameters"].clear())
    assert "GET /v1/events follow: is not accepted any more" in removed
    narrowed = changed(lambda paths, kinds: paths["/v1/events"]["get"]["parameters"][0].update(schema={"type": "integer"}))
    assert len(narrowed) == 1 and narrowed[0].endswith("accepts other values now")


def test_the_first_release_is_compared():
    assert (ROOT / "tests" / "data" / "openapi-0.1.0.json") in RELEASED
