#include "daemon/agent/performers/workers/scratch_sizes.hpp"

#include <map>
#include <string>
#include <utility>

#include "storage/uri/files/tree.hpp"

namespace rtrain::agent {
namespace {

constexpr std::int64_t scratch_every_ms = 5'000;

}  // namespace

// Measures the directories on the pool, with a pause afterwards.
void ScratchSizes::measure() {
    if (node_.options.scratch_quota <= 0 || measuring_ || attempts_.all().empty()) return;
    measuring_ = true;
    std::map<AttemptKey, std::string> places;
    for (const auto& [key, attempt] : attempts_.all()) places[key] = node_.files.scratch(key);
    background_.offload(
        [places] {
            ScratchMeasured measured;
            for (const auto& [key, place] : places) measured.bytes[key] = storage::bytes_below(place);
            return measured;
        },
        [](const Error&) { return ScratchMeasured{}; },
        [this](ScratchMeasured measured) {
            inputs_.enqueue(std::move(measured));
            background_.after(scratch_every_ms, [this] {
                measuring_ = false;
                measure();
            });
        });
}

}  // namespace rtrain::agent
