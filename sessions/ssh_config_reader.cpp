// SPDX-License-Identifier: Apache-2.0
#include "sessions/ssh_config_reader.h"

#include <glob.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <fstream>
#include <functional>
#include <map>
#include <utility>

namespace piper {
namespace {

constexpr int kMostIncludes = 16;  ///< depth, as in OpenSSH

std::string lower(std::string_view text) {
    std::string out(text);
    for (char& c : out) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    return out;
}

/// Words of a line: separated by blanks, the first also by "="; quotes keep blanks, and a backslash
/// keeps the quote, backslash or blank that follows it.
Result<std::vector<std::string>> splitWords(const std::string& line) {
    std::vector<std::string> words;
    const auto isBlank = [](char c) { return std::isspace(static_cast<unsigned char>(c)) != 0; };
    std::size_t i = 0;
    while (i < line.size()) {
        if (isBlank(line[i]) || (line[i] == '=' && words.size() == 1)) {
            ++i;
            continue;
        }
        if (line[i] == '#') break;
        std::string word;
        char quote = 0;
        for (; i < line.size(); ++i) {
            const char c = line[i];
            const char next = i + 1 < line.size() ? line[i + 1] : '\0';
            if (c == '\\' &&
                (next == '"' || next == '\'' || next == '\\' || (next == ' ' && quote == 0))) {
                word += next;
                ++i;
            } else if (quote == 0 && (c == '"' || c == '\'')) {
                quote = c;
            } else if (quote != 0 && c == quote) {
                quote = 0;
            } else if (quote == 0 && (isBlank(c) || (c == '=' && words.empty()))) {
                break;
            } else {
                word += c;
            }
        }
        if (quote != 0) return fail(ErrorCode::InvalidInput, "a quote ({}) is not closed", quote);
        words.push_back(std::move(word));
    }
    return words;
}

std::vector<std::string> splitList(std::string_view text) {
    std::vector<std::string> out;
    while (!text.empty()) {
        const std::size_t comma = std::min(text.find(','), text.size());
        if (comma > 0) out.emplace_back(text.substr(0, comma));
        text.remove_prefix(std::min(comma + 1, text.size()));
    }
    return out;
}

Result<int> readNumber(std::string_view text, int least, int most) {
    int value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc() || end != text.data() + text.size() || value < least || value > most)
        return fail(ErrorCode::InvalidInput, "'{}' is no number from {} to {}", text, least, most);
    return value;
}

Result<bool> readYesNo(std::string_view text) {
    const std::string word = lower(text);
    if (word == "yes" || word == "true") return true;
    if (word == "no" || word == "false") return false;
    return fail(ErrorCode::InvalidInput, "'{}' is neither yes nor no", text);
}

Status setFlag(bool& into, const std::string& text) {
    PIPER_ASSIGN(into, readYesNo(text));
    return {};
}

/// Seconds, also "2m" and "1h".
Status setSeconds(int& into, std::string text) {
    int unit = 1;
    if (text.ends_with('m')) unit = 60;
    if (text.ends_with('h')) unit = 3600;
    if (unit > 1 || text.ends_with('s')) text.pop_back();
    PIPER_ASSIGN(const int value, readNumber(text, 0, 86400));
    into = value * unit;
    return {};
}

/// Algorithm lists that change the default set are OpenSSH's own and cannot be handed on.
Status setAlgorithms(SshHostConfig& host, std::string& into, const std::string& list,
                     const std::string& place) {
    if (std::string_view("+-^").find(list.front()) == std::string_view::npos)
        into = list;
    else
        host.remarks.push_back(
            fmt::format("{}: a list that starts with '{}' is not followed; the usual algorithms "
                        "are offered",
                        place, list.front()));
    return {};
}

using Apply = std::function<Status(SshHostConfig&, const std::vector<std::string>& words,
                                   const std::string& place)>;

Status applyStrict(SshHostConfig& h, const std::vector<std::string>& w, const std::string& place) {
    const std::string value = lower(w[1]);
    if (value == "yes") h.unknown_hosts_ask = false;
    if (value == "no" || value == "off" || value == "accept-new")
        h.remarks.push_back(
            fmt::format("{}: '{}' is not followed: an unknown host key is always shown first and a "
                        "changed one always refused",
                        place, w[1]));
    return {};
}

Status applyProxyCommand(SshHostConfig& h, const std::vector<std::string>& w,
                         const std::string& place) {
    if (lower(w[1]) == "none") return {};
    Error error =
        fail(ErrorCode::Unsupported,
             "host '{}' is reached through ProxyCommand '{}', which is not run", h.alias, w[1]);
    error.where = place;
    error.hint = "write ProxyJump HOST instead, or add the session with --config FILE";
    return error;
}

/// Keys that must never be taken any more: going on without them would take them.
Status applyRevoked(SshHostConfig& h, const std::vector<std::string>& w, const std::string& place) {
    if (lower(w[1]) == "none") return {};
    Error error = fail(ErrorCode::Unsupported,
                       "host '{}' has RevokedHostKeys '{}', which is not followed", h.alias, w[1]);
    error.where = place;
    error.hint =
        "write its keys as lines '@revoked * TYPE KEY' into known_hosts, and add the session with "
        "--config FILE that does not name it";
    return error;
}

/// Files of a line; "none" is one that holds nothing.
std::vector<std::string> filesOf(const std::vector<std::string>& words) {
    if (lower(words[1]) == "none") return {"/dev/null"};
    return {words.begin() + 1, words.end()};
}

/// Keywords that take several values; of the others a second one is a mistake.
bool takesSeveral(const std::string& keyword) {
    return keyword == "userknownhostsfile" || keyword == "globalknownhostsfile" ||
           keyword == "proxycommand";
}

const std::map<std::string, Apply>& keywords() {
    using H = SshHostConfig;
    using W = std::vector<std::string>;
    using P = std::string;
    static const std::map<std::string, Apply> table = {
        {"hostname", [](H& h, const W& w, const P&) { return h.host_name = w[1], Status(); }},
        {"user", [](H& h, const W& w, const P&) { return h.user = w[1], Status(); }},
        {"port",
         [](H& h, const W& w, const P& p) -> Status {
             PIPER_ASSIGN(h.port, readSshPort(w[1], p));
             return {};
         }},
        {"identitiesonly",
         [](H& h, const W& w, const P&) { return setFlag(h.identities_only, w[1]); }},
        {"identityagent",
         [](H& h, const W& w, const P&) {
             return h.identity_agent = w[1] == "SSH_AUTH_SOCK" ? "" : w[1], Status();
         }},
        {"proxyjump",
         [](H& h, const W& w, const P&) {
             if (lower(w[1]) != "none") h.jumps = splitList(w[1]);
             return Status();
         }},
        {"proxycommand", applyProxyCommand},
        {"userknownhostsfile",
         [](H& h, const W& w, const P&) { return h.known_hosts = filesOf(w), Status(); }},
        {"globalknownhostsfile",
         [](H& h, const W& w, const P&) { return h.global_known_hosts = filesOf(w), Status(); }},
        {"revokedhostkeys", applyRevoked},
        {"hostkeyalias",
         [](H& h, const W& w, const P&) { return h.host_key_alias = w[1], Status(); }},
        {"stricthostkeychecking", applyStrict},
        {"connecttimeout",
         [](H& h, const W& w, const P&) { return setSeconds(h.connect_timeout_seconds, w[1]); }},
        {"serveraliveinterval",
         [](H& h, const W& w, const P&) { return setSeconds(h.alive_interval_seconds, w[1]); }},
        {"compression", [](H& h, const W& w, const P&) { return setFlag(h.compression, w[1]); }},
        {"batchmode", [](H& h, const W& w, const P&) { return setFlag(h.batch_mode, w[1]); }},
        {"pubkeyauthentication",
         [](H& h, const W& w, const P&) { return h.public_key = lower(w[1]) != "no", Status(); }},
        {"kbdinteractiveauthentication",
         [](H& h, const W& w, const P&) { return setFlag(h.keyboard_interactive, w[1]); }},
        {"challengeresponseauthentication",
         [](H& h, const W& w, const P&) { return setFlag(h.keyboard_interactive, w[1]); }},
        {"passwordauthentication",
         [](H& h, const W& w, const P&) { return setFlag(h.password, w[1]); }},
        {"ciphers",
         [](H& h, const W& w, const P& p) { return setAlgorithms(h, h.ciphers, w[1], p); }},
        {"macs", [](H& h, const W& w, const P& p) { return setAlgorithms(h, h.macs, w[1], p); }},
        {"kexalgorithms",
         [](H& h, const W& w, const P& p) { return setAlgorithms(h, h.key_exchange, w[1], p); }},
        {"hostkeyalgorithms", [](H& h, const W& w, const P& p) {
             return setAlgorithms(h, h.host_key_algorithms, w[1], p);
         }}};
    return table;
}

/// Keywords that change nothing for us: forwarding, terminals, logging, sharing of one connection
/// (which we do anyway).
bool isHarmless(const std::string& keyword) {
    static const std::set<std::string> names = {"addkeystoagent",
                                                "addressfamily",
                                                "canonicalizehostname",
                                                "checkhostip",
                                                "clearallforwardings",
                                                "controlmaster",
                                                "controlpath",
                                                "controlpersist",
                                                "connectionattempts",
                                                "dynamicforward",
                                                "enableescapecommandline",
                                                "escapechar",
                                                "exitonforwardfailure",
                                                "fingerprinthash",
                                                "forkafterauthentication",
                                                "forwardagent",
                                                "forwardx11",
                                                "forwardx11timeout",
                                                "forwardx11trusted",
                                                "gatewayports",
                                                "gssapiauthentication",
                                                "gssapidelegatecredentials",
                                                "hashknownhosts",
                                                "ignoreunknown",
                                                "ipqos",
                                                "localcommand",
                                                "localforward",
                                                "loglevel",
                                                "nohostauthenticationforlocalhost",
                                                "numberofpasswordprompts",
                                                "permitlocalcommand",
                                                "preferredauthentications",
                                                "remoteforward",
                                                "requesttty",
                                                "sendenv",
                                                "serveralivecountmax",
                                                "sessiontype",
                                                "setenv",
                                                "streamlocalbindmask",
                                                "streamlocalbindunlink",
                                                "syslogfacility",
                                                "tcpkeepalive",
                                                "tunnel",
                                                "tunneldevice",
                                                "updatehostkeys",
                                                "usekeychain",
                                                "verifyhostkeydns",
                                                "visualhostkey",
                                                "xauthlocation"};
    return names.count(keyword) != 0;
}

class Reader {
public:
    Reader(const SshConfigFiles& files, SshConfigValues typed)
        : m_files(files), m_values(std::move(typed)) {}

    Status readFile(const std::filesystem::path& path, bool never, int depth) {
        bool active = !never;
        std::ifstream in(path);
        // As OpenSSH: a file that is not there says nothing.
        if (!in && (errno == ENOENT || errno == ENOTDIR)) return {};
        if (!in) return unreadable(path, errno);
        if (m_files.must_be_private) PIPER_TRY(checkPrivate(path));
        std::string line;
        for (int number = 1; std::getline(in, line); ++number) {
            const std::string place = fmt::format("{}:{}", path.string(), number);
            Status status = readLine(line, place, path, active, depth);
            // Included from a block of other hosts: its own blocks hold for nobody here.
            active = active && !never;
            if (!status.ok()) {
                Error error = status.error();
                if (error.where.empty()) error.where = place;
                return error;
            }
        }
        return in.bad() ? unreadable(path, errno) : Status();
    }

    SshConfigValues take() { return std::move(m_values); }

private:
    static Status unreadable(const std::filesystem::path& path, int reason) {
        return fail(ErrorCode::Io, "the configuration cannot be read: {}", std::strerror(reason))
            .at(path.string());
    }

    static Status checkPrivate(const std::filesystem::path& path) {
        struct stat info {};
        if (::stat(path.c_str(), &info) != 0) return unreadable(path, errno);
        if ((info.st_uid == 0 || info.st_uid == ::getuid()) && (info.st_mode & 022U) == 0)
            return {};
        Error error = fail(ErrorCode::RuleBroken,
                           "others may write this configuration (owner {}, mode {:04o}); it is not "
                           "followed",
                           info.st_uid, info.st_mode & 07777U);
        error.where = path.string();
        error.hint = "chmod go-w it, and see that it is yours; ssh refuses it, too";
        return error;
    }

    Status readLine(const std::string& line, const std::string& place,
                    const std::filesystem::path& path, bool& active, int depth) {
        PIPER_ASSIGN(std::vector<std::string> words, splitWords(line));
        if (words.empty()) return {};
        const std::string keyword = lower(words[0]);
        if (words.size() < 2)
            return fail(ErrorCode::InvalidInput, "keyword '{}' has no value", words[0]);
        if (keyword == "host") {
            words.erase(words.begin());
            active = matchesSshPatterns(m_values.host.alias, words);
            return {};
        }
        if (keyword == "match") return readMatch(words, place, active);
        if (keyword == "include") return include(words, path, active, depth);
        if (!active) return {};
        return apply(keyword, words, place);
    }

    Status apply(const std::string& keyword, const std::vector<std::string>& words,
                 const std::string& place) {
        SshHostConfig& host = m_values.host;
        const auto known = keywords().find(keyword);
        const bool is_identity = keyword == "identityfile";
        if (words.size() > 2 && (is_identity || known != keywords().end()) &&
            !takesSeveral(keyword))
            return fail(
                ErrorCode::InvalidInput,
                "{} takes one value and has {}; a value with blanks stands in double quotes",
                words[0], words.size() - 1);
        if (is_identity) {
            m_values.set.insert(keyword);
            if (lower(words[1]) != "none") host.identity_files.push_back(words[1]);
            return {};
        }
        if (known == keywords().end()) {
            if (!isHarmless(keyword) && m_values.set.insert(keyword).second)
                host.remarks.push_back(fmt::format("{}: {} is not followed", place, words[0]));
            return {};
        }
        // ProxyJump and ProxyCommand compete: whichever comes first wins.
        const std::string slot = keyword == "proxycommand" ? "proxyjump" : keyword;
        if (!m_values.set.insert(slot).second) return {};
        return known->second(host, words, place);
    }

    /// As HostName has it up to here; "%h" of it is the name typed.
    [[nodiscard]] std::string hostNameSoFar() const {
        std::string name = m_values.host.host_name;
        if (name.empty()) return m_values.host.alias;
        for (std::size_t at = 0; (at = name.find("%h", at)) != std::string::npos;
             at += m_values.host.alias.size())
            name.replace(at, 2, m_values.host.alias);
        return name;
    }

    Status readMatch(const std::vector<std::string>& words, const std::string& place,
                     bool& active) {
        SshHostConfig& host = m_values.host;
        active = true;
        for (std::size_t i = 1; i < words.size(); ++i) {
            std::string criterion = lower(words[i]);
            const bool negated = criterion.starts_with('!');
            if (negated) criterion.erase(0, 1);
            if (criterion == "all") continue;
            const bool takes_value = criterion != "canonical" && criterion != "final";
            if (takes_value && i + 1 == words.size())
                return fail(ErrorCode::InvalidInput, "Match {} has no value", criterion);
            const std::string value = takes_value ? words[++i] : "";
            const std::string name = hostNameSoFar();
            const std::string& user = host.user.empty() ? m_files.local_user : host.user;
            bool matched = false;
            if (criterion == "host") {
                matched = matchesSshPatterns(name, splitList(value));
            } else if (criterion == "originalhost") {
                matched = matchesSshPatterns(host.alias, splitList(value));
            } else if (criterion == "user") {
                matched = matchesSshPatterns(user, splitList(value));
            } else if (criterion == "localuser") {
                matched = matchesSshPatterns(m_files.local_user, splitList(value));
            } else {
                host.remarks.push_back(fmt::format(
                    "{}: 'Match {}' is not followed; its block is passed over", place, criterion));
                active = false;
                return {};
            }
            if (matched == negated) active = false;
        }
        return {};
    }

    Status include(const std::vector<std::string>& words, const std::filesystem::path& from,
                   bool active, int depth) {
        if (depth >= kMostIncludes)
            return fail(ErrorCode::InvalidInput, "Include is nested more than {} deep",
                        kMostIncludes);
        for (std::size_t i = 1; i < words.size(); ++i) {
            std::string pattern = words[i];
            if (pattern.starts_with("~/"))
                pattern = (m_files.home / pattern.substr(2)).string();
            else if (!pattern.starts_with('/'))
                pattern = (from.parent_path() / pattern).string();
            glob_t found{};
            if (::glob(pattern.c_str(), 0, nullptr, &found) == 0) {
                Status status;
                for (std::size_t f = 0; f < found.gl_pathc && status.ok(); ++f)
                    status = readFile(found.gl_pathv[f], !active, depth + 1);
                ::globfree(&found);
                PIPER_TRY(status);
            } else {
                ::globfree(&found);
            }
        }
        return {};
    }

    const SshConfigFiles& m_files;
    SshConfigValues m_values;
};

}  // namespace

Result<int> readSshPort(std::string_view text, std::string_view in) {
    Result<int> port = readNumber(text, 1, 65535);
    if (!port.ok())
        return fail(ErrorCode::InvalidInput, "port {} (in {})", port.error().message, in);
    return port;
}

Result<SshConfigValues> readSshConfig(const SshConfigFiles& files, SshConfigValues typed) {
    Reader reader(files, std::move(typed));
    for (const std::filesystem::path& file : files.files)
        PIPER_TRY(reader.readFile(file, false, 0));
    return reader.take();
}

}  // namespace piper
