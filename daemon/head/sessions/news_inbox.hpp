// Receives the news of agents. News are numbered, so that each counts once, and are acknowledged once they are durable.
// Each becomes an event, a report, or a notice.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>

#include "daemon/head/loop/intake.hpp"
#include "daemon/head/view/view.hpp"
#include "daemon/metrics/metrics.hpp"
#include "daemon/protocol/messages.hpp"
#include "storage/state/journal.hpp"

namespace rtrain::head {

class NewsInbox {
  public:
    NewsInbox(Intake events, const View& view, Reports& reports, metrics::Metrics& metrics)
        : events_(events), view_(view), reports_(reports), metrics_(metrics) {}

    // Sets a function that is called when an attempt has reported for the first time, before the core decides on it.
    void on_first_report(std::function<void(const AttemptId&)> task) { first_report_ = std::move(task); }
    // Loads the durable numbers of news, before the first agent connects.
    void recall(const state::SqliteJournal& journal);
    std::uint64_t durable(const std::string& node) { return boxes_[node].durable; }
    // Handles a node's registration. `next_number` shows whether the agent is a new installation, whose numbers begin
    // again.
    void begin(const std::string& node, std::uint64_t next_number);
    // Takes a piece of news. Returns why the node may not send it; nullopt if it may. News that it may not send are
    // dropped, and acknowledged.
    std::optional<std::string> take(const std::string& node, const protocol::News& news);

    void add_numbers(Pending& batch);  // adds, for each node, the highest number of the received news to the batch
    void numbers_saved(const Pending& batch);
    // Calls `send` with the durable number, for each node that has sent news since the last call.
    void acknowledge(const std::function<void(const std::string& node, std::uint64_t durable)>& send);

  private:
    struct Box {
        std::uint64_t received = 0, durable = 0;
        // Identifies the agent's installation. Numbers of an earlier installation that are still being written do not
        // count.
        std::uint64_t installation = 0;
    };
    Duration ago(const WorkerExited& exited) const;  // time between the worker's exit and now
    void lost(const protocol::Reported& report, const Error& why);
    void notice(const std::string& node, const protocol::Notice& message);

    const Intake events_;
    const View& view_;
    Reports& reports_;
    metrics::Metrics& metrics_;
    std::function<void(const AttemptId&)> first_report_;
    std::map<std::string, Box> boxes_;      // key: the node
    std::set<std::string> unsaved_;         // nodes whose number has changed since the last batch was written
    std::set<std::string> unacknowledged_;  // nodes that have sent news since the last acknowledgement
};

}  // namespace rtrain::head
