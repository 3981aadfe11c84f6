// The decided changes that are not durable yet, as batches in the order of the decisions. One batch is at the writer,
// full ones wait behind it, and new decisions are added to the newest one. A batch becomes one transaction.
#pragma once

#include <cstddef>
#include <deque>
#include <functional>
#include <memory>
#include <utility>

#include "daemon/head/loop/pending.hpp"

namespace rtrain::head {

class CommitQueue {
  public:
    // The most rows of a batch before it gets no further decisions. So the wait for the first ones is short, however
    // many decisions are made during a commit. A row takes some 5 us, so a full batch takes about 10 ms of writing,
    // beside which its fsync counts little. The decisions on one message stay in one batch.
    static constexpr std::size_t rows_at_most = 2'000;

    // Adds data to a batch that is about to be written: numbers of news, metrics, and other data that is stored
    // elsewhere.
    using Collect = std::function<void(Pending&)>;

    Pending& newest() { return newest_; }
    bool full(std::size_t rows_elsewhere) const { return newest_.rows + rows_elsewhere >= rows_at_most; }
    void close(const Collect& collect) {
        collect(newest_);
        closed_.push_back(std::make_unique<Pending>(std::exchange(newest_, {})));
    }

    // Returns the next batch for the writer. Returns null if one is being written, or if there is none to write.
    Pending* begin(const Collect& collect) {
        if (under_way_ || !wanted()) return nullptr;
        if (closed_.empty()) close(collect);
        under_way_ = std::move(closed_.front());
        closed_.pop_front();
        return under_way_.get();
    }
    // removes and returns the batch at the writer, which is durable or has failed
    std::unique_ptr<Pending> end() { return std::move(under_way_); }

    Pending& now_written() { return *under_way_; }
    template <class Work>
    void each(const Work& work) {
        if (under_way_) work(*under_way_);
        for (const auto& batch : closed_) work(*batch);
        work(newest_);
    }

    bool wanted() const { return !closed_.empty() || newest_.wanted(); }
    bool under_way() const { return under_way_ != nullptr; }
    // Returns the newest batch with decisions: after it, all present decisions are durable. Returns null if they are
    // durable already.
    Pending* last_decided() {
        if (!newest_.decided.empty()) return &newest_;
        return closed_.empty() ? under_way_.get() : closed_.back().get();
    }
    bool about(RunId run) const {
        for (const auto& batch : closed_)
            if (batch->about(run)) return true;
        return newest_.about(run) || (under_way_ && under_way_->about(run));
    }
    void give_up() {
        newest_ = {};
        closed_.clear();
        under_way_.reset();
    }

  private:
    std::unique_ptr<Pending> under_way_;
    std::deque<std::unique_ptr<Pending>> closed_;
    Pending newest_;
};

}  // namespace rtrain::head
