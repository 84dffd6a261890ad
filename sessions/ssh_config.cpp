// SPDX-License-Identifier: Apache-2.0
#include "sessions/ssh_config.h"

#include <pwd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <optional>

#include "sessions/display_text.h"
#include "sessions/ssh_config_reader.h"

namespace piper {
namespace {

constexpr std::size_t kMostHops = 8;

bool matchesGlob(std::string_view text, std::string_view pattern) {
    // The last "*" seen is where a mismatch goes back to.
    std::size_t t = 0, p = 0, star = std::string_view::npos, resume = 0;
    while (t < text.size()) {
        if (p < pattern.size() && (pattern[p] == '?' || pattern[p] == text[t])) {
            ++t, ++p;
        } else if (p < pattern.size() && pattern[p] == '*') {
            star = p++;
            resume = t;
        } else if (star != std::string_view::npos) {
            p = star + 1;
            t = ++resume;
        } else {
            return false;
        }
    }
    while (p < pattern.size() && pattern[p] == '*') ++p;
    return p == pattern.size();
}

/// The name of this host, as gethostname gives it.
std::string localHostName() {
    std::array<char, 256> name{};
    return ::gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "";
}

/// What OpenSSH puts in the place of "%x"; nothing for what we do not know.
std::optional<std::string> tokenValue(char token, const SshHostConfig& host,
                                      const SshConfigFiles& files) {
    switch (token) {
        case '%':
            return "%";
        case 'd':
            return files.home.string();
        case 'h':
            return host.host_name;
        case 'i':
            return std::to_string(::getuid());
        case 'k':
            return host.host_key_alias.empty() ? host.alias : host.host_key_alias;
        case 'L': {
            const std::string name = localHostName();
            return name.substr(0, name.find('.'));
        }
        case 'l':
            return localHostName();
        case 'n':
            return host.alias;
        case 'p':
            return std::to_string(host.port);
        case 'r':
            return host.user;
        case 'u':
            return files.local_user;
        default:
            return std::nullopt;
    }
}

/// "~" and "~user" at the beginning. Errors: InvalidInput for a user that is not there.
Result<std::string> expandHome(std::string_view text, const SshConfigFiles& files) {
    if (!text.starts_with('~')) return std::string(text);
    const std::size_t slash = std::min(text.find('/'), text.size());
    const std::string user(text.substr(1, slash - 1)), rest(text.substr(slash));
    if (user.empty()) return files.home.string() + rest;
    if (const passwd* entry = ::getpwnam(user.c_str()); entry != nullptr)
        return entry->pw_dir + rest;
    return fail(ErrorCode::InvalidInput, "'{}': no user '{}' on this machine", text, user);
}

/// Errors: InvalidInput for a token or a variable that is not there, Unsupported for those we do
/// not know; the message names the keyword and the host.
Result<std::string> expandTokens(std::string_view keyword, std::string_view given,
                                 const SshHostConfig& host, const SshConfigFiles& files) {
    const std::string place = fmt::format("{} of host '{}'", keyword, host.alias);
    Result<std::string> expanded = expandHome(given, files);
    if (!expanded.ok()) return std::move(expanded).error().at(place);
    const std::string text = *std::move(expanded);
    std::string out;
    for (std::size_t i = 0; i < text.size(); ++i) {
        if (text.compare(i, 2, "${") == 0) {
            const std::size_t close = text.find('}', i);
            const std::string name =
                close == std::string::npos ? "" : text.substr(i + 2, close - i - 2);
            const char* value = name.empty() ? nullptr : std::getenv(name.c_str());
            if (value == nullptr)
                return fail(ErrorCode::InvalidInput, "'{}': no variable '{}' in the environment",
                            given, name)
                    .at(place);
            out += value;
            i = close;
        } else if (text[i] == '%') {
            const char token = i + 1 < text.size() ? text[++i] : '\0';
            const std::optional<std::string> value = tokenValue(token, host, files);
            if (!value)
                return fail(ErrorCode::Unsupported,
                            "'{}': '%{}' is not followed; %% %d %h %i %k %L %l %n %p %r %u are",
                            given, token == '\0' ? "" : std::string(1, token))
                    .at(place);
            out += *value;
        } else {
            out += text[i];
        }
    }
    return out;
}

Status expandAll(std::string_view keyword, std::vector<std::string>& texts,
                 const SshHostConfig& host, const SshConfigFiles& files) {
    for (std::string& text : texts) {
        PIPER_ASSIGN(text, expandTokens(keyword, text, host, files));
    }
    return {};
}

void addUsualIdentities(SshHostConfig& host, const SshConfigFiles& files) {
    for (const char* name : {"id_ed25519", "id_ecdsa", "id_rsa"}) {
        const std::filesystem::path path = files.home / ".ssh" / name;
        std::error_code ignored;
        if (std::filesystem::exists(path, ignored)) host.identity_files.push_back(path.string());
    }
}

/// "[user@]host[:port]", also "ssh://" and a bracketed IPv6 address.
struct HopName {
    std::string user, host;
    int port = 0;
};

Result<HopName> readHop(std::string_view text) {
    const std::string_view given = text;
    HopName hop;
    if (text.starts_with("ssh://")) text.remove_prefix(6);
    if (const std::size_t at = text.rfind('@'); at != std::string_view::npos) {
        hop.user = text.substr(0, at);
        text.remove_prefix(at + 1);
    }
    std::size_t colon = text.rfind(':');
    if (text.starts_with('[')) {
        const std::size_t close = text.find(']');
        if (close == std::string_view::npos)
            return fail(ErrorCode::InvalidInput, "jump host '{}' has no closing ]", given);
        hop.host = text.substr(1, close - 1);
        colon =
            close + 1 < text.size() && text[close + 1] == ':' ? close + 1 : std::string_view::npos;
    } else {
        if (colon != std::string_view::npos && text.find(':') != colon)
            colon = std::string_view::npos;  // an IPv6 address without brackets
        hop.host = text.substr(0, colon);
    }
    if (colon != std::string_view::npos) {
        PIPER_ASSIGN(hop.port, readSshPort(text.substr(colon + 1), given));
    }
    const auto is_blank = [](char c) { return static_cast<unsigned char>(c) <= ' ' || c == 127; };
    if (hop.host.empty() || hop.host.front() == '-' || std::ranges::any_of(given, is_blank))
        return fail(ErrorCode::InvalidInput, "'{}' names no host; write [user@]host[:port]",
                    displayLine(given, 120));
    return hop;
}

Result<SshHostConfig> resolveHop(const SshConfigFiles& files, const HopName& hop) {
    SshConfigValues typed;
    typed.host.alias = hop.host;
    if (!hop.user.empty()) {
        typed.host.user = hop.user;
        typed.set.insert("user");
    }
    if (hop.port != 0) {
        typed.host.port = hop.port;
        typed.set.insert("port");
    }
    PIPER_ASSIGN(SshConfigValues values, readSshConfig(files, std::move(typed)));
    SshHostConfig& host = values.host;
    if (host.user.empty()) host.user = files.local_user;
    // %h of HostName is the name typed, elsewhere it is the resolved one.
    const std::string configured = host.host_name;
    host.host_name = hop.host;
    if (!configured.empty()) {
        PIPER_ASSIGN(host.host_name, expandTokens("HostName", configured, host, files));
    }
    PIPER_TRY(expandAll("IdentityFile", host.identity_files, host, files));
    if (!values.set.contains("identityfile")) addUsualIdentities(host, files);
    if (host.known_hosts.empty()) host.known_hosts = {"~/.ssh/known_hosts", "~/.ssh/known_hosts2"};
    PIPER_TRY(expandAll("UserKnownHostsFile", host.known_hosts, host, files));
    if (host.global_known_hosts.empty())
        host.global_known_hosts = {"/etc/ssh/ssh_known_hosts", "/etc/ssh/ssh_known_hosts2"};
    PIPER_ASSIGN(host.identity_agent,
                 expandTokens("IdentityAgent", host.identity_agent, host, files));
    PIPER_TRY(expandAll("ProxyJump", host.jumps, host, files));
    return std::move(host);
}

Status appendRoute(const SshConfigFiles& files, std::string_view name,
                   std::vector<SshHostConfig>& route, std::size_t depth) {
    if (depth > kMostHops)
        return fail(ErrorCode::RuleBroken,
                    "ProxyJump of '{}' leads over more than {} hosts: the jumps form a loop", name,
                    kMostHops);
    PIPER_ASSIGN(const HopName hop, readHop(name));
    PIPER_ASSIGN(SshHostConfig host, resolveHop(files, hop));
    // As in OpenSSH, only the first jump follows a ProxyJump of its own.
    if (!host.jumps.empty()) {
        PIPER_TRY(appendRoute(files, host.jumps.front(), route, depth + 1));
        for (std::size_t i = 1; i < host.jumps.size(); ++i) {
            PIPER_ASSIGN(const HopName next, readHop(host.jumps[i]));
            PIPER_ASSIGN(SshHostConfig config, resolveHop(files, next));
            route.push_back(std::move(config));
        }
    }
    route.push_back(std::move(host));
    return {};
}

}  // namespace

std::string SshHostConfig::knownHostsName() const {
    const std::string& name = host_key_alias.empty() ? host_name : host_key_alias;
    return port == 22 || !host_key_alias.empty() ? name : fmt::format("[{}]:{}", name, port);
}

std::string SshHostConfig::address() const {
    return fmt::format("{}@{}:{}", user, host_name, port);
}

SshConfigFiles SshConfigFiles::ofThisUser() {
    SshConfigFiles files;
    const char* home = std::getenv("HOME");
    const passwd* entry = ::getpwuid(::getuid());
    files.home = home != nullptr ? home : entry != nullptr ? entry->pw_dir : "/";
    files.local_user = entry != nullptr ? entry->pw_name : "";
    files.files = {files.home / ".ssh" / "config", "/etc/ssh/ssh_config"};
    files.must_be_private = true;
    return files;
}

Status checkSshHost(std::string_view text) {
    const Result<HopName> hop = readHop(text);
    return hop.ok() ? Status() : Status(hop.error());
}

bool matchesSshPatterns(std::string_view text, const std::vector<std::string>& patterns) {
    bool matched = false;
    for (const std::string& pattern : patterns) {
        if (pattern.starts_with('!')) {
            if (matchesGlob(text, std::string_view(pattern).substr(1))) return false;
        } else if (matchesGlob(text, pattern)) {
            matched = true;
        }
    }
    return matched;
}

Result<SshHostConfig> resolveSshHost(const SshConfigFiles& files, std::string_view alias) {
    return resolveHop(files, {"", std::string(alias), 0});
}

Result<std::vector<SshHostConfig>> resolveSshRoute(const SshConfigFiles& files,
                                                   std::string_view alias) {
    std::vector<SshHostConfig> route;
    PIPER_TRY(appendRoute(files, alias, route, 0));
    return route;
}

}  // namespace piper
