// The part of the charts' history that runs on the event loop.
#include "daemon/head/history/chart_history.hpp"

#include <chrono>
#include <cstdio>
#include <future>
#include <utility>

#include "daemon/head/base/clock.hpp"
#include "daemon/head/history/work.hpp"

namespace rtrain::head {
namespace {

// Reports and heartbeats are collected for this time, in ms. Then the thread handles each run once, however many
// reports it had.
constexpr std::int64_t gather_ms = 250, upkeep_ms = 5'000;
// the most heartbeats that may wait: some seconds of the largest cluster
constexpr std::size_t heartbeats_most = 16'384;
constexpr std::size_t questions_most = 64;
constexpr std::int64_t finish_s = 5;

std::set<RunId> runs_of(const Cluster& cluster) {
    std::set<RunId> runs;
    for (const auto& [id, run] : cluster.runs) runs.insert(id);
    return runs;
}

}  // namespace

ChartHistory::ChartHistory(net::Loop& loop, std::string data_dir)
    : loop_(loop), data_dir_(std::move(data_dir)), work_(std::make_shared<Work>(data_dir_)) {}

ChartHistory::~ChartHistory() { thread_.stop(); }

void ChartHistory::open(const Cluster& cluster) {
    thread_.add([work = work_, runs = runs_of(cluster)] { work->open(runs); });
    for (const auto& [id, run] : cluster.runs) reported_.insert(id);
    begin();
    loop_.after(upkeep_ms, [this] { upkeep(); });
}

void ChartHistory::finish() {
    const auto written = std::make_shared<std::promise<void>>();
    auto done = written->get_future();
    thread_.add([work = work_, written] {
        if (work->store)
            if (const Status flushed = work->store->flush(history::Store::Which::all, monotonic_ms()); !flushed)
                work->complain(flushed.error());
        written->set_value();
    });
    done.wait_for(std::chrono::seconds(finish_s));
}

void ChartHistory::reported(RunId run) {
    reported_.insert(run);
    begin();
}

void ChartHistory::heard(HeardHeartbeat heartbeat) {
    if (heard_.size() >= heartbeats_most) {
        if (dropped_++ == 0)
            std::fprintf(stderr, "rtrain head: the charts' history is behind; some heartbeats are not in it\n");
        return;
    }
    heard_.push_back(std::move(heartbeat));
    begin();
}

void ChartHistory::counted(const ClusterCounts& counts) {
    thread_.add([work = work_, counts] { work->take(counts); });
}

void ChartHistory::forget(RunId run) {
    reported_.erase(run);
    thread_.add([work = work_, run] {
        if (!work->store) return;
        for (const Status& gone :
             {work->store->forget(history_of_run(run)), work->store->forget_all(history_of_ranks(run))})
            if (!gone) work->complain(gone.error());
    });
}

void ChartHistory::begin() {
    if (begun_ || waiting_) return;
    waiting_ = true;
    loop_.after(gather_ms, [this] {
        waiting_ = false;
        hand_over();
    });
}

void ChartHistory::hand_over() {
    begun_ = true;
    thread_.add([this, work = work_, runs = std::exchange(reported_, {}), heard = std::exchange(heard_, {})] {
        std::set<RunId> left;  // runs whose reports were not all read, since they have more than are read at once
        for (const HeardHeartbeat& heartbeat : heard) work->take(heartbeat);
        for (const RunId run : runs) {
            const auto more = work->catch_up(run, rows_at_once);
            if (!more) work->complain(more.error());
            if (more && *more) left.insert(run);
        }
        loop_.post([this, left = std::move(left)] {
            begun_ = false;
            reported_.insert(left.begin(), left.end());
            if (!left.empty()) return hand_over();
            if (!reported_.empty() || !heard_.empty()) begin();
        });
    });
}

void ChartHistory::upkeep() {
    thread_.add([work = work_] { work->upkeep(monotonic_ms(), wall_ms() / 1'000); });
    loop_.after(upkeep_ms, [this] { upkeep(); });
}

bool ChartHistory::enqueue(std::function<Result<std::string>(Work&)> answer, Then then) {
    if (questions_ >= questions_most) return false;
    ++questions_;
    thread_.add([this, work = work_, answer = std::move(answer), then = std::move(then)]() mutable {
        Result<std::string> text = Error(work->closed);
        try {
            if (work->store) text = answer(*work);
        } catch (const std::exception& wrong) { text = net::thrown(wrong, "the charts' history"); }
        if (!text && text.error().code == ErrorCode::damaged) work->close(text.error());
        loop_.post([this, text = std::move(text), then = std::move(then)]() mutable {
            --questions_;
            then(std::move(text));
        });
    });
    return true;
}

bool ChartHistory::of_run(RunId run, Question question, Then then) {
    return enqueue([run, question = std::move(question)](Work& work) { return work.answer_run(run, question); },
                   std::move(then));
}

bool ChartHistory::of_ranks(RunId run, std::uint32_t ranks, Question question, Then then) {
    return enqueue(
        [run, ranks, question = std::move(question)](Work& work) { return work.answer_ranks(run, ranks, question); },
        std::move(then));
}

bool ChartHistory::of_usage(Question question, Then then) {
    return enqueue([question = std::move(question)](Work& work) { return work.answer_usage(question); },
                   std::move(then));
}

}  // namespace rtrain::head
