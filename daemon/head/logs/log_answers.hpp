// How many answers with logs are under way: each holds parts of its files in memory, and reads the disk that logs are
// written to.
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <mutex>
#include <string>

namespace rtrain::head {

class LogAnswers {
  public:
    static constexpr std::size_t of_user_most = 8, all_most = 32;

    // An answer's place is free again once its last owner has let go of it, on whichever thread.
    using Place = std::shared_ptr<void>;
    Place enter(const std::string& user);  // null: too many are under way

  private:
    struct Counts {
        std::mutex guard;
        std::map<std::string, std::size_t> of_user;
        std::size_t all = 0;
    };
    const std::shared_ptr<Counts> counts_ = std::make_shared<Counts>();
};

}  // namespace rtrain::head
