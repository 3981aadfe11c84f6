// Writes the JSON Schema of a job for editors, from the same rows that the reader uses.

#include "base/json_text.hpp"
#include "storage/job_spec/fields/rules.hpp"

namespace rtrain::spec {

using nlohmann::json;

std::string json_schema() {
    const json defaults = parse_json(to_json(Job{}));
    json schema = {{"$schema", "https://json-schema.org/draft/2020-12/schema"},
                   {"title", "rtrain job"},
                   {"description",
                    "A training job of rtrain. The reader also checks what a schema cannot say, such as contradictions "
                    "between fields."},
                   {"type", "object"},
                   {"additionalProperties", false},
                   {"required", {"entrypoint"}},
                   {"properties", json::object()}};
    for (const Rule& rule : rules()) {
        const std::string path(rule.path);
        const std::size_t dot = path.find('.');
        json* place = &schema["properties"];
        if (dot != std::string::npos) {
            json& group = (*place)[path.substr(0, dot)];
            if (group.is_null())
                group = {{"type", {"object", "null"}}, {"additionalProperties", false}, {"properties", json::object()}};
            place = &group["properties"];
        }
        json field = parse_json(rule.schema);
        if (path != "entrypoint") field = {{"anyOf", {field, {{"type", "null"}}}}};
        if (const std::size_t most = list_limit(rule.path); most > 0)
            field[std::string_view(rule.schema).find("\"array\"") != std::string_view::npos ? "maxItems"
                                                                                            : "maxProperties"] = most;
        field["description"] = rule.wants;
        const json& value =
            dot == std::string::npos ? defaults[path] : defaults[path.substr(0, dot)][path.substr(dot + 1)];
        if (path != "entrypoint" && path != "scaling.resources_per_worker") field["default"] = value;
        (*place)[dot == std::string::npos ? path : path.substr(dot + 1)] = std::move(field);
    }
    return json_text(schema, 2) + "\n";
}

}  // namespace rtrain::spec
