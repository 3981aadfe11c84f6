// See archive.hpp.
#include "daemon/head/backup/archive.hpp"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/json_text.hpp"
#include "storage/state/codec/compression.hpp"

namespace rtrain::head {
namespace {

using nlohmann::json;

constexpr int archive_level = 3;
constexpr std::size_t archive_id_bytes = 32, ids_of_frame = 4'096, path_most = 4'096;

// Fills `piece` from the file, up to the size of a piece or the file's end. Returns the number of bytes; -1 after an
// error, with errno.
ssize_t read_piece(const storage::Descriptor& file, std::string& piece) {
    std::size_t done = 0;
    while (done < piece.size()) {
        const ssize_t got = ::read(file.number(), piece.data() + done, piece.size() - done);
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) return -1;
        if (got == 0) break;
        done += static_cast<std::size_t>(got);
    }
    return static_cast<ssize_t>(done);
}

json facts_json(const BackupFacts& facts) {
    return {{"version", facts.version},           {"cluster_id", facts.cluster_id},
            {"cluster_name", facts.cluster_name}, {"ca_fingerprint", facts.ca_fingerprint},
            {"address", facts.address},           {"made_wall_ms", facts.made_wall_ms},
            {"left_out", facts.left_out}};
}

BackupFacts facts_of(const json& from) {
    const auto text = [&](const char* name) {
        const auto value = from.find(name);
        return value != from.end() && value->is_string() ? value->get<std::string>() : std::string();
    };
    BackupFacts facts{.version = text("version"),
                      .cluster_id = text("cluster_id"),
                      .cluster_name = text("cluster_name"),
                      .ca_fingerprint = text("ca_fingerprint"),
                      .address = text("address"),
                      .left_out = {}};
    if (const auto time = from.find("made_wall_ms"); time != from.end() && time->is_number_integer())
        facts.made_wall_ms = *time;
    if (const auto left = from.find("left_out"); left != from.end() && left->is_array())
        for (const json& item : *left)
            if (item.is_string()) facts.left_out.push_back(item);
    return facts;
}

// The state of reading one backup: the frames that may follow, and the paths so far.
class ArchiveReading {
  public:
    ArchiveReading(std::string path, const MasterKey& master, const ArchiveTakers& takers)
        : path_(std::move(path)),
          pieces_(std::filesystem::path(path_).parent_path().string(), master),
          takers_(takers) {}

    Status take(const Frame& frame) {
        if (ended_ || (frame.kind == 'h') == begun_) return wrong("frames in a wrong order");
        switch (frame.kind) {
            case 'h':
                return take_facts(frame.content);
            case 'f':
                return take_file(frame.content);
            case 'd':
                return take_bytes(frame.content);
            case 'p':
                return take_ids(frame.content);
            case 'e':
                return take_end(frame.content);
        }
        return wrong("a frame of an unknown kind");
    }
    Result<BackupTotals> totals() const {
        if (!ended_) return wrong("no end");
        return totals_;
    }

  private:
    Error wrong(const std::string& what) const {
        return {ErrorCode::damaged, path_ + " is damaged: it has " + what, "use another backup"};
    }
    Status take_facts(const std::string& content) {
        const json facts = parse_json(content);
        if (!facts.is_object()) return wrong("unreadable facts");
        begun_ = true;
        return takers_.facts ? takers_.facts(facts_of(facts)) : Status(Done{});
    }
    Status take_file(const std::string& content) {
        const json file = parse_json(content);
        if (!file.is_object() || !file.contains("path") || !file["path"].is_string())
            return wrong("a file with no path");
        const std::string path = file["path"];
        if (!is_clean_path(path)) return wrong("a path that leads out of the directory");
        if (!seen_.insert(path).second) return wrong("a file that comes twice");
        in_file_ = true;
        ++totals_.files;
        return takers_.file ? takers_.file(path) : Status(Done{});
    }
    Status give(std::string_view bytes) {
        if (!in_file_) return wrong("bytes of no file");
        totals_.bytes += bytes.size();
        return takers_.bytes ? takers_.bytes(bytes) : Status(Done{});
    }
    Status take_bytes(const std::string& content) {
        const auto bytes = state::expanded(content, piece_bytes);
        return bytes ? give(*bytes) : Status(wrong("bytes that cannot be unpacked"));
    }
    Status take_ids(const std::string& content) {
        if (content.size() % archive_id_bytes != 0) return wrong("half an id");
        for (std::size_t at = 0; at < content.size(); at += archive_id_bytes) {
            const std::string id = content.substr(at, archive_id_bytes);
            if (takers_.piece) {
                takers_.piece(id);
                continue;
            }
            const Result<std::string> bytes = pieces_.get(id);
            if (!bytes) return bytes.error();
            if (Status given = give(*bytes); !given) return given;
        }
        return Done{};
    }
    Status take_end(const std::string& content) {
        const json totals = parse_json(content);
        const bool same = totals.is_object() && totals.value("files", json()) == totals_.files;
        if (!same) return wrong("another number of files than it was made with");
        ended_ = true;
        return Done{};
    }

    std::string path_;
    Pieces pieces_;
    const ArchiveTakers& takers_;
    std::set<std::string> seen_;
    BackupTotals totals_;
    bool begun_ = false, in_file_ = false, ended_ = false;
};

}  // namespace

bool is_clean_path(std::string_view path) {
    if (path.empty() || path.size() > path_most) return false;
    for (const char c : path)
        if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) return false;
    for (std::size_t begin = 0; begin <= path.size();) {
        const std::size_t end = std::min(path.find('/', begin), path.size());
        const std::string_view part = path.substr(begin, end - begin);
        if (part.empty() || part == "." || part == "..") return false;
        begin = end + 1;
    }
    return true;
}

Status ArchiveWriter::begin(const BackupFacts& facts) { return file_.put('h', json_text(facts_json(facts))); }

Status ArchiveWriter::add(const std::string& path, const storage::Descriptor& content) {
    if (Status put = file_.put('f', json_text(json{{"path", path}})); !put) return put;
    ++totals_.files;
    std::string ids, piece(piece_bytes, '\0');
    for (bool more = true; more;) {
        const ssize_t got = read_piece(content, piece);
        if (got < 0)
            return Error{ErrorCode::io, "reading " + path + ": " + std::strerror(errno),
                         "check the disk of the head's data directory"};
        more = static_cast<std::size_t>(got) == piece.size();
        const std::string_view bytes(piece.data(), static_cast<std::size_t>(got));
        totals_.bytes += bytes.size();
        if (!bytes.empty() && !pieces_)
            if (Status put = file_.put('d', state::compressed(bytes, archive_level)); !put) return put;
        if (!bytes.empty() && pieces_) {
            const Result<std::string> id = pieces_->put(bytes);
            if (!id) return id.error();
            ids += *id;
        }
        if (ids.empty() || (more && ids.size() < ids_of_frame * archive_id_bytes)) continue;
        if (Status put = file_.put('p', ids); !put) return put;
        ids.clear();
    }
    return Done{};
}

Status ArchiveWriter::end() {
    return file_.end('e', json_text(json{{"files", totals_.files}, {"bytes", totals_.bytes}}));
}

Result<BackupTotals> read_archive(const std::string& path, const std::string& secret, std::optional<MasterKey>& master,
                                  const ArchiveTakers& takers) {
    Result<SealedReader> reader = SealedReader::open(path, secret, master);
    if (!reader) return reader.error();
    master = reader->master();
    ArchiveReading reading(path, *master, takers);
    while (true) {
        Result<std::optional<Frame>> frame = reader->next();
        if (!frame) return frame.error();
        if (!*frame) return reading.totals();
        if (Status taken = reading.take(**frame); !taken) return taken.error();
    }
}

}  // namespace rtrain::head
