// Makes texts for people about a cluster's status, a run and a node.
#include "cmd/text/status_text.hpp"

#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "base/json_text.hpp"
#include "cmd/text/output.hpp"
#include "cmd/text/terminal.hpp"
#include "cmd/text/units.hpp"

namespace rtrain::cmd {
namespace {

using nlohmann::json;

std::string value_text(const json& value) {
    if (value.is_number_float()) {
        char text[32];
        std::snprintf(text, sizeof text, "%.6g", value.get<double>());
        return text;
    }
    return value.is_string() ? value.get<std::string>() : json_text(value);
}

json object_of(const json& value, const char* field) {
    return value.contains(field) && value[field].is_object() ? value[field] : json::object();
}
json list_of(const json& value, const char* field) {
    return value.contains(field) && value[field].is_array() ? value[field] : json::array();
}
std::int64_t number_of(const json& value, const char* field) {
    return value.contains(field) && value[field].is_number() ? value[field].get<std::int64_t>() : 0;
}

std::string row(const std::string& title, const std::string& text) {
    std::string shown_title = title;
    shown_title.resize(std::max<std::size_t>(title.size() + 1, 13), ' ');
    return text.empty() ? "" : shown_title + shown_line(text) + "\n";
}

std::string pairs(const json& object) {
    std::string text;
    for (const auto& [key, value] : object.items()) {
        const bool bytes = key == "memory" && value.is_string() && value.get<std::string>().size() < 18;
        text += (text.empty() ? "" : "  ") + key + "=" +
                (bytes ? bytes_text(std::atoll(value_text(value).c_str())) : value_text(value));
    }
    return text;
}

std::string counts(const json& by_state) {
    std::string text;
    for (const auto& [state, count] : by_state.items())
        if (count != 0) text += (text.empty() ? "" : ", ") + value_text(count) + " " + state;
    return text.empty() ? "none" : text;
}

std::string names(const json& list) {
    std::string text;
    for (const json& name : list) text += (text.empty() ? "" : " ") + value_text(name);
    return text;
}

std::string last_report(const json& run) {
    const json report = object_of(run, "last_report");
    if (report.empty()) return "";
    const auto when = parse_time(string_of(report, "time"));
    return value_text(report.value("index", json(0))) +
           (when ? ", " + duration_text(wall_now_ms() - *when) + " ago" : "") + ": " +
           pairs(object_of(report, "metrics"));
}

// Returns the short form of a reason or cause. An older head returns only the whole text; then returns the text's first
// line.
std::string brief_of(const json& record, const std::string& field) {
    const std::string brief = field + "_brief";
    if (record.contains(brief)) return string_of(record, brief.c_str());
    const std::string whole = string_of(record, field.c_str());
    return whole.substr(0, whole.find('\n'));
}

std::string share_text(std::int64_t part, std::int64_t whole) {
    char text[32];
    std::snprintf(text, sizeof text, "%.0f %%",
                  whole > 0 ? 100.0 * static_cast<double>(part) / static_cast<double>(whole) : 0);
    return text;
}

// Returns a line about how the run's time was used: the largest causes first, without those of less than half a
// percent.
std::string goodput_line(const json& run) {
    const json goodput = object_of(run, "goodput"), causes = object_of(goodput, "causes_ms");
    if (causes.empty()) return "";
    const std::int64_t wall = number_of(goodput, "wall_ms");
    std::vector<std::pair<std::int64_t, std::string>> lost;
    for (const auto& [cause, ms] : causes.items())
        if (cause != "productive" && ms.is_number() && ms.get<std::int64_t>() * 200 >= std::max<std::int64_t>(wall, 1))
            lost.emplace_back(-ms.get<std::int64_t>(), cause);
    std::sort(lost.begin(), lost.end());
    std::string text = share_text(number_of(causes, "productive"), wall) + " productive of " + duration_text(wall);
    for (std::size_t i = 0; i < lost.size(); ++i)
        text += (i == 0 ? "; " : ", ") + lost[i].second + " " + duration_text(-lost[i].first);
    return text;
}

std::string attempts_table(const json& attempts) {
    json rows = json::array();
    for (const json& attempt : attempts) {
        json row = attempt;
        row["at"] = clock_text(string_of(attempt, string_of(attempt, "started").empty() ? "placed" : "started"));
        if (string_of(attempt, "from").empty()) row["from"] = "-";
        row["cause_brief"] = brief_of(attempt, "cause");
        rows.push_back(row);
    }
    const std::vector<Column> columns{{"ATT", "number"},       {"STATE", "state"},
                                      {"STARTED", "at"},       {"LASTED", "lasted_ms", Shape::duration},
                                      {"FROM", "from"},        {"NODES", "nodes", Shape::list},
                                      {"CAUSE", "cause_brief"}};
    return table_text(rows, columns, Format::table, false);
}

// Returns a text with the ranks of a live run that have ended. Returns an empty text if no rank has ended, or all have.
std::string ended_ranks(const json& run, const json& attempts) {
    if (attempts.empty() || is_terminal(run)) return "";
    json ended = json::array(), running = json::array();
    std::string how;
    for (const json& worker : list_of(attempts.back(), "workers")) {
        const json rank = worker.value("rank", json(0)), code = worker.value("exit_code", json());
        const bool has_ended = !code.is_null() || !worker.value("signal", json()).is_null();
        (has_ended ? ended : running).push_back(rank);
        if (has_ended && code != 0) how += "; rank " + json_text(rank) + ": " + string_of(worker, "cause");
    }
    if (ended.empty() || running.empty()) return "";
    return ranks_text(ended) + how + "; " + ranks_text(running) + (running.size() > 1 ? " run on" : " runs on");
}

std::string first_failure(const std::string& run, const json& attempt) {
    const json failure = object_of(attempt, "first_failure");
    if (failure.empty()) return "";
    const std::string number = value_text(attempt.value("number", json(0)));
    std::string text = "First failure, attempt " + number + ": rank " + value_text(failure.value("rank", json(0))) +
                       ", " + string_of(failure, "node");
    const std::int64_t lead_us = number_of(failure, "lead_us");
    if (lead_us > 0)
        text += ", " + (lead_us < 1000 ? std::to_string(lead_us) + " us" : duration_text(lead_us / 1000)) +
                " before any other";
    const std::string cause = string_of(failure, "cause");
    return text + ". " + cause + (cause.find('\n') == std::string::npos ? ". " : "\n") + "Last lines: rtrain logs " +
           run + " --attempt " + number + " --rank failed\n";
}

// Returns a text such as "300 MiB for each worker: watched each 250 ms"; empty: the run requested no memory.
std::string memory_limit(const json& run) {
    const json limit = object_of(run, "memory_limit");
    if (limit.empty()) return "";
    std::string how;
    for (const json& enforcer : list_of(limit, "enforced_by")) {
        const std::string kind = value_text(enforcer);
        how += how.empty() ? ": " : "; on other nodes ";
        if (kind == "cgroup")
            how += "cgroup, for the workers of a node together";
        else if (kind == "watch")
            how += "watched each 250 ms";
        else if (kind == "off")
            how += "not enforced (--memory-limits off)";
        else
            how += "not enforced (its agent is older)";
    }
    return bytes_text(number_of(limit, "bytes_per_worker")) + " for each worker" + how;
}

}  // namespace

std::string string_of(const json& value, const char* field) {
    return value.is_object() && value.contains(field) && value[field].is_string() ? value[field].get<std::string>()
                                                                                  : "";
}

bool is_terminal(const json& run) {
    const std::string state = string_of(run, "state");
    return state == "SUCCEEDED" || state == "FAILED" || state == "STOPPED";
}

std::string ranks_text(const json& ranks) {
    // the first and the last rank of each row of consecutive ranks
    std::vector<std::pair<std::int64_t, std::int64_t>> runs;
    for (const json& rank : ranks) {
        const std::int64_t number = rank.is_number() ? rank.get<std::int64_t>() : 0;
        if (!runs.empty() && number == runs.back().second + 1)
            runs.back().second = number;
        else
            runs.emplace_back(number, number);
    }
    std::string text;
    for (const auto& [first, last] : runs) {
        text += (text.empty() ? "" : ", ") + std::to_string(first);
        if (last > first) text += (last == first + 1 ? ", " : "-") + std::to_string(last);
    }
    return (ranks.size() > 1 ? "ranks " : "rank ") + text;
}

std::string clock_text(const std::string& iso) {
    if (iso.size() < 16) return "-";
    const std::string today = time_text(wall_now_ms()).substr(0, 10);
    return iso.substr(0, 10) == today ? iso.substr(11, 5) : iso.substr(0, 10) + " " + iso.substr(11, 5);
}

std::string status_text(const json& status) {
    const json gpus = object_of(status, "gpus");
    const json cpus = object_of(status, "cpus");
    const auto used = [](const json& of) {
        return value_text(of.value("allocated", json("0"))) + " of " + value_text(of.value("total", json("0"))) +
               " allocated";
    };
    const auto started = parse_time(string_of(status, "started"));
    std::string text = row("cluster", string_of(status, "name") + " (" + string_of(status, "cluster_id") + ")");
    text += row("head", string_of(status, "address") + ", version " + string_of(status, "version") +
                            (started ? ", up " + duration_text(wall_now_ms() - *started) : ""));
    text += row("nodes", counts(object_of(status, "nodes")));
    text += row("runs", counts(object_of(status, "runs")));
    text += row("CPUs", used(cpus)) + row("GPUs", used(gpus));
    text += row("storage", string_of(status, "storage_root"));
    text += row("warning", string_of(status, "storage_warning"));
    return text;
}

std::string run_line(const json& run) {
    const std::string reason = brief_of(run, "reason");
    return string_of(run, "name") + " (" + string_of(run, "run_id") + ") " + string_of(run, "state") +
           (reason.empty() ? "" : ": " + reason);
}

std::string lost_warning(const json& run) {
    if (!is_terminal(run) || number_of(run, "checkpoints_lost") == 0) return "";
    for (const json& warning : list_of(run, "warnings"))
        if (const std::string text = value_text(warning); text.find(" never reached the storage") != std::string::npos)
            return "warning: " + text;
    return "";
}

std::string end_text(const json& run) {
    const std::string name = string_of(run, "name"), warning = lost_warning(run);
    const bool has_started = !string_of(run, "started").empty();  // a run that never started has no log
    const std::string logs = has_started ? ", rtrain logs " + name + " --rank failed" : "";
    return run_line(run) + (warning.empty() ? "" : "\n" + warning) +
           (string_of(run, "state") == "FAILED" ? "\n  next: rtrain describe " + name + logs : "");
}

std::string run_text(const json& run, const json& attempts) {
    const std::string name = string_of(run, "name");
    const auto started = parse_time(string_of(run, "started"));
    const auto ended = parse_time(string_of(run, "ended"));
    std::string text = row("run", name + " (" + string_of(run, "run_id") + ") of " + string_of(run, "user"));
    const std::string reason = brief_of(run, "reason");
    text += row("state", string_of(run, "state") + (reason.empty() ? "" : ": " + reason));
    text += row("submitted", string_of(run, "submitted"));
    if (started)
        text += row("started",
                    string_of(run, "started") + (ended ? ", lasted " + duration_text(*ended - *started)
                                                       : ", " + duration_text(wall_now_ms() - *started) + " ago"));
    text += row("workers", value_text(run.value("workers", json(0))) + ", needs " + string_of(run, "needs"));
    text += row("memory limit", memory_limit(run));
    text += row("queue", string_of(run, "queue") + ", priority " + value_text(run.value("priority", json(50))));
    if (const json yields = run.value("yields", json()); yields.is_boolean())
        text += row("yields", yields == json(true) ? "yes: it ends for any waiting run, and with its owner"
                                                   : "not now; it ends with its owner");
    text += row("nodes", names(list_of(run, "nodes")));
    text += row("failures", value_text(run.value("failures", json(0))) +
                                (number_of(run, "max_failures") < 0
                                     ? ", no limit"
                                     : " of at most " + value_text(run.value("max_failures", json(0)))));
    text += row("storage",
                string_of(run, "run_path").empty() ? string_of(run, "storage_path") : string_of(run, "run_path"));
    text += row("report", last_report(run));
    if (number_of(run, "checkpoints") > 0)
        text += row("checkpoints", value_text(run["checkpoints"]) + ", latest " + string_of(run, "latest_checkpoint"));
    text += row("restored", string_of(run, "restored_from"));
    text += row("ended", ended_ranks(run, attempts));
    text += row("time", goodput_line(run));
    for (const json& advice : list_of(run, "advice")) text += row("advice", string_of(advice, "text"));
    if (!object_of(run, "labels").empty()) text += row("labels", pairs(run["labels"]));
    for (const json& warning : list_of(run, "warnings")) text += row("warning", value_text(warning));
    for (const json& starts : list_of(run, "starts")) text += row("starts", string_of(starts, "text"));
    if (const json notice = object_of(run, "notice"); !notice.empty())
        text += row("notice", clock_text(string_of(notice, "time")) + ", " + string_of(notice, "node") + ": " +
                                  string_of(notice, "text"));
    if (attempts.empty()) return text;
    text += "\n" + attempts_table(attempts);
    for (const json& attempt : attempts) text += first_failure(name, attempt);
    return text;
}

std::string node_text(const json& node) {
    const std::string reason = string_of(node, "reason");
    std::string text = row("node", string_of(node, "node"));
    text += row("state", string_of(node, "state") + (reason.empty() ? "" : ": " + reason));
    text += row("address", string_of(node, "address") + ":" + value_text(node.value("port", json(0))));
    for (const json& warning : list_of(node, "warnings")) text += row("warning", value_text(warning));
    text += row("resources", pairs(object_of(node, "resources"))) + row("free", pairs(object_of(node, "free")));
    text += row("GPUs", value_text(node.value("gpus", json(0))) + " " + string_of(node, "gpu_model"));
    text += row("labels", pairs(object_of(node, "labels")));
    text += row("registered", string_of(node, "registered"));
    if (node.contains("last_heartbeat_ms") && node["last_heartbeat_ms"].is_number())
        text += row("heartbeat", duration_text(number_of(node, "last_heartbeat_ms")) + " ago");
    if (number_of(node, "memory_total") > 0)
        text += row("memory",
                    bytes_text(number_of(node, "memory_used")) + " of " + bytes_text(number_of(node, "memory_total")));
    text += row("runs", names(list_of(node, "runs")));
    const json facts = object_of(node, "facts");
    for (const auto& [fact, value] : facts.items()) text += row(fact, value_text(value));
    return text;
}

}  // namespace rtrain::cmd
