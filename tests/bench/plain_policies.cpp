// See plain_policies.hpp. Nodes stand in buckets by free GPUs, so that a refusal costs nothing.
#include "tests/bench/plain_policies.hpp"

#include <array>
#include <deque>
#include <functional>
#include <map>
#include <queue>
#include <set>

namespace rtrain::bench {
namespace {

constexpr std::uint32_t gpus_per_node = 8;

class Pool {
  public:
    explicit Pool(std::uint32_t nodes) {
        for (std::uint32_t n = 0; n < nodes; ++n) buckets_[gpus_per_node].insert(n);
    }
    using Taken = std::vector<std::pair<std::uint32_t, std::uint32_t>>;  // node, GPUs
    bool fits(const TraceJob& job) const {
        std::uint64_t slots = 0;
        for (std::uint32_t free = job.gpus; free <= gpus_per_node; ++free)
            slots += buckets_[free].size() * (job.gpus == 0 ? job.workers : free / job.gpus);
        return slots >= job.workers;
    }
    // Takes the fullest nodes that have enough free GPUs, so that whole nodes stay free.
    Taken take(const TraceJob& job) {
        Taken taken;
        std::uint32_t left = job.gpus == 0 ? 0 : job.workers;
        while (left > 0) {
            std::uint32_t free = gpus_per_node;
            for (std::uint32_t tight = job.gpus; tight <= gpus_per_node; ++tight)
                if (!buckets_[tight].empty() && tight / job.gpus >= left) {
                    free = tight;
                    break;
                }
            while (buckets_[free].empty()) --free;
            const std::uint32_t node = *buckets_[free].begin();
            const std::uint32_t here = std::min(left, free / job.gpus);
            move(node, free, free - here * job.gpus);
            taken.emplace_back(node, here * job.gpus);
            left -= here;
        }
        return taken;
    }
    void give(const Taken& taken) {
        for (const auto& [node, gpus] : taken)
            for (std::uint32_t free = 0; free <= gpus_per_node; ++free)
                if (buckets_[free].contains(node)) {
                    move(node, free, free + gpus);
                    break;
                }
    }

  private:
    void move(std::uint32_t node, std::uint32_t from, std::uint32_t to) {
        buckets_[from].erase(node);
        buckets_[to].insert(node);
    }
    std::array<std::set<std::uint32_t>, gpus_per_node + 1> buckets_;
};

using Kind = std::pair<std::uint32_t, std::uint32_t>;  // workers and GPUs: alike in what they need

}  // namespace

std::vector<std::int64_t> replay_plain(const Trace& trace, std::uint32_t nodes, Plain policy) {
    Pool pool(nodes);
    std::vector<std::int64_t> waits(trace.size(), -1);
    std::vector<Pool::Taken> taken(trace.size());
    std::map<Kind, std::deque<std::size_t>> waiting;
    using End = std::pair<std::int64_t, std::size_t>;
    std::priority_queue<End, std::vector<End>, std::greater<>> ends;
    std::size_t next = 0;
    while (next < trace.size() || !ends.empty()) {
        const bool arrives = next < trace.size() && (ends.empty() || trace[next].submit_s < ends.top().first);
        const std::int64_t now = arrives ? trace[next].submit_s : ends.top().first;
        if (arrives) {
            waiting[{trace[next].workers, trace[next].gpus}].push_back(next);
            ++next;
        } else {
            pool.give(taken[ends.top().second]);
            ends.pop();
        }
        std::set<Kind> refused;
        while (true) {
            std::deque<std::size_t>* oldest = nullptr;
            for (auto& [kind, jobs] : waiting)
                if (!jobs.empty() && !refused.contains(kind) && (oldest == nullptr || jobs.front() < oldest->front()))
                    oldest = &jobs;
            if (oldest == nullptr) break;
            const std::size_t job = oldest->front();
            if (!pool.fits(trace[job])) {
                if (policy == Plain::fifo) break;
                refused.insert({trace[job].workers, trace[job].gpus});
                continue;
            }
            oldest->pop_front();
            taken[job] = pool.take(trace[job]);
            waits[job] = now - trace[job].submit_s;
            ends.emplace(now + trace[job].run_s, job);
        }
    }
    return waits;
}

}  // namespace rtrain::bench
