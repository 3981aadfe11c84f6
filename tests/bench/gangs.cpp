// Measures gangs of one bundle through the real core and the real journal:
// `bench_gangs DIRECTORY [seconds] [batch]` prints one JSON object. Each round makes `batch` gangs and ends them again
// in four batches, as a head does under that many simultaneous requests: submitted and placed, asked to stop, emptied,
// removed. Each batch is one transaction that is on disk (fsync) before the next begins. The result contains the
// processor time beside the wall time, which includes other processes on a busy machine.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <string>
#include <vector>

#include "storage/state/journal.hpp"

namespace {

using namespace rtrain;
using Clock = std::chrono::steady_clock;

constexpr std::uint32_t nodes = 2'000, gpus = 8;

double processor_seconds() {
    timespec time{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) / 1e9;
}

double seconds_since(Clock::time_point begin) { return std::chrono::duration<double>(Clock::now() - begin).count(); }

class Bench {
  public:
    Bench(state::SqliteJournal& journal, std::size_t batch)
        : journal_(journal), batch_(batch), cluster_(journal.opened()) {}

    void register_nodes() {
        std::vector<Event> events;
        for (std::uint32_t n = 0; n < nodes; ++n)
            events.emplace_back(NodeRegistered{.node = {"node-" + std::to_string(10'000 + n)},
                                               .address = "127.0.0.1",
                                               .port = 7434,
                                               .labels = {},
                                               .total = {{std::string(cpu_key), units(8)}},
                                               .gpus = gpus,
                                               .held = {}});
        decide_and_commit(events);
        commit_ms_.clear();
        decide_ms_.clear();
        decide_seconds_ = commit_seconds_ = 0;
    }

    void round() {
        std::vector<Event> submit, stop, empty, remove;
        for (std::size_t i = 0; i < batch_; ++i) submit.emplace_back(submission());
        for (const Decision& decision : decide_and_commit(submit)) {
            if (!decision.created) std::puts("a gang was refused"), std::exit(1);
            stop.emplace_back(RunStopAsked{.run = *decision.created, .by = "bench", .wall_ms = 0, .deadline = {}});
            remove.emplace_back(RunRemoved{*decision.created});
        }
        for (const Decision& decision : decide_and_commit(stop))
            for (const Effect& effect : decision.act)
                if (const auto* order = std::get_if<StopAttempt>(&effect))
                    empty.emplace_back(NodeEmptied{.attempt = order->attempt, .node = order->node});
        if (empty.size() != batch_) std::puts("a gang was not placed"), std::exit(1);
        decide_and_commit(empty);
        decide_and_commit(remove);
    }

    void print(std::uint64_t gangs, double seconds) {
        std::sort(commit_ms_.begin(), commit_ms_.end());
        std::sort(decide_ms_.begin(), decide_ms_.end());
        std::printf(
            "{\"processor_us_decide\": %.0f, \"processor_us_commit\": %.0f, \"gangs_per_second\": %.0f, \"gangs\": "
            "%llu, \"batch\": %zu, \"commits_per_second\": %.0f, "
            "\"commit_ms_p50\": %.2f, \"commit_ms_p99\": %.2f, \"decide_batch_ms_p50\": %.2f, \"decide_batch_ms_p99\": "
            "%.2f}\n",
            1e6 * decide_seconds_ / static_cast<double>(gangs), 1e6 * commit_seconds_ / static_cast<double>(gangs),
            static_cast<double>(gangs) / seconds, static_cast<unsigned long long>(gangs), batch_,
            static_cast<double>(commit_ms_.size()) / seconds, commit_ms_[commit_ms_.size() / 2],
            commit_ms_[commit_ms_.size() * 99 / 100], decide_ms_[decide_ms_.size() / 2],
            decide_ms_[decide_ms_.size() * 99 / 100]);
    }

  private:
    RunSubmitted submission() {
        const std::string name = "gang-" + std::to_string(++submitted_);
        RunSubmitted event{
            .name = name, .user = "bench", .submit_key = name, .job_json = "{}", .storage_path = "/none"};
        event.spec.gang.bundles = {
            Bundle{.demand = {{std::string(cpu_key), units(1)}, {std::string(gpu_key), units(1)}}, .selector = {}}};
        return event;
    }

    std::vector<Decision> decide_and_commit(const std::vector<Event>& events) {
        now_.ms += 1;
        const auto begun = Clock::now();
        const double processor_begun = processor_seconds();
        std::vector<Decision> decisions;
        std::vector<state::Entry> entries;
        for (const Event& event : events) {
            Decision decision = decide(cluster_, now_, event);
            entries.push_back({.now = now_,
                               .wall_ms = now_.ms,
                               .event = event,
                               .records = decision.save,
                               .note = decision.note,
                               .about_run = decision.about_run,
                               .about_node = decision.about_node});
            decisions.push_back(std::move(decision));
        }
        decide_ms_.push_back(1e3 * seconds_since(begun));
        const double processor_decided = processor_seconds();
        const auto decided = Clock::now();
        if (const Status done = journal_.commit(entries); !done) std::puts(done.error().message.c_str()), std::exit(1);
        commit_ms_.push_back(1e3 * seconds_since(decided));
        decide_seconds_ += processor_decided - processor_begun;
        commit_seconds_ += processor_seconds() - processor_decided;
        return decisions;
    }

    state::SqliteJournal& journal_;
    std::size_t batch_;
    Cluster cluster_;
    Time now_{1};
    std::uint64_t submitted_ = 0;
    std::vector<double> commit_ms_, decide_ms_;
    double decide_seconds_ = 0, commit_seconds_ = 0;
};

}  // namespace

int main(int count, char** words) {
    if (count < 2) return std::puts("usage: bench_gangs DIRECTORY [seconds] [batch]"), 2;
    const double seconds = count > 2 ? std::atof(words[2]) : 5;
    const std::size_t batch = count > 3 ? static_cast<std::size_t>(std::atoi(words[3])) : 64;
    auto journal = state::SqliteJournal::open(words[1]);
    if (!journal) return std::puts(journal.error().message.c_str()), 1;
    Bench bench(**journal, batch);
    bench.register_nodes();
    const auto begun = Clock::now();
    std::uint64_t gangs = 0;
    for (; seconds_since(begun) < seconds; gangs += batch) bench.round();
    bench.print(gangs, seconds_since(begun));
    return 0;
}
