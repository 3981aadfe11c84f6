// Uploads to cluster:// in pieces, by the file that collects them. Only one piece of an upload is written at a time,
// since a client that timed out may send a piece again while the first is still being written. Finished uploads are
// remembered for a while, for clients that missed the last answer. Used by the loop only.
#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <set>
#include <string>

namespace rtrain::head {

class PartUploads {
  public:
    // Returns true if the caller may write the piece now. Returns false if another piece of the same upload is being
    // written. A piece with offset 0 begins a new upload, even if one of the same name was finished before.
    bool begin(const std::string& part, std::uint64_t offset) {
        if (offset == 0) std::erase(done_, part);
        return writing_.insert(part).second;
    }
    void end(const std::string& part) { writing_.erase(part); }
    void in_place(const std::string& part) {
        done_.push_back(part);
        if (done_.size() > remembered_at_most) done_.pop_front();
    }
    bool done(const std::string& part) const { return std::find(done_.begin(), done_.end(), part) != done_.end(); }

  private:
    static constexpr std::size_t remembered_at_most = 1'000;
    std::set<std::string> writing_;
    std::deque<std::string> done_;
};

}  // namespace rtrain::head
