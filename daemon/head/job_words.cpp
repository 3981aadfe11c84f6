#include "daemon/head/job_words.hpp"

#include <algorithm>

#include "daemon/head/ownership.hpp"

namespace rtrain::head {
namespace {

void hide_in(json& text) { text = without_job_words(text.get<std::string>()); }

void replace_all(std::string& text, const std::string& what, const std::string& by) {
    if (what.empty() || what == by) return;
    for (std::size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + by.size()))
        text.replace(at, what.size(), by);
}

// An explanation repeats the run's reason and its attempts' causes within longer texts.
void hide_within(json& value, const std::vector<std::string>& causes) {
    if (value.is_string()) {
        for (const std::string& cause : causes)
            replace_all(value.get_ref<std::string&>(), cause, without_job_words(cause));
    } else if (value.is_structured()) {
        for (json& inner : value) hide_within(inner, causes);
    }
}

// The longest first: one may be a part of another.
std::vector<std::string> causes_of(const Head& head, const Run& run) {
    std::vector<std::string> causes;
    for (const Attempt* attempt : attempts_of(head.cluster, run.id)) causes.push_back(attempt->cause);
    if (!causes.empty()) causes.push_back(run.reason);
    std::sort(causes.begin(), causes.end(), [](const auto& one, const auto& other) {
        return std::pair(other.size(), one) < std::pair(one.size(), other);
    });
    causes.erase(std::unique(causes.begin(), causes.end()), causes.end());
    return causes;
}

}  // namespace

bool reads_job_words(const Caller& caller, const Run& run) {
    return is_admin(caller) || (caller.role == Role::user && caller.user == run.user);
}

std::string without_job_words(std::string text) {
    const std::size_t end = std::min(text.find(" ("), text.find('\n'));
    if (end != std::string::npos) text.replace(end, std::string::npos, " (hidden)");
    return text;
}

// A run that has no attempt yet has a reason of the scheduler's.
json run_for(const Head& head, const Caller& caller, const Run& run) {
    json out = run_json(head, run);
    if (!reads_job_words(caller, run) && !attempts_of(head.cluster, run.id).empty()) hide_in(out["reason"]);
    return out;
}

Attempt attempt_for(const Caller& caller, const Run& run, const Attempt& attempt) {
    Attempt seen = attempt;
    if (reads_job_words(caller, run)) return seen;
    seen.cause = without_job_words(seen.cause);
    for (Worker& worker : seen.workers)
        if (worker.exit) worker.exit->detail.clear();
    return seen;
}

json explanation_for(const Head& head, const Caller& caller, const Run& run, const Explanation& why) {
    json out = explanation_json(head, run, why);
    if (!reads_job_words(caller, run)) hide_within(out, causes_of(head, run));
    return out;
}

json line_for(const Head& head, const Caller& caller, const Run& run, const std::string& line) {
    json out = line;
    if (!reads_job_words(caller, run)) hide_within(out, causes_of(head, run));
    return out;
}

// Of a run that was removed nobody knows whose it was.
json event_for(const Head& head, const Caller& caller, const state::EventRow& row) {
    json out = event_json(head, row);
    if (!row.about_run || is_admin(caller)) return out;
    const auto run = head.cluster.runs.find(*row.about_run);
    if (run == head.cluster.runs.end() || !reads_job_words(caller, run->second)) hide_in(out["text"]);
    return out;
}

}  // namespace rtrain::head
