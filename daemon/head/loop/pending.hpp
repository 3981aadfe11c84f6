// What is decided and not yet durable: decisions that share one commit, and what waits for it.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "daemon/head/events/decisions.hpp"

namespace rtrain::head {

// What lies beside the records and comes often: durable with the next commit, and only then `done`.
struct Aside {
    std::vector<state::TokenRow> tokens;
    std::map<std::string, std::string> settings;
    std::function<void()> done;
};

struct Pending {
    struct Decided {
        Decisions decisions;
        std::vector<std::function<void()>> orders;                  // made of the state as it was decided
        std::vector<std::function<void(const Decision&)>> answers;  // one per decision, or none
    };
    std::vector<Decided> decided;
    std::vector<Aside> asides;
    std::vector<std::function<void()>> once_durable;  // answers that depend on it
    std::vector<std::function<void()>> then;          // when all of it is durable and performed
    state::Batch batch;
    state::RowBytes grown;  // once it is on disk: by how much it made the rows more
    std::size_t rows = 0;   // to be written, as far as they are in the batch by now
    // The number of a node's news that the batch's decisions go up to, beside the setting that it becomes.
    struct NewsNumber {
        std::uint64_t number = 0, installation = 0;
    };
    std::map<std::string, NewsNumber> news;  // by node: the highest that came
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
    bool wanted() const { return !decided.empty() || !asides.empty() || !then.empty(); }  // a commit now, not by and by
    bool writes() const {
        return !batch.entries.empty() || !batch.notices.empty() || !batch.metrics.empty() || !batch.settings.empty() ||
               !batch.tokens.empty() || !batch.audit.empty();
    }
    bool about(RunId run) const {  // does it change this run?
        for (const Decided& group : decided)
            for (const Decision& decision : group.decisions.by_event)
                for (const Record& record : decision.save)
                    if (const Run* changed = std::get_if<Run>(&record); changed && changed->id == run) return true;
        return false;
    }
};

}  // namespace rtrain::head
