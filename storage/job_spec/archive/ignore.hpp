// Decides which files of a working directory are left out of the archive: by the rules of .gitignore, which the rules
// of .rtrainignore override. Used inside of storage/job_spec only.
#pragma once

#include <bitset>
#include <string>
#include <string_view>
#include <vector>

namespace rtrain::spec {

enum class FileKind { file, directory };

class IgnoreRules {
  public:
    // Adds rules that come before those of all files. A later rule includes such a file again only if it names the file
    // without a wildcard: `!*/` does not apply to .git.
    void add_first(std::string_view text) { add(first_, "", text); }
    // Adds the rules of a file in directory `base` ("" is the top). Later rules override earlier ones.
    void add_git(const std::string& base, std::string_view text) { add(git_, base, text); }
    void add_rtrain(const std::string& base, std::string_view text) { add(rtrain_, base, text); }
    // `path`: relative to the top, with '/' between its parts
    bool ignored(const std::string& path, FileKind kind) const;

  private:
    using Bytes = std::bitset<256>;
    enum class TokenKind {
        byte,      // matches one byte of the set `fits`
        repeat,    // matches any number of bytes of the set `fits`
        optional,  // the next two tokens match together, or both are skipped
    };
    struct Token {
        TokenKind kind = TokenKind::byte;
        Bytes fits;
    };
    struct Rule {
        std::string base;
        std::vector<Token> tokens;
        bool keep = false;   // the rule began with '!'
        bool named = false;  // the rule has no wildcard
        bool directories_only = false;
        bool bound = false;  // true: the pattern is relative to its base; false: it matches a name at any depth
    };
    struct Parser;
    static void add(std::vector<Rule>& rules, const std::string& base, std::string_view text);
    static void add_line(std::vector<Rule>& rules, const std::string& base, std::string_view line);
    static bool hits(const Rule& rule, const std::string& path, FileKind kind);
    static bool matches(const std::vector<Token>& tokens, std::string_view name);
    bool ignored_at_first(const std::string& path, FileKind kind) const;
    static void skip(const std::vector<Token>& tokens, std::vector<char>& states);

    std::vector<Rule> first_, git_, rtrain_;
};

}  // namespace rtrain::spec
