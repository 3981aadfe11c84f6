// See explanation_json.hpp.
#include "daemon/head/view/explanation_json.hpp"

#include <algorithm>

#include "base/json_text.hpp"
#include "daemon/head/view/records_json.hpp"

namespace rtrain::head {
namespace {

// Returns the line of the field in the job's file, as "job.yaml:14". If the field has no line, returns that of the
// nearest field above it. The client sends the lines, so they may have any content.
json line_of(const json& lines, std::string field) {
    const json at = lines.is_object() ? lines.value("at", json::object()) : json::object();
    const json file = lines.is_object() ? lines.value("file", json()) : json();
    for (; !field.empty(); field.erase(std::min(field.rfind('.'), field.size())))
        if (at.is_object() && at.contains(field) && at[field].is_number_integer())
            return (file.is_string() ? file.get<std::string>() : "job.yaml") + ":" +
                   std::to_string(at[field].get<std::int64_t>());
        else if (field.find('.') == std::string::npos)
            break;
    return nullptr;
}

// Returns the line of a group's field. An accelerator type can be given as a resource or as a constraint, so both
// fields are tried.
json line_of_group(const json& lines, const std::string& field) {
    json line = line_of(lines, field);
    if (line.is_null() && field == "scaling.label_selector") line = line_of(lines, "scaling.accelerator_type");
    return line;
}

}  // namespace

json answer_json(const PlacementAnswer& answer) {
    json placement = json::object(), reasons = json::array();
    for (std::size_t rank = 0; rank < answer.seats.size(); ++rank) {
        json gpu = json::object();
        for (const GpuShare& share : answer.seats[rank].gpus) gpu[std::to_string(share.device)] = to_text(share.amount);
        placement[std::to_string(rank)] = {{"node", answer.seats[rank].node.value}, {"gpu", std::move(gpu)}};
    }
    for (const NodeReason& reason : answer.reasons)
        reasons.push_back({{"node", reason.node.value}, {"text", reason.text}});
    return {{"verdict", to_text(answer.verdict)},
            {"placement", std::move(placement)},
            {"reasons", std::move(reasons)},
            {"nearest_change", answer.nearest_change},
            {"proved", answer.proved}};
}

std::string lines_setting(const std::string& submit_key) { return "lines/" + submit_key; }

namespace {

// Returns the JSON members that an explanation and a plan have in common.
json why_json(const Explanation& why, const std::string& queue, const json& lines) {
    json groups = json::array();
    for (const ReasonGroup& group : why.groups)
        groups.push_back({{"nodes", group.nodes},
                          {"kind", group.kind},
                          {"text", group.text},
                          {"field", group.field.empty() ? json() : json(group.field)},
                          {"line", line_of_group(lines, group.field)}});
    json rules = json::array();
    for (const Rule& rule : why.rules) rules.push_back(rule.text);
    json out = {{"headline", why.headline}, {"rules", std::move(rules)}, {"nodes", why.nodes},
                {"fitting", why.fitting},   {"holders", why.holders},    {"queue", nullptr}};
    out["groups"] = std::move(groups);
    if (why.queue) out["queue"] = {{"name", queue}, {"position", why.queue->position}, {"length", why.queue->length}};
    return out;
}

}  // namespace

json explanation_json(const View& view, const state::SqliteJournal& journal, const Run& run, const Explanation& why) {
    const json lines = parsed_or_null(journal.setting(lines_setting(run.submit_key)).value_or("null"));
    json out = answer_json(why.placement.value_or(PlacementAnswer{}));
    if (!why.placement) out["verdict"] = nullptr;
    out.update(why_json(why, run.spec.queue, lines));
    out["state"] = to_text(run.state);
    out["run_id"] = view.run_id(run.id);
    out["name"] = run.name;
    return out;
}

json plan_json(const Plan& plan, const std::string& queue, const json& lines,
               const std::vector<std::string>& warnings) {
    json out = answer_json(plan.answer);
    out.update(why_json(plan.why, queue, lines));
    out["warnings"] = warnings;
    return out;
}

}  // namespace rtrain::head
