// PURE: numbers that come one after another become levels of buckets, each with the least and the greatest number of
// its stretch. A chart of any length is drawn from the level that has about as many buckets as the chart has columns.
//
//   samples   1 2 3 ............................................ 4096 ...      `at`: the report's number, or a second
//   level 0   |-- 16 --|-- 16 --|-- 16 --| ...                                 a bucket begins at a multiple of its
//   width level 1   |------------- 256 ------------| ... level 2   |----------------------- 4096
//   ----------------------| ...
//
// Buckets of a level lie in chunks of a fixed number: what is written at once, and read at once.
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
    std::array<std::uint64_t, 3> widths{};  // of the levels' buckets, the finest first; 0: there is no such level
    std::uint64_t chunk_buckets = 0;
    std::span<const std::uint64_t> levels() const {
        std::size_t count = 0;
        while (count < widths.size() && widths[count] != 0) ++count;
        return {widths.data(), count};
    }
};

struct Sample {
    std::uint64_t at = 0;  // never less than that of the sample before
    std::int64_t wall_ms = 0;
    std::uint32_t attempt = 0;
    std::uint64_t step = 0;
    std::vector<std::pair<std::size_t, double>> values;  // by the key's number; finite
};

struct Mark {  // where a bucket begins: its first sample
    std::uint64_t bucket = 0;
    std::int64_t wall_ms = 0;
    std::uint32_t attempt = 0;
    std::uint64_t step = 0;
    bool operator==(const Mark&) const = default;
};

struct Range {  // of one key in one bucket
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
    std::vector<Mark> marks;  // rising; a bucket without samples has none
    std::vector<std::vector<Range>>
        columns;  // by the key's number; one that is shorter than `marks` ends with no values
    Range range(std::size_t key, std::size_t place) const {
        return key < columns.size() && place < columns[key].size() ? columns[key][place] : Range{};
    }
};

std::size_t bytes_of(const Chunk& chunk);  // of memory, about

struct FullChunk {
    std::size_t level = 0;
    Chunk chunk;
};

class Levels {
  public:
    explicit Levels(Shape shape) : shape_(shape), open_(shape.levels().size()) {}
    // Adds a sample to each level. Appends to `full` the chunks that the sample lies behind.
    void add(const Sample& sample, std::vector<FullChunk>& full);
    const Shape& shape() const { return shape_; }
    const Chunk& open(std::size_t level) const { return open_[level]; }
    void resume(std::size_t level, Chunk chunk) {
        open_[level] = std::move(chunk);
    }  // where a process before this ended
    std::size_t bytes() const;  // of memory, about

  private:
    Shape shape_;
    std::vector<Chunk> open_;  // by level: the newest chunk
};

struct Point {                          // what a chart draws: neighbouring buckets together
    std::uint64_t first = 0, last = 0;  // the samples it stands for
    Mark mark;                          // of the first
    Range range;
    bool operator==(const Point&) const = default;
};

// A chart shows the samples [first, last], in at most `points` points.
struct Window {
    std::uint64_t first = 0, last = 0;
    std::size_t points = 0;
    std::uint64_t count() const { return last < first ? 0 : last - first + 1; }
};

// Joins buckets, given in their order, into at most `points` points.
class Joiner {
  public:
    Joiner(const Window& window, std::uint64_t width);
    void add(const Mark& mark, const Range& range);
    std::uint64_t samples_per_point() const { return width_ * together_; }
    std::vector<Point> points;

  private:
    Window window_;
    std::uint64_t width_, together_ = 1;  // buckets of a point
};

// The finest level whose buckets in the window are few enough to be read for one answer; of those that reach back to
// its beginning. `begins`: of each level, the first sample that it has.
std::size_t level_for(const Shape& shape, const Window& window, std::span<const std::uint64_t> begins);

}  // namespace rtrain::history
