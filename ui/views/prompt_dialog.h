// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <QDialog>
#include <vector>

#include "ui/models/prompt_board.h"

class QFormLayout;
class QLineEdit;
class QVBoxLayout;

namespace piper::ui {

/// One question of a host. Closing it, Esc included, refuses.
class PromptDialog : public QDialog {
    Q_OBJECT
public:
    PromptDialog(PromptBoard& board, Prompt prompt, QWidget* parent = nullptr);

    [[nodiscard]] std::uint64_t promptId() const { return m_prompt.id; }
    void accept() override;
    void reject() override;

private:
    void addHostKey(QVBoxLayout& into, const HostKeyQuestion& key);
    void addQuestions(QVBoxLayout& into, const SshQuestions& asked);
    void forgetInput();

    PromptBoard& m_board;
    Prompt m_prompt;
    std::vector<QLineEdit*> m_inputs;
};

/// Shows the board's questions over a window, one after another.
class PromptPresenter : public QObject {
    Q_OBJECT
public:
    /// Board and window must outlive it.
    PromptPresenter(PromptBoard& board, QWidget& window);

private:
    void take();

    PromptBoard& m_board;
    QWidget& m_window;
    PromptDialog* m_dialog = nullptr;
};

}  // namespace piper::ui
