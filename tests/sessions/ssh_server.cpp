// SPDX-License-Identifier: Apache-2.0
#include "tests/sessions/ssh_server.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <pwd.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <fstream>
#include <thread>

#include "sessions/local_connection.h"
#include "tests/sessions/loopback.h"

namespace piper::test {
namespace {

constexpr const char* kServer = "/usr/sbin/sshd";

bool answers(int port) {
    const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const sockaddr_in address = loopback(port);
    const bool ok = ::connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
    ::close(fd);
    return ok;
}

std::string userName() {
    const passwd* entry = ::getpwuid(::getuid());
    return entry != nullptr ? entry->pw_name : "root";
}

}  // namespace

std::string whyNoSshServer() {
    if (::access(kServer, X_OK) != 0) return "no /usr/sbin/sshd (Debian: openssh-server)";
    // What the service's unit makes; sshd of a root user wants it.
    if (::getuid() == 0) {
        std::error_code error;
        std::filesystem::create_directories("/run/sshd", error);
        if (error) return "/run/sshd cannot be made: " + error.message();
    }
    return {};
}

int freePort() {
    const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in address = loopback(0);
    socklen_t length = sizeof address;
    EXPECT_EQ(::bind(fd, reinterpret_cast<sockaddr*>(&address), length), 0);
    EXPECT_EQ(::getsockname(fd, reinterpret_cast<sockaddr*>(&address), &length), 0);
    ::close(fd);
    return ntohs(address.sin_port);
}

void runProgram(const std::vector<std::string>& argv) {
    const Result<CommandResult> r = openLocalConnection()->run(argv);
    ASSERT_TRUE(r.ok()) << r.error().text();
    ASSERT_EQ(r->exit_status, 0) << argv[0] << ": " << r->output << r->error_output;
}

namespace {

/// What the sanitizers of programs started over the connection need to know, too.
std::string sanitizerOptions() {
    std::string out;
    for (const char* name : {"ASAN_OPTIONS", "LSAN_OPTIONS", "TSAN_OPTIONS", "UBSAN_OPTIONS"})
        if (const char* value = std::getenv(name)) out += std::string(" ") + name + "=" + value;
    return out;
}

}  // namespace

SshServer::SshServer(const std::filesystem::path& directory,
                     const std::filesystem::path& client_key, const std::string& extra)
    : m_directory(directory), m_port(freePort()) {
    std::filesystem::create_directories(directory);
    std::ofstream(directory / "authorized_keys") << readText(client_key.string() + ".pub");
    newHostKey();
    std::ofstream(directory / "sshd_config")
        << "ListenAddress 127.0.0.1\nPort " << m_port << "\nHostKey "
        << (directory / "host_key").string() << "\nAuthorizedKeysFile "
        << (directory / "authorized_keys").string() << "\nPidFile " << (directory / "pid").string()
        << "\n"
        << extra
        << "\nSetEnv HOME=" << directory.string()  // start-up files of the real home stay out
        << sanitizerOptions()
        << "\nStrictModes no\nUsePAM no\nPermitUserRC no\nPermitRootLogin yes\n"
           "PasswordAuthentication no\nKbdInteractiveAuthentication no\nMaxStartups 100\n"
           "MaxSessions 50\nLogLevel VERBOSE\nSubsystem sftp /usr/lib/openssh/sftp-server\n";
    start();
}

SshServer::~SshServer() {
    stop();
}

void SshServer::newHostKey() {
    std::filesystem::remove(m_directory / "host_key");
    runProgram(
        {"ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", (m_directory / "host_key").string()});
}

std::string SshServer::knownHostsLine() const {
    return "[127.0.0.1]:" + std::to_string(m_port) + " " + readText(m_directory / "host_key.pub");
}

void SshServer::start() {
    Result<ChildProcess> started =
        ChildProcess::start({kServer, "-D", "-f", (m_directory / "sshd_config").string(), "-E",
                             (m_directory / "log").string()},
                            "");
    ASSERT_TRUE(started.ok()) << started.error().text();
    m_process = std::move(started).value();
    for (int i = 0; i < 400 && !answers(m_port); ++i) {
        ASSERT_FALSE(m_process->poll()) << log();
        std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
}

void SshServer::dropConnections() {
    // Each connection is a child of the server; its title and command line differ.
    const Result<CommandResult> r =
        openLocalConnection()->run({"pkill", "-KILL", "-P", std::to_string(m_process->pid())});
    ASSERT_TRUE(r.ok());
}

void SshServer::stop() {
    if (!m_process) return;
    dropConnections();
    EXPECT_TRUE(m_process->cancel(2000).ok());
    m_process.reset();
}

std::string SshServer::log() const {
    return readText(m_directory / "log");
}

bool ScriptedPrompter::acceptHostKey(const HostKeyQuestion& question) {
    keys.push_back(question);
    return accept;
}

std::optional<std::vector<std::string>> ScriptedPrompter::answer(const SshQuestions& questions) {
    asked.push_back(questions);
    if (answers.empty()) return std::nullopt;
    std::vector<std::string> next = answers.front();
    answers.erase(answers.begin());
    return next;
}

void SshTest::SetUp() {
    if (const std::string why = whyNoSshServer(); !why.empty()) GTEST_SKIP() << why;
    makeKey();
}

void SshFiles::makeKey() const {
    ::unsetenv("SSH_AUTH_SOCK");
    runProgram({"ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", path("key").string()});
}

void SshFiles::write(const std::string& name, const std::string& text) const {
    std::ofstream(path(name)) << text;
}

std::string SshFiles::hostBlock(const std::string& name, int port, const std::string& more) const {
    return "Host " + name + "\n  HostName 127.0.0.1\n  Port " + std::to_string(port) + "\n  User " +
           userName() + "\n" + more + "  IdentityFile " + path("key").string() +
           "\n  UserKnownHostsFile " + path("known_hosts").string() +
           "\n  GlobalKnownHostsFile /dev/null\n";
}

SshConfigFiles SshFiles::configFiles() const {
    return {{path("config")}, m_directory.path(), userName()};
}

Result<std::unique_ptr<Connection>> SshTest::open(const std::string& host) {
    PIPER_ASSIGN(std::vector<SshHostConfig> route, resolveSshRoute(configFiles(), host));
    return openSshConnection({host, std::move(route), m_prompter, 10});
}

std::unique_ptr<SshServer> SshFiles::serverNamedHost(const std::string& extra) const {
    auto server = std::make_unique<SshServer>(path("server"), path("key"), extra);
    write("known_hosts", server->knownHostsLine());
    write("config", hostBlock("host", server->port()));
    return server;
}

}  // namespace piper::test
