// SPDX-License-Identifier: Apache-2.0
#include "sessions/ssh_connection.h"

#include <sys/socket.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <utility>

#include "sessions/display_text.h"
#include "sessions/shell_quote.h"
#include "sessions/ssh_exec.h"
#include "sessions/ssh_link.h"
#include "sessions/ssh_sftp.h"
#include "sessions/ssh_transfer.h"

namespace piper {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kMostRepeats = 5;  ///< of a reading that a lost connection interrupts

/// Sleeps; false when stopped.
bool pauseFor(std::chrono::milliseconds time, const std::stop_token& stop) {
    std::mutex mutex;
    std::unique_lock lock(mutex);
    std::condition_variable_any wake;
    wake.wait_for(lock, stop, time, [] { return false; });
    return !stop.stop_requested();
}

class SshCommand final : public RunningCommand {
public:
    explicit SshCommand(std::unique_ptr<SshExec> exec) : m_exec(std::move(exec)) {}

    Result<std::string> read() override {
        std::string text;
        PIPER_TRY(step(text));
        return text;
    }

    Result<std::optional<int>> poll() override {
        if (!m_ended) PIPER_TRY(step(m_unread));
        return m_ended ? m_exec->exitStatus() : std::nullopt;
    }

    Status cancel(int grace_ms) override {
        if (m_ended) return {};
        PIPER_TRY(m_exec->end(grace_ms));
        while (!m_ended) PIPER_TRY(step(m_unread, 100));
        return {};
    }

private:
    Status step(std::string& text, int timeout_ms = 0) {
        text.append(std::exchange(m_unread, {}));
        if (m_ended) return {};
        std::string more;
        PIPER_ASSIGN(const bool going, m_exec->pump(more, more, timeout_ms));
        text += more;
        m_ended = !going;
        if (m_ended && !m_exec->began()) return m_exec->neverBegan();
        return {};
    }

    std::unique_ptr<SshExec> m_exec;
    std::string m_unread;
    bool m_ended = false;
};

class SshConnection final : public Connection {
public:
    explicit SshConnection(SshOptions options) : m_options(std::move(options)) {}

    Status open(const std::stop_token& stop) {
        PIPER_ASSIGN(m_link, SshLink::open(m_options.route, m_options.prompter.get(), stop));
        return {};
    }

    std::string_view label() const override { return m_options.label; }
    bool isLocal() const override { return false; }

    Result<CommandResult> run(const std::vector<std::string>& argv, std::stop_token stop) override {
        return script("exec " + shellCommand(argv) + " < /dev/null\n", {}, stop);
    }

    Result<std::unique_ptr<RunningCommand>> start(const std::vector<std::string>& argv,
                                                  const std::string& directory) override {
        std::string text;
        if (!directory.empty()) text = "cd -- " + shellQuote(directory) + " || exit 126\n";
        text += "exec " + shellCommand(argv) + " < /dev/null\n";
        std::unique_ptr<SshExec> exec;
        PIPER_TRY(begun(
            [&](const std::shared_ptr<SshLink>& link) -> Status {
                PIPER_ASSIGN(exec, SshExec::start(link, text));
                return {};
            },
            {}));
        return std::unique_ptr<RunningCommand>(std::make_unique<SshCommand>(std::move(exec)));
    }

    Result<std::string> readFile(const std::string& path, std::int64_t limit_bytes,
                                 std::int64_t offset_bytes) override {
        return reading<std::string>([&](Sftp& sftp) -> Result<std::string> {
            std::string text;
            const auto sink = [&](std::string_view bytes) {
                text += bytes;
                return Status();
            };
            PIPER_TRY(sftp.read(path, offset_bytes, offset_bytes + limit_bytes, sink));
            return text;
        });
    }

    Result<std::vector<RemoteFile>> list(const std::string& path) override {
        return reading<std::vector<RemoteFile>>([&](Sftp& sftp) { return sftp.list(path); });
    }

    Status writeFile(const std::string& path, std::string_view content, bool executable) override {
        return done(script(writeScript(path, static_cast<std::int64_t>(content.size()), executable),
                           content, {}),
                    "write", path);
    }

    Status makeDirectory(const std::string& path) override {
        const std::string p = shellQuote(path);
        return done(script("umask 077; mkdir -p -- " + p + " && chmod 700 -- " + p + "\n", {}, {}),
                    "make the directory", path);
    }

    Status fetch(const std::string& remote, const std::filesystem::path& local,
                 const TransferProgress& progress, std::stop_token stop) override {
        return repeated(
            [&](const std::shared_ptr<SshLink>& link) {
                return fetchFile(link, remote, local, progress, stop);
            },
            stop);
    }

    Status send(const std::filesystem::path& local, const std::string& remote, bool executable,
                const TransferProgress& progress, std::stop_token stop) override {
        return repeated(
            [&](const std::shared_ptr<SshLink>& link) {
                return sendFile(link, local, remote, executable, progress, stop);
            },
            stop);
    }

private:
    /// The living connection, opened anew when it was lost.
    Result<std::shared_ptr<SshLink>> link(const std::stop_token& stop = {}) {
        const std::lock_guard held(m_opening);
        if (isAlive()) return m_link;
        m_sftp.reset();
        m_link.reset();
        const auto deadline = Clock::now() + std::chrono::seconds(m_options.reconnect_seconds);
        for (std::chrono::milliseconds pause(250);; pause = std::min(pause * 2, kLongestPause)) {
            Result<std::shared_ptr<SshLink>> opened =
                SshLink::open(m_options.route, m_options.prompter.get(), stop);
            if (opened.ok()) return m_link = *opened;
            // Only what may pass by itself is tried again: never a key or a password refused.
            const bool may_pass = opened.error().context == SshLink::kConnecting;
            if (!may_pass || Clock::now() + pause > deadline) return opened;
            if (!pauseFor(pause, stop)) return fail(ErrorCode::Cancelled, "reconnecting stopped");
        }
    }

    [[nodiscard]] bool isAlive() const {
        if (m_link == nullptr) return false;
        const SshLink::Lock held = m_link->lock();
        char byte = 0;  // an end that libssh has not seen yet
        const int fd = ssh_get_fd(m_link->session());
        return m_link->alive() && ::recv(fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) != 0;
    }

    static bool isAlive(const SshLink& link, SshLink::Lock) { return link.alive(); }

    Result<CommandResult> script(std::string_view text, std::string_view input,
                                 const std::stop_token& stop) {
        Result<CommandResult> result = CommandResult{};
        PIPER_TRY(begun(
            [&](const std::shared_ptr<SshLink>& link) -> Status {
                result = runScript(link, text, input, stop);
                return result.ok() ? Status() : Status(result.error());
            },
            stop));
        return result;
    }

    /// Once more when the connection turned out to be lost before anything had run.
    Status begun(const std::function<Status(const std::shared_ptr<SshLink>&)>& exchange,
                 const std::stop_token& stop) {
        for (int i = 0;; ++i) {
            PIPER_ASSIGN(const auto link, this->link(stop));
            Status status = exchange(link);
            if (status.ok() || i == kMostRepeats || status.error().context != SshExec::kOpening)
                return status;
        }
    }

    /// Repeats a harmless exchange when the connection is lost meanwhile.
    Status repeated(const std::function<Status(const std::shared_ptr<SshLink>&)>& exchange,
                    const std::stop_token& stop) {
        for (int i = 0;; ++i) {
            PIPER_ASSIGN(const auto link, this->link(stop));
            Status status = exchange(link);
            if (status.ok() || i == kMostRepeats || isAlive(*link, link->lock())) return status;
        }
    }

    template <class T>
    Result<T> reading(const std::function<Result<T>(Sftp&)>& read) {
        const std::lock_guard held(m_reading);
        Result<T> result = fail(ErrorCode::External, "nothing was read");
        PIPER_TRY(repeated(
            [&](const std::shared_ptr<SshLink>& link) -> Status {
                if (m_sftp == nullptr || m_sftp->link() != link) {
                    PIPER_ASSIGN(m_sftp, Sftp::open(link));
                }
                result = read(*m_sftp);
                return result.ok() ? Status() : Status(result.error());
            },
            {}));
        return result;
    }

    Status done(const Result<CommandResult>& r, std::string_view what,
                const std::string& path) const {
        return scriptStatus(r, what, m_options.label + ":" + path);
    }

    static constexpr std::chrono::milliseconds kLongestPause{4000};

    SshOptions m_options;
    std::mutex m_opening, m_reading;
    std::shared_ptr<SshLink> m_link;
    std::unique_ptr<Sftp> m_sftp;  ///< of small readings
};

}  // namespace

Result<std::unique_ptr<Connection>> openSshConnection(SshOptions options, std::stop_token stop) {
    auto connection = std::make_unique<SshConnection>(std::move(options));
    PIPER_TRY(connection->open(stop));
    return std::unique_ptr<Connection>(std::move(connection));
}

}  // namespace piper
