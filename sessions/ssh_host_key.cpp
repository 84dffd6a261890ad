// SPDX-License-Identifier: Apache-2.0
#include "sessions/ssh_host_key.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <utility>
#include <vector>

#include "sessions/display_text.h"
#include "sessions/ssh_handles.h"

namespace piper {

std::string sshFingerprint(ssh_key key) {
    unsigned char* hash = nullptr;
    std::size_t length = 0;
    if (ssh_get_publickey_hash(key, SSH_PUBLICKEY_HASH_SHA256, &hash, &length) != 0) return {};
    char* text = ssh_get_fingerprint_hash(SSH_PUBLICKEY_HASH_SHA256, hash, length);
    std::string out = text != nullptr ? text : "";
    ssh_string_free_char(text);
    ssh_clean_pubkey_hash(&hash);
    return out;
}

std::string sshErrorText(ssh_session session) {
    return displayLine(ssh_get_error(session));
}

namespace {

/// Types of keys, best first, and the signatures asked for.
constexpr std::pair<std::string_view, std::string_view> kHostKeyAlgorithms[] = {
    {"ssh-ed25519", "ssh-ed25519"},
    {"ecdsa-sha2-nistp256", "ecdsa-sha2-nistp256"},
    {"ecdsa-sha2-nistp384", "ecdsa-sha2-nistp384"},
    {"ecdsa-sha2-nistp521", "ecdsa-sha2-nistp521"},
    {"ssh-rsa", "rsa-sha2-512,rsa-sha2-256"}};

struct KnownKey {
    std::string place;  ///< "known_hosts:3"
    std::string type, fingerprint;
    bool same = false;
    bool revoked = false;
};

/// The entries of one file for this host; hashed names are understood. `key` may be null.
void collectFromFile(const std::string& path, const std::string& name, ssh_key key,
                     std::vector<KnownKey>& out) {
    std::ifstream in(path);
    std::string line;
    for (int number = 1; std::getline(in, line); ++number) {
        bool revoked = false;
        if (line.starts_with('@')) {
            // Keys of certificate authorities are not followed: their hosts count as unknown.
            if (!line.starts_with("@revoked")) continue;
            revoked = true;
            line.erase(0, std::min(line.find_first_not_of(" \t", 8), line.size()));
        }
        if (line.empty() || line.front() == '#') continue;
        ssh_knownhosts_entry* entry = nullptr;
        if (ssh_known_hosts_parse_line(name.c_str(), line.c_str(), &entry) != SSH_OK) continue;
        if (entry == nullptr) continue;
        KnownKey known;
        known.place = fmt::format("{}:{}", path, number);
        known.type = ssh_key_type_to_char(ssh_key_type(entry->publickey));
        known.fingerprint = sshFingerprint(entry->publickey);
        known.same = key != nullptr && ssh_key_cmp(key, entry->publickey, SSH_KEY_CMP_PUBLIC) == 0;
        known.revoked = revoked;
        out.push_back(std::move(known));
        ssh_knownhosts_entry_free(entry);
    }
}

/// Those of all files of this host.
std::vector<KnownKey> knownKeys(const SshHostConfig& host, ssh_key key) {
    std::vector<KnownKey> out;
    for (const auto* files : {&host.known_hosts, &host.global_known_hosts})
        for (const std::string& file : *files)
            collectFromFile(file, host.knownHostsName(), key, out);
    return out;
}

Error changedKey(const SshHostConfig& host, const HostKeyQuestion& now,
                 const std::vector<KnownKey>& known) {
    std::string before;
    for (const KnownKey& k : known)
        before += fmt::format("\n  known:   {} {} ({})", k.type, k.fingerprint, k.place);
    Error error = fail(ErrorCode::RuleBroken,
                       "the host key of {} has changed; nothing was sent to it\n"
                       "  offered: {} {}{}",
                       host.address(), now.key_type, now.fingerprint, before);
    error.hint = fmt::format(
        "somebody may be listening in, or the host was set up anew. Ask its administrator for the "
        "new fingerprint; only if it is the offered one: ssh-keygen -f {} -R '{}'",
        host.known_hosts.front(), now.name);
    return error;
}

/// Adds a line in OpenSSH's format.
Status remember(const SshHostConfig& host, const HostKeyQuestion& now, ssh_key key) {
    const std::filesystem::path path = host.known_hosts.front();
    std::error_code error;
    if (!std::filesystem::exists(path.parent_path(), error)) {
        std::filesystem::create_directories(path.parent_path(), error);
        ::chmod(path.parent_path().c_str(), 0700);
    }
    char* base64 = nullptr;
    if (ssh_pki_export_pubkey_base64(key, &base64) != SSH_OK)
        return fail(ErrorCode::External, "the host key of {} cannot be written down",
                    host.address());
    const std::string line = fmt::format("{} {} {}\n", now.name, now.key_type, base64);
    ssh_string_free_char(base64);
    const int fd = ::open(path.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
    const bool written =
        fd >= 0 && ::write(fd, line.data(), line.size()) == static_cast<ssize_t>(line.size());
    const int reason = errno;
    if (fd >= 0) ::close(fd);
    if (written) return {};
    Error e = fail(ErrorCode::Io, "the accepted host key of {} cannot be written: {}",
                   host.address(), std::strerror(reason));
    e.where = host.known_hosts.front();
    return e;
}

}  // namespace

std::string preferredHostKeys(const SshHostConfig& host) {
    if (!host.host_key_algorithms.empty()) return host.host_key_algorithms;
    std::string first, rest;
    const std::vector<KnownKey> known = knownKeys(host, nullptr);
    for (const auto& [type, algorithms] : kHostKeyAlgorithms) {
        const bool is_known = std::any_of(known.begin(), known.end(), [&](const KnownKey& k) {
            return !k.revoked && k.type == type;
        });
        std::string& list = is_known ? first : rest;
        list += (list.empty() ? "" : ",") + std::string(algorithms);
    }
    return first.empty() || rest.empty() ? first + rest : first + "," + rest;
}

Status verifyHostKey(ssh_session session, const SshHostConfig& host, SshPrompter* prompter) {
    ssh_key raw = nullptr;
    if (ssh_get_server_publickey(session, &raw) != SSH_OK)
        return fail(ErrorCode::External, "{} showed no host key: {}", host.address(),
                    sshErrorText(session));
    const SshKey key(raw);
    HostKeyQuestion now;
    now.hop = host.address();
    now.name = host.knownHostsName();
    now.key_type = ssh_key_type_to_char(ssh_key_type(raw));
    now.fingerprint = sshFingerprint(raw);
    const std::vector<KnownKey> known = knownKeys(host, raw);
    bool same = false;
    for (const KnownKey& k : known) {
        if (k.revoked && k.same)
            return fail(ErrorCode::RuleBroken, "the host key {} of {} is marked @revoked in {}",
                        k.fingerprint, host.address(), k.place);
        same |= k.same && !k.revoked;
    }
    if (same) return {};
    if (!known.empty()) return changedKey(host, now, known);
    if (prompter != nullptr && host.unknown_hosts_ask && !host.batch_mode &&
        prompter->acceptHostKey(now))
        return remember(host, now, raw);
    Error error = fail(ErrorCode::RuleBroken, "the host key of {} is not known: {} {}",
                       host.address(), now.key_type, now.fingerprint);
    error.where = host.known_hosts.front();
    error.hint =
        "compare the fingerprint with the one its administrator gives; then accept it, or "
        "write the key to that file (ssh-keyscan)";
    return error;
}

}  // namespace piper
