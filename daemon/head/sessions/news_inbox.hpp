// News of agents. They are numbered, so that each counts once, and acknowledged once they are durable. A piece of news
// becomes an event, a report, or a notice.
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

    // Calls `task` when an attempt has reported for the first time, before that is decided.
    void on_first_report(std::function<void(const AttemptId&)> task) { first_report_ = std::move(task); }
    // Loads the durable numbers of news, before the first agent connects.
    void recall(const state::SqliteJournal& journal);
    std::uint64_t durable(const std::string& node) { return boxes_[node].durable; }
    // A node has registered. Its next number shows whether it is another installation, whose numbers start again.
    void begin(const std::string& node, std::uint64_t next_number);
    // Returns why the node may not send this; then the news is dropped, and acknowledged.
    std::optional<std::string> take(const std::string& node, const protocol::News& news);

    void add_numbers(Pending& batch);  // adds the highest numbers of the received news
    void numbers_saved(const Pending& batch);
    // Calls `send` for each node with news since the last call, with the durable number.
    void acknowledge(const std::function<void(const std::string& node, std::uint64_t durable)>& send);

  private:
    struct Box {
        std::uint64_t received = 0, durable = 0;
        // The agent's installation; numbers of another one that are still being written do not count.
        std::uint64_t installation = 0;
    };
    Duration ago(const WorkerExited& exited) const;  // time before now
    void lost(const protocol::Reported& report, const Error& why);
    void notice(const std::string& node, const protocol::Notice& message);

    const Intake events_;
    const View& view_;
    Reports& reports_;
    metrics::Metrics& metrics_;
    std::function<void(const AttemptId&)> first_report_;
    std::map<std::string, Box> boxes_;      // by node
    std::set<std::string> unsaved_;         // nodes whose number has changed since the last batch was closed
    std::set<std::string> unacknowledged_;  // nodes with news since the last acknowledgement
};

}  // namespace rtrain::head
