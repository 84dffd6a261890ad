// SPDX-License-Identifier: Apache-2.0
#include "sessions/ssh_exec.h"

#include <algorithm>
#include <array>
#include <csignal>
#include <cstring>
#include <map>

#include "sessions/display_text.h"

namespace piper {
namespace {

constexpr std::size_t kOutputKept = 16U << 20;   ///< bytes of a command's output that are kept
constexpr std::size_t kOutputBound = 64U << 20;  ///< more than this ends the command
constexpr std::size_t kPiece = 32768;

int signalNumber(const char* name) {
    static const std::map<std::string, int> numbers = {
        {"ABRT", SIGABRT}, {"ALRM", SIGALRM}, {"FPE", SIGFPE},   {"HUP", SIGHUP},
        {"ILL", SIGILL},   {"INT", SIGINT},   {"KILL", SIGKILL}, {"PIPE", SIGPIPE},
        {"QUIT", SIGQUIT}, {"SEGV", SIGSEGV}, {"TERM", SIGTERM}, {"BUS", SIGBUS}};
    const auto found = numbers.find(name != nullptr ? name : "");
    return found == numbers.end() ? 127 : found->second;
}

void onExitStatus(ssh_session, ssh_channel, int status, void* exit) {
    *static_cast<std::optional<int>*>(exit) = status;
}

void onExitSignal(ssh_session, ssh_channel, const char* signal, int, const char*, const char*,
                  void* exit) {
    *static_cast<std::optional<int>*>(exit) = 128 + signalNumber(signal);
}

void cut(std::string& text, bool& truncated) {
    if (text.size() <= kOutputKept) return;
    text.resize(kOutputKept);
    truncated = true;
}

}  // namespace

SshExec::SshExec(std::shared_ptr<SshLink> link, const std::string& marker)
    : m_link(std::move(link)), m_output(marker), m_error(marker) {
    m_callbacks.size = sizeof m_callbacks;
    m_callbacks.userdata = &m_exit;
    m_callbacks.channel_exit_status_function = onExitStatus;
    m_callbacks.channel_exit_signal_function = onExitSignal;
}

Result<std::unique_ptr<SshExec>> SshExec::start(std::shared_ptr<SshLink> link,
                                                std::string_view script) {
    const RemoteScript wrapped = wrapScript(script);
    std::unique_ptr<SshExec> exec(new SshExec(link, wrapped.marker));
    const SshLink::Lock held = link->lock();
    if (!link->alive()) return link->lost().withContext(kOpening);
    exec->m_channel.reset(ssh_channel_new(link->session()));
    ssh_channel channel = exec->m_channel.get();
    if (channel == nullptr || ssh_channel_open_session(channel) != SSH_OK) {
        if (!link->alive()) return link->lost().withContext(kOpening);
        return fail(ErrorCode::External, "{} opens no further channel: {}",
                    link->target().address(), sshErrorText(link->session()));
    }
    ssh_set_channel_callbacks(channel, &exec->m_callbacks);
    if (ssh_channel_request_exec(channel, wrapped.command.c_str()) != SSH_OK) {
        if (!link->alive()) return link->lost();
        return fail(ErrorCode::External, "{} runs no commands: {}", link->target().address(),
                    sshErrorText(link->session()));
    }
    return exec;
}

SshExec::~SshExec() {
    const SshLink::Lock held = m_link->lock();
    m_channel.reset();
}

/// False when the host has closed the stream and all of it is read.
Result<bool> SshExec::readStream(bool error, MarkerFilter& filter, std::string& into) {
    std::array<char, kPiece> buffer;
    for (int i = 0; i < 64; ++i) {
        const int n = ssh_channel_read_nonblocking(m_channel.get(), buffer.data(), buffer.size(),
                                                   error ? 1 : 0);
        if (n > 0) {
            PIPER_TRY(filter.feed({buffer.data(), static_cast<std::size_t>(n)}, into));
            continue;
        }
        if (n == SSH_ERROR && !m_link->alive()) return m_link->lost();
        return n >= 0 && ssh_channel_is_eof(m_channel.get()) == 0;
    }
    return true;
}

/// libssh reads no further packets of a stream that has ended: the exit status comes after it.
void SshExec::handlePackets() {
    ssh_set_blocking(m_link->session(), 0);
    (void)ssh_channel_get_exit_status(m_channel.get());
    ssh_set_blocking(m_link->session(), 1);
}

Result<bool> SshExec::pump(std::string& output, std::string& error_output, int timeout_ms) {
    SshLink::Lock held = m_link->lock();
    const std::size_t before = output.size() + error_output.size();
    PIPER_ASSIGN(const bool out, readStream(false, m_output, output));
    PIPER_ASSIGN(const bool err, readStream(true, m_error, error_output));
    if (output.size() + error_output.size() != before) return true;
    if (!out && !err && !m_exit) handlePackets();
    const bool closed = ssh_channel_is_closed(m_channel.get()) != 0;
    if (!out && !err && (m_exit || closed)) {
        if (!m_link->alive() && !m_exit) return m_link->lost();
        if (!m_exit) m_exit = 255;
        return false;
    }
    if (!m_link->alive()) return m_link->lost();
    if (timeout_ms > 0) m_link->wait(held, timeout_ms);
    return true;
}

Status SshExec::write(std::string_view bytes, const std::stop_token& stop) {
    while (!bytes.empty()) {
        if (stop.stop_requested()) return fail(ErrorCode::Cancelled, "the transfer was stopped");
        SshLink::Lock held = m_link->lock();
        if (!m_link->alive()) return m_link->lost();
        if (ssh_channel_is_closed(m_channel.get()) != 0)
            return fail(ErrorCode::External, "{} ended the command while it was being sent to",
                        m_link->target().address());
        const std::size_t room =
            std::min<std::size_t>({kPiece, bytes.size(), ssh_channel_window_size(m_channel.get())});
        if (room == 0) {
            handlePackets();  // the window opens there
            m_link->wait(held, 50);
            continue;
        }
        const int n =
            ssh_channel_write(m_channel.get(), bytes.data(), static_cast<std::uint32_t>(room));
        if (n < 0) return m_link->lost();
        bytes.remove_prefix(static_cast<std::size_t>(n));
    }
    return {};
}

Status SshExec::closeInput() {
    const SshLink::Lock held = m_link->lock();
    if (!m_link->alive()) return m_link->lost();
    ssh_channel_send_eof(m_channel.get());
    return {};
}

Status SshExec::end(int grace_ms) {
    // A command whose login shell is still at its start-up files has no process id yet.
    std::string output, error;
    for (int i = 0; i < 200 && !began(); ++i) {
        PIPER_ASSIGN(const bool going, pump(output, error, 50));
        if (!going) return {};
    }
    if (began()) return endRemoteGroup(m_link, pid(), grace_ms);
    return fail(ErrorCode::External, "a command on {} cannot be ended: it has not begun",
                m_link->target().address());
}

Error SshExec::neverBegan() const {
    std::string said = displayLine(m_output.preamble() + " " + m_error.preamble(), 200);
    Error error = fail(ErrorCode::External,
                       "the login shell of {} did not start /bin/sh (status {}); it printed '{}'",
                       m_link->target().address(), m_exit.value_or(-1), said);
    error.hint = "the account may be closed, or allowed one command only (ForceCommand)";
    return error;
}

Result<CommandResult> runScript(const std::shared_ptr<SshLink>& link, std::string_view script,
                                std::string_view input, const std::stop_token& stop) {
    PIPER_ASSIGN(const auto exec, SshExec::start(link, script));
    CommandResult result;
    if (!input.empty()) {
        const Status sent = exec->write(input, stop);
        // A command that ended early says itself why.
        if (!sent.ok() && sent.error().code == ErrorCode::Cancelled) return sent.error();
    }
    PIPER_TRY(exec->closeInput());
    std::size_t came = 0;
    for (bool going = true; going;) {
        const std::size_t before = result.output.size() + result.error_output.size();
        PIPER_ASSIGN(going, exec->pump(result.output, result.error_output, 1000));
        came += result.output.size() + result.error_output.size() - before;
        cut(result.output, result.truncated);
        cut(result.error_output, result.truncated);
        const bool endless = came > kOutputBound;
        if (!endless && !stop.stop_requested()) continue;
        PIPER_TRY(exec->end(2000));
        if (endless)
            return fail(ErrorCode::External,
                        "a command on {} was ended: it had printed more than {} bytes",
                        link->target().address(), kOutputBound);
        return fail(ErrorCode::Cancelled, "a command on {} was stopped", link->target().address());
    }
    if (!exec->began()) return exec->neverBegan();
    result.exit_status = *exec->exitStatus();
    return result;
}

Status endRemoteGroup(const std::shared_ptr<SshLink>& link, std::int64_t pid, int grace_ms) {
    // A shell of sshd leads a group of its own; if it does not, only the process is ended.
    const std::string script = fmt::format(
        "p={}; t=-$p; kill -s 0 -- -$p 2>/dev/null || t=$p\n"
        "kill -s TERM -- $t 2>/dev/null; i=0\n"
        "while kill -s 0 -- $t 2>/dev/null; do\n"
        "  [ $i -lt {} ] || kill -s KILL -- $t 2>/dev/null\n"
        "  [ $i -lt {} ] || exit 9\n"
        "  i=$((i+1)); sleep 0.05\n"
        "done\n",
        pid, grace_ms / 50, grace_ms / 50 + 100);
    PIPER_ASSIGN(const CommandResult r, runScript(link, script));
    if (r.exit_status == 0) return {};
    return fail(ErrorCode::External, "processes of group {} on {} are still there after SIGKILL",
                pid, link->target().address());
}

}  // namespace piper
