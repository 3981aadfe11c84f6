// See log_answers.hpp.
#include "daemon/head/logs/log_answers.hpp"

#include <utility>

namespace rtrain::head {

LogAnswers::Held::Held(std::shared_ptr<Counts> counts, std::string user, Who who)
    : counts_(std::move(counts)), user_(std::move(user)), who_(who) {
    ++counts_->of_user[user_].places;
    ++counts_->all.places;
}

LogAnswers::Held::~Held() {
    const std::lock_guard leaving(counts_->guard);
    Use& own = counts_->of_user[user_];
    own.memory -= memory_;
    counts_->all.memory -= memory_;
    --counts_->all.places;
    if (--own.places == 0) counts_->of_user.erase(user_);
}

bool LogAnswers::Held::hold(std::size_t memory) {
    const std::lock_guard lock(counts_->guard);
    Use& own = counts_->of_user[user_];
    std::size_t most = memory_most;
    if (who_ != Who::admin) most -= memory_for_admins;
    if (who_ != Who::admin && own.places > 1) most -= memory_for_newcomers;
    if (own.memory + memory > memory_of_user_most || counts_->all.memory + memory > most) return false;
    memory_ += memory;
    own.memory += memory;
    counts_->all.memory += memory;
    return true;
}

LogAnswers::Place LogAnswers::enter(const std::string& user, Who who) {
    const std::lock_guard lock(counts_->guard);
    const auto known = counts_->of_user.find(user);
    const std::size_t own = known == counts_->of_user.end() ? 0 : known->second.places;
    std::size_t most = all_most;
    if (who != Who::admin) most -= for_admins;
    if (who != Who::admin && own > 0) most -= for_newcomers;
    if (own >= of_user_most || counts_->all.places >= most) return nullptr;
    return std::make_shared<Held>(counts_, user, who);
}

}  // namespace rtrain::head
