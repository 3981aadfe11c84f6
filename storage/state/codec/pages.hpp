// Rows that are read a page at a time. Both bounds hold: rows may be some bytes or some megabytes long.
#pragma once

#include <cstddef>
#include <utility>
#include <vector>

namespace rtrain::state {

// How much is read at a time. A page has one row at least, however long its text is.
struct PageBounds {
    std::size_t rows = 1'000, bytes = 8 << 20;  // of the rows' texts
};

template <class Row>
struct PageOf {
    std::vector<Row> rows;
    bool more = false;  // it ended at a bound; the next one may turn out to be empty
};

// Takes rows until a page is full.
template <class Row>
class Filling {
  public:
    explicit Filling(PageBounds most) : most_(most) {}
    // Takes the row, whose text has `bytes`, if there is room for it. Returns true if there may be room for another.
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
