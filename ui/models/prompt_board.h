// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <QObject>
#include <QString>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "sessions/ssh_prompter.h"
#include "ui/models/window_queue.h"

namespace piper::ui {

/// A question of a host that waits for the user.
struct Prompt {
    std::uint64_t id = 0;
    QString session;
    std::variant<HostKeyQuestion, SshQuestions> question;
};

/// What hosts ask while their connections are opened.
///
/// A connection asks through a prompter, on the thread that opens it, and waits there; the window
/// shows current(), the oldest question, and answers it. Answers are handed over once and kept
/// nowhere. Whatever still waits when a prompter is closed or the board ends is refused.
class PromptBoard : public QObject {
    Q_OBJECT
public:
    class Prompter : public SshPrompter {
    public:
        /// Refuses what it has asked and all it will ask.
        virtual void close() = 0;
    };

    explicit PromptBoard(QObject* parent = nullptr);
    ~PromptBoard() override;

    /// For one attempt to open that session. It may outlive the board.
    [[nodiscard]] std::shared_ptr<Prompter> prompterFor(const QString& session);
    [[nodiscard]] std::optional<Prompt> current() const;

    /// An answer to a question that is gone, or of the other kind, is dropped.
    void acceptKey(std::uint64_t id);
    void answer(std::uint64_t id, std::vector<std::string> answers);
    void refuse(std::uint64_t id);
    void refuseAll();

Q_SIGNALS:
    void changed();  ///< another question is the oldest, or none

private:
    struct State;
    struct Waiting;
    class BoardPrompter;
    std::shared_ptr<State> m_state;
    WindowQueue m_window;
};

/// The question as lines of text, for tests and screen readers.
[[nodiscard]] QString promptText(const Prompt& prompt);

}  // namespace piper::ui
