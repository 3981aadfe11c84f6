// See levels.hpp.
#include "storage/history/levels.hpp"

#include <algorithm>

#include "storage/history/limits.hpp"

namespace rtrain::history {
namespace {

std::vector<Range>& column_of(Chunk& chunk, std::size_t key) {
    if (chunk.columns.size() <= key) chunk.columns.resize(key + 1);
    chunk.columns[key].resize(chunk.marks.size());
    return chunk.columns[key];
}

}  // namespace

std::size_t bytes_of(const Chunk& chunk) {
    std::size_t sum = sizeof chunk + chunk.marks.capacity() * sizeof(Mark);
    for (const std::vector<Range>& column : chunk.columns) sum += sizeof column + column.capacity() * sizeof(Range);
    return sum;
}

void Levels::add(const Sample& sample, std::vector<FullChunk>& full) {
    for (std::size_t level = 0; level < open_.size(); ++level) {
        const std::uint64_t bucket = sample.at / shape_.widths[level];
        const std::uint64_t number = bucket / shape_.chunk_buckets;
        Chunk& chunk = open_[level];
        if (!chunk.marks.empty() && number > chunk.number)
            full.push_back({.level = level, .chunk = std::exchange(chunk, {})});
        if (chunk.marks.empty()) chunk.number = number;
        if (chunk.marks.empty() || chunk.marks.back().bucket < bucket)
            chunk.marks.push_back(
                {.bucket = bucket, .wall_ms = sample.wall_ms, .attempt = sample.attempt, .step = sample.step});
        for (const auto& [key, value] : sample.values) column_of(chunk, key).back().add(value);
    }
}

std::size_t Levels::bytes() const {
    std::size_t sum = sizeof *this;
    for (const Chunk& chunk : open_) sum += bytes_of(chunk);
    return sum;
}

Joiner::Joiner(const Window& window, std::uint64_t width) : window_(window), width_(width) {
    if (window.count() == 0) return;
    const std::uint64_t buckets = window.last / width - window.first / width + 1;
    together_ = (buckets + window.points - 1) / std::max<std::size_t>(1, window.points);
}

void Joiner::add(const Mark& mark, const Range& range) {
    const std::uint64_t first = window_.first / width_, last = window_.last / width_;
    if (range.empty() || window_.count() == 0 || mark.bucket < first || mark.bucket > last) return;
    const std::uint64_t place = (mark.bucket - first) / together_;
    const std::uint64_t from = (first + place * together_) * width_;
    if (points.empty() || points.back().first != from)
        points.push_back({.first = from, .last = from + samples_per_point() - 1, .mark = mark, .range = {}});
    points.back().range.add(range);
}

std::size_t level_for(const Shape& shape, const Window& window, std::span<const std::uint64_t> begins) {
    const auto widths = shape.levels();
    for (std::size_t level = 0; level + 1 < widths.size(); ++level) {
        // The oldest sample of the next level lies somewhere in its first chunk.
        const std::uint64_t next = begins[level + 1] + widths[level + 1] * shape.chunk_buckets;
        const bool reaches = begins[level] <= std::max(window.first, next);
        if (reaches && window.count() / widths[level] <= buckets_read_per_point * window.points) return level;
    }
    return widths.size() - 1;
}

}  // namespace rtrain::history
