// SPDX-License-Identifier: Apache-2.0
#include "sessions/process.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <optional>
#include <thread>
#include <utility>

namespace piper {
namespace {

struct Pipe {
    int read = -1, write = -1;
};

bool openPipe(Pipe& pipe) {
    std::array<int, 2> ends{};
    if (::pipe2(ends.data(), O_CLOEXEC) != 0) return false;
    pipe = {ends[0], ends[1]};
    return true;
}

void closeFd(int& fd) {
    if (fd >= 0) ::close(fd);
    fd = -1;
}

/// In the child, between fork and exec: async-signal-safe calls only. Reports errno through
/// `fault`.
[[noreturn]] void becomeProgram(char* const* argv, const char* directory, const Pipe& out,
                                const Pipe& err, int fault) {
    ::setpgid(0, 0);
    const int null = ::open("/dev/null", O_RDONLY);
    ::dup2(null, STDIN_FILENO);
    ::dup2(out.write, STDOUT_FILENO);
    ::dup2(err.write, STDERR_FILENO);
    ::signal(SIGPIPE, SIG_DFL);
    ::signal(SIGINT, SIG_DFL);
    if (*directory == '\0' || ::chdir(directory) == 0) ::execvp(argv[0], argv);
    const int code = errno;
    (void)!::write(fault, &code, sizeof code);
    ::_exit(127);
}

/// Appends what is there; closes the descriptor at its end.
void drain(int& fd, std::string& into) {
    std::array<char, 16384> buffer;
    while (fd >= 0) {
        const ssize_t n = ::read(fd, buffer.data(), buffer.size());
        if (n > 0) {
            into.append(buffer.data(), static_cast<std::size_t>(n));
            continue;
        }
        if (n < 0 && errno == EINTR) continue;
        if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return;
        closeFd(fd);
    }
}

}  // namespace

Result<ChildProcess> ChildProcess::start(const std::vector<std::string>& argv,
                                         const std::string& directory) {
    PIPER_CHECK(!argv.empty());
    std::vector<char*> words;
    for (const std::string& word : argv) words.push_back(const_cast<char*>(word.c_str()));
    words.push_back(nullptr);

    Pipe out, err, fault;
    if (!openPipe(out) || !openPipe(err) || !openPipe(fault))
        return fail(ErrorCode::External, "cannot open a pipe: {}", std::strerror(errno));
    const pid_t pid = ::fork();
    if (pid == 0) becomeProgram(words.data(), directory.c_str(), out, err, fault.write);
    closeFd(out.write);
    closeFd(err.write);
    closeFd(fault.write);

    int code = pid < 0 ? errno : 0;
    if (pid >= 0 && ::read(fault.read, &code, sizeof code) == 0) code = 0;
    closeFd(fault.read);
    ChildProcess child;
    child.m_pid = pid;
    child.m_output = out.read;
    child.m_error = err.read;
    if (code != 0) {
        if (pid > 0) ::waitpid(pid, nullptr, 0);
        Error error =
            fail(ErrorCode::External, "cannot start '{}': {}", argv[0], std::strerror(code));
        error.where = directory;
        return error;
    }
    ::setpgid(pid, pid);
    ::fcntl(child.m_output, F_SETFL, O_NONBLOCK);
    ::fcntl(child.m_error, F_SETFL, O_NONBLOCK);
    return child;
}

ChildProcess::ChildProcess(ChildProcess&& other) noexcept {
    *this = std::move(other);
}

ChildProcess& ChildProcess::operator=(ChildProcess&& other) noexcept {
    if (this == &other) return *this;
    closeStreams();
    m_pid = std::exchange(other.m_pid, -1);
    m_output = std::exchange(other.m_output, -1);
    m_error = std::exchange(other.m_error, -1);
    m_exit = std::exchange(other.m_exit, std::nullopt);
    return *this;
}

ChildProcess::~ChildProcess() {
    closeStreams();
}

void ChildProcess::closeStreams() {
    closeFd(m_output);
    closeFd(m_error);
}

bool ChildProcess::readAvailable(std::string& output, std::string& error_output) {
    drain(m_output, output);
    drain(m_error, error_output);
    return m_output >= 0 || m_error >= 0;
}

void ChildProcess::waitReadable(int timeout_ms) const {
    std::array<pollfd, 2> fds{pollfd{m_output, POLLIN, 0}, pollfd{m_error, POLLIN, 0}};
    ::poll(fds.data(), fds.size(), timeout_ms);
}

std::optional<int> ChildProcess::poll() {
    if (m_exit || m_pid <= 0) return m_exit;
    int status = 0;
    const pid_t ended = ::waitpid(m_pid, &status, WNOHANG);
    if (ended == m_pid)
        m_exit = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    else if (ended < 0)
        m_exit = 255;
    return m_exit;
}

Status ChildProcess::cancel(int grace_ms) {
    using Clock = std::chrono::steady_clock;
    if (poll()) return {};
    ::kill(-m_pid, SIGTERM);
    const auto deadline = Clock::now() + std::chrono::milliseconds(grace_ms);
    while (!poll() && Clock::now() < deadline)
        std::this_thread::sleep_for(std::chrono::milliseconds(10));
    if (!poll()) {
        ::kill(-m_pid, SIGKILL);
        int status = 0;
        ::waitpid(m_pid, &status, 0);
        m_exit = 128 + SIGKILL;
    }
    // Its children may take a moment longer; whoever ignored SIGTERM gets the other one.
    const auto last = Clock::now() + std::chrono::milliseconds(grace_ms);
    while (::kill(-m_pid, 0) == 0 && Clock::now() < last)
        std::this_thread::sleep_for(std::chrono::milliseconds(5));
    ::kill(-m_pid, SIGKILL);
    return {};
}

}  // namespace piper
