// Changes of the queues while the head works. A change is merged with the present rules, and the whole is checked as a
// file of queues is: so nothing gets in here that `head start --queues` would refuse.
#include "base/json_text.hpp"
#include "daemon/head/api/handlers.hpp"
#include "daemon/head/requests/audit.hpp"
#include "daemon/head/requests/pages_json.hpp"
#include "storage/job_spec/fields/queues.hpp"
#include "storage/job_spec/fields/rules.hpp"

namespace rtrain::head {
namespace {

constexpr std::size_t queues_most = 1'000;

json quota_document(const Resources& quota) {
    json out = json::object();
    for (const auto& [resource, amount] : quota) out[resource] = to_text(amount);
    return out;
}

json rules_document(const QueueRules& rules) {
    json out = {{"share", rules.share},
                {"quota", quota_document(rules.quota)},
                {"borrow", rules.borrow},
                {"preempt", rules.preempt}};
    if (!rules.parent.empty()) out["parent"] = rules.parent;
    return out;
}

// The rules as a file of queues has them. JSON is YAML.
json document_of(const Queues& queues) {
    json rules = json::object();
    for (const auto& [name, own] : queues.rules) rules[name] = rules_document(own);
    return {{"version", 1},
            {"half_life", spec::duration_text(queues.half_life.ms)},
            {"preemption_grace", spec::duration_text(queues.preemption_grace.ms)},
            {"queues", std::move(rules)}};
}

// Puts the fields of `change` into a queue's rules. Null removes a field; in `quota` it removes a resource's limit.
void merge(json& rules, const json& change) {
    for (const auto& [name, value] : change.items()) {
        if (value.is_null())
            rules.erase(name);
        else if (name == "quota" && value.is_object() && rules.contains(name) && rules[name].is_object())
            merge(rules[name], value);
        else
            rules[name] = value;
    }
}

// Takes the new rules, and answers with all queues once they are on the disk.
void configure(Exchange& exchange, const std::string& text) {
    spec::QueuesAnswer answer = spec::read_queues(text);
    if (!answer.queues)
        return refuse(exchange,
                      {ErrorCode::invalid, "these queues have problems, and nothing was changed",
                       "docs/queues.md shows every field"},
                      answer.problems);
    if (answer.queues->rules.size() > queues_most)
        return refuse(exchange, {ErrorCode::invalid, "there may be 1000 queues at most", "remove some first"});
    exchange.events.take(QueuesConfigured{.queues = std::move(*answer.queues), .by = exchange.caller.user},
                         [kept = exchange](const Decision& decision) mutable {
                             decision.refused ? refuse(kept, *decision.refused) : get_queues(kept);
                         });
}

}  // namespace

void put_queues(Exchange& exchange) {
    const auto body = body_of(exchange);
    if (!body) return refuse(exchange, body.error());
    const json text = body->value("text", json());
    if (!text.is_string())
        return refuse(exchange, {ErrorCode::usage, "text is a file of queues", "rtrain queue apply FILE"});
    configure(exchange, text.get<std::string>());
}

void put_queue(Exchange& exchange) {
    const auto body = body_of(exchange);
    if (!body) return refuse(exchange, body.error());
    const std::string& name = exchange.variables["queue"];
    json document = document_of(exchange.view.cluster.queues);
    json& rules = document["queues"][name];
    if (rules.is_null()) rules = json::object();
    merge(rules, *body);
    audit_detail(exchange, json_text(*body));
    configure(exchange, json_text(document));
}

void delete_queue(Exchange& exchange) {
    const std::string& name = exchange.variables["queue"];
    json document = document_of(exchange.view.cluster.queues);
    if (document["queues"].erase(name) == 0)
        return refuse(exchange, {ErrorCode::not_found, "there is no queue '" + name + "'", "rtrain queue list"});
    configure(exchange, json_text(document));
}

}  // namespace rtrain::head
