// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <QWidget>

#include "ui/models/workbench.h"

class QFrame;
class QLabel;
class QListWidget;
class QPushButton;

namespace piper::ui {

class ClusterPicture;
class FactCard;

/// The hosts plans run on: this machine and those behind SSH, what they say of themselves, and
/// their cluster as a picture.
class SessionsPage : public QWidget {
    Q_OBJECT
public:
    explicit SessionsPage(Workbench& workbench, QWidget* parent = nullptr);

    /// Asks for a new session.
    void addSession();

Q_SIGNALS:
    /// The discovered cluster is the plan's now.
    void clusterTaken();

private:
    QWidget* makeList();
    QWidget* makeDetails();
    QWidget* makeHead(QWidget* parent);
    QFrame* makeFault(QWidget* parent);
    QWidget* makeCluster(QWidget* parent);
    QPushButton* addButton(QWidget* parent, const QString& label, const char* name,
                           const QString& key, const QString& tip);
    void takeList();
    void take();
    void takeFault();
    void takeButtons();
    void toggleConnection();
    void forgetCurrent();
    void takeCluster();

    Workbench& m_workbench;
    SessionsViewModel& m_sessions;
    QListWidget* m_list = nullptr;
    QLabel* m_title = nullptr;
    QLabel* m_describe = nullptr;
    QLabel* m_state = nullptr;
    QPushButton* m_connect = nullptr;
    QPushButton* m_test = nullptr;
    QPushButton* m_discover = nullptr;
    QPushButton* m_forget = nullptr;
    QFrame* m_fault = nullptr;
    QLabel* m_fault_message = nullptr;
    QLabel* m_fault_hint = nullptr;
    QLabel* m_note = nullptr;
    FactCard* m_facts = nullptr;
    QLabel* m_cluster_text = nullptr;
    ClusterPicture* m_picture = nullptr;
    QPushButton* m_use_cluster = nullptr;
    QString m_details;  ///< of the fault shown, to copy
};

}  // namespace piper::ui
