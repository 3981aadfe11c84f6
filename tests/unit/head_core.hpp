// The head's event loop over a journal of its own, and look-ups in its records. Without network and sessions.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "daemon/head/base/options.hpp"
#include "daemon/head/loop/event_loop.hpp"
#include "daemon/head/view/view.hpp"
#include "storage/state/sqlite.hpp"
#include "tests/unit/head_fixture.hpp"
#include "tests/unit/run_until.hpp"

namespace rtrain::test {

// While this object lives, nothing else writes to the head's journal.
class HeldJournal {
  public:
    explicit HeldJournal(const std::string& directory)
        : database_(state::Database::open(directory + "/state.db", state::Database::Mode::existing).value()) {
        REQUIRE(database_.run("BEGIN IMMEDIATE").ok());
    }
    ~HeldJournal() { CHECK(database_.run("ROLLBACK").ok()); }
    HeldJournal(const HeldJournal&) = delete;
    HeldJournal& operator=(const HeldJournal&) = delete;

  private:
    state::Database database_;
};

struct HeadCore {
    TemporaryFolder folder;
    HeadOptions options;
    std::unique_ptr<state::SqliteJournal> journal = state::SqliteJournal::open(folder.path).value();
    net::Loop loop;
    metrics::Metrics metrics{"test"};
    head::Clock clock{Time{0}};
    head::EventLoop events{loop, *journal, clock, metrics};
    head::UserBytes bytes{{.memory = 1LL << 40, .database = 1LL << 40, .files = 1LL << 40}};
    head::RunNames names;
    head::Reports reports{bytes};
    head::Waits waits;
    const head::View view{events.cluster(), clock, names, reports, waits};

    explicit HeadCore(HeadOptions given = {}) : options(std::move(given)) {
        options.data_dir = folder.path;
        options.storage_root = folder.path + "/storage";
        for (const char* name : {"/secrets", "/logs", "/storage"})
            std::filesystem::create_directories(folder.path + name);
    }
    // Returns the steps of a batch for a loop with no other parts.
    static head::EventLoop::Steps no_steps() {
        return {.decided = [](const head::Decisions&) {},
                .orders = [](const std::vector<Effect>&) { return std::vector<head::EventLoop::Task>(); },
                .rows_elsewhere = [] { return std::size_t{0}; },
                .collect = [](head::Pending&) {},
                .saved = [](const head::Pending&) {},
                .performed = [](const head::Decisions&) {},
                .acknowledge = [] {}};
    }
    // Takes an event, and waits until it is decided, durable and performed.
    Decision happens(Event event) {
        std::optional<Decision> decided;
        events.take(std::move(event), [&](const Decision& decision) { decided = decision; });
        events.settle();
        REQUIRE(decided);
        REQUIRE_FALSE(decided->refused);
        return *decided;
    }
    // Returns the texts of the durable notices, oldest first.
    std::vector<std::string> notices() const {
        std::vector<std::string> texts;
        for (const state::EventRow& row : journal->events(EventId{0}, 1'000))
            if (row.kind == "Notice") texts.push_back(row.note);
        return texts;
    }
};

}  // namespace rtrain::test
