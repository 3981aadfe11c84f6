#include "storage/job_spec/file_reader.hpp"

#include <algorithm>
#include <tuple>
#include <vector>

namespace rtrain::spec {

void FileReader::fields(const Value& map, const std::string& path, const std::map<std::string, Take>& known,
                        Null null) {
    std::vector<std::string> names;
    for (const auto& [name, take] : known) names.push_back(name);
    for (const Entry& entry : map.entries) {
        const auto field = known.find(entry.key);
        if (field == known.end())
            problem(below(path, entry.key), entry.place, "unknown field", did_you_mean(nearest(entry.key, names)));
        else if (null == Null::taken || entry.value.kind != Kind::null)
            field->second(below(path, entry.key), entry.value);
    }
}

Problems FileReader::sorted() && {
    std::stable_sort(problems_.begin(), problems_.end(), [](const Problem& a, const Problem& b) {
        return std::tuple(a.line == 0, a.line, a.column) < std::tuple(b.line == 0, b.line, b.column);
    });
    return std::move(problems_);
}

}  // namespace rtrain::spec
