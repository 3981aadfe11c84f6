// See submission_parts.hpp.
#include "daemon/head/api/submission_parts.hpp"

#include <algorithm>
#include <memory>
#include <set>
#include <utility>

#include "daemon/head/loop/slices.hpp"
#include "storage/job_spec/limits.hpp"
#include "storage/job_spec/words.hpp"

namespace rtrain::head {
namespace {

constexpr std::size_t array_runs_at_most = spec::array_runs_most;

Error wrong_array(const std::string& text, const std::string& why) {
    constexpr std::size_t shown_most = 100;
    const std::string shown = text.size() > shown_most ? text.substr(0, shown_most) + "..." : text;
    return {ErrorCode::invalid, "\"" + shown + "\": " + why, "for example 1-8, 1,3,5-7 or 1-100%10"};
}

// Returns a number of at most six digits; nullopt for other text.
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

namespace {

// Returns a known node name that is near to `name`. Examines a limited number of nodes, since it runs on the loop.
std::string nearest_node(const Cluster& cluster, const std::string& name) {
    constexpr std::size_t nodes_most = 1'000;
    std::vector<std::string> known;
    for (const auto& [id, node] : cluster.nodes)
        if (known.size() < nodes_most) known.push_back(id.value);
    return spec::nearest(name, known);
}

}  // namespace

// Returns a warning for each unknown node name in the job. The first one gets a suggestion.
std::vector<std::string> unknown_nodes(const Cluster& cluster, const spec::Job& job) {
    std::vector<std::string> out;
    const auto check = [&](const char* field, const std::vector<std::string>& names) {
        for (const std::string& name : names) {
            if (cluster.nodes.contains(NodeId{name})) continue;
            const std::string near = out.empty() ? nearest_node(cluster, name) : "";
            out.push_back(std::string(field) + ": no node is called \"" + name + "\" now; " +
                          (near.empty() ? "rtrain nodes lists them" : spec::did_you_mean(near)));
        }
    };
    check("scaling.nodes", job.nodes);
    check("scaling.exclude_nodes", job.exclude_nodes);
    return out;
}

std::size_t unmade_runs_of(const Cluster& cluster, const std::string& user) {
    std::size_t runs = 0;
    for (const auto& [first, array] : cluster.arrays)
        if (array.model.user == user) runs += array.indices.size() - array.runs_made;
    return runs;
}

namespace {

bool is_pending(const Cluster& cluster, const Run& run) {
    return std::any_of(cluster.arrays.begin(), cluster.arrays.end(), [&](const auto& array) {
        return array.second.model.submit_key == run.submit_key && array.second.model.user == run.user;
    });
}

// The answer to the submission of an array. It is made in pieces, since an array may have thousands of runs.
struct MembersAnswer {
    Exchange exchange;
    int status = 0;
    std::string array, text;
    std::vector<RunId> members;
    std::size_t at = 0;

    // Adds the next member to the text. Returns false if all are in it.
    bool add() {
        if (at == members.size()) return false;
        const View& view = exchange.view;
        const auto member = view.cluster.runs.find(members[at++]);
        if (member == view.cluster.runs.end() || member->second.array != array) return true;
        if (text.back() != '[') text += ',';
        text += json_text(json{{"run_id", view.run_id(member->first)},
                               {"name", member->second.name},
                               {"state", to_text(member->second.state)}});
        return true;
    }
};

void reply_members(Exchange& exchange, int status, const Run& first, json answer) {
    const auto& members = exchange.view.names.submitted(first.submit_key);
    answer["schema_version"] = 1;
    std::string text = json_text(answer);
    text.back() = ',';  // replaces the closing bracket
    const auto making = std::make_shared<MembersAnswer>(MembersAnswer{.exchange = exchange,
                                                                      .status = status,
                                                                      .array = first.array,
                                                                      .text = std::move(text) + R"("array_runs":[)",
                                                                      .members = {members.begin(), members.end()}});
    in_slices(exchange.background, [making] {
        bool more = false;
        guarded(making->exchange, [&] {
            more = making->add();
            if (!more) reply(making->exchange, making->status, std::move(making->text) + "]}");
        });
        return more;
    });
}

}  // namespace

void reply_submitted(Exchange& exchange, int status, RunId first, const TokenBook* tokens) {
    constexpr std::int64_t look_again_ms = 10;
    const auto entry = exchange.view.cluster.runs.find(first);
    if (entry == exchange.view.cluster.runs.end())
        return refuse(exchange, {ErrorCode::not_found, "the run was removed before this answer", "rtrain runs --all"});
    const Run& run = entry->second;
    const auto again = [kept = exchange, status, first, tokens]() mutable {
        guarded(kept, [&] { reply_submitted(kept, status, first, tokens); });
    };
    if (is_pending(exchange.view.cluster, run)) return (void)exchange.background.after(look_again_ms, again);
    // the caller is the run's user, so the job's own words are shown
    json answer = full_run_json(exchange.view, run, JobWords::shown);
    if (tokens) {
        const auto channel = tokens->run_channel(run.id, run.submit_key);
        if (!channel) return refuse(exchange, channel.error());
        answer["channel"] = *channel;
    }
    if (run.array.empty() || run.resume) return reply_json(exchange, status, std::move(answer));
    reply_members(exchange, status, run, std::move(answer));
}

}  // namespace rtrain::head
