#include "runtime/worker/rank/place.hpp"

namespace rtrain::worker {

void RankPlace::welcomed_to_read() {
    if (holder_ == 0) holder_ = -1;
}

std::string RankPlace::refusal() const {
    const std::string rank = "rank " + std::to_string(settings_.rank);
    const std::string own = "this is process " + std::to_string(process_);
    if (holder_ < 0) return own + ", which only reads what " + rank + " is told";
    return rank + " belongs to process " + std::to_string(holder_) + ", which was the first to speak for it, and " +
           own + ": report from process " + std::to_string(holder_) +
           ", or let that one call rtrain.train.release() (rtw_close in C) or end before";
}

Hello RankPlace::hello(Place place) const {
    return {.attempt = settings_.attempt,
            .rank = settings_.rank,
            .pid = process_,
            .key = settings_.key,
            .report_memory = true,
            .place = place};
}

}  // namespace rtrain::worker
