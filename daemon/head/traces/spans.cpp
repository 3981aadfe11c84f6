// Makes spans. Their attributes contain no text of a user except the names of a run, its queue and its user. Commands,
// variables and reasons are left out, since they may contain a secret.
#include "daemon/head/traces/spans.hpp"

#include <algorithm>
#include <cstdlib>
#include <optional>

#include "base/crypto/digest.hpp"

namespace rtrain::head {
namespace {

std::string trace_of(const Cluster& cluster, RunId run) {
    return crypto::sha256_hex("trace " + cluster.meta.cluster_id + " " + std::to_string(run.value)).substr(0, 32);
}

std::string span_id(const std::string& trace, const std::string& what) {
    return crypto::sha256_hex("span " + trace + " " + what).substr(0, 16);
}

std::int64_t number(std::uint64_t value) { return static_cast<std::int64_t>(value); }

Span of_run(const Cluster& cluster, const Run& run, const std::string& name) {
    Span span{.trace = trace_of(cluster, run.id), .name = name};
    span.id = span_id(span.trace, name);
    if (name != "run") span.parent = span_id(span.trace, "run");
    span.attributes = {{"rtrain.run_id", run_id_text(cluster.meta.cluster_id, run.id)}, {"rtrain.run", run.name}};
    return span;
}

// Makes a span of an attempt. Its id contains the attempt's incarnation, since the number may change with the claim.
Span of_attempt(const Cluster& cluster, const Run& run, const Attempt& attempt, const std::string& name,
                const std::string& below) {
    const std::string which = " " + std::to_string(attempt.incarnation);
    Span span = of_run(cluster, run, name);
    span.id = span_id(span.trace, name + which);
    span.parent = span_id(span.trace, below == "run" ? below : below + which);
    span.attributes.emplace_back("rtrain.attempt", number(attempt.id.number));
    return span;
}

bool is_bad(AttemptState state) { return state == AttemptState::failed || state == AttemptState::lost; }

// Returns the time since which the run has waited for this attempt.
Time waits_since(const Cluster& cluster, const Run& run, const Attempt& attempt) {
    Time since = run.submitted;
    for (auto at = cluster.attempts.lower_bound({run.id, 0}); at != cluster.attempts.end() && at->first.run == run.id;
         ++at)
        if (at->first.number < attempt.id.number) since = std::max(since, at->second.ended_at);
    return since;
}

std::set<std::string> nodes_of(const Attempt& attempt) {
    std::set<std::string> nodes;
    for (const Worker& worker : attempt.workers) nodes.insert(worker.seat.node.value);
    return nodes;
}

}  // namespace

// Converts a time of the records to the wall clock. The two clocks are read one after the other, in milliseconds. So
// equal times could differ by a millisecond, and a span could lie outside of its parent. Small differences are
// therefore ignored. A larger one means that the wall clock was set.
std::int64_t RunSpans::wall(Time time) {
    constexpr std::int64_t set_ms = 50;
    const std::int64_t offset_ms = to_wall_(time) - time.ms;
    if (std::abs(offset_ms - offset_ms_) > set_ms) offset_ms_ = offset_ms;
    return time.ms + offset_ms_;
}

void RunSpans::add(std::vector<Span>& out, Span span, Time begin, Time end) {
    if (!ids_.insert(span.id).second) return;
    span.begin_wall_ms = wall(begin);
    span.end_wall_ms = std::max(span.begin_wall_ms, wall(end));
    out.push_back(std::move(span));
}

void RunSpans::add_run(const Cluster& cluster, const Run& run, std::vector<Span>& out) {
    if (!terminal(run.state) || run.ended != now_) return;
    Span span = of_run(cluster, run, "run");
    span.failed = run.state == RunState::failed;
    span.attributes.emplace_back("rtrain.user", run.user);
    span.attributes.emplace_back("rtrain.queue", run.spec.queue);
    span.attributes.emplace_back("rtrain.state", std::string(to_text(run.state)));
    span.attributes.emplace_back("rtrain.attempts", number(run.attempts));
    span.attributes.emplace_back("rtrain.failures", number(run.failures));
    add(out, std::move(span), run.submitted, run.ended);
}

void RunSpans::add_attempt(const Cluster& cluster, const Attempt& attempt, std::vector<Span>& out) {
    const auto run = cluster.runs.find(attempt.id.run);
    if (run == cluster.runs.end()) return;
    const auto span = [&](const char* name, const char* below) {
        return of_attempt(cluster, run->second, attempt, name, below);
    };
    if (attempt.placed_at == now_)
        add(out, span("queue", "run"), waits_since(cluster, run->second, attempt), attempt.placed_at);
    if (attempt.prepared_at == now_) add(out, span("prepare", "attempt"), attempt.placed_at, attempt.prepared_at);
    if (attempt.started_at == now_) {
        add(out, span("start", "attempt"), attempt.prepared_at, attempt.started_at);
        if (!attempt.from.empty()) {
            Span restore = span("restore", "start");
            restore.attributes.emplace_back("rtrain.checkpoint", attempt.from);
            add(out, std::move(restore), attempt.prepared_at, attempt.started_at);
        }
    }
    if (!terminal(attempt.state) || attempt.ended_at != now_) return;
    Span whole = span("attempt", "run");
    whole.failed = is_bad(attempt.state);
    whole.attributes.emplace_back("rtrain.state", std::string(to_text(attempt.state)));
    whole.attributes.emplace_back("rtrain.workers", number(attempt.workers.size()));
    whole.attributes.emplace_back("rtrain.nodes", number(nodes_of(attempt).size()));
    add(out, std::move(whole), attempt.placed_at, attempt.ended_at);
}

void RunSpans::add_first_reports(const Cluster& cluster, Time now, std::vector<Span>& out) {
    for (const AttemptId& id : std::exchange(reported_, {})) {
        const auto run = cluster.runs.find(id.run);
        const auto attempt = cluster.attempts.find(id);
        if (run == cluster.runs.end() || attempt == cluster.attempts.end()) continue;
        const Time begin = attempt->second.started_at;
        if (begin.ms == 0 || begin < since_) continue;
        add(out, of_attempt(cluster, run->second, attempt->second, "first_report", "attempt"), begin, now);
    }
}

std::vector<Span> RunSpans::decided(const Cluster& cluster, const Decisions& decisions) {
    if (now_ != decisions.now) ids_.clear();
    now_ = decisions.now;
    std::vector<Span> out;
    for (const Decision& decision : decisions.by_event)
        for (const Record& record : decision.save) {
            if (const Run* run = std::get_if<Run>(&record)) add_run(cluster, *run, out);
            if (const Attempt* attempt = std::get_if<Attempt>(&record)) add_attempt(cluster, *attempt, out);
        }
    add_first_reports(cluster, decisions.now, out);
    return out;
}

std::vector<Span> RunSpans::durable(const Cluster& cluster, const Decisions& decisions, Time now) {
    std::vector<Span> out;
    std::set<RunId> submitted;
    for (const Decision& decision : decisions.by_event)
        for (const Record& record : decision.save) {
            const Run* run = std::get_if<Run>(&record);
            if (run == nullptr || run->submitted != decisions.now || !submitted.insert(run->id).second) continue;
            out.push_back(of_run(cluster, *run, "submit"));
            out.back().begin_wall_ms = wall(run->submitted);
            out.back().end_wall_ms = std::max(out.back().begin_wall_ms, wall(now));
        }
    return out;
}

}  // namespace rtrain::head
