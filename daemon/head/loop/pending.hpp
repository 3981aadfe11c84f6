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

// Frequent data beside the records. It is durable with the next commit, and then `done` is called.
struct Aside {
    std::vector<state::TokenRow> tokens;
    std::map<std::string, std::string> settings;
    std::function<void()> done;
};

struct Pending {
    struct Decided {
        Decisions decisions;
        std::vector<std::function<void()>> orders;                  // made from the state at the decision
        std::vector<std::function<void(const Decision&)>> answers;  // one per decision, or none
    };
    std::vector<Decided> decided;
    std::vector<Aside> asides;
    std::vector<std::function<void()>> once_durable;  // answers that depend on the batch
    std::vector<std::function<void()>> then;          // run when the whole batch is durable and performed
    state::Batch batch;
    state::RowBytes grown;  // growth of the rows, applied once the batch is durable
    std::size_t rows = 0;   // number of rows to write, as far as they are in the batch
    // The highest number of a node's news in the batch's decisions, and its installation.
    struct NewsNumber {
        std::uint64_t number = 0, installation = 0;
    };
    std::map<std::string, NewsNumber> news;  // by node: the highest number that arrived
    std::set<std::string> revoked;           // serials of certificates

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
    // Needs a commit now, not at the next occasion.
    bool wanted() const { return !decided.empty() || !asides.empty() || !then.empty(); }
    bool writes() const {
        return !batch.entries.empty() || !batch.notices.empty() || !batch.metrics.empty() || !batch.settings.empty() ||
               !batch.tokens.empty() || !batch.audit.empty();
    }
    bool about(RunId run) const {  // returns true if it changes this run
        for (const Decided& group : decided)
            for (const Decision& decision : group.decisions.by_event)
                for (const Record& record : decision.save)
                    if (const Run* changed = std::get_if<Run>(&record); changed && changed->id == run) return true;
        return false;
    }
};

}  // namespace rtrain::head
