// PURE: sorts a sequence of numbers into levels of buckets. A bucket stands for some successive samples and stores
// their least and greatest value. A chart of any length is drawn from the level that has about as many buckets as the
// chart has columns.
//
//   samples   1 2 3 ............................................ 4096 ...      `at`: the report's number, or a second
//   level 0   |-- 16 --|-- 16 --|-- 16 --| ...                                 a bucket begins at a multiple of its
//   width level 1   |------------- 256 ------------| ... level 2   |----------------------- 4096
//   ----------------------| ...
//
// The buckets of a level lie in chunks of a fixed number of buckets. A chunk is written at once and read at once.
#pragma once

#include <array>
#include <cmath>
#include <cstdint>
#include <limits>
#include <span>
#include <utility>
#include <vector>

namespace rtrain::history {

struct Shape {
    std::array<std::uint64_t, 3> widths{};  // widths of the levels' buckets, the finest first; 0: no such level
    std::uint64_t chunk_buckets = 0;
    std::span<const std::uint64_t> levels() const {
        std::size_t count = 0;
        while (count < widths.size() && widths[count] != 0) ++count;
        return {widths.data(), count};
    }
};

struct Sample {
    // position of the sample: the report's number or a second; never less than that of the sample before
    std::uint64_t at = 0;
    std::int64_t wall_ms = 0;
    std::uint32_t attempt = 0;
    std::uint64_t step = 0;
    std::vector<std::pair<std::size_t, double>> values;  // pairs of the key's number and a finite value
};

struct Mark {  // The begin of a bucket: number, wall clock, attempt and step of its first sample.
    std::uint64_t bucket = 0;
    std::int64_t wall_ms = 0;
    std::uint32_t attempt = 0;
    std::uint64_t step = 0;
    bool operator==(const Mark&) const = default;
};

struct Range {  // the least and the greatest value of one key (a metric) in one bucket; NaN: no value
    double least = std::numeric_limits<double>::quiet_NaN(), greatest = std::numeric_limits<double>::quiet_NaN();
    bool empty() const { return std::isnan(least); }
    void add(double value) {
        if (!(least <= value)) least = value;
        if (!(greatest >= value)) greatest = value;
    }
    void add(const Range& other) {
        if (other.empty()) return;
        add(other.least);
        add(other.greatest);
    }
    bool operator==(const Range& other) const {
        return (empty() && other.empty()) || (least == other.least && greatest == other.greatest);
    }
};

struct Chunk {
    std::uint64_t number = 0;
    std::vector<Mark> marks;  // ascending; a bucket without samples has no mark
    std::vector<std::vector<Range>>
        // index: the key's number; value: the key's range for each mark. A column may be shorter than `marks`: the
        // missing entries have no values.
        columns;
    Range range(std::size_t key, std::size_t place) const {
        return key < columns.size() && place < columns[key].size() ? columns[key][place] : Range{};
    }
};

std::size_t bytes_of(const Chunk& chunk);  // returns approximate bytes of memory

struct FullChunk {
    std::size_t level = 0;
    Chunk chunk;
};

class Levels {
  public:
    explicit Levels(Shape shape) : shape_(shape), open_(shape.levels().size()) {}
    // Adds a sample to each level. Appends the chunks that have become full to `full`.
    void add(const Sample& sample, std::vector<FullChunk>& full);
    const Shape& shape() const { return shape_; }
    const Chunk& open(std::size_t level) const { return open_[level]; }
    void resume(std::size_t level, Chunk chunk) {
        open_[level] = std::move(chunk);
    }  // continues with a chunk that an earlier process has stored
    std::size_t bytes() const;  // approximate bytes of memory

  private:
    Shape shape_;
    std::vector<Chunk> open_;  // index: the level; its newest chunk
};

struct Point {                          // A point of a chart, made of several neighbouring buckets.
    std::uint64_t first = 0, last = 0;  // the first and the last sample that the point covers
    Mark mark;                          // the mark of the first sample
    Range range;
    bool operator==(const Point&) const = default;
};

// The request of a chart: the samples `first` to `last`, both included, drawn as at most `points` points.
struct Window {
    std::uint64_t first = 0, last = 0;
    std::size_t points = 0;
    std::uint64_t count() const { return last < first ? 0 : last - first + 1; }
};

// Joins the buckets of a window into at most `points` points. The buckets are added in their order.
class Joiner {
  public:
    Joiner(const Window& window, std::uint64_t width);
    void add(const Mark& mark, const Range& range);
    std::uint64_t samples_per_point() const { return width_ * together_; }
    std::vector<Point> points;

  private:
    Window window_;
    std::uint64_t width_, together_ = 1;  // `together_`: number of buckets per point
};

// Returns the finest level that can answer the window: its data reaches back to the window's begin, and it has few
// enough buckets in the window for one answer. `begins`: the first sample of each level.
std::size_t level_for(const Shape& shape, const Window& window, std::span<const std::uint64_t> begins);

}  // namespace rtrain::history
