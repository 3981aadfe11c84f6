// See submission_parts.hpp.
#include "daemon/head/api/submission_parts.hpp"

#include <algorithm>
#include <set>

#include "storage/spec/limits.hpp"

namespace rtrain::head {
namespace {

constexpr std::size_t array_runs_at_most = spec::array_runs_most;

Error wrong_array(const std::string& text, const std::string& why) {
    constexpr std::size_t shown_most = 100;
    const std::string shown = text.size() > shown_most ? text.substr(0, shown_most) + "..." : text;
    return {ErrorCode::invalid, "\"" + shown + "\": " + why, "for example 1-8, 1,3,5-7 or 1-100%10"};
}

// A number of at most six digits; none: it is none.
std::optional<std::uint32_t> number(const std::string& text) {
    if (text.empty() || text.size() > 6 || text.find_first_not_of("0123456789") != std::string::npos)
        return std::nullopt;
    return static_cast<std::uint32_t>(std::stoul(text));
}

Status add_part(const std::string& text, const std::string& part, std::set<std::uint32_t>& into) {
    const std::size_t dash = part.find('-');
    const auto first = number(part.substr(0, dash));
    const auto last = dash == std::string::npos ? first : number(part.substr(dash + 1));
    if (!first || !last) return wrong_array(text, "\"" + part + "\" is neither a number nor a range");
    if (*first > *last) return wrong_array(text, "the range " + part + " begins above its end");
    if (*last - *first >= array_runs_at_most)
        return wrong_array(text, "an array has at most " + std::to_string(array_runs_at_most) + " runs");
    for (std::uint32_t index = *first; index <= *last; ++index)
        if (!into.insert(index).second) return wrong_array(text, std::to_string(index) + " is in it twice");
    return Done{};
}

}  // namespace

Result<JobArray> parse_array(const std::string& text) {
    JobArray array;
    const std::size_t percent = text.find('%');
    if (percent != std::string::npos) {
        const auto parallel = number(text.substr(percent + 1));
        if (!parallel || *parallel == 0) return wrong_array(text, "behind % stands how many run at a time, 1 or more");
        array.parallel = *parallel;
    }
    std::set<std::uint32_t> indices;
    const std::string list = text.substr(0, percent);
    for (std::size_t begin = 0; begin <= list.size();) {
        const std::size_t end = std::min(list.find(',', begin), list.size());
        if (auto added = add_part(text, list.substr(begin, end - begin), indices); !added) return added.error();
        if (indices.size() > array_runs_at_most)
            return wrong_array(text, "an array has at most " + std::to_string(array_runs_at_most) + " runs");
        begin = end + 1;
    }
    array.indices.assign(indices.begin(), indices.end());
    return array;
}

ArrayMember array_member(const json& member, Problems& problems) {
    constexpr std::uint64_t index_at_most = 999'999;
    const auto field = [&](const char* name) { return member.is_object() ? member.value(name, json()) : json(); };
    const json array = field("array"), index = field("index");
    if (array.is_string() && index.is_number_unsigned() && index.get<std::uint64_t>() <= index_at_most)
        return {.array = array.get<std::string>(), .index = index.get<std::uint32_t>()};
    problems.push_back({.path = "array_member",
                        .message = "must be {\"array\": NAME, \"index\": NUMBER}, of the run that is to go on"});
    return {};
}

Result<std::vector<After>> predecessors(const View& view, const std::vector<std::string>& after) {
    std::vector<After> out;
    for (const std::string& text : after) {
        const std::size_t colon = text.find(':');
        const auto run = find_run(view, text.substr(0, colon));
        if (!run) return Error{run.error().code, "after: " + run.error().message, run.error().next};
        After predecessor{.run = *run};
        if (colon != std::string::npos)
            predecessor.what = after_what(text.substr(colon + 1)).value_or(AfterWhat::succeeded);
        out.push_back(predecessor);
    }
    return out;
}

std::vector<std::string> unknown_nodes(const Cluster& cluster, const spec::Job& job) {
    std::vector<std::string> out;
    const auto check = [&](const char* field, const std::vector<std::string>& names) {
        for (const std::string& name : names)
            if (!cluster.nodes.contains(NodeId{name}))
                out.push_back(std::string(field) + ": no node is called \"" + name + "\" now; rtrain nodes lists them");
    };
    check("scaling.nodes", job.nodes);
    check("scaling.exclude_nodes", job.exclude_nodes);
    return out;
}

json submitted_json(const View& view, RunId first) {
    const Run& run = view.cluster.runs.at(first);
    json out = full_run_json(view, run, JobWords::shown);  // its user has submitted it
    if (run.array.empty() || run.resume) return out;       // who goes on with one of an array made that one
    json members = json::array();
    for (const RunId id : view.names.submitted(run.submit_key)) {
        const Run& other = view.cluster.runs.at(id);
        if (other.array == run.array)
            members.push_back({{"run_id", view.run_id(id)}, {"name", other.name}, {"state", to_text(other.state)}});
    }
    out["array_runs"] = std::move(members);
    return out;
}

}  // namespace rtrain::head
