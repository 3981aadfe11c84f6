// Bounds the number of answers with logs that are sent at the same time. Each holds parts of its files in memory, and
// reads the disk to which logs are written.
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
    // Numbers of places that are reserved. The last `for_admins` places, and the last memory, are for admins. The
    // `for_newcomers` places before them are for admins and for users who have no other answer. So a few users with
    // slow readers cannot block all others.
    static constexpr std::size_t for_admins = 4, for_newcomers = 8;  // numbers of places
    static constexpr std::size_t memory_for_admins = 32u << 20, memory_for_newcomers = 64u << 20;

    enum class Who { user, admin };

    // The place of one answer. It becomes free when the last owner of this object is destroyed, on any thread.
    class Held {
      public:
        // Counts the answer. The caller must hold the guard.
        Held(std::shared_ptr<Counts> counts, std::string user, Who who);
        ~Held();
        Held(const Held&) = delete;
        Held& operator=(const Held&) = delete;
        // Counts the memory that the answer needs; to be called once. Returns false if all answers together would need
        // too much.
        bool hold(std::size_t memory);

      private:
        const std::shared_ptr<Counts> counts_;
        const std::string user_;
        const Who who_;
        std::size_t memory_ = 0;
    };
    using Place = std::shared_ptr<Held>;
    Place enter(const std::string& user, Who who);  // a place for an answer; null: too many answers are being sent

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
