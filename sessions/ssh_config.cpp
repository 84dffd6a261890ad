// SPDX-License-Identifier: Apache-2.0
#include "sessions/ssh_config.h"

#include <pwd.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>

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

std::string expandTokens(std::string_view text, const SshHostConfig& host,
                         const SshConfigFiles& files) {
    std::string out;
    if (text == "~" || text.starts_with("~/")) {
        out = files.home.string();
        text.remove_prefix(1);
    }
    for (std::size_t i = 0; i < text.size(); ++i) {
        if (text[i] != '%' || i + 1 == text.size()) {
            out += text[i];
            continue;
        }
        switch (text[++i]) {
            case 'd':
                out += files.home.string();
                break;
            case 'h':
                out += host.host_name;
                break;
            case 'n':
                out += host.alias;
                break;
            case 'p':
                out += std::to_string(host.port);
                break;
            case 'r':
                out += host.user;
                break;
            case 'u':
                out += files.local_user;
                break;
            case '%':
                out += '%';
                break;
            default:
                out += '%', out += text[i];
        }
    }
    return out;
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
    if (hop.host.empty() || hop.host.front() == '-')
        return fail(ErrorCode::InvalidInput, "'{}' names no host; write [user@]host[:port]", given);
    return hop;
}

Status appendRoute(const SshConfigFiles& files, std::string_view name,
                   std::vector<SshHostConfig>& route, std::size_t depth) {
    if (depth > kMostHops)
        return fail(ErrorCode::RuleBroken,
                    "ProxyJump of '{}' leads over more than {} hosts: the jumps form a loop", name,
                    kMostHops);
    PIPER_ASSIGN(const HopName hop, readHop(name));
    PIPER_ASSIGN(SshHostConfig host, resolveSshHost(files, hop.host));
    if (!hop.user.empty()) host.user = hop.user;
    if (hop.port != 0) host.port = hop.port;
    // As in OpenSSH, only the first jump follows a ProxyJump of its own.
    if (!host.jumps.empty()) {
        PIPER_TRY(appendRoute(files, host.jumps.front(), route, depth + 1));
        for (std::size_t i = 1; i < host.jumps.size(); ++i) {
            PIPER_ASSIGN(const HopName next, readHop(host.jumps[i]));
            PIPER_ASSIGN(SshHostConfig config, resolveSshHost(files, next.host));
            if (!next.user.empty()) config.user = next.user;
            if (next.port != 0) config.port = next.port;
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
    return files;
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
    PIPER_ASSIGN(SshConfigValues values, readSshConfig(files, alias));
    SshHostConfig& host = values.host;
    if (host.host_name.empty()) host.host_name = alias;
    if (host.user.empty()) host.user = files.local_user;
    // %h of HostName is the name typed, elsewhere it is the resolved one.
    SshHostConfig typed;
    typed.host_name = alias;
    host.host_name = expandTokens(host.host_name, typed, files);
    for (std::string& file : host.identity_files) file = expandTokens(file, host, files);
    if (host.identity_files.empty()) addUsualIdentities(host, files);
    if (host.known_hosts.empty()) host.known_hosts = "~/.ssh/known_hosts";
    host.known_hosts = expandTokens(host.known_hosts, host, files);
    if (host.global_known_hosts.empty()) host.global_known_hosts = "/etc/ssh/ssh_known_hosts";
    host.identity_agent = expandTokens(host.identity_agent, host, files);
    return std::move(host);
}

Result<std::vector<SshHostConfig>> resolveSshRoute(const SshConfigFiles& files,
                                                   std::string_view alias) {
    std::vector<SshHostConfig> route;
    PIPER_TRY(appendRoute(files, alias, route, 0));
    return route;
}

}  // namespace piper
