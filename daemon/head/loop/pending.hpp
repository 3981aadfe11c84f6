// A batch: decisions that share one commit, and the tasks that wait for it.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "daemon/head/events/decisions.hpp"

namespace rtrain::head {

// Small changes that are not events. They become durable with the next commit, after which `done` is called.
struct Aside {
    std::vector<state::TokenRow> tokens;
    std::map<std::string, std::string> settings;
    std::function<void()> done;
};

struct Pending {
    struct Decided {
        Decisions decisions;
        // made from the state at the decision, to be sent when the batch is durable
        std::vector<std::function<void()>> orders;
        // one for each decision; empty if nobody waits for it
        std::vector<std::function<void(const Decision&)>> answers;
    };
    std::vector<Decided> decided;
    std::vector<Aside> asides;
    std::vector<std::function<void()>> once_durable;  // answers that must wait until this batch is durable
    std::vector<std::function<void()>> then;  // run when the whole batch is durable and its effects were performed
    state::Batch batch;
    state::RowBytes grown;  // growth of the tables in bytes; counted once the batch is durable
    std::size_t rows = 0;   // number of rows to write that are in the batch so far
    // The highest number of a node's news in the batch's decisions, and its installation.
    struct NewsNumber {
        std::uint64_t number = 0, installation = 0;
    };
    std::map<std::string, NewsNumber> news;  // key: the node; value: the highest number of its news that arrived
    std::set<std::string> revoked;           // serials of certificates that this batch revokes

    void add(Decided fresh) {
        for (state::Entry& entry : fresh.decisions.entries) {
            rows += 1 + entry.records.size();
            batch.entries.push_back(std::move(entry));
        }
        fresh.decisions.entries.clear();
        decided.push_back(std::move(fresh));
    }
    void add(state::Notice notice) {
        ++rows;
        batch.notices.push_back(std::move(notice));
    }
    void add(std::optional<state::AuditRow> row) {
        if (!row) return;
        ++rows;
        batch.audit.push_back(std::move(*row));
    }
    // True if a commit must begin now, and not only when another change needs one.
    bool wanted() const { return !decided.empty() || !asides.empty() || !then.empty(); }
    bool writes() const {
        return !batch.entries.empty() || !batch.notices.empty() || !batch.metrics.empty() || !batch.settings.empty() ||
               !batch.tokens.empty() || !batch.audit.empty();
    }
    bool about(RunId run) const {  // true if the batch changes this run
        for (const Decided& group : decided)
            for (const Decision& decision : group.decisions.by_event)
                for (const Record& record : decision.save)
                    if (const Run* changed = std::get_if<Run>(&record); changed && changed->id == run) return true;
        return false;
    }
};

}  // namespace rtrain::head
