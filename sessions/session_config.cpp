// SPDX-License-Identifier: Apache-2.0
#include "sessions/session_config.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <tuple>

#include "core/base/json.h"
#include "core/base/read_all.h"
#include "sessions/display_text.h"
#include "sessions/launchers.h"
#include "sessions/ssh_config.h"

namespace piper {
namespace {

constexpr int kFormatVersion = 1;
constexpr std::string_view kLocal = "local";

bool isName(std::string_view text) {
    constexpr std::string_view allowed =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";
    return !text.empty() && text.size() <= 64 && text.front() != '-' && text.front() != '.' &&
           text.find_first_not_of(allowed) == std::string_view::npos;
}

std::vector<std::string> strings(ObjectReader& in, std::string_view key) {
    std::vector<std::string> out;
    const Json& list = in.child(key);
    if (list.is_null()) return out;
    for (const Json& item : list) {
        if (item.is_string())
            out.push_back(item.get<std::string>());
        else
            in.note(fail(ErrorCode::InvalidInput, "must hold texts only").at(in.path(key)));
    }
    return out;
}

Result<SessionConfig> readSession(const Json& json, std::string where) {
    ObjectReader in(json, std::move(where));
    SessionConfig s;
    s.name = in.string("name");
    s.host = in.string("host");
    s.ssh_config = in.string("ssh_config", "");
    s.directory = in.string("directory", "");
    s.worker = in.string("worker", "");
    s.launcher = in.string("launcher", "mpirun");
    s.launch.hosts = strings(in, "hosts");
    s.launch.network_interface = in.string("network_interface", "");
    s.launch.account = in.string("account", "");
    s.launch.partition = in.string("partition", "");
    s.launch.time_limit = in.string("time_limit", "");
    s.launch.allocation = in.string("allocation", "");
    s.launch.extra_lines = strings(in, "extra_lines");
    PIPER_TRY(in.finish());
    return s;
}

/// Options that the session's launcher would not read.
Status checkUsed(const SessionConfig& s) {
    const std::tuple<const char*, bool, std::string_view> options[] = {
        {"hosts", !s.launch.hosts.empty(), "mpirun"},
        {"allocation", !s.launch.allocation.empty(), "srun"},
        {"account", !s.launch.account.empty(), "srun and sbatch"},
        {"partition", !s.launch.partition.empty(), "srun and sbatch"},
        {"time limit", !s.launch.time_limit.empty(), "srun and sbatch"}};
    for (const auto& [what, given, launchers] : options)
        if (given && launchers.find(s.launcher) == std::string_view::npos)
            return fail(ErrorCode::InvalidInput,
                        "{} of session '{}' is for {}, and its launcher is {}", what, s.name,
                        launchers, s.launcher);
    return {};
}

Status checkSession(const SessionConfig& s) {
    if (!isName(s.name))
        return fail(ErrorCode::InvalidInput,
                    "'{}' is no name of a session: 1 to 64 letters, digits, '.', '_' and '-'",
                    displayLine(s.name, 120));
    if (s.host.empty())
        return fail(ErrorCode::InvalidInput, "session '{}' needs a host: [USER@]HOST[:PORT]",
                    s.name);
    PIPER_TRY(checkSshHost(s.host));
    std::error_code none;
    if (!s.ssh_config.empty() &&
        (!s.ssh_config.starts_with('/') || !std::filesystem::exists(s.ssh_config, none)))
        return fail(ErrorCode::NotFound,
                    "configuration '{}' of session '{}' is not there, or its path does not begin "
                    "with /",
                    displayLine(s.ssh_config), s.name);
    if (!s.directory.empty() && !s.directory.starts_with('/') && !s.directory.starts_with("~/"))
        return fail(ErrorCode::InvalidInput,
                    "directory '{}' of session '{}' must begin with / or ~/",
                    displayLine(s.directory), s.name);
    if (!s.worker.empty() && !s.worker.starts_with('/'))
        return fail(ErrorCode::InvalidInput,
                    "worker '{}' of session '{}' is a path on its host and must begin with /",
                    displayLine(s.worker), s.name);
    PIPER_TRY(checkLauncher(s.launcher, s.launch));
    return checkUsed(s);
}

}  // namespace

Json sessionJson(const SessionConfig& s) {
    Json out = {{"name", s.name}, {"host", s.host}, {"launcher", s.launcher}};
    const auto put = [&](const char* key, const std::string& value) {
        if (!value.empty()) out[key] = value;
    };
    put("ssh_config", s.ssh_config);
    put("directory", s.directory);
    put("worker", s.worker);
    put("network_interface", s.launch.network_interface);
    put("account", s.launch.account);
    put("partition", s.launch.partition);
    put("time_limit", s.launch.time_limit);
    put("allocation", s.launch.allocation);
    if (!s.launch.hosts.empty()) out["hosts"] = s.launch.hosts;
    if (!s.launch.extra_lines.empty()) out["extra_lines"] = s.launch.extra_lines;
    return out;
}

std::filesystem::path sessionsFile() {
    if (const char* given = std::getenv("PIPER_SESSIONS"); given != nullptr && *given != '\0')
        return given;
    if (const char* config = std::getenv("XDG_CONFIG_HOME"); config != nullptr && *config != '\0')
        return std::filesystem::path(config) / "piper-workbench" / "sessions.json";
    const char* home = std::getenv("HOME");
    return std::filesystem::path(home != nullptr ? home : "/tmp") / ".config" / "piper-workbench" /
           "sessions.json";
}

Result<std::vector<SessionConfig>> SessionStore::list() const {
    std::vector<SessionConfig> sessions(1);
    sessions.front().name = kLocal;
    std::ifstream in(m_file, std::ios::binary);
    if (!in) return sessions;
    const std::optional<std::string> text = readAll(in);
    if (!text) return fail(ErrorCode::Io, "reading broke off").at(m_file.string());
    PIPER_ASSIGN(const Json document, parseJson(*text, m_file.string()));
    ObjectReader reader(document, m_file.string());
    PIPER_TRY(checkFormatVersion(reader, kFormatVersion));
    const Json& list = reader.child("sessions");
    PIPER_TRY(reader.finish());
    for (std::size_t i = 0; i < list.size(); ++i) {
        PIPER_ASSIGN(SessionConfig session,
                     readSession(list[i], fmt::format("{}: sessions[{}]", m_file.string(), i)));
        sessions.push_back(std::move(session));
    }
    return sessions;
}

Result<SessionConfig> SessionStore::find(std::string_view name) const {
    PIPER_ASSIGN(const std::vector<SessionConfig> sessions, list());
    std::string known;
    for (const SessionConfig& session : sessions) {
        if (session.name == name) return session;
        known += (known.empty() ? "" : ", ") + session.name;
    }
    Error error = fail(ErrorCode::NotFound, "no session named '{}'; known: {}", name, known);
    error.hint = fmt::format("add it: piperctl session add {} --host [USER@]HOST", name);
    return error;
}

Status SessionStore::add(const SessionConfig& session) const {
    PIPER_TRY(checkSession(session));
    PIPER_ASSIGN(std::vector<SessionConfig> sessions, list());
    for (const SessionConfig& other : sessions)
        if (other.name == session.name) {
            Error error =
                fail(ErrorCode::InvalidInput, "there is a session named '{}' already", other.name);
            if (other.name != kLocal) error.hint = "piperctl session forget " + other.name;
            return error;
        }
    sessions.push_back(session);
    return write(sessions);
}

Status SessionStore::forget(std::string_view name) const {
    if (name == kLocal)
        return fail(ErrorCode::InvalidInput, "'local' is this machine and cannot be forgotten");
    PIPER_TRY(find(name));
    PIPER_ASSIGN(std::vector<SessionConfig> sessions, list());
    std::erase_if(sessions, [&](const SessionConfig& s) { return s.name == name; });
    return write(sessions);
}

Status SessionStore::write(const std::vector<SessionConfig>& sessions) const {
    Json document = {{"format_version", kFormatVersion}, {"sessions", Json::array()}};
    for (const SessionConfig& session : sessions)
        if (!session.isLocal()) document["sessions"].push_back(sessionJson(session));
    std::error_code error;
    std::filesystem::create_directories(m_file.parent_path(), error);
    const std::string part = m_file.string() + ".part";
    const std::string text = document.dump(2) + "\n";
    const int fd = ::open(part.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    const bool written =
        fd >= 0 && ::write(fd, text.data(), text.size()) == static_cast<ssize_t>(text.size());
    int reason = errno;
    if (fd >= 0) ::close(fd);
    if (written && ::rename(part.c_str(), m_file.c_str()) == 0) return {};
    if (written) reason = errno;
    ::unlink(part.c_str());
    Error e = fail(ErrorCode::Io, "cannot write the sessions: {}", std::strerror(reason));
    e.where = m_file.string();
    return e;
}

}  // namespace piper
