// The simulator's one queue of inputs, its virtual time, its dice and its trace. The same seed gives the same trace.
#pragma once

#include <cstdint>
#include <cstdio>
#include <functional>
#include <map>
#include <string>
#include <utility>

#include "scheduler/model/ids.hpp"

namespace rtrain::sim {

class Dice {
  public:
    explicit Dice(std::uint64_t seed) : state_(seed * 0x9e3779b97f4a7c15u + 1) {}
    std::uint64_t next() {  // The algorithm is splitmix64.
        state_ += 0x9e3779b97f4a7c15u;
        std::uint64_t z = state_;
        z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
        z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
        return z ^ (z >> 31);
    }
    // Returns a number from `low` to `high`, both included.
    std::int64_t between(std::int64_t low, std::int64_t high) {
        return low + static_cast<std::int64_t>(next() % static_cast<std::uint64_t>(high - low + 1));
    }
    bool one_in(std::int64_t n) { return n > 0 && between(1, n) == 1; }

  private:
    std::uint64_t state_;
};

class Trace {
  public:
    bool print = false;
    void line(Time at, const std::string& who, const std::string& what) {
        mix(static_cast<std::uint64_t>(at.ms));
        for (const char c : who) mix(static_cast<unsigned char>(c));
        for (const char c : what) mix(static_cast<unsigned char>(c));
        if (print) std::printf("%9.3f %-6s %s\n", static_cast<double>(at.ms) / 1000, who.c_str(), what.c_str());
    }
    std::uint64_t hash() const { return hash_; }

  private:
    void mix(std::uint64_t value) { hash_ = (hash_ ^ value) * 0x100000001b3u; }  // FNV-1a
    std::uint64_t hash_ = 0xcbf29ce484222325u;
};

class Clockwork {
  public:
    Time now{1'000'000};

    void after(std::int64_t ms, std::function<void()> what) {
        queue_.emplace(std::pair{now.ms + (ms > 0 ? ms : 0), next_++}, std::move(what));
    }
    bool step() {  // Takes the next input. Returns false if none is left.
        if (queue_.empty()) return false;
        auto node = queue_.extract(queue_.begin());
        now.ms = node.key().first;
        node.mapped()();
        return true;
    }

  private:
    std::map<std::pair<std::int64_t, std::uint64_t>, std::function<void()>> queue_;
    std::uint64_t next_ = 0;
};

// Thrown when an invariant does not hold.
struct Violation {
    std::string what;
};

}  // namespace rtrain::sim
