// Changes the queues of a running head. A change is merged with the present rules, and the result is checked like a
// file of queues. So a change that `head start --queues` would refuse is refused here too.
#include <functional>
#include <optional>

#include "base/json_text.hpp"
#include "daemon/head/api/handlers.hpp"
#include "daemon/head/requests/audit.hpp"
#include "daemon/head/requests/pages_json.hpp"
#include "storage/job_spec/fields/queues.hpp"
#include "storage/job_spec/fields/rules.hpp"

namespace rtrain::head {
namespace {

constexpr std::size_t queues_most = 1'000;

template <class Amounts>
json quota_document(const Amounts& quota) {
    json out = json::object();
    for (const auto& [name, amount] : quota) out[name] = to_text(amount);
    return out;
}

json rules_document(const QueueRules& rules) {
    json out = {{"share", rules.share},
                {"quota", quota_document(rules.quota)},
                {"borrow", rules.borrow},
                {"preempt", rules.preempt}};
    if (!rules.parent.empty()) out["parent"] = rules.parent;
    if (rules.user_runs) out["user_runs"] = *rules.user_runs;
    if (rules.user_gpus) out["user_gpus"] = to_text(*rules.user_gpus);
    if (rules.gpu_hours) out["gpu_hours"] = to_text(*rules.gpu_hours);
    if (rules.user_gpu_hours) out["user_gpu_hours"] = to_text(*rules.user_gpu_hours);
    if (!rules.user_gpu_hours_of.empty()) out["user_gpu_hours_of"] = quota_document(rules.user_gpu_hours_of);
    out["budget_window"] = spec::duration_text(rules.budget_window.ms);
    out["budget_preempts"] = rules.budget_preempts;
    return out;
}

// Returns the rules in the form of a file of queues, since JSON is YAML.
json document_of(const Queues& queues) {
    json rules = json::object();
    for (const auto& [name, own] : queues.rules) rules[name] = rules_document(own);
    return {{"version", 1},
            {"half_life", spec::duration_text(queues.half_life.ms)},
            {"preemption_grace", spec::duration_text(queues.preemption_grace.ms)},
            {"queues", std::move(rules)}};
}

// Puts the fields of `change` into a queue's rules. Null removes a field; in `quota` it removes a resource's limit,
// in `user_gpu_hours_of` a user's budget.
void merge(json& rules, const json& change) {
    for (const auto& [name, value] : change.items()) {
        if (value.is_null())
            rules.erase(name);
        else if ((name == "quota" || name == "user_gpu_hours_of") && value.is_object() && rules.contains(name) &&
                 rules[name].is_object())
            merge(rules[name], value);
        else
            rules[name] = value;
    }
}

// The most times that a change is applied again. Each time, another change of the queues was committed before this one
// was decided.
constexpr int attempts_most = 8;

using Answer = std::function<void(Exchange&, const Decision&)>;

// Sends the new rules to the core. `changed_from`: the rules from which a change of some queues was made; nullopt: all
// queues are replaced.
void configure(Exchange& exchange, const std::string& text, std::optional<Queues> changed_from, Answer answer) {
    spec::QueuesAnswer read = spec::read_queues(text);
    if (!read.queues)
        return refuse(exchange,
                      {ErrorCode::invalid, "these queues have problems, and nothing was changed",
                       "docs/queues.md shows every field"},
                      read.problems);
    if (read.queues->rules.size() > queues_most)
        return refuse(exchange, {ErrorCode::invalid, "there may be 1000 queues at most", "remove some first"});
    exchange.events.take(
        QueuesConfigured{
            .queues = std::move(*read.queues), .by = exchange.caller.user, .changed_from = std::move(changed_from)},
        [kept = exchange, answer = std::move(answer)](const Decision& decision) mutable {
            guarded(kept, [&] { answer(kept, decision); });
        });
}

// Answers with all queues, after the change is durable.
void answer_configured(Exchange& exchange, const Decision& decision) {
    decision.refused ? refuse(exchange, *decision.refused) : get_queues(exchange);
}

// Changes a document of all queues. Returns an error if the change is not possible.
using ChangeOfQueues = std::function<Status(json& queues)>;

// Applies the change to the queues as they are when it is decided, so that no other change is lost.
void change_queues(Exchange& exchange, const ChangeOfQueues& change, int attempts_left = attempts_most) {
    const Queues before = exchange.view.cluster.queues;
    const std::optional<state::AuditRow> row = exchange.audit ? *exchange.audit : std::nullopt;
    json document = document_of(before);
    if (const Status changed = change(document["queues"]); !changed) return refuse(exchange, changed.error());
    configure(exchange, json_text(document), before,
              [before, change, attempts_left, row](Exchange& kept, const Decision& decision) {
                  const bool outdated = decision.refused && kept.view.cluster.queues != before;
                  if (!outdated || attempts_left <= 1) return answer_configured(kept, decision);
                  // The audit row is restored, because the refused event has taken and dropped it.
                  if (kept.audit) *kept.audit = row;
                  const Auditing auditing(kept.events, kept.audit);
                  change_queues(kept, change, attempts_left - 1);
              });
}

}  // namespace

void put_queues(Exchange& exchange) {
    const auto body = body_of(exchange);
    if (!body) return refuse(exchange, body.error());
    const json text = body->value("text", json());
    if (!text.is_string())
        return refuse(exchange, {ErrorCode::usage, "text is a file of queues", "rtrain queue apply FILE"});
    configure(exchange, text.get<std::string>(), std::nullopt, answer_configured);
}

void put_queue(Exchange& exchange) {
    const auto body = body_of(exchange);
    if (!body) return refuse(exchange, body.error());
    audit_detail(exchange, json_text(*body));
    change_queues(exchange, [name = exchange.variables["queue"], change = *body](json& queues) -> Status {
        json& rules = queues[name];
        if (rules.is_null()) rules = json::object();
        merge(rules, change);
        return Done{};
    });
}

void delete_queue(Exchange& exchange) {
    change_queues(exchange, [name = exchange.variables["queue"]](json& queues) -> Status {
        if (queues.erase(name) == 0)
            return Error{ErrorCode::not_found, "there is no queue '" + name + "'", "rtrain queue list"};
        return Done{};
    });
}

}  // namespace rtrain::head
