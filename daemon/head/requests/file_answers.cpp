// See file_answers.hpp.
#include "daemon/head/requests/file_answers.hpp"

#include <fcntl.h>

#include <memory>
#include <utility>

namespace rtrain::head {

void send_plain(Exchange& exchange, const std::string& place, std::function<Result<storage::Descriptor>()> open) {
    using Opened = std::shared_ptr<net::OpenFile>;
    on_pool_at(
        place, exchange,
        [open = std::move(open)]() -> Result<Opened> {
            const auto file = open();
            if (!file) return file.error();
            return std::make_shared<net::OpenFile>(::fcntl(file->number(), F_DUPFD_CLOEXEC, 0));
        },
        [place](Exchange& kept, Result<Opened> file) {
            if (!file) return refuse(kept, file.error());
            kept.responder->send(net::Response{.status = 200,
                                               .content_type = "application/octet-stream",
                                               .opened = std::move(*file),
                                               .place = place,
                                               .permitted = kept.permitted});
        });
}

}  // namespace rtrain::head
