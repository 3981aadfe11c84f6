#include "runtime/worker/rank/broadcasts.hpp"

#include <utility>

namespace rtrain::worker {

const std::string& Broadcasts::begin(std::optional<std::string> data) {
    request_ = encode(FromWorker{Broadcast{.index = next_, .data = std::move(data)}});
    return *request_;
}

void Broadcasts::on_message(Broadcast answer) {
    if (!request_ || answer.index != next_) return;
    answer_ = std::move(answer.data).value_or("");
    request_.reset();
}

std::string Broadcasts::take_answer() {
    std::string data = std::move(*answer_);
    answer_.reset();
    request_.reset();
    ++next_;
    return data;
}

}  // namespace rtrain::worker
