#include "daemon/agent/performers/head/news_file.hpp"

#include <string>
#include <utility>

#include "daemon/agent/base/log.hpp"

namespace rtrain::agent {
namespace {

constexpr std::int64_t mend_outbox_ms = 1'000;

}  // namespace

void NewsFile::fill(AgentState& state) const {
    state.next_news = outbox_.next();
    for (auto& [seq, news] : outbox_.kept()) keep_unacknowledged(state, std::move(news));
}

void NewsFile::keep(const KeepNews& out) {
    const bool before = outbox_.torn();
    const Status kept = outbox_.keep(out.news);
    if (kept) return;
    warn("news " + std::to_string(out.news.seq) + " is in memory only: " + kept.error().message);
    if (!before) mend_later();
}

// Repairs the outbox after a while. These may be the last news for a long time, so it does not wait for the next write.
void NewsFile::mend_later() {
    background_.after(mend_outbox_ms, [this] {
        if (!outbox_.mend()) mend_later();
    });
}

void NewsFile::drop(const DropNews& out) {
    if (Status dropped = outbox_.drop(out.up_to); !dropped) warn(dropped.error().message);
}

}  // namespace rtrain::agent
