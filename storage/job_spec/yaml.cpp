// Reads strict YAML 1.2 into a tree. yaml-cpp's parser reports events. This file refuses what a job file does not need:
// anchors, aliases, tags, merge keys, repeated keys, several documents, deep nesting, and scalars that YAML 1.1 reads
// differently. All faults are collected; only a syntax error ends the reading.

#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/mark.h>
#include <yaml-cpp/parser.h>

#include <algorithm>
#include <sstream>
#include <utility>

#include "storage/job_spec/value.hpp"

namespace rtrain::spec {
namespace {

struct TooDeep {
    Place place;
};
struct TooMany {
    Place place;
};
struct SecondDocument {
    Place place;
};

class Builder final : public YAML::EventHandler {
  public:
    explicit Builder(Tree& tree, const std::vector<std::string>& lines) : tree_(tree), lines_(lines) {}

    void OnDocumentStart(const YAML::Mark& mark) override {
        if (seen_document_) throw SecondDocument{place_of(mark)};
        seen_document_ = true;
    }
    void OnDocumentEnd() override {}
    void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override {
        refuse_anchor(mark, anchor);
        if (wants_key())
            take_key("null", mark, "a key must be text");
        else
            add(Value{.place = place_of(mark)});
    }
    void OnAlias(const YAML::Mark& mark, YAML::anchor_t) override {
        problem(mark, "aliases (*name) are not allowed", "write the value out");
        if (wants_key())
            take_key("*", mark, "");
        else
            add(Value{.place = place_of(mark)});
    }
    void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                  const std::string& text) override {
        refuse_anchor(mark, anchor);
        refuse_tag(mark, tag);
        const bool plain = tag == "?";
        const Plain meaning = plain ? plain_scalar(text) : Plain{};
        if (!meaning.trap.empty())
            problem(mark, shown(text) + " without quotes " + meaning.trap, "quote it: \"" + text + "\"");
        if (wants_key()) {
            const bool merge = plain && text == "<<";
            take_key(text, mark,
                     merge                           ? "merge keys (<<) are not allowed"
                     : meaning.kind == Kind::boolean ? "a key must be text: quote it"
                                                     : "");
            return;
        }
        Value value{.kind = meaning.kind,
                    .text = meaning.kind == Kind::string ? text : meaning.json,
                    .raw = text,
                    .place = place_of(mark)};
        add(std::move(value));
    }
    void OnSequenceStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                         YAML::EmitterStyle::value) override {
        open(mark, tag, anchor, Kind::list);
    }
    void OnSequenceEnd() override { close(); }
    void OnMapStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                    YAML::EmitterStyle::value) override {
        open(mark, tag, anchor, Kind::map);
    }
    void OnMapEnd() override { close(); }

  private:
    struct Level {
        Value value;
        std::map<std::string, int> lines;  // line of each key that was read so far
        std::string key;                   // key of the next value
        Place key_place;
        bool has_key = false;
        bool drop = false;    // true: the key was refused, so its value is dropped
        bool as_key = false;  // true: this collection stands in the place of a key
    };

    // Converts a position: yaml-cpp counts columns in bytes, and people count characters.
    Place place_of(const YAML::Mark& mark) const {
        if (mark.line < 0 || static_cast<std::size_t>(mark.line) >= lines_.size())
            return {mark.line + 1, mark.column + 1};
        const std::string& line = lines_[static_cast<std::size_t>(mark.line)];
        const auto bytes = std::min(line.size(), static_cast<std::size_t>(std::max(mark.column, 0)));
        return {mark.line + 1, mark.column - bytes_inside(mark.line, line, bytes) + 1};
    }
    // Returns how many of the first `bytes` bytes of a line continue a character. Starts at the last result for this
    // line, because one line may hold the whole file.
    int bytes_inside(int number, const std::string& line, std::size_t bytes) const {
        if (number != std::exchange(counted_.line, number)) counted_ = {.line = number};
        const auto inside = [&](std::size_t i) { return (static_cast<unsigned char>(line[i]) & 0xC0U) == 0x80U; };
        for (; counted_.bytes < bytes; ++counted_.bytes) counted_.inside += inside(counted_.bytes) ? 1 : 0;
        for (; counted_.bytes > bytes; --counted_.bytes) counted_.inside -= inside(counted_.bytes - 1) ? 1 : 0;
        return counted_.inside;
    }
    void problem(const YAML::Mark& mark, const std::string& message, const std::string& suggestion) {
        const Place place = place_of(mark);
        tree_.add({path(), place.line, place.column, message, suggestion});
    }
    std::string path() const {
        std::string text;
        for (const Level& level : levels_) {
            if (level.value.kind == Kind::list)
                text = below(text, level.value.items.size());
            else if (level.has_key)
                text = below(text, level.key);
        }
        return text;
    }
    bool wants_key() const {
        return !levels_.empty() && levels_.back().value.kind == Kind::map && !levels_.back().has_key;
    }

    void refuse_anchor(const YAML::Mark& mark, YAML::anchor_t anchor) {
        if (anchor != 0) problem(mark, "anchors (&name) are not allowed", "write the value out where it is needed");
    }
    void refuse_tag(const YAML::Mark& mark, const std::string& tag) {
        if (!tag.empty() && tag != "?" && tag != "!")
            problem(mark, "tags (" + shown(tag) + ") are not allowed", "remove the tag; quote text");
    }

    void take_key(const std::string& key, const YAML::Mark& mark, const std::string& refused) {
        Level& level = levels_.back();
        level.drop = !refused.empty();
        if (level.drop) problem(mark, refused, "");
        const auto [first, is_new] = level.lines.emplace(key, mark.line + 1);
        if (!is_new && !level.drop) {
            problem(mark, "key " + shown(key) + " was given already in line " + std::to_string(first->second),
                    "remove one of the two");
            level.drop = true;
        }
        level.key = key;
        level.key_place = place_of(mark);
        level.has_key = true;
    }

    void open(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor, Kind kind) {
        if (static_cast<int>(levels_.size()) >= nesting_most) throw TooDeep{place_of(mark)};
        refuse_anchor(mark, anchor);
        refuse_tag(mark, tag);
        Level level{.value = {.kind = kind, .place = place_of(mark)}};
        level.as_key = wants_key();
        if (level.as_key) problem(mark, "a key must be text, not a list or a map", "");
        levels_.push_back(std::move(level));
    }
    void close() {
        Level level = std::move(levels_.back());
        levels_.pop_back();
        if (!level.as_key) {
            add(std::move(level.value));
            return;
        }
        levels_.back().has_key = levels_.back().drop = true;
    }
    void add(Value value) {
        if (++values_ > values_most) throw TooMany{value.place};
        if (levels_.empty()) {
            tree_.root = std::move(value);
            return;
        }
        Level& level = levels_.back();
        if (level.value.kind == Kind::list) {
            level.value.items.push_back(std::move(value));
            return;
        }
        // For `key:` without a value, the position of the key is more helpful than that of the next token.
        if (value.kind == Kind::null) value.place = level.key_place;
        if (!level.drop) level.value.entries.push_back({level.key, level.key_place, std::move(value)});
        level.has_key = level.drop = false;
    }

    Tree& tree_;
    const std::vector<std::string>& lines_;
    std::vector<Level> levels_;
    std::size_t values_ = 0;
    struct Counted {
        int line = -1;
        std::size_t bytes = 0;
        int inside = 0;
    };
    mutable Counted counted_;
    bool seen_document_ = false;
};

std::vector<std::string> lines_of(const std::string& text) {
    std::vector<std::string> lines;
    std::istringstream stream(text);
    for (std::string line; std::getline(stream, line);) lines.push_back(line);
    return lines;
}

}  // namespace

Tree yaml_tree(const std::string& text) {
    Tree tree;
    tree.problems = text_problems(text);
    if (!tree.problems.empty()) return tree;
    const std::vector<std::string> lines = lines_of(text);
    Builder builder(tree, lines);
    try {
        std::istringstream stream(text);
        YAML::Parser parser(stream);
        if (parser.HandleNextDocument(builder))
            while (parser.HandleNextDocument(builder)) continue;
    } catch (const TooDeep& deep) {
        tree.problems.push_back({"", deep.place.line, deep.place.column,
                                 "nested deeper than " + std::to_string(nesting_most) + " levels", ""});
    } catch (const TooMany& many) {
        tree.problems.push_back({"", many.place.line, many.place.column,
                                 "more than " + std::to_string(values_most) + " values",
                                 "data belongs into working_dir or onto the storage path"});
    } catch (const SecondDocument& second) {
        tree.problems.push_back({"", second.place.line, second.place.column, "a second YAML document begins here",
                                 "one file holds one document: remove the ---"});
    } catch (const YAML::Exception& wrong) {
        tree.problems.push_back({"", wrong.mark.line + 1, wrong.mark.column + 1, "not YAML: " + wrong.msg, ""});
        // yaml-cpp throws on errors of its own, for example in the numbers of block indents
    } catch (const std::exception& wrong) {
        tree.problems.push_back({"", 0, 0, std::string("not YAML: ") + wrong.what(), ""});
    }
    return tree;
}

YamlAnswer strict_yaml(const std::string& text) {
    Tree tree = yaml_tree(text);
    YamlAnswer answer{.json = {}, .positions = {}, .problems = std::move(tree.problems)};
    add_count(answer.problems, tree.problems_more);
    if (!answer.problems.empty()) return answer;
    answer.json = to_json_text(tree.root);
    const auto visit = [&](const auto& self, const Value& value, const std::string& path) -> void {
        answer.positions[path] = {value.place.line, value.place.column};
        for (std::size_t i = 0; i < value.items.size(); ++i) self(self, value.items[i], below(path, i));
        for (const Entry& entry : value.entries) self(self, entry.value, below(path, entry.key));
    };
    visit(visit, tree.root, "");
    return answer;
}

}  // namespace rtrain::spec
