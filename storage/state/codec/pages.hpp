// Rows that are read a page at a time. A page is bounded in rows and in bytes, because a row may have some bytes or
// some megabytes.
#pragma once

#include <cstddef>
#include <utility>
#include <vector>

namespace rtrain::state {

// The bounds of one page. A page has at least one row, however long the row's text is.
struct PageBounds {
    std::size_t rows = 1'000, bytes = 8 << 20;  // `bytes`: the most bytes of the rows' texts in sum
};

template <class Row>
struct PageOf {
    std::vector<Row> rows;
    bool more = false;  // True if the page ended at a bound. The next page may be empty.
};

// Collects rows until a page is full.
template <class Row>
class Filling {
  public:
    explicit Filling(PageBounds most) : most_(most) {}
    // Adds the row, whose text has `bytes` bytes, if the page has room for it. Returns true if there may be room for
    // another row.
    bool add(Row&& row, std::size_t bytes) {
        if (page.more) return false;
        if (page.rows.empty() || bytes_ + bytes <= most_.bytes) {
            bytes_ += bytes;
            page.rows.push_back(std::move(row));
            page.more = page.rows.size() >= most_.rows || bytes_ >= most_.bytes;
        } else {
            page.more = true;
        }
        return !page.more;
    }
    PageOf<Row> page;

  private:
    PageBounds most_;
    std::size_t bytes_ = 0;
};

}  // namespace rtrain::state
