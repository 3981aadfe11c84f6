// How often somebody may try to sign in: ten times at once, and then once in six seconds. Of the loop's thread.
#pragma once

#include <cstdint>
#include <map>
#include <string>

namespace rtrain::head {

class SignInRate {
  public:
    static constexpr double burst = 10;
    static constexpr std::int64_t one_each_ms = 6'000;
    static constexpr std::size_t parties_most = 1'024;  // beyond, those that are new share one

    // Takes one of `party`'s attempts. False: it has none left now.
    bool take(const std::string& party, std::int64_t wall_ms);
    void give_back(const std::string& party);  // the attempt was a good one

  private:
    struct Party {
        double left = burst;
        std::int64_t counted_wall_ms = 0;
    };
    Party& party_of(const std::string& party, std::int64_t wall_ms);
    std::map<std::string, Party> parties_;
};

}  // namespace rtrain::head
