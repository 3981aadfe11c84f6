#include "daemon/agent/performers/storage/attempt_ends.hpp"

#include <utility>

#include "daemon/agent/delivery/named_logs.hpp"
#include "daemon/agent/delivery/uploads.hpp"
#include "daemon/agent/preparation/start_directory.hpp"
#include "daemon/agent/workers/environment.hpp"

namespace rtrain::agent {

void AttemptEnds::finish_logs(const FinishLogs& out) {
    logs_.hold_to_limits(out.attempt);
    const LiveAttempt* attempt = attempts_.find(out.attempt);
    if (!attempt) return inputs_.enqueue(LogsDone{out.attempt});
    const auto journal = journals_.find(out.attempt);
    background_.offload_at(
        attempt->context->prepare.storage_path,
        [context = attempt->context, facts = node_.facts(), number = attempt->number, killed = attempt->killed,
         adopted = attempt->adopted, node = node_.name(), groups = node_.cgroups, key = out.attempt, journal] {
            if (groups) groups->kill(key);
            Delivered done;
            if (adopted)
                if (Status there = run_is_there(*context, number); !there) done = {.metrics = there, .logs = there};
            if (done.metrics && journal) done.metrics = deliver(*journal, *context, number);
            if (killed) kill_strays(attempt_text(context->prepare, number), node);
            if (done.logs) done.logs = copy_logs(*context, facts, number);
            return done;
        },
        [](const Error& error) { return Delivered{.metrics = error, .logs = error}; },
        [this, key = out.attempt,
         delivery = PendingDelivery{.prepare = attempt->context->prepare,
                                    .context = attempt->context,
                                    .number = attempt->number,
                                    .journal = journal}](const Delivered& done) mutable {
            finished(key, std::move(delivery), done);
        });
}

void AttemptEnds::finished(AttemptKey key, PendingDelivery delivery, const Delivered& done) {
    delivery.logs = !done.logs;
    if (!done.logs)
        pending_.leave_behind(key, std::move(delivery), "logs are not beside the run: " + done.logs.error().message);
    else if (!done.metrics)
        pending_.leave_behind(key, std::move(delivery),
                              "the last metrics are not in the run's journal: " + done.metrics.error().message);
    logs_.finish(key, [this, key] { inputs_.enqueue_later(LogsDone{key}); });
}

void AttemptEnds::close(const CloseAttempt& out) {
    node_.short_names.remove(node_.files.scratch(out.attempt));
    const LiveAttempt* attempt = attempts_.find(out.attempt);
    if (!attempt) return;
    background_.offload_at(
        attempt->context->prepare.storage_path,
        [context = attempt->context, facts = node_.facts(), scratch = node_.files.scratch(out.attempt),
         restored = node_.files.restored(out.attempt), groups = node_.cgroups, key = out.attempt,
         logs_stay = pending_.has_logs(out.attempt)] {
            if (logs_stay)
                remove_all_but(scratch, named_logs_folder);
            else
                remove_tree(scratch);
            drop_staging(*context);
            remove_tree(restored);
            remove_start_directories(*context, facts);
            if (groups) groups->remove(key);
        },
        [this, key = out.attempt] {
            if (logs_.complete(key)) pending_.let_go(key);
        });
    journals_.close(out.attempt);
    attempts_.close(out.attempt);
}

}  // namespace rtrain::agent
