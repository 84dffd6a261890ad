// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <QDialog>

#include "sessions/session_config.h"

class QComboBox;
class QLabel;
class QLineEdit;
class QPlainTextEdit;
class QPushButton;
class QFormLayout;

namespace piper::ui {

class SessionsViewModel;

/// Asks for a new session; stays open, with the reason, until the store takes it.
class SessionForm : public QDialog {
    Q_OBJECT
public:
    explicit SessionForm(SessionsViewModel& sessions, QWidget* parent = nullptr);

    /// What the fields say.
    [[nodiscard]] SessionConfig config() const;

private:
    QLineEdit* addLine(QFormLayout& form, const QString& label, const char* name,
                       const QString& placeholder, const QString& tip);
    void addSlurm(QFormLayout& form);
    void followLauncher();
    void submit();

    SessionsViewModel& m_sessions;
    QFormLayout* m_form;
    QLineEdit* m_name;
    QLineEdit* m_host;
    QComboBox* m_launcher;
    QLineEdit* m_hosts;
    QLineEdit* m_interface;
    QLineEdit* m_allocation;
    QLineEdit* m_account;
    QLineEdit* m_partition;
    QLineEdit* m_time_limit;
    QPlainTextEdit* m_lines;
    QLineEdit* m_directory;
    QLineEdit* m_worker;
    QLineEdit* m_ssh_config;
    QLabel* m_fault;
    QPushButton* m_add;
};

}  // namespace piper::ui
