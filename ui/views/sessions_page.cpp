// SPDX-License-Identifier: GPL-3.0-or-later
#include "ui/views/sessions_page.h"

#include <QAction>
#include <QApplication>
#include <QClipboard>
#include <QHBoxLayout>
#include <QListWidget>
#include <QMessageBox>
#include <QPushButton>
#include <QScrollArea>
#include <QVBoxLayout>

#include "ui/models/text_format.h"
#include "ui/views/cluster_picture.h"
#include "ui/views/session_form.h"
#include "ui/views/widgets.h"

namespace piper::ui {
namespace {

constexpr int kListWidth = 240;
constexpr int kNameRole = Qt::UserRole;

using State = SessionViewModel::State;

QLabel* wrappedLabel(const char* role, const char* name, QWidget* parent) {
    QLabel* label = makeLabel({}, role, parent);
    label->setObjectName(QString::fromLatin1(name));
    label->setTextFormat(Qt::PlainText);  // a host's words are never markup
    label->setWordWrap(true);
    label->setTextInteractionFlags(Qt::TextSelectableByMouse | Qt::TextSelectableByKeyboard);
    return label;
}

}  // namespace

SessionsPage::SessionsPage(Workbench& workbench, QWidget* parent)
    : QWidget(parent), m_workbench(workbench), m_sessions(workbench.sessions) {
    auto* page = makePageLayout(this, QStringLiteral("Sessions"));
    page->addWidget(
        makeLabel(QStringLiteral("A session is an open connection to the hosts a plan runs on."),
                  "faint", this));
    auto* columns = new QHBoxLayout;
    columns->setSpacing(kSpacing);
    columns->addWidget(makeList());
    columns->addWidget(makeDetails(), 1);
    page->addLayout(columns, 1);
    connect(&m_sessions, &SessionsViewModel::listChanged, this, &SessionsPage::takeList);
    connect(&m_sessions, &SessionsViewModel::currentChanged, this, &SessionsPage::takeList);
    connect(&m_sessions, &SessionsViewModel::changed, this, &SessionsPage::take);
    takeList();
    m_sessions.local().open();
}

QPushButton* SessionsPage::addButton(QWidget* parent, const QString& label, const char* name,
                                     const QString& key, const QString& tip) {
    auto* button = new QPushButton(label, parent);
    button->setObjectName(QString::fromLatin1(name));
    button->setToolTip(QStringLiteral("%1 (%2)").arg(tip, key));
    // Setting a button's shortcut would take its Alt key away: the page has an action instead.
    auto* action = new QAction(this);
    action->setShortcut(QKeySequence(key));
    connect(action, &QAction::triggered, button, [button] {
        if (button->isVisible()) button->click();
    });
    addAction(action);
    return button;
}

QWidget* SessionsPage::makeList() {
    auto* side = new QWidget(this);
    side->setFixedWidth(kListWidth);
    auto* layout = new QVBoxLayout(side);
    layout->setContentsMargins(0, 0, 0, 0);
    layout->setSpacing(kSpacing);
    m_list = new QListWidget(side);
    m_list->setObjectName(QStringLiteral("sessions.list"));
    m_list->setAccessibleName(QStringLiteral("Sessions"));
    m_list->setHorizontalScrollBarPolicy(Qt::ScrollBarAlwaysOff);
    layout->addWidget(m_list, 1);
    auto* add = addButton(side, QStringLiteral("&Add…"), "sessions.add", QStringLiteral("Ctrl+N"),
                          QStringLiteral("Give a cluster behind SSH a name"));
    layout->addWidget(add);
    connect(add, &QPushButton::clicked, this, &SessionsPage::addSession);
    connect(m_list, &QListWidget::currentItemChanged, this, [this](QListWidgetItem* item) {
        if (item != nullptr) m_sessions.select(item->data(kNameRole).toString());
    });
    connect(m_list, &QListWidget::itemActivated, this, [this] { m_sessions.current().open(); });
    return side;
}

QWidget* SessionsPage::makeDetails() {
    auto* scroll = new QScrollArea(this);
    scroll->setFrameShape(QFrame::NoFrame);
    scroll->setWidgetResizable(true);
    auto* column = new QWidget(scroll);
    auto* layout = new QVBoxLayout(column);
    layout->setContentsMargins(0, 0, 6, 0);
    layout->setSpacing(kSpacing);
    layout->addWidget(makeHead(column));
    m_fault = makeFault(column);
    layout->addWidget(m_fault);
    m_note = wrappedLabel("plain", "session.note", column);
    layout->addWidget(m_note);
    auto* cards = new QHBoxLayout;
    cards->setSpacing(kSpacing);
    m_facts = new FactCard(QStringLiteral("What the host says"), column);
    m_facts->setObjectName(QStringLiteral("session.facts"));
    cards->addWidget(m_facts, 1, Qt::AlignTop);
    cards->addWidget(makeCluster(column), 1, Qt::AlignTop);
    layout->addLayout(cards);
    layout->addStretch(1);
    scroll->setWidget(column);
    return scroll;
}

QWidget* SessionsPage::makeHead(QWidget* parent) {
    auto* head = new QWidget(parent);
    auto* layout = new QHBoxLayout(head);
    layout->setContentsMargins(0, 0, 0, 0);
    layout->setSpacing(kSpacing);
    auto* words = new QVBoxLayout;
    words->setSpacing(2);
    auto* line = new QHBoxLayout;
    m_title = makeLabel({}, "section", head);
    m_state = makeLabel({}, "faint", head);
    m_state->setObjectName(QStringLiteral("session.state"));
    line->addWidget(m_title);
    line->addWidget(m_state, 1);
    words->addLayout(line);
    m_describe = makeLabel({}, "faint", head);
    m_describe->setTextFormat(Qt::PlainText);
    m_describe->setSizePolicy(QSizePolicy::Ignored, QSizePolicy::Preferred);
    words->addWidget(m_describe);
    layout->addLayout(words, 1);
    m_connect = addButton(head, QStringLiteral("&Connect"), "session.connect",
                          QStringLiteral("Ctrl+Return"),
                          QStringLiteral("Connect, or let go of the connection"));
    m_test = addButton(head, QStringLiteral("&Test"), "session.test", QStringLiteral("Ctrl+T"),
                       QStringLiteral("Does the way work? Runs one command there"));
    m_discover = addButton(head, QStringLiteral("As&k again"), "session.discover",
                           QStringLiteral("F5"), QStringLiteral("What has the host now?"));
    m_forget =
        addButton(head, QStringLiteral("&Forget…"), "session.forget", QStringLiteral("Ctrl+Delete"),
                  QStringLiteral("Take the name out of the list"));
    for (QPushButton* button : {m_connect, m_test, m_discover, m_forget}) layout->addWidget(button);
    connect(m_connect, &QPushButton::clicked, this, &SessionsPage::toggleConnection);
    connect(m_test, &QPushButton::clicked, this, [this] { m_sessions.current().test(); });
    connect(m_discover, &QPushButton::clicked, this, [this] { m_sessions.current().discover(); });
    connect(m_forget, &QPushButton::clicked, this, &SessionsPage::forgetCurrent);
    return head;
}

QFrame* SessionsPage::makeFault(QWidget* parent) {
    auto* card = new QFrame(parent);
    card->setProperty("role", QStringLiteral("card"));
    auto* layout = new QVBoxLayout(card);
    layout->setContentsMargins(12, 8, 12, 8);
    m_fault_message = wrappedLabel("section", "session.fault", card);
    m_fault_hint = wrappedLabel("plain", "session.hint", card);
    layout->addWidget(m_fault_message);
    layout->addWidget(m_fault_hint);
    auto* copy = addButton(card, QStringLiteral("Copy d&etails"), "session.copy",
                           QStringLiteral("Ctrl+Shift+C"), QStringLiteral("The whole message"));
    layout->addWidget(copy, 0, Qt::AlignLeft);
    connect(copy, &QPushButton::clicked, this,
            [this] { QApplication::clipboard()->setText(m_details); });
    return card;
}

QWidget* SessionsPage::makeCluster(QWidget* parent) {
    auto* card = new FactCard(QStringLiteral("Cluster"), parent);
    m_use_cluster =
        addButton(card, QStringLiteral("&Use for the plan"), "session.use_cluster",
                  QStringLiteral("Ctrl+U"), QStringLiteral("Make it the cluster of the Plan page"));
    card->addToTitle(m_use_cluster);
    m_cluster_text = wrappedLabel("faint", "session.cluster", card);
    m_picture = new ClusterPicture(card);
    m_picture->setObjectName(QStringLiteral("session.picture"));
    card->column()->addWidget(m_cluster_text);
    card->column()->addWidget(m_picture);
    connect(m_use_cluster, &QPushButton::clicked, this, &SessionsPage::takeCluster);
    return card;
}

void SessionsPage::addSession() {
    auto* form = new SessionForm(m_sessions, this);
    form->setAttribute(Qt::WA_DeleteOnClose);
    form->open();
}

void SessionsPage::toggleConnection() {
    SessionViewModel& session = m_sessions.current();
    const bool close = session.state() == State::Open || session.busy();
    if (close)
        session.close();
    else
        session.open();
}

void SessionsPage::forgetCurrent() {
    const QString name = m_sessions.current().name();
    auto* box = new QMessageBox(QMessageBox::Question, QStringLiteral("Forget a session"),
                                QStringLiteral("Forget session ‘%1’? Nothing on its host is "
                                               "touched; jobs there go on.")
                                    .arg(name),
                                QMessageBox::Cancel, this);
    box->setObjectName(QStringLiteral("forget"));
    box->setAttribute(Qt::WA_DeleteOnClose);
    auto* yes = box->addButton(QStringLiteral("&Forget"), QMessageBox::AcceptRole);
    connect(yes, &QPushButton::clicked, this, [this, name] { m_sessions.forget(name); });
    box->open();
}

void SessionsPage::takeCluster() {
    const std::optional<ClusterSpec>& cluster = m_sessions.current().cluster();
    if (!cluster) return;
    m_workbench.plan.setCluster(*cluster);
    Q_EMIT clusterTaken();
}

void SessionsPage::takeList() {
    {
        const QSignalBlocker quiet(m_list);
        while (m_list->count() > static_cast<int>(m_sessions.all().size()))
            delete m_list->takeItem(m_list->count() - 1);
        int row = 0;
        for (const auto& session : m_sessions.all()) {
            if (row == m_list->count()) m_list->addItem(QString());
            m_list->item(row)->setData(kNameRole, session->name());
            if (session.get() == &m_sessions.current()) m_list->setCurrentRow(row);
            ++row;
        }
    }
    take();
}

void SessionsPage::take() {
    for (int row = 0; row < m_list->count(); ++row) {
        const SessionViewModel& session = *m_sessions.all()[static_cast<std::size_t>(row)];
        m_list->item(row)->setText(session.title() + u'\n' + session.stateText());
        m_list->item(row)->setToolTip(session.describe());
    }
    const SessionViewModel& session = m_sessions.current();
    m_title->setText(session.title());
    m_state->setText(session.stateText());
    m_describe->setText(session.describe());
    m_describe->setToolTip(session.describe());
    m_note->setText(session.note());
    m_note->setVisible(!session.note().isEmpty());
    m_facts->setRows(session.facts());
    m_facts->setVisible(!session.facts().empty());
    const QString& fault = session.clusterFault();
    m_cluster_text->setText(session.cluster() ? text(session.cluster()->name) : fault);
    m_picture->setCluster(session.cluster());
    m_use_cluster->parentWidget()->setVisible(session.cluster() || !fault.isEmpty());
    m_use_cluster->setEnabled(session.cluster() && m_workbench.plan.hasPlan());
    takeFault();
    takeButtons();
}

void SessionsPage::takeFault() {
    const std::optional<Error>& error = m_sessions.current().fault();
    const QString& store = m_sessions.fault();
    m_fault->setVisible(error || !store.isEmpty());
    m_fault_message->setText(error ? text(error->message) : store);
    m_fault_hint->setText(error ? text(error->hint) : QString());
    m_fault_hint->setVisible(error && !error->hint.empty());
    m_details = error ? errorText(*error) : store;
}

void SessionsPage::takeButtons() {
    const SessionViewModel& session = m_sessions.current();
    const bool local = session.config().isLocal();
    const bool connected = session.state() == State::Open;
    m_connect->setVisible(!local || !connected);
    m_connect->setText(session.state() == State::Opening || (session.busy() && !connected)
                           ? QStringLiteral("Stop &connecting")
                       : connected ? QStringLiteral("Dis&connect")
                                   : QStringLiteral("&Connect"));
    m_test->setEnabled(!session.busy());
    m_discover->setEnabled(connected && !session.busy());
    m_forget->setVisible(!local);
}

}  // namespace piper::ui
