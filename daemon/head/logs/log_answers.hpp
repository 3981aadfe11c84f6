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
    struct Counts;

  public:
    static constexpr std::size_t of_user_most = 8, all_most = 32;
    static constexpr std::size_t memory_of_user_most = 96u << 20, memory_most = 256u << 20;
    // In places and memory alike the last ones are for admins, and those before for admins and users without another
    // answer, so that a few users with slow readers do not keep all others out.
    static constexpr std::size_t for_admins = 4, for_newcomers = 8;  // places
    static constexpr std::size_t memory_for_admins = 32u << 20, memory_for_newcomers = 64u << 20;

    enum class Who { user, admin };

    // An answer's place is free again once its last owner has let go of it, on whichever thread.
    class Held {
      public:
        Held(std::shared_ptr<Counts> counts, std::string user, Who who);  // counts it; the guard is the caller's
        ~Held();
        Held(const Held&) = delete;
        Held& operator=(const Held&) = delete;
        // Counts the memory that the answer needs, once. False: that is too much, beside the others.
        bool hold(std::size_t memory);

      private:
        const std::shared_ptr<Counts> counts_;
        const std::string user_;
        const Who who_;
        std::size_t memory_ = 0;
    };
    using Place = std::shared_ptr<Held>;
    Place enter(const std::string& user, Who who);  // null: too many are under way

  private:
    struct Use {
        std::size_t places = 0, memory = 0;
    };
    struct Counts {
        std::mutex guard;
        std::map<std::string, Use> of_user;
        Use all;
    };
    const std::shared_ptr<Counts> counts_ = std::make_shared<Counts>();
};

}  // namespace rtrain::head
