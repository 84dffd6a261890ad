// SPDX-License-Identifier: Apache-2.0
#include "app/common/terminal_prompter.h"

#include <fcntl.h>
#include <termios.h>
#include <unistd.h>

#include <fmt/format.h>

namespace piper::app {
namespace {

class Terminal {
public:
    Terminal() : m_fd(::open("/dev/tty", O_RDWR | O_CLOEXEC)) {}
    ~Terminal() {
        if (m_fd >= 0) ::close(m_fd);
    }
    Terminal(const Terminal&) = delete;
    Terminal& operator=(const Terminal&) = delete;

    [[nodiscard]] bool there() const { return m_fd >= 0; }
    void print(const std::string& text) const { (void)!::write(m_fd, text.data(), text.size()); }

    /// A line without its end; nothing at the end of input.
    [[nodiscard]] std::optional<std::string> readLine(bool echo) const {
        termios before{};
        const bool hidden = !echo && ::tcgetattr(m_fd, &before) == 0;
        if (hidden) {
            termios silent = before;
            silent.c_lflag &= ~static_cast<tcflag_t>(ECHO);
            ::tcsetattr(m_fd, TCSAFLUSH, &silent);
        }
        std::string line;
        char c = 0;
        bool ended = false;
        while (!ended && ::read(m_fd, &c, 1) == 1) {
            ended = c == '\n';
            if (!ended) line += c;
        }
        if (hidden) {
            ::tcsetattr(m_fd, TCSAFLUSH, &before);
            print("\n");
        }
        return ended ? std::optional(std::move(line)) : std::nullopt;
    }

private:
    int m_fd;
};

}  // namespace

bool TerminalPrompter::acceptHostKey(const HostKeyQuestion& q) {
    const Terminal terminal;
    if (!terminal.there()) return false;
    terminal.print(fmt::format(
        "The host key of {} is not known.\n  {} {}\nCompare it with the one its administrator "
        "gives. Take it and go on (yes/no)? ",
        q.hop, q.key_type, q.fingerprint));
    const std::optional<std::string> line = terminal.readLine(true);
    return line && *line == "yes";
}

std::optional<std::vector<std::string>> TerminalPrompter::answer(const SshQuestions& questions) {
    const Terminal terminal;
    if (!terminal.there()) return std::nullopt;
    std::string head = questions.hop;
    for (const std::string* text : {&questions.title, &questions.instruction})
        if (!text->empty()) head += "\n" + *text;
    terminal.print(head + "\n");
    std::vector<std::string> answers;
    for (const SshQuestions::Question& question : questions.questions) {
        terminal.print(question.text + (question.text.ends_with(' ') ? "" : " "));
        std::optional<std::string> line = terminal.readLine(question.echo);
        if (!line) return std::nullopt;
        answers.push_back(std::move(*line));
    }
    return answers;
}

}  // namespace piper::app
