// See log_answers.hpp.
#include "daemon/head/logs/log_answers.hpp"

namespace rtrain::head {

LogAnswers::Place LogAnswers::enter(const std::string& user) {
    const std::lock_guard lock(counts_->guard);
    std::size_t& own = counts_->of_user[user];
    if (own >= of_user_most || counts_->all >= all_most) {
        if (own == 0) counts_->of_user.erase(user);
        return nullptr;
    }
    ++own;
    ++counts_->all;
    return Place(counts_.get(), [counts = counts_, user](void*) {
        const std::lock_guard leaving(counts->guard);
        --counts->all;
        if (--counts->of_user[user] == 0) counts->of_user.erase(user);
    });
}

}  // namespace rtrain::head
