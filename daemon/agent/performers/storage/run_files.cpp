#include "daemon/agent/performers/storage/run_files.hpp"

#include <string>
#include <utility>

#include "daemon/agent/base/clocks.hpp"
#include "daemon/agent/base/log.hpp"
#include "daemon/agent/delivery/uploads.hpp"
#include "storage/uri/files/removal.hpp"

namespace rtrain::agent {
namespace {

constexpr std::int64_t clear_patience_ms = 10'000, clear_again_ms = 50;

}  // namespace

void RunFiles::remove_checkpoint(const RemoveCheckpoint& out) {
    background_.offload_at(
        out.order.storage_path,
        [facts = node_.facts(), order = out.order] { return agent::remove_checkpoint(facts, order); },
        [order = out.order](const Error& error) {
            return CheckpointGone{.run = order.run, .directory = order.directory, .why = error.message};
        },
        [this](CheckpointGone gone) { inputs_.enqueue(std::move(gone)); });
}

void RunFiles::write_result(const WriteResultFile& out) {
    background_.offload_at(
        out.order.storage_path,
        [facts = node_.facts(), order = out.order] {
            const Status written = write_result_file(facts, order);
            if (!written) warn("result.json of " + order.run_name + ": " + written.error().message);
        },
        [] {});
}

void RunFiles::clear(const protocol::Clear& order) { try_clear(order, boot_ms() + clear_patience_ms); }

// Tries to remove a run's files. Waits for an attempt that still ends here, since it would write to them: one of the
// run, or one that resumes from its files. Also waits for a pending end.
void RunFiles::try_clear(const protocol::Clear& order, std::int64_t until_ms) {
    for (const auto& [key, attempt] : state_.attempts)
        if (attempt.saved.prepare.run_name == order.run_name &&
            storage::same_place(attempt.saved.prepare.storage_path, order.storage_path))
            return head_.send(protocol::Cleared{.id = order.id,
                                                .error = "attempt " + std::to_string(attempt.saved.number) +
                                                         " of run " + attempt.saved.prepare.run_id +
                                                         " is still there"});
    if (const std::string why = pending_.hold(order); !why.empty()) {
        if (boot_ms() >= until_ms) return head_.send(protocol::Cleared{.id = order.id, .error = why});
        background_.after(clear_again_ms, [this, order, until_ms] { try_clear(order, until_ms); });
        return;
    }
    background_.offload_at(
        order.storage_path, [facts = node_.facts(), order] { return clear_run(facts, order); },
        [id = order.id](const Error& error) { return protocol::Cleared{.id = id, .error = error.message}; },
        [this, order](const protocol::Cleared& cleared) {
            pending_.release(order, cleared.removed);
            head_.send(cleared);
        });
}

}  // namespace rtrain::agent
