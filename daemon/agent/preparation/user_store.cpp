#include "daemon/agent/preparation/user_store.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "storage/uri/files/taking.hpp"

namespace rtrain::agent {
namespace {

using storage::Descriptor;
using storage::Progress;

class UserStore final : public storage::Store {
  public:
    UserStore(std::shared_ptr<storage::Store> files, const WorkerUser& user)
        : files_(std::move(files)), rights_(user) {}

    Result<bool> create(const std::string& path, const std::string& bytes) override {
        return as_user([&] { return files_->create(path, bytes); });
    }
    Status put(const std::string& path, const std::string& bytes) override {
        return as_user([&] { return files_->put(path, bytes); });
    }
    Result<std::string> get(const std::string& path, std::int64_t most) override {
        return as_user([&] { return files_->get(path, most); });
    }
    Status append(const std::string& path, const std::string& bytes) override {
        return as_user([&] { return files_->append(path, bytes); });
    }
    // Opens the agent's file with the agent's rights, since its user may not be allowed to read it.
    Status put_file(const std::string& local, const std::string& path, bool may_move,
                    const Progress& progress) override {
        const Descriptor source(::open(local.c_str(), O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC));
        if (!source.open())
            return Error{errno == ENOENT ? ErrorCode::not_found : ErrorCode::io,
                         "reading " + local + ": " + std::strerror(errno), ""};
        Status copied = as_user([&] { return storage::put_opened(*files_, source, local, path, progress); });
        if (copied && may_move) ::unlink(local.c_str());
        return copied;
    }
    Status get_file(const std::string& path, const std::string& local, const Progress& progress) override {
        const auto source = open(path);
        if (!source) return source.error();
        return storage::keep_opened(*source, local_path(path), local, progress);
    }
    Result<Descriptor> open(const std::string& path) override {
        return as_user([&] { return files_->open(path); });
    }
    Result<std::vector<storage::StoreEntry>> list(const std::string& prefix) override {
        return as_user([&] { return files_->list(prefix); });
    }
    Status remove(const std::string& path) override {
        return as_user([&] { return files_->remove(path); });
    }
    Status remove_tree(const std::string& path) override {
        return as_user([&] { return files_->remove_tree(path); });
    }
    bool local() const override { return true; }
    Result<Descriptor> top() override { return files_->top(); }
    Result<Descriptor> made_top() override {
        return as_user([&] { return files_->made_top(); });
    }
    std::string local_path(const std::string& path) override { return files_->local_path(path); }

  private:
    template <class Call>
    auto as_user(const Call& call) const -> decltype(call()) {
        const UserRights::Worn worn(rights_);
        if (!worn.taken()) return worn.taken().error();
        return call();
    }

    std::shared_ptr<storage::Store> files_;
    UserRights rights_;
};

}  // namespace

Result<std::shared_ptr<storage::Store>> open_user_store(const std::string& directory, const WorkerUser& user,
                                                        storage::Root look, storage::Links links) {
    const UserRights rights(user);
    const UserRights::Worn worn(rights);
    if (!worn.taken()) return worn.taken().error();
    auto files = storage::open_file_store(directory, look, links);
    if (!files) return files.error();
    if (!rights.others()) return std::shared_ptr<storage::Store>(std::move(*files));
    return std::shared_ptr<storage::Store>(new UserStore(std::move(*files), user));
}

}  // namespace rtrain::agent
