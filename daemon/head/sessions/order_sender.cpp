// See order_sender.hpp.
#include "daemon/head/sessions/order_sender.hpp"

#include <cstdio>
#include <memory>
#include <set>
#include <utility>

#include "daemon/head/view/records_json.hpp"
#include "storage/uri/files/store.hpp"

namespace rtrain::head {
namespace {

// name of the variable; sent among the secrets, so that agents of version 0.1.0 pass it on
constexpr const char* channel_variable = "RTRAIN_CHANNEL";

}  // namespace

std::vector<std::function<void()>> OrderSender::orders(const std::vector<Effect>& effects) {
    std::vector<std::function<void()>> out;
    Launching launching;
    for (const Effect& effect : effects)
        if (auto task = order(effect, launching)) out.push_back(std::move(task));
    return out;
}

// Returns a function that sends the order for an effect. An order for a disconnected node is dropped: when the node
// registers again, the core repeats what is still needed.
std::function<void()> OrderSender::order(const Effect& effect, Launching& launching) {
    const Run* run = nullptr;
    if (const auto entry = view_.cluster.runs.find(about(effect)); entry != view_.cluster.runs.end())
        run = &entry->second;
    if (std::holds_alternative<WriteResult>(effect)) return [this, effect] { write_result(effect); };
    const std::string node = addressee(effect).value;
    if (!sessions_.has(node)) return {};

    OrderFacts facts;
    const bool launches = std::holds_alternative<LaunchWorkers>(effect);
    if (run && (launches || (in_bucket(*run) && has_been_on(*run, addressee(effect))))) {
        if (launching.run != run->id) launching = {.run = run->id, .secrets = submissions_.secrets(*run), .token = {}};
        if (launches && launching.token.empty()) {
            launching.token = tokens_.run_token(run->id, run->user);
            if (const auto channel = tokens_.run_channel(run->id, run->submit_key))
                launching.secrets[channel_variable] = *channel;
            else
                std::fprintf(stderr, "rtrain head: %s\n", channel.error().message.c_str());
        }
        facts.secrets = launching.secrets;
        facts.token = launching.token;
    }
    auto message = order_of(view_.cluster, effect, facts);
    if (!message) return {};
    return [this, effect, node, message = std::move(*message), key = run ? run->submit_key : ""] {
        if (!overtaken(view_.cluster, effect)) deliver(node, message, key);
    };
}

// Returns true if the scheduler has placed the run on this node. Secrets are sent only to such nodes.
bool OrderSender::has_been_on(const Run& run, const NodeId& node) const {
    for (const Attempt* attempt : attempts_of(view_.cluster, run.id))
        for (const Worker& worker : attempt->workers)
            if (worker.seat.node == node) return true;
    return false;
}

// Writes a run's result.json. It is made later, from the durable records, which no longer change, so that it does not
// delay decisions. The run may have been removed since.
void OrderSender::write_result(const Effect& effect) {
    const auto entry = view_.cluster.runs.find(about(effect));
    if (entry == view_.cluster.runs.end()) return;
    const Run& run = entry->second;
    say_ended(run);
    const OrderFacts facts{.code_sha256 = {},
                           .secrets = in_bucket(run) && has_been_on(run, addressee(effect)) ? submissions_.secrets(run)
                                                                                            : OrderFacts().secrets,
                           .token = {},
                           .result_json = result_json(view_, run)};
    const auto uri = storage::parse_uri(run.storage_path);
    if (uri.ok() && uri->scheme == storage::Scheme::cluster) return write_own_result(run.name, facts.result_json);
    if (auto message = order_of(view_.cluster, effect, facts))
        deliver(addressee(effect).value, std::move(*message), run.submit_key);
}

// Sends the end of a run to its connected nodes. Such a node may still have a part of a checkpoint for the run's next
// attempt. A disconnected node deletes that part later.
void OrderSender::say_ended(const Run& run) {
    std::set<std::string> nodes;
    for (const Attempt* attempt : attempts_of(view_.cluster, run.id))
        for (const Worker& worker : attempt->workers) nodes.insert(worker.seat.node.value);
    for (const std::string& node : nodes)
        if (sessions_.has(node)) sessions_.send(node, protocol::RunEnded{run.id.value});
}

// Sends a message to a node. First adds data to it that only the journal or the session has.
void OrderSender::deliver(const std::string& node, protocol::FromHead message, const std::string& code_key) {
    if (!sessions_.has(node)) return;
    if (auto* prepare = std::get_if<protocol::Prepare>(&message)) {
        prepare->code_sha256 = submissions_.code(code_key);
        prepare->any_user = prepare->resume && submissions_.any_user(code_key);
    }
    if (auto* stop = std::get_if<protocol::Stop>(&message); stop && stop->attempt.incarnation == 0)
        // The head has no record of the attempt, so it uses the identification that the agent itself has sent.
        for (const protocol::AttemptRef& held : sessions_.held(node))
            if (held.run == stop->attempt.run && held.number == stop->attempt.number) stop->attempt = held;
    sessions_.send(node, message);
}

void OrderSender::write_own_result(const std::string& run_name, const std::string& text) {
    const std::string path = run_name + "/result.json", root = options_.storage_root;
    background_.offload_at(
        root,
        [path, text, root] {
            auto store = storage::open_file_store(root);
            const Status written = store ? (*store)->put(path, text) : Status(store.error());
            if (!written) std::fprintf(stderr, "rtrain head: %s: %s\n", path.c_str(), written.error().message.c_str());
        },
        [] {});
}

}  // namespace rtrain::head
